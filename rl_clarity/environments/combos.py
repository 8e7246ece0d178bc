"""Buttons that an action presses, from the words environments have for their actions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rl_clarity.environments.protocol import Combo

_BUTTONS = re.compile("UP|DOWN|LEFT|RIGHT|FIRE")


def combo_of_meaning(meaning: str) -> Combo:
    """Buttons of one action: `UPRIGHTFIRE` is ("UP", "RIGHT", "FIRE"), `NOOP` is (), other words are one button."""
    if meaning.upper() in ("NOOP", ""):
        return ()
    buttons = tuple(_BUTTONS.findall(meaning.upper()))
    return buttons if "".join(buttons) == meaning.upper() else (meaning,)


def numbered_combos(num_actions: int) -> tuple[Combo, ...]:
    """What actions are called where nothing is known of them: ("0",), ("1",), ..."""
    return tuple((str(action),) for action in range(num_actions))


def combos_of_meanings(meanings: Sequence[str]) -> tuple[Combo, ...]:
    """Buttons of every action."""
    return tuple(combo_of_meaning(meaning) for meaning in meanings)

"""Which output of a network is which: a policy's logits, a value, or action values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rl_clarity.errors import OptionError

HEADS = ("policy_logits", "values", "q_values")
PATTERNS = (
    ("q_values", r"q|q_?values?|q_?net(work)?|action_?values?"),
    ("values", r"v|vf|values?|critic|baseline|.*(state_?value|value|vf|critic)"),
    ("policy_logits", r"pi|logits?|actor|policy|actions?|.*(logits|policy|actor)"),
)
"""Tried in this order."""
ACTOR_CRITIC = {"policy_logits", "values"}


def find_heads(names: Sequence[str | None], widths: Sequence[int | None]) -> tuple[str, ...]:
    """What each output is, by its name or else by its width; a width of None is that of a (B,).

    Two outputs are logits and a value, one alone is action values. Raises OptionError if that is not clear.
    """
    by_name = [_head_called(name) for name in names]
    if set(by_name) == ACTOR_CRITIC or by_name == ["q_values"]:
        return tuple(head for head in by_name if head)
    if len(widths) == 2 and sum(_is_value(width) for width in widths) == 1:
        return tuple("values" if _is_value(width) else "policy_logits" for width in widths)
    if len(widths) == 1 and not _is_value(widths[0]) and by_name[0] is None:
        return ("q_values",)
    shown = ", ".join(f"{name or 'one'} of width {width or 1}" for name, width in zip(names, widths, strict=True))
    raise OptionError(
        f"the network's outputs are {shown or 'none'}: a policy's logits and a value, or action values alone, are "
        f"needed. "
        "heads=('policy_logits', 'values') or heads=('q_values',) says which is which"
    )


def check_heads(heads: Sequence[str]) -> tuple[str, ...]:
    """The heads that a user gave; raises OptionError if there is no such combination."""
    if set(heads) != ACTOR_CRITIC and tuple(heads) != ("q_values",):
        raise OptionError(
            f"heads={tuple(heads)!r}: either 'policy_logits' and 'values', in the network's order, or 'q_values'"
        )
    return tuple(heads)


def _head_called(name: str | None) -> str | None:
    cleaned = (name or "").lower().replace(".", "/").rpartition("/")[2]
    return next((head for head, pattern in PATTERNS if re.fullmatch(pattern, cleaned)), None)


def _is_value(width: int | None) -> bool:
    return width in (None, 1)

"""Checks of what the user asked for, with errors that say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from rl_clarity.errors import EnvironmentSetupError


def check_name(what: str, name: str, known: Collection[str]) -> str:
    """Return `name` if it is known; otherwise raise an error that names the nearest known ones."""
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
    raise EnvironmentSetupError(f"unknown {what} {name!r}; {hint}")


def check_options(what: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise an error if an option is not among the known ones."""
    for name in options:
        check_name(f"option of {what}", name, known)


def missing_package(what: str, extra: str, note: str, error: Exception) -> EnvironmentSetupError:
    """An error that gives the command which installs what is missing."""
    return EnvironmentSetupError(
        f'{what} is not installed ({error}): pip install "rl-clarity[{extra}]". {note}'.rstrip()
    )

"""Import functions that the user names on the command line, as MODULE:FUNCTION.

Only functions that are named there are imported and run, never a function that a file names.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from rl_clarity.base.errors import OptionError, describe_error
from rl_clarity.base.resources import PREFIX

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_loader(text: str) -> bool:
    """Return whether a text has the form MODULE:FUNCTION, and is not the name of an included agent or of a file."""
    return bool(_NAME.fullmatch(text)) and not text.startswith(PREFIX) and not os.path.lexists(text)


def imported_loader(text: str, option: str = "--agent") -> Any:
    """Import and return the function MODULE:FUNCTION. The module may be in the working directory.

    Raises OptionError, with the reason, if the module cannot be imported or has no such function.
    """
    module, _, name = text.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module)
    except Exception as error:  # importing runs the user's code
        raise OptionError(f"{option} {text}: cannot import {module} ({describe_error(error)})") from error
    function = getattr(found, name, None)
    if not callable(function):
        known = ", ".join(key for key, value in vars(found).items() if callable(value) and not key.startswith("_"))
        raise OptionError(f"{option} {text}: {module} has no function {name}; it has {known or 'none'}")
    return function

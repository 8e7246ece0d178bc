"""Options of a page, by any of their names."""

from __future__ import annotations

from typing import Any

from rl_clarity.base.parsing import parse
from rl_clarity.pages.options import InterfaceOptions
from rl_clarity.pages.original_options import translate


def page_options(**options: Any) -> InterfaceOptions:
    return parse(InterfaceOptions, translate(options, InterfaceOptions))

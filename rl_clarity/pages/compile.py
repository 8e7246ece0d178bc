"""Compiles the page's Svelte sources into the script that is committed, so that running never needs Node.js."""

from __future__ import annotations

import os
from pathlib import Path

from rl_clarity.errors import OutputError
from rl_clarity.resources import svelte_source_directory

COMPILED = Path(__file__).resolve().parent / "compiled" / "interface.js"
NAME = "Interface"
"""The global variable that holds the page's constructor."""


def recompile_js(js_path: str | os.PathLike[str] | None = None) -> str:
    """Compile the page's sources into its script and return the script's path.

    js_path: the script to write; None replaces the one that pages are made with. The same sources, those of a checkout
    or those that were installed with the package, give the same bytes.
    Raises OutputError where the sources are missing or the script cannot be written, and svelte3's errors for sources
    that do not compile or a machine without Node.js.
    """
    from svelte3 import compile_js

    target = COMPILED if js_path is None else Path(js_path)
    try:
        sources = svelte_source_directory()
    except FileNotFoundError as error:
        raise OutputError(f"the page's sources are missing: {error}") from error
    try:
        return compile_js(sources / "App.svelte", target, js_name=NAME, overwrite=js_path is None)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"the page's script cannot be written to {target} ({reason}): give js_path") from error

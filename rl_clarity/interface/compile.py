"""Compiles the page's Svelte sources into the script that is committed, so that running never needs Node.js."""

from __future__ import annotations

import os
from pathlib import Path

from rl_clarity.errors import OutputError

SOURCES = Path(__file__).resolve().parents[2] / "svelte_src"
COMPILED = Path(__file__).resolve().parent / "compiled" / "interface.js"
NAME = "Interface"
"""The global variable that holds the page's constructor."""


def recompile_js(js_path: str | os.PathLike[str] | None = None) -> str:
    """Compile `svelte_src` into the page's script and return the script's path.

    js_path: the script to write; None replaces the one that is committed. The same sources give the same bytes.
    Raises OutputError where the sources are not beside the package (they are in a checkout, not in a wheel), and
    svelte3's errors for sources that do not compile or a machine without Node.js.
    """
    from svelte3 import compile_js

    main = SOURCES / "App.svelte"
    if not main.is_file():
        raise OutputError(f"the page's sources are not in {SOURCES}: recompile from a checkout of the repository")
    return compile_js(main, js_path if js_path is not None else COMPILED, js_name=NAME)

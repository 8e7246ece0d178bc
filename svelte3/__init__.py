"""Compile Svelte 3 components to JavaScript or HTML, from Python.

Node.js comes from the PATH or from the `[node]` extra. The compiler and its dependencies are pinned by the
`package-lock.json` beside this file and installed into the user's cache on first use.
"""

from svelte3.compiler import compile_html, compile_js
from svelte3.errors import CompileError, LintWarning, Svelte3Error, ToolchainError

__all__ = ["CompileError", "LintWarning", "Svelte3Error", "ToolchainError", "compile_html", "compile_js"]

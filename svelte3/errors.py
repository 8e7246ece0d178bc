"""Errors and warnings of this package."""

from __future__ import annotations


class Svelte3Error(ValueError):
    """Base class of all errors of this package."""


class ToolchainError(Svelte3Error):
    """Raised if Node.js is missing or too old, or the pinned packages cannot be installed."""


class CompileError(Svelte3Error):
    """Raised for a component that does not compile, with the compiler's message, the file and the source line."""


class LintWarning(UserWarning):
    """A problem that the linter or the compiler reports in a component that does compile."""

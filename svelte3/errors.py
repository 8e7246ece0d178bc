"""Errors and warnings of this package."""

from __future__ import annotations


class Svelte3Error(ValueError):
    """Base of all errors of this package."""


class ToolchainError(Svelte3Error):
    """Node.js is missing or too old, or the pinned packages cannot be installed."""


class CompileError(Svelte3Error):
    """A component does not compile; the message contains the compiler's, the file and the source line."""


class LintWarning(UserWarning):
    """A problem that the linter or the compiler reports in a component that does compile."""

"""What can go wrong between a component and its compiled form."""

from __future__ import annotations


class Svelte3Error(ValueError):
    """Base of every error of this package."""


class ToolchainError(Svelte3Error):
    """Node.js is missing or too old, or the pinned packages could not be installed."""


class CompileError(Svelte3Error):
    """A component does not compile; the message has the compiler's words, the file and the source line."""


class LintWarning(UserWarning):
    """Something the linter or the compiler finds doubtful in a component that does compile."""

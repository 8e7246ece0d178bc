"""Errors that a user can act on: each says what was wrong, with the value, and what to do."""

from __future__ import annotations

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143
"""Exit codes of commands: the latter two are those of a shell, 128 plus the signal's number."""
MAX_LENGTH = 2000
"""Of a message; the middle of longer ones is left out."""


class ClarityError(ValueError):
    """Base of all errors that concern the user's input rather than a defect of the program.

    The message is one line, `printable`, as it may contain parts of a file; `script` is shown below it as it is.
    """

    def __init__(self, message: str, script: str = "") -> None:
        if len(message) > MAX_LENGTH:
            message = f"{message[: MAX_LENGTH // 2]} [...] {message[-MAX_LENGTH // 2 :]}"
        self.message = printable(message)
        self.script = script
        super().__init__(self.message + script)


class OptionError(ClarityError):
    """An unknown option, or a value that it cannot have."""


class DependencyError(ClarityError):
    """An optional package is needed and not installed."""


class CheckpointError(ClarityError):
    """A checkpoint that cannot be read, or does not fit its network."""


class EnvironmentSetupError(ClarityError):
    """An environment that cannot be made: unknown name, missing package, unsupported spaces."""


class SamplesError(ClarityError):
    """Samples that are missing, damaged, or do not fit the agent."""


class OutputError(ClarityError):
    """An output directory that must not or cannot be written."""


class SectionError(ClarityError):
    """A section of a page that does not have the form that its analysis declares."""


class EvaluationError(ClarityError):
    """An agent whose return is not the expected one."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: what is finished is kept."""


def exit_code(error: BaseException) -> int:
    """Exit code of a command that an error or a signal ends."""
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    return FAILED


def describe_error(error: Exception) -> str:
    """Return one line about the failure of one item among several, which is shown with it while the others go on.

    An error that is not a `ClarityError` may be a defect of the program: its type is part of the line.
    """
    if isinstance(error, ClarityError):
        return error.message
    if isinstance(error, OSError):
        return ClarityError(f"{error.filename or 'input or output'}: {error.strerror or error}").message
    return ClarityError(f"unexpected error: {type(error).__name__}: {' '.join(str(error).split())}").message


def printable(text: str, keep: str = "") -> str:
    """Escape the characters that a terminal does not show as they are, except those in `keep`.

    These are line breaks, which could fake a line of output, other control characters, which could clear the screen,
    changes of the direction of text, and lone surrogates.
    """
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii") for char in text
    )

"""Errors that a user can resolve. Each message says what was wrong, with the value, and what to do."""

from __future__ import annotations

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143
"""Exit codes of commands. The last two are those that a shell reports for a signal: 128 plus the number of the
signal."""
MAX_LENGTH = 2000
"""Maximum number of characters in a message. The middle of longer messages is omitted."""


class ClarityError(ValueError):
    """Base class of errors that the user can resolve, unlike defects of the program.

    The message is a single line. It is passed through `printable`, because it may contain parts of a file. `script` is
    shown unchanged below it.
    """

    def __init__(self, message: str, script: str = "") -> None:
        if len(message) > MAX_LENGTH:
            message = f"{message[: MAX_LENGTH // 2]} [...] {message[-MAX_LENGTH // 2 :]}"
        self.message = printable(message)
        self.script = script
        super().__init__(self.message + script)


class OptionError(ClarityError):
    """Raised for an unknown option, or for an invalid value."""


class DependencyError(ClarityError):
    """Raised if an optional package that is needed is not installed."""


class CheckpointError(ClarityError):
    """Raised for a checkpoint that cannot be read or does not fit its network."""


class OtherNetworkError(CheckpointError):
    """Raised for a file whose tensors do not match the network that would be built."""


class EnvironmentSetupError(ClarityError):
    """Raised for an environment that cannot be made: unknown name, missing package, unsupported spaces."""


class WorldError(ClarityError):
    """Raised for an environment without a world, and for a state of a world that cannot be read, edited or restored as
    requested.
    """


class SamplesError(ClarityError):
    """Raised for samples that are missing, damaged, or do not fit the agent."""


class OutputError(ClarityError):
    """Raised for an output directory that must not or cannot be written."""


class SectionError(ClarityError):
    """Raised for a section of a page that does not have the form that its analysis declares."""


class EvaluationError(ClarityError):
    """Raised for an agent whose mean return differs from the expected one."""


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, which ends a command as Ctrl-C does: finished work is kept."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that ends with an error or a signal."""
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    return FAILED


def describe_error(error: BaseException) -> str:
    """Return a line that says why processing an item failed, for display with the item. The other items are still
    processed.

    For errors other than `ClarityError` and OSError, which may be defects of the program, the line contains the type of
    the error.
    """
    if isinstance(error, ClarityError):
        return error.message
    if isinstance(error, OSError):
        return ClarityError(f"{error.filename or 'input or output'}: {error.strerror or error}").message
    return ClarityError(f"unexpected error: {type(error).__name__}: {' '.join(str(error).split())}").message


def printable(text: str, keep: str = "") -> str:
    """Escape the characters that a terminal does not show unchanged, except those in `keep`.

    This concerns line breaks (which could fake a line of output), other control characters (which could clear the
    screen), characters that change the text direction, and lone surrogates.
    """
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii") for char in text
    )

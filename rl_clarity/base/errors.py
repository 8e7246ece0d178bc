"""Errors that a user can resolve. Each message says what was wrong, with the value, and what to do."""

from __future__ import annotations

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143
"""Exit codes of commands. The last two are those that a shell reports for a signal: 128 plus the number of the
signal."""
MAX_LENGTH = 2000
"""Largest number of characters of a message. The middle of longer messages is omitted."""


class ClarityError(ValueError):
    """Base class of errors that concern the user's input rather than a defect of the program.

    The message is a single line, made `printable` because it may contain parts of a file. `script` is shown unchanged
    below it.
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
    """Raised for a file whose tensors are not those of the network that would be built."""


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
    """Return one line that describes why the work on an item failed. It is shown with the item, and the work on other
    items continues.

    The line contains the type of an error that is not a `ClarityError`, because it may be a defect of the program.
    """
    if isinstance(error, ClarityError):
        return error.message
    if isinstance(error, OSError):
        return ClarityError(f"{error.filename or 'input or output'}: {error.strerror or error}").message
    return ClarityError(f"unexpected error: {type(error).__name__}: {' '.join(str(error).split())}").message


def printable(text: str, keep: str = "") -> str:
    """Escape the characters that a terminal does not show unchanged, except those in `keep`.

    These are line breaks, which could fake a line of output, other control characters, which could clear the screen,
    changes of the direction of text, and lone surrogates.
    """
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii") for char in text
    )

"""The command line: `rl-clarity run | compare | record | explain | simulate | train | demo | inspect | evaluate |
states | probe | memory | ablate | check | debug | export | verify | gallery | serve | open | publish | convert | edit`.

The module `arguments` parses the command line; this module runs the command and prints its result or error. The other
modules define the commands. Nothing heavy is imported before a command is chosen, so that `--help` is fast.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rl_clarity
from rl_clarity.base.errors import FAILED, ClarityError, Terminated, describe_error, exit_code, printable
from rl_clarity.base.keys import to_plain
from rl_clarity.cli.arguments import PROGRAM, parse_arguments
from rl_clarity.jobs import communicator

USAGE_ERROR = 2
OUT_OF_MEMORY = (
    *("out of memory", "cannot allocate memory", "unable to allocate", "failed to map segment", "bad_alloc"),
    *("can't start new thread", "resource exhausted"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code.

    The exit code is 0 on success, 1 for an error or a failed check, 2 for a usage error, 130 if the command was
    interrupted (SIGINT), and 143 if it was terminated (SIGTERM).

    Raises SystemExit with code 0 after help, and with code 2 for arguments that cannot be parsed. With `--debug`,
    unexpected exceptions are raised instead of printed.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in words
    if hasattr(sys.stdout, "reconfigure"):  # a terminal without Unicode shows escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _terminable(), _plain_warnings():
            try:
                return _main([word for word in words if word != "--debug"])
            finally:
                if sys.stdout is not None:  # closed by the caller
                    sys.stdout.flush()  # so that errors of the output are seen here and not at the interpreter's exit
    except BrokenPipeError:  # the reader has read enough: `rl-clarity run --help | head -1`
        _discard_output()
        return FAILED
    except KeyboardInterrupt as error:
        return _stopped(error)
    except Exception as error:
        if debug:
            raise
        if _is_memory_error(error):
            reason = str(error).partition("\n")[0]
            return _fail(f"out of memory{': ' * bool(reason)}{reason}")
        if isinstance(error, OSError):  # those of commands are reported there
            _discard_output()
            return _fail(f"standard output: {error.strerror or error}")
        return _fail(f"{describe_error(error)} (the same command with --debug shows the traceback)")


def _main(words: Sequence[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"{PROGRAM} {rl_clarity.__version__}")
        return 0
    try:
        command = parse_arguments(words)
    except ClarityError as error:
        return _fail(error.message, USAGE_ERROR, error.script)
    try:
        result = command.execute()
    except ClarityError as error:
        return _fail(error.message, FAILED, error.script)
    except BrokenPipeError:
        raise
    except OSError as error:
        if _is_memory_error(error):
            raise
        return _fail(describe_error(error))
    except SystemExit as error:  # commands return their code
        raise RuntimeError(f"an environment, plug-in or library ended the program (SystemExit: {error})") from error
    except KeyboardInterrupt as error:
        if command.resumable and not getattr(command, "dry_run", False):
            error.args = ("the same command resumes it",)
        return _stopped(error)
    if result.summary and communicator().rank == 0:
        if command.json:
            print(json.dumps(to_plain(result.summary, finite=True), sort_keys=True))
        else:
            print(printable(result.text, keep="\n"))
    return result.code


@contextmanager
def _terminable() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM. Outside the main thread, which alone can handle signals, this has no effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: Any) -> None:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print each warning once, as a line that starts with the program's name, without file name and line number."""
    printed: set[str] = set()

    def as_line(message: Warning | str, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
        text = f"{PROGRAM}: warning: {printable(str(message))}\n"
        if text in printed:
            return ""
        printed.add(text)
        return text

    previous, warnings.formatwarning = warnings.formatwarning, as_line
    try:
        yield
    finally:
        warnings.formatwarning = previous


def _stopped(error: KeyboardInterrupt) -> int:
    what = "terminated" if isinstance(error, Terminated) else "interrupted"
    return _fail("; ".join([what, *map(str, error.args)]), exit_code(error))


def _is_memory_error(error: BaseException) -> bool:
    """Return whether an error means that memory was insufficient, by its type or by the messages of C libraries."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY)


def _fail(message: str, code: int = FAILED, script: str = "") -> int:
    print(f"{PROGRAM}: {printable(message)}{script}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Discard output that is flushed when the interpreter exits."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

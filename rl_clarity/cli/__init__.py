"""The command line: `rl-clarity run | train | demo | inspect | evaluate | export | convert`.

`commands` says what can be said, `call` understands it, `answers` holds a function for each command. Nothing heavy is
imported before a command is chosen, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.cli.answers import ANSWERS
from rl_clarity.cli.call import PROGRAM, command_of
from rl_clarity.cli.commands import Command, Run, Train
from rl_clarity.errors import ClarityError
from rl_clarity.jobs import communicator

FAILED, WRONG_CALL, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for an error, 2 for a wrong call, 130 if interrupted.

    Raises SystemExit with code 0 after help, and with code 2 for a call that is not understood.
    """
    try:
        try:
            return _answered(sys.argv[1:] if arguments is None else list(arguments))
        finally:
            sys.stdout.flush()  # whatever was told, help too, goes out here and not at the interpreter's end
    except BrokenPipeError:  # whoever read it has read enough: `rl-clarity run --help | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is flushed at the end goes nowhere
        return FAILED


def _answered(given: Sequence[str]) -> int:
    if given[:1] == ["--version"]:
        print(f"{PROGRAM} {rl_clarity.__version__}")
        return 0
    try:
        command = command_of(given)
    except ClarityError as error:
        return _failed(str(error), WRONG_CALL)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    return _done(command)


def _done(command: Command) -> int:
    try:
        summary, text = ANSWERS[type(command)](command)
    except ClarityError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        return _failed("interrupted" + _how_to_go_on(command), INTERRUPTED)
    if summary and communicator().rank == 0:
        print(json.dumps(_plain(summary), sort_keys=True) if command.json else text)
    return 0


def _how_to_go_on(command: Command) -> str:
    goes_on = isinstance(command, Train) or (isinstance(command, Run) and not command.dry_run)
    return "; the same command goes on where it was stopped" if goes_on else ""


def _plain(value: Any) -> Any:
    """What JSON has a word for: paths are strings, numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _failed(message: str, code: int = FAILED) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return code

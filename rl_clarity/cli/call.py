"""From the words of a command line to a command."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any

import tyro

from rl_clarity.cli.commands import COMMANDS, Command, Run, with_original_defaults
from rl_clarity.errors import ClarityError

PROGRAM = "rl-clarity"
DESCRIPTION = "Explain agents trained by reinforcement learning. --version says which version this is."


def command_of(arguments: Sequence[str]) -> Command:
    """The command that is called.

    Raises ClarityError for a value that an option cannot have, SystemExit after help (code 0) and for a call that is
    not understood (code 2).
    """
    if not arguments or arguments[0] not in COMMANDS:
        return _of_no_name(arguments)
    name, *rest = arguments
    command = _parsed(name, rest)
    if isinstance(command, Run) and command.original:
        # Once more, with other defaults: what was given goes before them, even where it is a default of ours.
        return _parsed(name, rest, with_original_defaults(command))
    return command


def _of_no_name(arguments: Sequence[str]) -> Command:
    """Help, or what is wrong with the first word."""
    command: Command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS, args=arguments, prog=PROGRAM, description=DESCRIPTION
    )
    return command


def _parsed(name: str, arguments: Sequence[str], default: Command | None = None) -> Command:
    options: dict[str, Any] = {"args": arguments, "prog": f"{PROGRAM} {name}", "default": default}
    try:
        with redirect_stderr(io.StringIO()):
            command: Command = tyro.cli(COMMANDS[name], **options)
    except SystemExit as stopped:
        refused = _refusal(stopped)
        if refused is not None:
            raise refused from None
        if not stopped.code:
            raise
        command = tyro.cli(COMMANDS[name], **options)  # once more, to say what is wrong
    return command


def _refusal(error: BaseException | None) -> ClarityError | None:
    """What a class of options said of a value, below the parser's own errors, which name its internals."""
    while error is not None and not isinstance(error, ClarityError):
        error = error.__context__
    return error

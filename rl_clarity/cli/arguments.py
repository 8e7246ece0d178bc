"""Parse the command line: `parse_arguments` returns a command with its options.

A command is a class whose fields and docstrings are its options and help.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any

import tyro

from rl_clarity.base.errors import ClarityError
from rl_clarity.base.parsing import parse
from rl_clarity.base.renamed import RENAMED_OPTIONS
from rl_clarity.cli.agents import Convert, Edit, Evaluate, Inspect, Train
from rl_clarity.cli.command import Command
from rl_clarity.cli.option_types import TYPES
from rl_clarity.cli.pages import Ablate, Check, Compare, Demo, Memory, PageFlags, Run
from rl_clarity.cli.recordings import Explain, Publish, Record, Serve, Simulate, States
from rl_clarity.cli.written_pages import Export, Gallery, Verify
from rl_clarity.pages.options import ORIGINAL, ObservationsOptions

PROGRAM = "rl-clarity"
DESCRIPTION = (
    "Explain agents trained by reinforcement learning. --version prints the version; --debug, with any command, shows "
    "the traceback of an unexpected error."
)

RENAMED = {
    **{f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in RENAMED_OPTIONS.items()},
    "--load.metadata": "--metadata",
    "--load.check": "--check",
    "--lambda-": "--lambda",
    "--greedy": "--deterministic",
}
"""Other names of options."""

COMMANDS: dict[str, type[Command]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Run, Compare, Train, Demo, Inspect, Record, Explain, Simulate, Evaluate, States, Memory, Ablate, Check),
        *(Export, Verify, Gallery, Serve, Publish, Convert, Edit),
    )
}


def parse_arguments(arguments: Sequence[str]) -> Command:
    """Parse a command line.

    Raises ClarityError for a value that an option cannot have, SystemExit after help (code 0) and for other usage
    errors (code 2).
    """
    if not arguments or arguments[0] not in COMMANDS:
        command: Command = tyro.extras.subcommand_cli_from_dict(
            {**COMMANDS}, args=arguments, prog=PROGRAM, description=DESCRIPTION
        )
        return command
    name, *rest = [_renamed(word) for word in arguments]
    command = _parse(name, rest)
    if isinstance(command, Run) and command.original:
        # Parsed again with other defaults, which explicit options override even where they equal our defaults.
        options = {key: value for key, value in ORIGINAL.items() if key != "observations_kwargs"}
        default = Run(
            checkpoint=command.checkpoint,
            output_dir=command.output_dir,
            observations=ObservationsOptions(**ORIGINAL["observations_kwargs"]),
            options=parse(PageFlags, options),
        )
        return _parse(name, rest, default)
    return command


def _renamed(word: str) -> str:
    option, equals, value = word.partition("=")
    return f"{RENAMED.get(option, option)}{equals}{value}"


def _parse(name: str, arguments: Sequence[str], default: Command | None = None) -> Command:
    options: dict[str, Any] = {"args": arguments, "prog": f"{PROGRAM} {name}", "default": default}
    try:
        with redirect_stderr(io.StringIO()), TYPES:
            command: Command = tyro.cli(COMMANDS[name], **options)
    except SystemExit as stopped:
        # Errors of our option classes are below the parser's own errors, which name its internals.
        error: BaseException | None = stopped
        while error is not None and not isinstance(error, ClarityError):
            error = error.__context__
        if error is not None:
            raise error from None
        if not stopped.code:
            raise
        with TYPES:
            command = tyro.cli(COMMANDS[name], **options)  # again, to print what is wrong
    return command

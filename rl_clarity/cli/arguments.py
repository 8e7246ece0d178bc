"""Parse the command line. `parse_arguments` returns a command with its options.

A command is a dataclass. Its fields are the options, and its docstrings are the help texts.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import fields
from typing import Any, get_type_hints

import tyro

from rl_clarity.base.errors import ClarityError
from rl_clarity.base.parsing import option_names, parse
from rl_clarity.base.renamed import RENAMED_OPTIONS
from rl_clarity.cli.agents import Convert, Edit, Evaluate, Inspect, Train
from rl_clarity.cli.command import Command
from rl_clarity.cli.flags import ADVANCED, as_flags
from rl_clarity.cli.option_types import TYPES
from rl_clarity.cli.pages import Ablate, Check, Compare, Debug, Demo, Memory, Run
from rl_clarity.cli.recordings import Explain, Probe, Publish, Record, Simulate, States
from rl_clarity.cli.serving import Open, Serve
from rl_clarity.cli.written_pages import Export, Gallery, Verify
from rl_clarity.pages.options import ORIGINAL, InterfaceOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.pages.original_options import PARTS, renamed, translate

PROGRAM = "rl-clarity"
HELP_ALL = "--help-all"
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
"""Current names of options, by old and alternative names that are still accepted."""

COMMANDS: dict[str, type[Command]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Run, Compare, Train, Demo, Inspect, Record, Explain, Simulate),
        *(Evaluate, States, Probe, Memory, Ablate, Check),
        *(Debug, Export, Verify, Gallery, Serve, Open, Publish, Convert, Edit),
    )
}


def parse_arguments(arguments: Sequence[str]) -> Command:
    """Parse a command line.

    Raises ClarityError for an invalid value of an option, and SystemExit after help (code 0) and for other usage
    errors (code 2).
    """
    if not arguments or arguments[0] not in COMMANDS:
        command: Command = tyro.extras.subcommand_cli_from_dict(
            {name: _command_class(name) for name in COMMANDS}, args=arguments, prog=PROGRAM, description=DESCRIPTION
        )
        return command
    name, *rest = arguments
    return _parse(name, [_renamed(word, COMMANDS[name]) for word in rest])


@functools.cache
def _command_class(name: str, *, short: bool = False, original: bool = False) -> type[Command]:
    """Return the class into which a command's arguments are parsed. With `short`, advanced options are hidden."""
    default = None
    if original:
        options = translate(ORIGINAL, InterfaceOptions)
        samples: dict[str, Any] = {
            "trajectories": parse(TrajectoriesOptions, options.pop("trajectories")),
            "observations": parse(ObservationsOptions, options.pop("observations")),
        }
        default = Run(checkpoint="", output_dir="", options=parse(InterfaceOptions, options), **samples)
    return as_flags(COMMANDS[name], default, short=short)


def _renamed(word: str, command: type[Command]) -> str:
    """Return an argument in which an old or alternative name of an option is replaced by the current name."""
    option, equals, value = word.partition("=")
    option = RENAMED.get(option, option)
    if option.startswith("--") and "options" in command.__dataclass_fields__:
        part, dot, name = option[2:].replace("-", "_").partition(".")
        own = {one.name for one in fields(get_type_hints(command)["options"])}
        part = PARTS.get(part, part) if dot else renamed(part, own) or part
        option = f"--{part}{dot}{name}".replace("_", "-")
    return f"{option}{equals}{value}"


def _parse(name: str, arguments: Sequence[str]) -> Command:
    short = HELP_ALL not in arguments and not {"--help", "-h"}.isdisjoint(arguments)
    kind = _command_class(name, short=short, original=name == "run" and "--original" in arguments)
    options: dict[str, Any] = {
        "args": ["--help" if word == HELP_ALL else word for word in arguments],
        "prog": f"{PROGRAM} {name}",
    }
    if short and ADVANCED.intersection(one.removeprefix("options.") for one in option_names(kind)):
        options["description"] = f"{kind.__doc__}\n\n{HELP_ALL} shows all options."
    try:
        with redirect_stderr(io.StringIO()), TYPES:
            command: Command = tyro.cli(kind, **options)
    except SystemExit as stopped:
        # The parser wraps the errors of our option classes in its own errors, which mention its internals.
        error: BaseException | None = stopped
        while error is not None and not isinstance(error, ClarityError):
            error = error.__context__
        if error is not None:
            raise error from None
        if not stopped.code:
            raise
        with TYPES:
            command = tyro.cli(kind, **options)  # again, to print what is wrong
    return command

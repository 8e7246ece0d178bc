"""Arguments of the command line: a class for each command, whose fields and docstrings are its options and help."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from rl_clarity.errors import ClarityError, OptionError
from rl_clarity.options import ORIGINAL, InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.parsing import parse, typed
from rl_clarity.recordings.options import EvaluationOptions
from rl_clarity.training.options import TrainOptions
from rl_clarity.visualization.rendering import Direction

PROGRAM = "rl-clarity"
DESCRIPTION = (
    "Explain agents trained by reinforcement learning. --version prints the version; --debug, with any command, shows "
    "the traceback of an unexpected error."
)

CheckpointPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CHECKPOINT")]
DirectoryPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIRECTORY")]
FilePath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]


def _pairs(words: list[str]) -> dict[str, str]:
    """Parse `NAME VALUE` and `NAME=VALUE` pairs."""
    pairs, rest = {}, list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and not rest:
            raise OptionError(f"metadata {name!r} has no value: write {name} VALUE, or {name}=VALUE")
        pairs[name] = value if equals else rest.pop(0)
    return pairs


Metadata = Annotated[
    Mapping[str, str],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="[NAME VALUE ...]",
        instance_from_str=_pairs,
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [word for pair in value.items() for word in pair],
    ),
]


def _analyses(words: list[str]) -> dict[str, dict[str, Any]]:
    """Parse `NAME` and `NAME.OPTION=VALUE`."""
    analyses: dict[str, dict[str, Any]] = {}
    for word in words:
        name, dot, option = word.partition(".")
        options = analyses.setdefault(name, {})
        if dot:
            key, equals, value = option.partition("=")
            if not equals:
                raise OptionError(f"--analyses {word}: write {name}.OPTION=VALUE")
            options[key.replace("-", "_")] = value
    return {name: typed(options) for name, options in analyses.items()}


Analyses = Annotated[
    Mapping[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="[NAME[.OPTION=VALUE] ...]",
        instance_from_str=_analyses,
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: list(value),
    ),
]


@dataclass(frozen=True)
class LoadFlags(LoadOptions):
    """Options of sampling that the command line has."""

    metadata: Metadata = field(default_factory=dict)
    """Metadata that overrides the checkpoint's: env_kind, env_name, gamma, frame_stack, ..."""


@dataclass(frozen=True)
class PageFlags(InterfaceOptions):
    """Options of the page that the command line has."""

    analyses: Analyses = field(default_factory=dict)
    """More analyses to run, by name, with their options: saliency saliency.samples=4."""
    action_group_fns: tyro.conf.SuppressFixed[Any] = None
    overwrite: tyro.conf.SuppressFixed[bool] = False


@dataclass(frozen=True)
class TrainFlags(TrainOptions):
    """Options of training, with their names on the command line."""

    lambda_: Annotated[float, tyro.conf.arg(name="lambda", aliases=["--lambda-"])] = TrainOptions.lambda_
    """Lambda of generalized advantage estimation."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Options of all commands."""

    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True, kw_only=True)
class CheckpointCommand(Command):
    """Options of commands that read a checkpoint."""

    checkpoint: CheckpointPath
    """Checkpoint file, or an included agent: models:coinrun."""
    metadata: Metadata = field(default_factory=dict)
    """Metadata that overrides the checkpoint's: env_kind, env_name, gamma, frame_stack, ..."""


@dataclass(frozen=True, kw_only=True)
class Run(Command):
    """Explain the agent in a checkpoint: let it play, attribute its outputs to its layers, and write a page."""

    checkpoint: CheckpointPath
    """Checkpoint file, or an included agent: models:coinrun."""
    output_dir: DirectoryPath
    """Directory of the page."""
    load: LoadFlags = field(default_factory=LoadFlags)
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[PageFlags, tyro.conf.arg(name="")] = field(default_factory=PageFlags)
    dry_run: bool = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: bool = False
    """Replace a page in the directory."""
    original: bool = False
    """Use the defaults of understanding-rl-vision where they differ from ours (slower)."""


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Train an agent by PPO. Interrupted training is resumed by the same command."""

    save_dir: DirectoryPath
    """Directory of checkpoints and logs."""
    options: Annotated[TrainFlags, tyro.conf.arg(name="")]
    force: bool = False
    """Replace an agent in the directory whose training cannot be resumed."""


@dataclass(frozen=True, kw_only=True)
class Demo(Command):
    """Explain an included agent, at a size that takes about a minute."""

    output_dir: Path = Path("out/demo")
    """Directory of the page."""


@dataclass(frozen=True, kw_only=True)
class Inspect(CheckpointCommand):
    """Print the network, layers and metadata of a checkpoint. No code in it is run."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(CheckpointCommand):
    """Estimate an agent's mean return over a fixed number of episodes, all played to their end."""

    options: Annotated[EvaluationOptions, tyro.conf.arg(name="")] = field(default_factory=EvaluationOptions)


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Write images or numbers of a page to a file: .png, .apng, .gif, .csv or .npz. Trajectories, frames and channels
    are counted from 1, as on the page.
    """

    page: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
    """Directory of a page, or its interface.html."""
    file: FilePath
    """File to write."""
    trajectory: int = 1
    """Number of the trajectory."""
    frames: str | None = None
    """Range of frames (100:180), or one frame (120). Default: all."""
    layer: str | None = None
    """Name of the layer. Default: the first."""
    output: str | None = None
    """Explained output: value, action-3, group-0, greedy. Default: the page's first."""
    directions: tuple[Direction, ...] = ("pos", "neg")
    """Images beside the observation: of positive attribution (pos), negative (neg), or both together (abs)."""
    channel: str = "prin"
    """Channels in the images: all principal ones (prin), also the residual (all), the residual (res), or a number."""
    fps: float = 12
    """Frames per second of an animation."""


@dataclass(frozen=True, kw_only=True)
class Convert(CheckpointCommand):
    """Convert a checkpoint of any known format to safetensors, with its metadata."""

    file: FilePath
    """File to write, such as agent.safetensors."""
    force: bool = False
    """Replace an existing file."""


COMMANDS: dict[str, Any] = {
    kind.__name__.lower(): kind for kind in (Run, Train, Demo, Inspect, Evaluate, Export, Convert)
}


def parse_arguments(arguments: Sequence[str]) -> Command:
    """Parse a command line.

    Raises ClarityError for a value that an option cannot have, SystemExit after help (code 0) and for other usage
    errors (code 2).
    """
    if not arguments or arguments[0] not in COMMANDS:
        command: Command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, args=arguments, prog=PROGRAM, description=DESCRIPTION
        )
        return command
    name, *rest = arguments
    command = _parse(name, rest)
    if isinstance(command, Run) and command.original:
        # Parsed again with other defaults, which the given options override even where they equal our defaults.
        options = {key: value for key, value in ORIGINAL.items() if key != "observations_kwargs"}
        observations = ObservationsOptions(**ORIGINAL["observations_kwargs"])
        return _parse(name, rest, replace(command, observations=observations, options=parse(PageFlags, options)))
    return command


def _parse(name: str, arguments: Sequence[str], default: Command | None = None) -> Command:
    options: dict[str, Any] = {"args": arguments, "prog": f"{PROGRAM} {name}", "default": default}
    try:
        with redirect_stderr(io.StringIO()):
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
        command = tyro.cli(COMMANDS[name], **options)  # again, to print what is wrong
    return command

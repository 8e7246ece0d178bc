"""What can be said on the command line: a class for each command, its fields and their texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from rl_clarity.errors import OptionError
from rl_clarity.options import ORIGINAL, InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.parsing import parse
from rl_clarity.training.options import TrainOptions
from rl_clarity.visualization.rendering import Direction

CheckpointPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CHECKPOINT")]
PagePath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
DirectoryPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIRECTORY")]
FilePath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]


def _pairs(words: list[str]) -> dict[str, str]:
    """`NAME VALUE` and `NAME=VALUE`, as many as there are."""
    pairs, left = {}, list(words)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if not equals and not left:
            raise OptionError(f"metadata {name!r} has no value: write {name} VALUE, or {name}=VALUE")
        pairs[name] = value if equals else left.pop(0)
    return pairs


Metadata = Annotated[
    Mapping[str, str],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="[NAME VALUE ...]",
        instance_from_str=_pairs,
        is_instance=lambda given: isinstance(given, Mapping),
        str_from_instance=lambda given: [word for pair in given.items() for word in pair],
    ),
]


@dataclass(frozen=True)
class LoadFlags(LoadOptions):
    """Options of the samples, under the names of a command line."""

    metadata: Metadata = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, gamma, frame_stack, ... It goes before what it says."""


@dataclass(frozen=True)
class PageOptions(InterfaceOptions):
    """Options of the page that can be said on a command line."""

    action_group_fns: tyro.conf.SuppressFixed[Any] = None
    overwrite: tyro.conf.SuppressFixed[bool] = False


@dataclass(frozen=True)
class TrainFlags(TrainOptions):
    """Options of training, under the names of a command line."""

    lambda_: Annotated[float, tyro.conf.arg(name="lambda", aliases=["--lambda-"])] = TrainOptions.lambda_
    """Generalised advantage estimation: how far advantages look beyond one step."""


@dataclass(frozen=True)
class Run:
    """Explain the agent in a checkpoint: let it play, attribute its outputs to its layers, and write a page."""

    checkpoint: CheckpointPath
    """Checkpoint file, or a shipped agent: models:coinrun."""
    output_dir: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIRECTORY")]
    """Directory of the page."""
    load: LoadFlags = field(default_factory=LoadFlags)
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[PageOptions, tyro.conf.arg(name="")] = field(default_factory=PageOptions)
    dry_run: bool = False
    """Only say what it will take: time, memory, disk. Nothing is written."""
    force: bool = False
    """Replace a page that is already in the directory."""
    original: bool = False
    """Use the settings of understanding-rl-vision where ours differ and none is given (more work, the same page)."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Train:
    """Train an agent by PPO; the same command goes on where it was stopped."""

    save_dir: DirectoryPath
    """Directory of checkpoints and progress."""
    options: Annotated[TrainFlags, tyro.conf.arg(name="")]
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Demo:
    """Explain the agent that ships with the package, at a size that takes about a minute."""

    output_dir: Path = Path("out/demo")
    """Directory of the page."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Inspect:
    """Say what is in a checkpoint: network, layers, environment. Nothing is run."""

    checkpoint: CheckpointPath
    """Checkpoint file, or a shipped agent: models:coinrun."""
    metadata: Metadata = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, gamma, frame_stack, ..."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Evaluate:
    """Say how well an agent plays: a number of episodes fixed beforehand, all played to their end."""

    checkpoint: CheckpointPath
    """Checkpoint file, or a shipped agent: models:coinrun."""
    episodes: int = 500
    """Episodes, as many in each environment."""
    seed: int = 0
    """Decides levels and actions."""
    unseen: bool = True
    """Also play levels that the agent was not trained on, where its levels were limited (Procgen)."""
    random: bool = False
    """Also play a random policy."""
    max_steps: int = 27_000
    """Steps after which an episode is counted as it is, if it has not ended."""
    metadata: Metadata = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, frame_stack, ..."""
    json: bool = False
    """Print a one-line summary as JSON."""

    def __post_init__(self) -> None:
        for name in ("episodes", "max_steps"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True)
class Export:
    """Write pictures or numbers of a page to a file: .png, .apng, .gif, .csv or .npz, by its name. All that is counted
    is counted from 1, as on the page.
    """

    page: PagePath
    """Directory of a page, or its interface.html."""
    file: FilePath
    """File to write."""
    trajectory: int = 1
    """Trajectory."""
    frames: str | None = None
    """Frames: 100:180, or 120 alone; all if not given."""
    layer: str | None = None
    """Layer; the first if not given."""
    output: str | None = None
    """What is explained: value, action-3, group-0, greedy; the first that the page has if not given."""
    directions: tuple[Direction, ...] = ("pos", "neg")
    """Pictures beside the observation: of what raised the output, of what lowered it, of both together (abs)."""
    channel: str = "prin"
    """Features in the pictures: all of them (prin), these and the rest (all), the rest (res), or the number of one."""
    fps: float = 12
    """Frames a second of an animation."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Convert:
    """Write a checkpoint of any known format in our own: safetensors, with what its file did not say."""

    checkpoint: CheckpointPath
    """Checkpoint file, or a shipped agent: models:coinrun."""
    file: FilePath
    """File to write, as agent.safetensors."""
    metadata: Metadata = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, gamma, frame_stack, ... It goes before what it says."""
    force: bool = False
    """Replace a file that is already there."""
    json: bool = False
    """Print a one-line summary as JSON."""


Command = Run | Train | Demo | Inspect | Evaluate | Export | Convert
COMMANDS: dict[str, Any] = {
    "run": Run,
    "train": Train,
    "demo": Demo,
    "inspect": Inspect,
    "evaluate": Evaluate,
    "export": Export,
    "convert": Convert,
}


def with_original_defaults(command: Run) -> Run:
    """The command as it would be if nothing of what `ORIGINAL` says had a default of ours."""
    options = {key: value for key, value in ORIGINAL.items() if key != "observations_kwargs"}
    return replace(
        command,
        observations=ObservationsOptions(**ORIGINAL["observations_kwargs"]),
        options=parse(PageOptions, options),
    )

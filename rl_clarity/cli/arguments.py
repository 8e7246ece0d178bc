"""Arguments of the command line: a class for each command, whose fields and docstrings are its options and help."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from rl_clarity.environments import override_name
from rl_clarity.errors import ClarityError, OptionError
from rl_clarity.explaining import ExplainOptions
from rl_clarity.memory.options import MemoryOptions
from rl_clarity.options import (
    CHECKED_TRAJECTORIES,
    ORIGINAL,
    CompareOptions,
    InterfaceOptions,
    LoadOptions,
    ObservationsOptions,
    TrajectoriesOptions,
)
from rl_clarity.parsing import parse, typed
from rl_clarity.recordings.options import EvaluationOptions, RecordOptions
from rl_clarity.states.options import StateOptions
from rl_clarity.training.options import TrainOptions
from rl_clarity.visualization.rendering import Direction
from rl_clarity.world_models.options import FitOptions

PROGRAM = "rl-clarity"
DESCRIPTION = (
    "Explain agents trained by reinforcement learning. --version prints the version; --debug, with any command, shows "
    "the traceback of an unexpected error."
)

RENAMED = {
    "--load.metadata": "--metadata",
    "--load.check": "--check",
    "--lambda-": "--lambda",
    "--greedy": "--deterministic",
}
"""Other names of options."""

CheckpointPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CHECKPOINT")]
DirectoryPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIRECTORY")]
FilePath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
Switch = Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(help_behavior_hint="")]
"""An option that is off unless it is given."""

TYPES = tyro.constructors.ConstructorRegistry()
METAVARS: dict[type[Any], str] = {str: "STR", Path: "PATH", int: "INT", float: "FLOAT", bool: "{True,False}"}


@TYPES.primitive_rule
def _optional(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """Parse `str | None` and the like; `None` is accepted, but the metavar does not show it."""
    kinds = [kind for kind in get_args(info.type) if kind is not type(None)]
    if get_args(info.type) == tuple(kinds) or len(kinds) != 1 or kinds[0] not in METAVARS:
        return None
    kind = kinds[0]
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=METAVARS[kind],
        instance_from_str=lambda words: None if words == ["None"] else _converted(words[0], kind),
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


def _converted(word: str, kind: type[Any]) -> Any:
    if kind is not bool:
        return kind(word)
    if word not in ("True", "False"):
        raise ValueError(f"{word} is not True or False")
    return word == "True"


def _word_list(metavar: str, parse_words: Callable[[list[str]], Any]) -> tuple[Any, ...]:
    """Annotations of an option with any number of words, which are parsed to a mapping; empty by default."""
    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=parse_words,
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=list,
    )
    return spec, tyro.conf.arg(help_behavior_hint="")


def _pairs(words: list[str]) -> dict[str, str]:
    """Parse `NAME VALUE` and `NAME=VALUE` pairs."""
    pairs, rest = {}, list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and not rest:
            raise OptionError(f"metadata {name!r} has no value: write {name} VALUE, or {name}=VALUE")
        pairs[name] = value if equals else rest.pop(0)
    return pairs


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


def _feature_names(words: list[str]) -> dict[str, dict[int, str]]:
    """Parse `LAYER.NUMBER=NAME`."""
    names: dict[str, dict[int, str]] = {}
    for word in words:
        place, equals, name = word.partition("=")
        layer, dot, number = place.rpartition(".")
        if not (equals and dot and number.isdecimal()):
            raise OptionError(f"--feature-names {word}: write LAYER.NUMBER=NAME, such as 2b.1=coin")
        names.setdefault(layer, {})[int(number)] = name
    return names


Metadata = Annotated[Mapping[str, str], *_word_list("[NAME VALUE ...]", _pairs)]
Analyses = Annotated[Mapping[str, Any], *_word_list("[NAME[.OPTION=VALUE] ...]", _analyses)]
FeatureNames = Annotated[Mapping[str, Mapping[int, str]], *_word_list("[LAYER.NUMBER=NAME ...]", _feature_names)]


@dataclass(frozen=True)
class LoadFlags(LoadOptions):
    """Where samples of the agent's play are stored, and whether they are reused."""

    metadata: tyro.conf.Suppress[Metadata] = field(default_factory=dict)
    check: tyro.conf.Suppress[Path | None] = None


@dataclass(frozen=True)
class PageFlags(InterfaceOptions):
    """Options of the page that the command line has."""

    env_name: tyro.conf.Suppress[str | None] = None
    analyses: Analyses = field(default_factory=dict)
    """More analyses to run, by name, with their options: smoothgrad smoothgrad.samples=4."""
    feature_names: FeatureNames = field(default_factory=dict)
    """Names of features by layer and number, counted from 1 as on the page: 2b.1=coin "2b.3=buzz saw"."""
    action_group_fns: tyro.conf.SuppressFixed[Any] = None
    causal_cause: tyro.conf.SuppressFixed[Any] = None
    overwrite: tyro.conf.Suppress[bool] = False


@dataclass(frozen=True)
class CompareFlags(CompareOptions):
    """Options of a page of checkpoints that the command line has."""

    env_name: tyro.conf.Suppress[str | None] = None
    greedy: Annotated[bool, tyro.conf.arg(name="deterministic")] = False
    """Take the most likely action instead of sampling one, and no random actions (epsilon_greedy)."""
    analyses: Analyses = field(default_factory=dict)
    """More analyses of each checkpoint, by name, with their options: novelty novelty.samples=4."""
    action_group_fns: tyro.conf.SuppressFixed[Any] = None
    overwrite: tyro.conf.Suppress[bool] = False


@dataclass(frozen=True)
class MemoryFlags(MemoryOptions):
    """Options of a page about memory that the command line has."""

    env_name: tyro.conf.Suppress[str | None] = None
    greedy: Annotated[bool, tyro.conf.arg(name="deterministic")] = False
    """Take the most likely action instead of sampling one, and no random actions (epsilon_greedy)."""
    analyses: Analyses = field(default_factory=dict)
    """More analyses to run, by name, with their options: novelty novelty.samples=4."""
    action_group_fns: tyro.conf.SuppressFixed[Any] = None
    overwrite: tyro.conf.Suppress[bool] = False
    part: tyro.conf.Suppress[int | None] = None


@dataclass(frozen=True)
class TrainFlags(TrainOptions):
    """Options of training, with their names on the command line."""

    lambda_: Annotated[float, tyro.conf.arg(name="lambda")] = TrainOptions.lambda_
    """Lambda of generalized advantage estimation."""


@dataclass(frozen=True)
class RecordFlags(RecordOptions):
    """Options of recording, with their names on the command line."""

    greedy: Annotated[bool, tyro.conf.arg(name="deterministic")] = False
    """Take the most likely action instead of sampling one, and no random actions (epsilon_greedy)."""


@dataclass(frozen=True)
class ExplainFlags(ExplainOptions):
    """Options of explaining, with their names on the command line."""

    refit: Switch = False
    """Fit the maps again, on the episodes that are there now. By default new episodes are placed on the existing map,
    whose points stay where they are."""
    watch: Switch = False
    """Go on as episodes appear, newest first and at low priority, until interrupted (Ctrl-C)."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Options of all commands."""

    json: Switch = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True, kw_only=True)
class CheckpointCommand(Command):
    """Options of commands that read a checkpoint."""

    checkpoint: CheckpointPath
    """Checkpoint file, or an included agent: models:coinrun."""
    env_name: str | None = None
    """Environment to play: coinrun, BreakoutNoFrameskip-v4; the checkpoint's by default."""
    metadata: Metadata = field(default_factory=dict)
    """Other metadata that override the checkpoint's: env_kind, gamma, frame_stack, num_levels, ..."""
    check: Path | None = None
    """Outputs that the agent must have: an .npz file of observations, and logits, values or q_values."""

    def overrides(self) -> dict[str, Any]:
        """Metadata that override the checkpoint's; raises OptionError if they name two environments."""
        return override_name(typed(self.metadata), self.env_name)


@dataclass(frozen=True, kw_only=True)
class PlayingCommand(CheckpointCommand):
    """Options of commands that let an agent play, perhaps with directions of its recurrent state exchanged."""

    directions: str | None = None
    """Directory that `rl-clarity states` wrote: the directions that are exchanged."""
    swap_directions_from: tuple[int, ...] = ()
    """Directions of the recurrent state to exchange or collapse as the agent plays, counted from 0: 10 5."""
    swap_directions_to: Annotated[tuple[int | None, ...], tyro.conf.arg(metavar="[INT|None ...]")] = ()
    """What each is exchanged with, or None to collapse it: 12 None."""
    swap_directions_on: Literal["state", "increment"] = "state"
    """Change the state, or what each step adds to it."""

    def swaps(self) -> dict[int, int | None]:
        """What is exchanged; raises OptionError for options that do not belong together."""
        sources, targets = self.swap_directions_from, self.swap_directions_to
        if len(sources) != len(targets) or bool(sources) != (self.directions is not None):
            raise OptionError(
                f"--directions {self.directions}, --swap-directions-from {' '.join(map(str, sources))} and "
                f"--swap-directions-to {' '.join(map(str, targets))} belong together, with as many numbers in both"
            )
        return dict(zip(sources, targets, strict=True))


@dataclass(frozen=True, kw_only=True)
class Run(PlayingCommand):
    """Explain the agent in a checkpoint: let it play, attribute its outputs to its layers, and write a page."""

    output_dir: DirectoryPath
    """Directory of the page."""
    load: LoadFlags = field(default_factory=LoadFlags)
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[PageFlags, tyro.conf.arg(name="")] = field(default_factory=PageFlags)
    recording: str | None = None
    """Explain the episodes of this recording, or Minari dataset, instead of new ones."""
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace a page in the directory."""
    original: Switch = False
    """Use the defaults of understanding-rl-vision where they differ from ours (slower)."""


@dataclass(frozen=True, kw_only=True)
class Compare(Command):
    """Compare the checkpoints of a training: let each play, show all of them the same episode, and write a page. An
    interrupted command is resumed by the same command.
    """

    output_dir: DirectoryPath
    """Directory of the page."""
    checkpoints: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="CHECKPOINT [...]")]
    """Checkpoint files, folders of them, patterns, or an included series: models:breakout-series."""
    log: Path | None = None
    """Log of the training, for the learning curve; by default a known one beside the checkpoints."""
    log_columns: tuple[str, str] | None = None
    """Columns of the steps and of the mean return in the log."""
    steps_per_number: float | None = None
    """Training steps that the number in a file's name stands for, if the files do not say how many there were."""
    env_name: str | None = None
    """Environment to play; the checkpoints' by default."""
    metadata: Metadata = field(default_factory=dict)
    """Other metadata that override the checkpoints': env_kind, gamma, frame_stack, num_levels, ..."""
    options: Annotated[CompareFlags, tyro.conf.arg(name="")] = field(default_factory=CompareFlags)
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace a page in the directory."""


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Train an agent by PPO. Interrupted training is resumed by the same command."""

    save_dir: DirectoryPath
    """Directory of checkpoints and logs."""
    options: Annotated[TrainFlags, tyro.conf.arg(name="")]
    force: Switch = False
    """Replace an agent in the directory whose training cannot be resumed."""


@dataclass(frozen=True, kw_only=True)
class Demo(Command):
    """Explain an included agent, compare the checkpoints of an included series, or explain what an included agent
    remembers, at a size that takes a minute or two.
    """

    output_dir: Path = Path("out/demo")
    """Directory of the page."""
    page: Literal["agent", "training", "memory"] = "agent"
    """Kind of the page: of an agent, of the checkpoints of a training, or of a recurrent agent's memory."""


@dataclass(frozen=True, kw_only=True)
class Inspect(CheckpointCommand):
    """Print the network, layers and metadata of a checkpoint, or what a recording holds. No code in it is run."""


@dataclass(frozen=True, kw_only=True)
class Record(PlayingCommand):
    """Let the agent in a checkpoint play, and record its episodes. They are those of training: with episodic_life, each
    life of an Atari game is an episode, whereas `evaluate` counts whole games.
    """

    directory: DirectoryPath
    """Directory of the recording; episodes are appended to one of the same agent."""
    options: Annotated[RecordFlags, tyro.conf.arg(name="")] = field(default_factory=RecordFlags)


@dataclass(frozen=True, kw_only=True)
class Explain(Command):
    """Compute saliency maps and state maps of recorded episodes, beside the recordings. Each episode is explained with
    the checkpoint that it was recorded with. An interrupted command is resumed by the same command.
    """

    path: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="LOGDIR")]
    """Log directory, whose recordings are explained, and those of the runs below it; or a recording."""
    agent: str | None = None
    """Checkpoint, or included agent (models:coinrun), that explains all episodes instead."""
    options: Annotated[ExplainFlags, tyro.conf.arg(name="")] = field(default_factory=ExplainFlags)


@dataclass(frozen=True, kw_only=True)
class Simulate(CheckpointCommand):
    """Train a differentiable simulator of an agent and its environment on a recording, and measure how good it is.
    Interrupted training is resumed by the same command.
    """

    recording: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECORDING")]
    """Recording of this agent with some noise in the actions (rl-clarity record --action-noise 0.1)."""
    directory: DirectoryPath
    """Directory of simulator.safetensors, quality.json, logs and films."""
    options: Annotated[FitOptions, tyro.conf.arg(name="")] = field(default_factory=FitOptions)
    check_recording: str | None = None
    """Recording of other episodes to measure the quality on; by default the same."""
    force: Switch = False
    """Start again where training cannot be resumed."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(PlayingCommand):
    """Estimate an agent's mean return over a fixed number of episodes, all played to their end."""

    options: Annotated[EvaluationOptions, tyro.conf.arg(name="")] = field(default_factory=EvaluationOptions)


@dataclass(frozen=True, kw_only=True)
class States(CheckpointCommand):
    """Analyse what the states of a recurrent agent hold: directions, clusters, behaviours, influence through memory,
    and how far back memory reaches. Writes arrays and facts, and prints the directions.
    """

    recording: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECORDING")]
    """Recording of the agent's play: rl-clarity record."""
    output_dir: DirectoryPath
    """Directory of states.npz and states.json."""
    options: Annotated[StateOptions, tyro.conf.arg(name="")] = field(default_factory=StateOptions)


@dataclass(frozen=True, kw_only=True)
class Memory(CheckpointCommand):
    """Explain what a recurrent agent remembers, and which earlier steps its outputs depend on: let it play, and write a
    page. An interrupted command is resumed by the same command.
    """

    output_dir: DirectoryPath
    """Directory of the page."""
    options: Annotated[MemoryFlags, tyro.conf.arg(name="")] = field(default_factory=MemoryFlags)
    simulator: str | None = None
    """Simulator of the agent (rl-clarity simulate), for causes through the world: a file, or an included one:
    models:coinrun-gru."""
    recording: str | None = None
    """Explain the episodes of this recording with states (rl-clarity record), instead of new ones."""
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace a page in the directory."""


@dataclass(frozen=True, kw_only=True)
class Ablate(CheckpointCommand):
    """Let an agent play the same levels with and without each feature of a layer, and compare returns, lengths, what
    ended the episodes, and actions. Writes a page with the comparison. An interrupted command is resumed by the same
    command.
    """

    output_dir: DirectoryPath
    """Directory of the page."""
    layer: str | None = None
    """Name of the layer; all layers of the page by default."""
    episodes: int = 400
    """Episodes of each agent."""
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[PageFlags, tyro.conf.arg(name="")] = field(default_factory=PageFlags)
    force: Switch = False
    """Replace a page in the directory."""


@dataclass(frozen=True, kw_only=True)
class Check(CheckpointCommand):
    """Check saliency methods on an agent: do their maps depend on its weights, and show what its outputs depend on?
    Prints the answers, and writes a page with them, example maps and a report as JSON. An interrupted command is
    resumed by the same command.
    """

    output_dir: DirectoryPath = "out/check"
    """Directory of the page."""
    frames: int = 64
    """Frames that the methods are checked on, spread over the trajectories."""
    methods: tuple[str, ...] | None = None
    """Methods: perturbation, jacobian, smooth_gradients, input_integrated_gradients, "integrated_gradients LAYER"; all
    of them, with every layer, by default."""
    output: str = "policy"
    """Explained output: policy (all logits, or all action values), value, or greedy."""
    load: LoadFlags = field(default_factory=LoadFlags)
    trajectories: TrajectoriesOptions = CHECKED_TRAJECTORIES
    options: Annotated[PageFlags, tyro.conf.arg(name="")] = field(default_factory=PageFlags)
    recording: str | None = None
    """Check frames of this recording, or Minari dataset, instead of new ones."""
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace a page in the directory."""


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
    """Range of frames (100:180), or one frame (120); all by default."""
    layer: str | None = None
    """Name of the layer; the first by default."""
    output: str | None = None
    """Explained output: value, action-3, group-0, greedy; the page's first by default."""
    directions: tuple[Direction, ...] = ("pos", "neg")
    """Images beside the observation: of positive attribution (pos), negative (neg), or both together (abs)."""
    channel: str = "prin"
    """Features in the images: all (prin), also the rest (all), the rest alone (res), or a number."""
    fps: float = 12
    """Frames per second of an animation."""


@dataclass(frozen=True, kw_only=True)
class Verify(Command):
    """Check that all files of a page are as they were written, and list those that are missing, damaged, changed or
    not part of the page. The exit code is 1 if there are any.
    """

    page: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
    """Directory or address of a page, or its interface.html."""


@dataclass(frozen=True, kw_only=True)
class Gallery(Command):
    """Write index.html, an index of the pages in a directory and its subdirectories. It can show two pages of the same
    recording side by side.
    """

    directory: DirectoryPath
    """Directory or address that contains pages."""
    title: str = "Pages"
    """Title of the index."""
    force: Switch = False
    """Replace an index.html that is not such an index."""


@dataclass(frozen=True, kw_only=True)
class Serve(Command):
    """Show the recordings of log directories in the browser, while they are written, as TensorBoard's tab does. Ctrl-C
    ends it.
    """

    logdir: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="LOGDIR")]
    """Log directories, recordings, or their addresses."""
    host: str = "127.0.0.1"
    """Name or address to listen on. If other machines can reach it, a random token is part of the page's address."""
    port: int = 6007
    """Port to listen on; 0 for a free one."""


@dataclass(frozen=True, kw_only=True)
class Publish(Command):
    """Write chosen episodes of recordings, and their explanations, as a static page that needs no server. An
    interrupted command is resumed by the same command.
    """

    logdir: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="LOGDIR")]
    """A log directory, a run in it, a recording, or their address."""
    output_dir: DirectoryPath
    """Directory of the page."""
    episodes: tuple[str, ...] = ()
    """Numbers of episodes in all runs, or RUN~NUMBER; by default the newest 8 of each run."""
    title: str | None = None
    """Title of the page; the names of the runs by default."""
    single_file: Switch = False
    """Put everything into one HTML file."""
    force: Switch = False
    """Replace a page in the directory."""


@dataclass(frozen=True, kw_only=True)
class Convert(CheckpointCommand):
    """Convert a checkpoint of any known format to safetensors, with its metadata."""

    file: FilePath
    """File to write, such as agent.safetensors."""
    force: Switch = False
    """Replace an existing file."""


@dataclass(frozen=True, kw_only=True)
class Edit(CheckpointCommand):
    """Remove features or units of a layer from an agent's weights, and write the edited agent as a checkpoint."""

    file: FilePath
    """File to write, such as edited.safetensors."""
    layer: str
    """Name of the layer: 2b."""
    feature: tuple[int, ...] = ()
    """Numbers of the features to remove, as on the page of --page."""
    page: str | None = None
    """Directory of a page of the agent, which says what its features are."""
    unit: tuple[int, ...] = ()
    """Channels of the layer to remove, counted from 0; needs no page."""
    strength: float = 1
    """How much of them to remove, from 0 to 1."""
    everything_but: Switch = False
    """Keep these, and remove everything else."""
    force: Switch = False
    """Replace an existing file."""


COMMANDS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (
        *(
            Run,
            Compare,
            Train,
            Demo,
            Inspect,
            Record,
            Explain,
            Simulate,
            Evaluate,
            States,
            Memory,
            Ablate,
            Check,
            Export,
            Verify,
            Gallery,
            Serve,
            Publish,
            Convert,
            Edit,
        ),
    )
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

"""The command line: `rl-clarity run | train | demo | inspect | evaluate | export | convert`, one function each.

Nothing heavy is imported before a command is chosen, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from rl_clarity.distributed import communicator
from rl_clarity.errors import ClarityError, OptionError
from rl_clarity.models import fetched
from rl_clarity.options import InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.parsing import typed
from rl_clarity.training.options import TrainOptions

FAILED, INTERRUPTED = 1, 130


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

    checkpoint: tyro.conf.Positional[str]
    """Checkpoint file, or a shipped agent: models:coinrun."""
    output_dir: tyro.conf.Positional[str]
    """Directory of the page."""
    load: LoadOptions = field(default_factory=LoadOptions)
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[PageOptions, tyro.conf.arg(name="")] = field(default_factory=PageOptions)
    dry_run: bool = False
    """Only say what it will take: time, memory, disk. Nothing is written."""
    force: bool = False
    """Replace a page that is already in the directory."""
    original: bool = False
    """Use the settings of understanding-rl-vision where ours differ (more work, the same page)."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Train:
    """Train an agent by PPO; the same command goes on where it was stopped."""

    save_dir: tyro.conf.Positional[Path]
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

    checkpoint: tyro.conf.Positional[str]
    """Checkpoint file, or a shipped agent: models:coinrun."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, gamma, frame_stack, ..."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Evaluate:
    """Say how well an agent plays: a number of episodes fixed beforehand, all played to their end."""

    checkpoint: tyro.conf.Positional[str]
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
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, frame_stack, ..."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Export:
    """Write pictures or numbers of a page to a file: .png, .gif, .csv or .npz, by its name."""

    page: tyro.conf.Positional[str]
    """Directory of a page, or its interface.html."""
    file: tyro.conf.Positional[Path]
    """File to write."""
    trajectory: int = 1
    """Trajectory, from 1."""
    frames: str | None = None
    """Frames, from 1: 100:180, or 120 alone; all if not given."""
    layer: str | None = None
    """Layer; the first if not given."""
    output: str = "value"
    """What is explained: value, action-3, group-0."""
    json: bool = False
    """Print a one-line summary as JSON."""


@dataclass(frozen=True)
class Convert:
    """Write a checkpoint of any known format in our own: safetensors, with what its file did not say."""

    checkpoint: tyro.conf.Positional[str]
    """Checkpoint file, or a shipped agent: models:coinrun."""
    file: tyro.conf.Positional[Path]
    """File to write, as agent.safetensors; one that is there is replaced."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the checkpoint does not say: env_kind, env_name, gamma, frame_stack, ... It goes before what it says."""
    json: bool = False
    """Print a one-line summary as JSON."""


Command = Run | Train | Demo | Inspect | Evaluate | Export | Convert
Answer = tuple[dict[str, Any], str]
"""A summary for programs, and a text for people."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for an error, 2 for a wrong call, 130 if interrupted."""
    try:
        command: Command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, args=arguments, prog="rl-clarity", description="Explain agents trained by reinforcement learning."
        )
        summary, text = ANSWERS[type(command)](command)
    except ClarityError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("rl-clarity: interrupted; the same command goes on where it was stopped", file=sys.stderr)
        return INTERRUPTED
    if summary and communicator().rank == 0:
        print(json.dumps(_plain(summary), sort_keys=True) if command.json else text)
    return 0


def _plain(value: Any) -> Any:
    """What JSON has a word for: paths are strings, numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _failed(message: str) -> int:
    print(f"rl-clarity: {message}", file=sys.stderr)
    return FAILED


def _run(command: Run) -> Answer:
    import rl_clarity

    options: dict[str, Any] = {f.name: getattr(command.options, f.name) for f in fields(InterfaceOptions)}
    observations: Any = command.observations
    if command.original:
        options |= {key: value for key, value in rl_clarity.ORIGINAL.items() if key != "observations_kwargs"}
        observations = rl_clarity.ORIGINAL["observations_kwargs"]
    options["overwrite"] = command.force
    result: Any = rl_clarity.run(
        command.checkpoint,
        command.output_dir,
        dry_run=command.dry_run,
        load_kwargs=replace(command.load, metadata=typed(command.load.metadata)),
        trajectories_kwargs=command.trajectories,
        observations_kwargs=observations,
        **options,
    )
    return (result.to_dict(), str(result)) if command.dry_run else _page_answer(result)


def _train(command: Train) -> Answer:
    import rl_clarity

    options = {f.name: getattr(command.options, f.name) for f in fields(TrainOptions)}
    summary = rl_clarity.train(command.save_dir, **options)
    return asdict(summary), f"The agent is in {command.save_dir}"


def _demo(command: Demo) -> Answer:
    from rl_clarity.demo import demo

    return _page_answer(demo(command.output_dir))


def _inspect(command: Inspect) -> Answer:
    from rl_clarity.inspection import inspect_checkpoint

    with fetched(command.checkpoint) as path:
        return inspect_checkpoint(path, typed(command.metadata))


def _evaluate(command: Evaluate) -> Answer:
    from rl_clarity.evaluation import evaluate_checkpoint, summary, text

    with fetched(command.checkpoint) as path:
        found = evaluate_checkpoint(
            path,
            command.episodes,
            command.seed,
            unseen=command.unseen,
            random=command.random,
            max_steps=command.max_steps,
            metadata=typed(command.metadata),
        )
    return {name: summary(evaluation) for name, evaluation in found.items()}, text(found)


def _export(command: Export) -> Answer:
    from rl_clarity.interface.export import Selection, export
    from rl_clarity.interface.results import open_results

    results = open_results(command.page)
    frames = _frames(command.frames)
    selection = Selection(
        trajectory=command.trajectory - 1,
        frames=frames,
        layer=command.layer or results.layers[0],
        output=command.output,
    )
    path = export(results, command.file, selection)
    return {"file": str(path)}, f"Written: {path}"


def _convert(command: Convert) -> Answer:
    from rl_clarity.inspection import convert_checkpoint

    with fetched(command.checkpoint) as path:
        return convert_checkpoint(path, command.file, typed(command.metadata))


def _frames(text: str | None) -> range | None:
    """Frames counted from 1, the last one included, as steps counted from 0."""
    if text is None:
        return None
    first, _, last = text.partition(":")
    numbers = [int(part) for part in (first, last or first) if part.isdecimal()]
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1]:
        raise OptionError(f"--frames {text}: two numbers from 1 on, the smaller one first, as in 100:180, or one")
    return range(numbers[0] - 1, numbers[1])


def _page_answer(page: Any) -> Answer:
    return {"page": str(page.path)}, f"The page is {page.path}"


COMMANDS: dict[str, Any] = {
    "run": Run,
    "train": Train,
    "demo": Demo,
    "inspect": Inspect,
    "evaluate": Evaluate,
    "export": Export,
    "convert": Convert,
}
ANSWERS: dict[type, Any] = {
    Run: _run,
    Train: _train,
    Demo: _demo,
    Inspect: _inspect,
    Evaluate: _evaluate,
    Export: _export,
    Convert: _convert,
}

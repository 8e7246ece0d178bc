"""Commands that let agents play, and write a page that explains them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import rl_clarity
from rl_clarity.base.errors import FAILED, OptionError
from rl_clarity.base.parsing import typed, visible_fields
from rl_clarity.cli.command import CheckpointCommand, Command, Result, page_result
from rl_clarity.cli.option_types import DirectoryPath, Metadata, Switch
from rl_clarity.pages.memory_options import MemoryOptions
from rl_clarity.pages.options import (
    CHECKED_TRAJECTORIES,
    DEBUGGED_TRAJECTORIES,
    CheckOptions,
    CompareOptions,
    DebugOptions,
    InterfaceOptions,
    LoadOptions,
    ObservationsOptions,
    TrajectoriesOptions,
)


@dataclass(frozen=True, kw_only=True)
class Run(CheckpointCommand):
    """Explain the agent in a checkpoint: let it play, attribute its outputs to its layers, and write a page."""

    resumable = True

    output_dir: DirectoryPath
    """Directory of the page."""
    load: LoadOptions = field(default_factory=LoadOptions)
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[InterfaceOptions, tyro.conf.arg(name="")] = field(default_factory=InterfaceOptions)
    recording: str | None = None
    """Explain the episodes of this recording, or Minari dataset, instead of new ones."""
    other_agent: Switch = False
    """Accept a recording of another agent. By default, it is rejected if its outputs differ from this agent's."""
    live: Switch = False
    """Also write the network to a file beside the page, so that the "What if" panel works without a server."""
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace an existing page in the directory."""
    original: Switch = False
    """Use the defaults of understanding-rl-vision where they differ from those of rl-clarity (slower)."""

    def execute(self) -> Result:
        result: Any = rl_clarity.run(
            self.checkpoint,
            self.output_dir,
            dry_run=self.dry_run,
            load=replace(self.load, metadata=self.overrides(), check=self.check),
            trajectories=self.trajectories,
            observations=self.observations,
            recording=self.recording,
            other_agent=self.other_agent,
            live=self.live,
            **_page_options(self),
        )
        return _page_or_forecast(result, dry_run=self.dry_run)


@dataclass(frozen=True, kw_only=True)
class Compare(Command):
    """Compare the checkpoints of a training run: let each play, compute the outputs of all on the same episode, and
    write a page. Repeat an interrupted command to resume it.
    """

    resumable = True

    paths: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="CHECKPOINT [...] DIRECTORY")]
    """Checkpoint files, folders of them, glob patterns, or an included series (models:breakout-series), followed by the
    directory of the page."""
    log: Path | None = None
    """Training log, for the learning curve; by default the first readable progress.csv, monitor.csv,
    *.monitor.csv, log*.csv or log*.txt beside the checkpoints."""
    log_columns: tuple[str, str] | None = None
    """Names of the log's columns with the training steps and with the mean return."""
    steps_per_number: float | None = None
    """Training steps per unit of the number in a file's name, for files that do not contain their training step."""
    env_name: str | None = None
    """Name of the environment. By default, the one named in the checkpoints."""
    metadata: Metadata = field(default_factory=dict)
    """Other metadata, which override those of the checkpoints: env_kind, gamma, frame_stack, num_levels, ..."""
    options: Annotated[CompareOptions, tyro.conf.arg(name="")] = field(default_factory=CompareOptions)
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace an existing page in the directory."""

    def execute(self) -> Result:
        if len(self.paths) < 2:
            raise OptionError(f"arguments {self.paths!r}: give checkpoints, followed by the directory of the page")
        *checkpoints, output_dir = self.paths
        result: Any = rl_clarity.compare(
            checkpoints,
            output_dir,
            dry_run=self.dry_run,
            log=self.log,
            log_columns=self.log_columns,
            steps_per_number=self.steps_per_number,
            metadata=typed(self.metadata),
            **{**_page_options(self), "env_name": self.env_name},
        )
        return _page_or_forecast(result, dry_run=self.dry_run)


@dataclass(frozen=True, kw_only=True)
class Memory(CheckpointCommand):
    """Explain what a recurrent agent remembers, and which earlier steps its outputs depend on: let it play, and write a
    page. Repeat an interrupted command to resume it.
    """

    resumable = True

    output_dir: DirectoryPath
    """Directory of the page."""
    options: Annotated[MemoryOptions, tyro.conf.arg(name="")] = field(default_factory=MemoryOptions)
    simulator: str | None = None
    """Simulator of the agent, to also compute causes that act through the environment: a file that rl-clarity simulate
    wrote, or an included simulator (models:coinrun-gru)."""
    recording: str | None = None
    """Explain the episodes of this recording with states (rl-clarity record), instead of new ones."""
    other_agent: Switch = False
    """Accept a recording of another agent. By default, it is rejected if its outputs differ from this agent's."""
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace an existing page in the directory."""

    def execute(self) -> Result:
        self.check_outputs()
        result: Any = rl_clarity.explain_memory(
            self.checkpoint,
            self.output_dir,
            simulator=self.simulator,
            recording=self.recording,
            other_agent=self.other_agent,
            dry_run=self.dry_run,
            metadata=self.overrides(),
            **_page_options(self),
        )
        return _page_or_forecast(result, dry_run=self.dry_run)


@dataclass(frozen=True, kw_only=True)
class Ablate(CheckpointCommand):
    """Let an agent play the same levels with and without each feature of a layer, and compare returns, episode lengths,
    the causes of episode ends, and actions. Writes a page with the comparison. Repeat an interrupted command to resume
    it.
    """

    resumable = True

    output_dir: DirectoryPath
    """Directory of the page."""
    layer: str | None = None
    """Name of the layer; all layers of the page by default."""
    episodes: int = 400
    """Number of episodes with each feature ablated, and without ablation."""
    page: str | None = None
    """Directory of a page of the agent. The page's features are used, with their numbers and names. By default,
    features are fitted."""
    trajectories: TrajectoriesOptions = field(default_factory=TrajectoriesOptions)
    observations: ObservationsOptions = field(default_factory=ObservationsOptions)
    options: Annotated[InterfaceOptions, tyro.conf.arg(name="")] = field(default_factory=InterfaceOptions)
    force: Switch = False
    """Replace an existing page in the directory."""

    def execute(self) -> Result:
        report = rl_clarity.ablate(
            self.checkpoint,
            self.output_dir,
            layer=self.layer,
            episodes=self.episodes,
            page=self.page,
            load={"metadata": self.overrides(), "check": self.check},
            trajectories=self.trajectories,
            observations=self.observations,
            **_page_options(self),
        )
        rows = {"rows": report.rows, "episodes": report.episodes, "tests": report.tests, "page": str(report.page.path)}
        return Result(rows, f"{report}\nThe page is {report.page.path}")


@dataclass(frozen=True, kw_only=True)
class Check(CheckpointCommand):
    """Check saliency methods on an agent: do the maps depend on the agent's weights, and do they show what its outputs
    depend on? Prints the answers, and writes a page with the answers, example maps and a report as JSON. Repeat an
    interrupted command to resume it.
    """

    resumable = True

    output_dir: DirectoryPath = "out/check"
    """Directory of the page."""
    frames: int = 64
    """Number of frames on which the methods are checked, spread over the trajectories."""
    methods: tuple[str, ...] | None = None
    """Methods to check: saliency methods (perturbation, jacobian, ..., and methods of installed packages),
    "integrated_gradients LAYER" and, with --page, "features LAYER". By default, all methods are checked, on every
    layer."""
    output: str = "policy"
    """Explained output: policy (all logits or action values), value, or greedy (the largest logit or action value)."""
    page: str | None = None
    """Directory of a page of the agent, whose features are also checked. Attribution uses the page's baseline."""
    load: LoadOptions = field(default_factory=LoadOptions)
    trajectories: TrajectoriesOptions = CHECKED_TRAJECTORIES
    options: Annotated[CheckOptions, tyro.conf.arg(name="")] = field(default_factory=CheckOptions)
    recording: str | None = None
    """Check frames of this recording, or Minari dataset, instead of new ones."""
    other_agent: Switch = False
    """Accept a recording of another agent. By default, it is rejected if its outputs differ from this agent's."""
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace an existing page in the directory."""

    def execute(self) -> Result:
        result: Any = rl_clarity.check(
            self.checkpoint,
            self.output_dir,
            methods=self.methods,
            frames=self.frames,
            output=self.output,
            page=self.page,
            dry_run=self.dry_run,
            load=replace(self.load, metadata=self.overrides(), check=self.check),
            trajectories=self.trajectories,
            recording=self.recording,
            other_agent=self.other_agent,
            **_page_options(self),
        )
        if self.dry_run:
            return Result(result.to_dict(), str(result))
        page = str(result.page.path)
        return Result({**result.to_dict(), "page": page}, f"{result}\nThe page is {page}")


@dataclass(frozen=True, kw_only=True)
class Debug(CheckpointCommand):
    """Find out why an agent fails and which goals it pursues. Each finding is a statement that was tested by
    experiments. Prints the findings, and writes findings/findings.json and a page that shows the evidence. Repeat an
    interrupted command to resume it.
    """

    resumable = True

    output_dir: DirectoryPath = "out/debug"
    """Directory of the page."""
    expect: str | None = None
    """File findings.json of an earlier page. The exit code is 1 unless exactly these findings are found again."""
    page: str | None = None
    """Directory of a page of the agent. Failed episodes are also continued with each of the page's features ablated."""
    load: LoadOptions = field(default_factory=LoadOptions)
    trajectories: TrajectoriesOptions = DEBUGGED_TRAJECTORIES
    options: Annotated[DebugOptions, tyro.conf.arg(name="")] = field(default_factory=DebugOptions)
    dry_run: Switch = False
    """Only print a forecast of time, memory and disk space. Nothing is written."""
    force: Switch = False
    """Replace an existing page in the directory."""

    def execute(self) -> Result:
        result: Any = rl_clarity.debug(
            self.checkpoint,
            self.output_dir,
            expect=self.expect,
            page=self.page,
            dry_run=self.dry_run,
            load=replace(self.load, metadata=self.overrides(), check=self.check),
            trajectories=self.trajectories,
            **_page_options(self),
        )
        if self.dry_run:
            return Result(result.to_dict(), str(result))
        page = str(result.page.path)
        code = 0 if result.as_expected else FAILED
        return Result({**result.to_dict(), "page": page}, f"{result}\nThe page is {page}", code)


@dataclass(frozen=True, kw_only=True)
class Demo(Command):
    """Write a small page: explain an included agent, compare the checkpoints of an included series, or explain what an
    included agent remembers. This takes a minute for an agent, several minutes for an agent's memory, and up to 20
    minutes on two cores for the checkpoints, each of which plays 60 games.
    """

    output_dir: Path = Path("out/demo")
    """Directory of the page."""
    page: Literal["agent", "training", "memory"] = "agent"
    """Subject of the page: an agent, the checkpoints of a training run, or a recurrent agent's memory."""

    def execute(self) -> Result:
        from rl_clarity.commands.demo import demo

        return page_result(demo(self.output_dir, page=self.page))


def _page_options(command: Run | Compare | Memory | Ablate | Check | Debug) -> dict[str, Any]:
    """Return the options of the page, as keyword arguments of the function that writes it."""
    names = (one.name for one in visible_fields(command.options))
    return {**{name: getattr(command.options, name) for name in names}, "overwrite": command.force}


def _page_or_forecast(result: Any, *, dry_run: bool) -> Result:
    return Result(result.to_dict(), str(result)) if dry_run else page_result(result)

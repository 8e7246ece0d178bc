"""Commands that write recordings of episodes, or read them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import tyro

import rl_clarity
from rl_clarity.cli.command import CheckpointCommand, Command, PlayingCommand, Result, field_values, page_result
from rl_clarity.cli.loaders import imported_loader, is_loader
from rl_clarity.cli.option_types import Analyses, DirectoryPath, Switch
from rl_clarity.explaining import ExplainOptions
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.states.options import StateOptions
from rl_clarity.world_models.options import FitOptions


@dataclass(frozen=True)
class ExplainFlags(ExplainOptions):
    """Options of `explain`, with their command-line names."""

    analyses: Analyses = field(default_factory=dict)
    """Further analyses of each episode, by name, and their options, such as: smoothgrad smoothgrad.samples=4."""
    refit: Switch = False
    """Fit the state maps again, to all episodes. By default, new episodes are added to the existing maps, whose points
    stay where they are."""
    other_agent: Switch = False
    """Explain episodes even if another agent played them. By default, an episode is rejected if the agent's outputs at
    the episode's first step differ from the recorded ones."""
    watch: Switch = False
    """Keep explaining new episodes as they appear, newest first and at low priority, until interrupted (Ctrl-C)."""
    follow_links: Switch = False
    """Explain recordings that links in the log directory point to, if the owner of the directory owns the links."""


@dataclass(frozen=True, kw_only=True)
class Record(PlayingCommand):
    """Let the agent in a checkpoint play, and record its episodes. Episodes end as in training: with episodic_life,
    each life of an Atari game is an episode, whereas `evaluate` counts whole games.
    """

    directory: DirectoryPath
    """Directory of the recording. Episodes are appended to an existing recording of the same agent."""
    options: Annotated[RecordOptions, tyro.conf.arg(name="")] = field(default_factory=RecordOptions)

    def execute(self) -> Result:
        from rl_clarity.cli.inspection import describe_recording

        self.check_outputs()
        options = asdict(self.options)
        recording = rl_clarity.record(self.player(), self.directory, metadata=self.overrides(), **options)
        return describe_recording(recording)


@dataclass(frozen=True, kw_only=True)
class Explain(Command):
    """Compute saliency maps and state maps of recorded episodes, and store them beside the recordings. Each episode is
    explained with the checkpoint that the training loop stored with it, or with the agent of --agent. Repeat an
    interrupted command to resume it.
    """

    resumable = True

    path: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="LOGDIR")]
    """Recording, or log directory. In a log directory, all recordings are explained, also those in subdirectories."""
    agent: str | None = None
    """Checkpoint or included agent (models:coinrun) with which all episodes are explained. Or MODULE:FUNCTION, your own
    function that loads an agent from the path of a recorded checkpoint. The function is imported and run."""
    options: Annotated[ExplainFlags, tyro.conf.arg(name="")] = field(default_factory=ExplainFlags)

    def execute(self) -> Result:
        from rl_clarity.explaining.reports import describe, group_reasons

        options = field_values(self.options, ExplainOptions)
        agent = self.agent
        choice = imported_loader(agent) if agent is not None and is_loader(agent) else agent
        reports = rl_clarity.explain_recording(self.path, choice, **options)
        recordings = {report.location: asdict(report) for report in reports}
        reasons = [reason.to_dict() for reason in group_reasons(reports)]
        return Result({"recordings": recordings, "reasons": reasons}, describe(reports))


@dataclass(frozen=True, kw_only=True)
class States(CheckpointCommand):
    """Analyze what the states of a recurrent agent encode: directions, clusters, behaviors, influence through memory,
    and how far back memory reaches. Writes arrays and facts, and prints the directions.
    """

    recording: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECORDING")]
    """Recording of the agent's play, made by rl-clarity record."""
    output_dir: DirectoryPath
    """Directory for states.npz and states.json."""
    options: Annotated[StateOptions, tyro.conf.arg(name="")] = field(default_factory=StateOptions)
    force: Switch = False
    """Replace states.npz and states.json even if they were not written by this command."""

    def execute(self) -> Result:
        from rl_clarity.states.analysis import check_folder

        self.check_outputs()
        if not self.force:
            check_folder(self.output_dir)
        agent = rl_clarity.load_agent(self.checkpoint, **self.overrides())
        analysis = rl_clarity.analyze_states(agent, self.recording, **asdict(self.options))
        analysis.save(self.output_dir, overwrite=self.force)
        lines = [f"{analysis.facts['steps']} states of {analysis.facts['episodes']} episodes"]
        for row in sorted(analysis.table(), key=lambda row: (row["rare"], -row.get("effect", 0))):
            lines.append(_direction_line(row))
        lines.append(f"The analysis is in {self.output_dir}")
        return Result({**analysis.facts, "output_dir": str(self.output_dir)}, "\n".join(lines))


def _direction_line(row: dict[str, Any]) -> str:
    number = str(row["direction"] + 1)
    name = number if row["name"] == str(row["direction"]) else f"{number} ({row['name']})"
    removed = f"policy changes by {row['effect']:.2g} nats without it, " if "effect" in row else ""
    return (
        f"  direction {name:8} {removed}stability {min(row['seed_stability'], row['half_stability']):.2f}, "
        f"kurtosis {row['kurtosis']:+.1f}, correlation with the time {row['correlation.time']:+.2f}"
        f"{', rare' if row['rare'] else ''}"
    )


@dataclass(frozen=True, kw_only=True)
class Probe(CheckpointCommand):
    """Measure how well labels of the steps can be decoded from the states of a recurrent agent, compared with the
    observation, an untrained network and random labels. Also measure whether the agent uses this information: whether
    its decisions change if the directions of a label in the states are exchanged between episodes.
    """

    recording: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECORDING")]
    """Recording of the agent's play, made by rl-clarity record (with --info for labels of the environment)."""
    labels: tuple[str, ...] = ()
    """Labels to decode: action, reward, return, and names of recorded info. NAME@1 is the value at the first step,
    NAME+4 four steps later, NAME-4 four steps earlier. By default, all recorded info at the current and the first step,
    and the next action and reward."""
    use: bool = True
    """Also measure whether the agent uses the decoded information."""
    play: int = 0
    """Number of episodes to play with the directions of each label exchanged and removed; 0 for none."""
    seed: int = 0
    """Seed of all random choices."""
    dry_run: Switch = False
    """Only print a forecast of time and memory."""

    def execute(self) -> Result:
        self.check_outputs()
        agent = rl_clarity.load_agent(self.checkpoint, **self.overrides())
        labels = list(self.labels) or None
        options: dict[str, Any] = {"use": self.use, "play": self.play, "seed": self.seed, "dry_run": self.dry_run}
        result: Any = rl_clarity.probe(agent, self.recording, labels, **options)
        return Result(result.to_dict(), str(result))


@dataclass(frozen=True, kw_only=True)
class Simulate(CheckpointCommand):
    """Train a differentiable simulator of an agent and its environment on a recording, and measure how good it is.
    Repeat the command to resume interrupted training.
    """

    recording: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECORDING")]
    """Recording of this agent with some noise in the actions (rl-clarity record --action-noise 0.1)."""
    directory: DirectoryPath
    """Directory for simulator.safetensors, quality.json, logs and clips (in `clips/`)."""
    options: Annotated[FitOptions, tyro.conf.arg(name="")] = field(default_factory=FitOptions)
    check_recording: str | None = None
    """A separate recording on which the quality is measured; by default, the recording used for training."""
    force: Switch = False
    """Start again if training cannot be resumed, and replace an existing simulator."""

    def execute(self) -> Result:
        from rl_clarity.world_models.report import fit_and_measure

        self.check_outputs()
        agent = rl_clarity.load_agent(self.checkpoint, **self.overrides())
        options = asdict(self.options)
        checked = self.check_recording or self.recording
        quality = fit_and_measure(agent, self.recording, self.directory, checked, overwrite=self.force, **options)
        return Result(quality.to_dict(), f"{quality}\nThe simulator is in {self.directory}")


@dataclass(frozen=True, kw_only=True)
class Publish(Command):
    """Write selected episodes of recordings, and their explanations, as a static page that needs no server. Repeat an
    interrupted command to resume it.
    """

    logdir: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="LOGDIR")]
    """A log directory, a run in it, or a recording, as a path or an address."""
    output_dir: DirectoryPath
    """Directory of the page."""
    episodes: tuple[str, ...] = ()
    """Numbers of the episodes to publish from all runs, or RUN~NUMBER for one run; the newest 8 per run by default."""
    title: str | None = None
    """Title of the page; the names of the runs by default."""
    single_file: Switch = False
    """Put everything into one HTML file."""
    follow_links: Switch = False
    """Publish runs that symbolic links in the log directory point to, if the owner of the directory owns the links."""
    force: Switch = False
    """Replace an existing page in the directory."""

    def execute(self) -> Result:
        from rl_clarity.viewer.publishing import publish

        options = {"title": self.title, "single_file": self.single_file, "overwrite": self.force}
        options["follow_links"] = self.follow_links
        return page_result(publish(self.logdir, self.output_dir, self.episodes, **options))

"""`rl_clarity.compare` and `rl-clarity compare`: a page of the checkpoints of a training."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, overload

import numpy as np

from rl_clarity import environments, formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.training import TrainingFacts, binned_curve
from rl_clarity.analyses.trajectories import TrajectoriesAnalysis
from rl_clarity.environments import EnvironmentSpec, override_name, spec_from_metadata
from rl_clarity.errors import OptionError
from rl_clarity.evaluation import AGENT, evaluate
from rl_clarity.jobs.directory import Directory, open_directory
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.job import Job, team
from rl_clarity.jobs.store import DIRECTORY, WorkStore
from rl_clarity.jobs.tasks import Task, TaskResult, Work, slices
from rl_clarity.keys import code_version
from rl_clarity.options import CompareOptions
from rl_clarity.page_builder import Member, PageBuilder, decisive
from rl_clarity.pages.files import SEGMENT
from rl_clarity.pages.output import finished_page
from rl_clarity.pages.results import Page
from rl_clarity.parsing import parse, path_text
from rl_clarity.playing import record_for_page
from rl_clarity.quiet import import_keras
from rl_clarity.recordings.conversion import recorded_episode, recorded_games
from rl_clarity.recordings.options import GamesOptions, RecordOptions
from rl_clarity.recordings.preview import Preview, preview_play, preview_samples, recorded_step_bytes
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.recordings.source import Samples
from rl_clarity.series import SeriesCheckpoint, find_curve, read_series

Path = str | os.PathLike[str]
RECORDINGS = f"{DIRECTORY}/recordings"
"""Where the recordings of checkpoints are, inside the page's directory."""


@overload
def compare(
    checkpoints: Path | Sequence[Path], output_dir: Path, *, dry_run: Literal[True], **options: Any
) -> Forecast: ...


@overload
def compare(
    checkpoints: Path | Sequence[Path], output_dir: Path, *, dry_run: Literal[False] = False, **options: Any
) -> Page: ...


@overload
def compare(
    checkpoints: Path | Sequence[Path], output_dir: Path, *, dry_run: bool, **options: Any
) -> Page | Forecast: ...


def compare(
    checkpoints: Path | Sequence[Path],
    output_dir: Path,
    *,
    dry_run: bool = False,
    log: Path | None = None,
    log_columns: Sequence[str] | None = None,
    steps_per_number: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Page | Forecast:
    """Compare the checkpoints of a training: what changes in what the agent does and looks at while it learns.

    Each checkpoint plays games of the same seeds, which are recorded in `.rl-clarity/recordings/` of the page and
    reused by later calls, and further games for its mean return. Saliency maps are computed along its own games, and
    along one game, by default the first of the last checkpoint, which is shown to every checkpoint.

    Args:
        checkpoints: files, folders of them, patterns such as `runs/coinrun/checkpoint-*.jd`, addresses, or names of
            included agents and series (`models:breakout-series`); at least two checkpoints of one environment
        output_dir: a directory, or an address such as `s3://bucket/page`, for `interface.html` and its data
        dry_run: only measure, and return the forecast; nothing is written
        log: log of the training, which the learning curve is read from: `progress.csv` of `train`, logs of
            Stable-Baselines3 and baby-a3c, TensorBoard event files, or any CSV file with `log_columns`. By default a
            known log beside the checkpoints; without one, the page shows the mean returns of the checkpoints
        log_columns: columns of the steps and of the mean return in the log
        steps_per_number: training steps that the number in a file's name stands for, if the files do not say how long
            they were trained: 500000 for `model.7.tar` after 3.5 million steps
        metadata: overrides that of all checkpoints: `env_name`, `num_levels`, ...
        options: see `CompareOptions`

    A stopped call is resumed by calling it again. Under mpiexec all ranks call it and share the work.

    Raises:
        CheckpointError: A checkpoint cannot be read, or there are fewer than two.
        OptionError: Invalid options, or checkpoints that do not share an environment, the shape of observations, or
            the number of actions.
        ClarityError: A log that cannot be read.
    """
    page_options = parse(CompareOptions, options)
    overrides = override_name(metadata or {}, page_options.env_name)
    columns = _pair(log_columns)
    with team() as workers, ExitStack() as files:
        ranks = workers.ranks
        series = read_series(checkpoints, overrides, steps_per_number, files)
        number = page_options.reference_checkpoint
        if number is not None and number > len(series):
            raise OptionError(f"reference_checkpoint={number} must be at most {len(series)}, the number of checkpoints")
        reference = None if page_options.reference is None else _read_reference(page_options.reference)
        facts = _training_facts(series, log, columns)
        if reference is not None:
            facts = dataclasses.replace(facts, reference_source=reference.name)

        def made_from(num_actions: int) -> list[Any]:
            curve = {name: array.tolist() for name, array in (facts.curve or {}).items()}
            identities = [_identity(one, page_options, num_actions) for one in series]
            key = None if reference is None else reference.identity
            return [identities, facts.names, facts.steps, facts.unit, facts.curve_source, curve, key]

        page = finished_page(output_dir, page_options, made_from, decisive(page_options), ranks)
        if page is not None:
            return Forecast.nothing_to_do(ranks.size) if dry_run else page
        share = workers.share()
        import_keras()
        players = [_Player(one, page_options, number) for number, one in enumerate(series, start=1)]
        _check_agents(players)
        num_actions = players[0].agent.num_actions
        members = [Member(one.agent, one.checkpoint, one.identity) for one in players]
        shown: list[Samples] = []
        if reference is not None:
            last = players[-1]
            metadata_of_last = {**last.metadata, "training": facts}
            shown = [
                Samples(
                    reference.trajectory(last.agent), Observations.none(last.agent.observation_shape), metadata_of_last
                )
            ]
            members.append(Member(last.agent, None, reference.identity, (TrajectoriesAnalysis.kind,)))
        recordings = open_directory(f"{path_text(output_dir, 'output_dir')}/{RECORDINGS}")
        builder = PageBuilder(members, page_options)

        def collect(job: Job) -> list[Samples]:
            tasks = [player.task(recordings) for player in players]
            results = job.run(tasks, WorkStore(recordings), share.memory())
            played = [
                player.samples(recordings, results[task.name], facts)
                for player, task in zip(players, tasks, strict=True)
            ]
            return [*played, *shown]

        return builder.page(
            workers,
            output_dir,
            made_from(num_actions),
            share.memory,
            lambda: [
                *_previews(players, recordings, facts, ranks.size),
                *(preview_samples(one.trajectories, one.observations, one.metadata) for one in shown),
            ],
            collect,
            dry_run,
        )


class _Player:
    """A checkpoint that plays."""

    def __init__(self, one: SeriesCheckpoint, options: CompareOptions, number: int) -> None:
        self.checkpoint, self.options, self.name = one.checkpoint, options, f"agent-{number}"
        self._one = one
        self.agent: Agent = require(
            formats.build_agent(one.checkpoint), *PLAYING, *EXPLAINING, for_=f"compare: {one.checkpoint.path.name}"
        )

    @cached_property
    def spec(self) -> EnvironmentSpec:
        return spec_from_metadata(self.checkpoint.metadata, num_actions=self.agent.num_actions)

    @property
    def identity(self) -> list[Any]:
        return _identity(self._one, self.options, self.agent.num_actions)

    def task(self, recordings: Directory) -> Task:
        """The task that plays and records; its facts are the mean return."""
        run = partial(self._play, recordings)
        return Task(f"playing/{self.name}", run, [self.identity, code_version()])

    def samples(self, recordings: Directory, returns: Mapping[str, Any], facts: TrainingFacts) -> Samples:
        """What was recorded."""
        recording = open_recording(f"{recordings.location}/{self.name}")
        sampling = {"seed": self.options.seed, **dataclasses.asdict(_games(self.options))}
        metadata = {**self.metadata, "sampling": sampling, "returns": returns, "training": facts}
        return Samples(recorded_games(recording), Observations.none(self.agent.observation_shape), metadata)

    @property
    def metadata(self) -> dict[str, Any]:
        network = {"network": self.checkpoint.network}
        return {**network, **self.checkpoint.metadata, "environment": dataclasses.asdict(self.spec)}

    def _play(self, recordings: Directory, work: Work) -> TaskResult:
        options = self.options
        play = RecordOptions(
            episodes=options.episodes,
            steps=options.episodes * options.max_steps,
            whole_games=True,
            seed=options.seed,
            greedy=options.greedy,
            full_resolution=options.full_resolution,
        )
        names = record_for_page(self.agent, self.checkpoint, recordings, self.name, play)
        evaluation = evaluate(
            self.agent,
            self.spec,
            episodes=options.return_episodes,
            seed=options.seed + options.episodes,
            unseen=False,
            deterministic=options.greedy,
        )[AGENT]
        error = evaluation.standard_error if options.return_episodes > 1 else None
        return TaskResult({"mean": evaluation.mean, "error": error, "episodes": options.return_episodes}, names)


@dataclass(frozen=True)
class _Reference:
    """An episode of a recording, which is shown to every checkpoint."""

    text: str
    """The option."""
    recording: Recording
    index: int

    @property
    def name(self) -> str:
        return f"{self.recording.location.rstrip('/').rpartition('/')[2]}, episode {self.index + 1}"

    @cached_property
    def identity(self) -> list[Any]:
        """JSON value that identifies what was seen and done."""
        episode, digest = self.recording[self.index], hashlib.sha256()
        for part in slices(len(episode), SEGMENT):
            for field in (episode.observations, episode.actions, episode.rewards):
                digest.update(np.ascontiguousarray(field[part]).tobytes())
        return [digest.hexdigest(), len(episode)]

    def trajectory(self, agent: Agent) -> Trajectories:
        """The episode; raises OptionError if the agent takes other observations or has fewer actions."""
        trajectories = recorded_episode(self.recording, self.recording[self.index])
        seen, expected = trajectories.observations, tuple(agent.observation_shape)
        if tuple(seen.shape[2:]) != expected or seen.dtype != np.uint8:
            raise OptionError(
                f"reference={self.text!r} has observations {seen.dtype} of shape {tuple(seen.shape[2:])}; the "
                f"checkpoints take uint8 of shape {expected}"
            )
        actions = np.asarray(trajectories.actions[0])
        if actions.ndim != 1 or actions.max() >= agent.num_actions:
            raise OptionError(
                f"reference={self.text!r} has action {actions.max()}; the checkpoints have {agent.num_actions} actions"
            )
        return dataclasses.replace(trajectories, action_combos=None)


def _read_reference(text: str) -> _Reference:
    path, _, number = text.rpartition(":")
    if not path or not number.isdigit():
        path, number = text, "1"
    recording = open_recording(path)
    if not 1 <= int(number) <= len(recording):
        raise OptionError(f"reference={text!r}: {path} has {len(recording)} episodes, counted from 1")
    return _Reference(text, recording, int(number) - 1)


def _games(options: CompareOptions) -> GamesOptions:
    return GamesOptions(**{field.name: getattr(options, field.name) for field in dataclasses.fields(GamesOptions)})


def _identity(one: SeriesCheckpoint, options: CompareOptions, num_actions: int) -> list[Any]:
    """JSON value that identifies a checkpoint and its play."""
    spec = spec_from_metadata(one.checkpoint.metadata, num_actions=num_actions)
    sources = [formats.source_key(one.checkpoint), environments.source_key(spec)]
    games = dataclasses.asdict(_games(options))
    return [one.checkpoint.sha256, one.checkpoint.metadata, dataclasses.asdict(spec), sources, games, options.seed]


def _check_agents(players: Sequence[_Player]) -> None:
    """Raise OptionError for agents with other observations or actions than the first, which could not be compared."""
    first = players[0]
    for one in players[1:]:
        for what, value, other in (
            ("observations of shape", tuple(first.agent.observation_shape), tuple(one.agent.observation_shape)),
            ("this number of actions:", first.agent.num_actions, one.agent.num_actions),
        ):
            if value != other:
                raise OptionError(
                    f"{one.checkpoint.path.name} has {what} {other}, {first.checkpoint.path.name} {value}: compare "
                    "checkpoints that see and do the same"
                )


def _training_facts(
    series: Sequence[SeriesCheckpoint], log: Path | None, columns: tuple[str, str] | None
) -> TrainingFacts:
    found = find_curve(series, log, columns)
    facts = TrainingFacts([one.name for one in series], [one.step for one in series])
    if found is None:
        return facts
    curve, name = found
    arrays = binned_curve(curve.steps, curve.returns)
    return dataclasses.replace(facts, unit=curve.unit, curve=arrays, curve_source=name)


def _previews(players: Sequence[_Player], recordings: Directory, facts: TrainingFacts, ranks: int) -> list[Preview]:
    """The recordings as far as they are finished; else a few steps of the last checkpoint in place of all others."""
    store, options = WorkStore(recordings), players[-1].options
    previews, expected = [], None
    for player in reversed(players):
        task = player.task(recordings)
        returns = store.finished(task.name, task.key)
        if returns is not None:
            samples = player.samples(recordings, returns, facts)
            previews.append(preview_samples(samples.trajectories, samples.observations, samples.metadata))
            continue
        if expected is None:
            count, steps = options.episodes, options.max_steps
            expected = preview_play(
                player.agent, player.spec, count, steps, options.seed, full_resolution=options.full_resolution
            )
            seconds = expected.seconds * (1 + options.return_episodes / count) / min(ranks, len(players))
            expected = dataclasses.replace(
                expected,
                seconds=seconds,
                observations=Observations.none(player.agent.observation_shape),
                sample_bytes=round(count * steps * recorded_step_bytes(expected.trajectories)),
            )
        extra = {"returns": {}, "training": facts}
        previews.append(dataclasses.replace(expected, metadata={**expected.metadata, **player.metadata, **extra}))
    return previews[::-1]


def _pair(columns: Sequence[str] | None) -> tuple[str, str] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or len(columns) != 2:
        raise OptionError(f"log_columns={columns!r} must be two names of columns: of steps and of returns")
    return columns[0], columns[1]

"""`rl_clarity.compare` and `rl-clarity compare`: a page of the checkpoints of a training run."""

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

from rl_clarity import formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.checkpoints import TrainingFacts, binned_curve
from rl_clarity.analyses.trajectories import TrajectoriesAnalysis
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import parse, path_text
from rl_clarity.base.quiet import import_keras
from rl_clarity.environments import override_name, spec_from_metadata
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.job import team
from rl_clarity.jobs.tasks import slices
from rl_clarity.pages.builder import Member, PageBuilder, decisive
from rl_clarity.pages.files import SEGMENT
from rl_clarity.pages.options import CompareOptions
from rl_clarity.pages.original_options import translate
from rl_clarity.pages.output import finished_page
from rl_clarity.pages.results import Page
from rl_clarity.recordings.conversion import median_games, recorded_episode
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations
from rl_clarity.sources.arrays import ArraysSource
from rl_clarity.sources.recorded_play import RecordedPlay, play_identity
from rl_clarity.sources.series import SeriesCheckpoint, contains_checkpoints, find_curve, read_series
from rl_clarity.sources.source import checkpoint_metadata

Path = str | os.PathLike[str]


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
    """Compare the checkpoints of a training run: how the agent's behavior and saliency maps change while it learns.

    Each checkpoint plays games with the same seeds, which are recorded in `.rl-clarity/recordings/` of the page and
    reused by later calls. Further games are played to estimate its mean return. The page shows the game with the median
    return. Saliency maps are computed for this game and for a reference game (by default, that of the last checkpoint),
    whose observations are shown to every checkpoint.

    Args:
        checkpoints: files, folders of them, glob patterns such as `runs/coinrun/checkpoint-*.jd`, addresses, or names
            of included agents and series (`models:breakout-series`); at least two checkpoints of one environment
        output_dir: a directory, or an address such as `s3://bucket/page`, for `interface.html` and its data
        dry_run: only forecast time, memory and disk space, and return the forecast; nothing is written
        log: training log, from which the learning curve is read: `progress.csv` of `train`, logs of
            Stable-Baselines3 and baby-a3c, TensorBoard event files, or any CSV file with `log_columns`. By default, a
            log with a known name beside the checkpoints. If there is none, the page shows the checkpoints' mean returns
        log_columns: names of the log's columns with the training steps and with the mean return
        steps_per_number: training steps per unit of the number in a file's name, for files that do not contain their
            training step: 500000 if `model.7.tar` was saved after 3.5 million steps
        metadata: metadata that override those of all checkpoints: `env_name`, `num_levels`, ...
        options: see `CompareOptions`

    Repeat an interrupted call to resume it. Under mpiexec, all ranks call it and share the work.

    Raises:
        CheckpointError: A checkpoint cannot be read, or there are fewer than two.
        OptionError: An option is invalid, or the checkpoints differ in their environment, observation shape, or number
            of actions.
        ClarityError: The log cannot be read.
    """
    page_options = parse(CompareOptions, translate(options, CompareOptions))
    overrides = override_name(metadata or {}, page_options.env_name)
    columns = _pair(log_columns)
    if contains_checkpoints(path_text(output_dir, "output_dir")):
        raise OptionError(
            f"output_dir={os.fspath(output_dir)!r} contains checkpoints: the directory of the page is the last "
            "argument, after the checkpoints, as in `rl-clarity compare runs/coinrun out/training`"
        )
    with team() as workers, ExitStack() as files:
        ranks = workers.ranks
        series = read_series(checkpoints, overrides, steps_per_number, files)
        number, recording = page_options.reference.checkpoint, page_options.reference.recording
        if number is not None and number > len(series):
            raise OptionError(f"reference.checkpoint={number} must be at most {len(series)}, the number of checkpoints")
        reference = None if recording is None else _read_reference(recording)
        facts = _training_facts(series, log, columns)
        if reference is not None:
            facts = dataclasses.replace(facts, reference_source=reference.name)

        def made_from(num_actions: int) -> list[object]:
            curve = {name: array.tolist() for name, array in (facts.curve or {}).items()}
            play, seed = dataclasses.asdict(page_options.play), page_options.seed
            identities = [play_identity(one.checkpoint, num_actions, play, seed) for one in series]
            key = None if reference is None else reference.identity
            return [identities, facts.names, facts.steps, facts.unit, facts.curve_source, curve, key]

        page = finished_page(output_dir, page_options, made_from, decisive(page_options), ranks)
        if page is not None:
            return Forecast.nothing_to_do(ranks.size) if dry_run else page
        memory = workers.share().memory
        import_keras()
        players = _players(series, page_options, facts)
        _check_agents(players)
        members = [Member(player) for player in players]
        last = players[-1].agent
        if reference is not None:
            members.append(Member(reference.source(last, series[-1].checkpoint, facts), (TrajectoriesAnalysis.kind,)))
        return PageBuilder(members, page_options).page(
            workers, output_dir, made_from(last.num_actions), memory, dry_run
        )


def _players(series: Sequence[SeriesCheckpoint], options: CompareOptions, facts: TrainingFacts) -> list[RecordedPlay]:
    """Return the recorded play of each checkpoint's agent. The first and last are timed to forecast the rest."""
    play = options.play
    games = max(play.candidates, play.episodes)
    record = RecordOptions(
        episodes=games,
        steps=games * play.max_steps,
        whole_games=True,
        seed=options.seed,
        greedy=play.greedy,
        full_resolution=play.full_resolution,
    )

    def player(number: int, measured: tuple[RecordedPlay, RecordedPlay, float] | None = None) -> RecordedPlay:
        checkpoint = series[number].checkpoint
        agent = require(formats.build_agent(checkpoint), *PLAYING, *EXPLAINING, for_=f"compare: {checkpoint.path.name}")
        return RecordedPlay(
            agent,
            checkpoint,
            f"agent-{number + 1}",
            dataclasses.asdict(play),
            record,
            return_episodes=play.return_episodes,
            read=partial(median_games, count=play.episodes),
            selected=play.episodes,
            about={"training": facts},
            measured=measured,
        )

    first, last = player(0), player(len(series) - 1)
    between = [player(i, (first, last, i / (len(series) - 1))) for i in range(1, len(series) - 1)]
    return [first, *between, last]


@dataclass(frozen=True)
class _Reference:
    """A recorded episode whose observations are shown to every checkpoint."""

    text: str
    """The value of the option `reference.recording`."""
    recording: Recording
    index: int

    @property
    def name(self) -> str:
        return f"{self.recording.location.rstrip('/').rpartition('/')[2]}, episode {self.index + 1}"

    @cached_property
    def identity(self) -> list[object]:
        """JSON value that identifies the observations, actions and rewards of the episode."""
        episode, digest = self.recording[self.index], hashlib.sha256()
        for part in slices(len(episode), SEGMENT):
            for field in (episode.observations, episode.actions, episode.rewards):
                digest.update(np.ascontiguousarray(field[part]).tobytes())
        return [digest.hexdigest(), len(episode)]

    def source(self, agent: Agent, checkpoint: Checkpoint, facts: TrainingFacts) -> ArraysSource:
        """Return the episode as samples of the agent.

        Raises OptionError if the agent's observations have a different shape, or if it lacks one of the actions.
        """
        trajectories = recorded_episode(self.recording, self.recording[self.index])
        seen, expected = trajectories.observations, tuple(agent.observation_shape)
        if tuple(seen.shape[2:]) != expected or seen.dtype != np.uint8:
            raise OptionError(
                f"reference.recording={self.text!r} has {seen.dtype} observations of shape {tuple(seen.shape[2:])}, "
                f"but the checkpoints take uint8 observations of shape {expected}"
            )
        actions = np.asarray(trajectories.actions[0])
        if actions.ndim != 1 or actions.max() >= agent.num_actions:
            raise OptionError(
                f"reference.recording={self.text!r} has action {actions.max()}, but the checkpoints have "
                f"only {agent.num_actions} actions, counted from 0"
            )
        spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
        metadata = {**checkpoint_metadata(checkpoint), "environment": dataclasses.asdict(spec), "training": facts}
        shown = dataclasses.replace(trajectories, action_combos=None)
        none = Observations.none(agent.observation_shape)
        return ArraysSource(agent, None, shown, none, metadata, content=self.identity)


def _read_reference(text: str) -> _Reference:
    path, _, number = text.rpartition(":")
    if not path or not number.isdigit():
        path, number = text, "1"
    recording = open_recording(path)
    if not 1 <= int(number) <= len(recording):
        raise OptionError(
            f"reference.recording={text!r} is out of range: {path} has {len(recording)} episodes, counted from 1"
        )
    return _Reference(text, recording, int(number) - 1)


def _check_agents(players: Sequence[RecordedPlay]) -> None:
    """Raise OptionError unless all agents have the same observation shape and the same number of actions."""
    first = players[0]
    for one in players[1:]:
        for what, value, other in (
            ("observations of shape", tuple(first.agent.observation_shape), tuple(one.agent.observation_shape)),
            ("an action count of", first.agent.num_actions, one.agent.num_actions),
        ):
            if value != other:
                raise OptionError(
                    f"{one.checkpoint.path.name} has {what} {other}, but {first.checkpoint.path.name} has "
                    f"{value}: all checkpoints must have the same observations and actions"
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


def _pair(columns: Sequence[str] | None) -> tuple[str, str] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or len(columns) != 2:
        raise OptionError(f"log_columns={columns!r} must be the names of two columns: steps and returns")
    return columns[0], columns[1]

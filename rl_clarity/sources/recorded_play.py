"""A source of episodes that an agent plays for a page. The episodes are recorded beside the page, and later calls reuse
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property, partial

from rl_clarity import environments, formats
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.keys import JsonObject, code_version
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.job import Job
from rl_clarity.jobs.store import WorkStore
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.recordings.agent_play import Lengths, expected_lengths, record_in_directory
from rl_clarity.recordings.conversion import recorded_episodes
from rl_clarity.recordings.evaluation import choose_num_envs, evaluate_agent
from rl_clarity.recordings.options import EvaluationOptions, RecordOptions
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.sources.preview import MIN_STEPS, Preview, preview_play, preview_samples, recorded_step_bytes
from rl_clarity.sources.source import Samples, Source, checkpoint_metadata

FEWEST_GAMES = 5
"""Number of games that are played to estimate the length of games for the mean return, if fewer games are recorded."""


class RecordedPlay(Source):
    """Episodes that the agent of a checkpoint plays in its environment.

    Args:
        agent: The agent of `checkpoint`.
        checkpoint: The checkpoint, whose metadata define the environment.
        name: Name of the recording in the page's directory.
        play: The options of the page that decide what is played (JSON).
        record: The options of the recording.
        return_episodes: Number of additional episodes for the mean return. Their seed follows those of the recording.
        read: The function that selects the page's trajectories from the recording.
        selected: Number of trajectories that `read` selects; by default all.
        about: Further metadata of the samples.
        measured: For a checkpoint of a series, the sources of the first and the last checkpoint, which play a few steps
            for the preview, and the relative position of this checkpoint between them, from 0 to 1. The costs of this
            checkpoint are interpolated between theirs.
    """

    checkpoint: Checkpoint

    def __init__(
        self,
        agent: Agent,
        checkpoint: Checkpoint,
        name: str,
        play: Mapping[str, object],
        record: RecordOptions,
        *,
        return_episodes: int = 0,
        read: Callable[[Recording], Trajectories] = recorded_episodes,
        selected: int | None = None,
        about: JsonObject | None = None,
        measured: tuple[RecordedPlay, RecordedPlay, float] | None = None,
    ) -> None:
        self.agent, self.checkpoint, self.name = agent, checkpoint, name
        self._play, self._record, self._return_episodes = play, record, return_episodes
        self._read, self._selected = read, selected
        self._about, self._measured = about or {}, measured or (self, self, 0.0)

    @cached_property
    def spec(self) -> EnvironmentSpec:
        return spec_from_metadata(self.checkpoint.metadata, num_actions=self.agent.num_actions)

    @property
    def identity(self) -> list[object]:
        return play_identity(self.checkpoint, self.agent.num_actions, self._play, self._record.seed)

    def tasks(self, recordings: Directory) -> list[Task]:
        return [self._task(recordings)]

    def samples(self, recordings: Directory, job: Job, results: Results) -> Samples:
        return self._samples(recordings, results[self._task(recordings).name])

    def preview(self, recordings: Directory) -> Preview:
        """Preview the recording if it is finished. Otherwise, play a few steps for the preview."""
        task = self._task(recordings)
        facts = WorkStore(recordings).finished(task.name, task.key)
        if facts is not None:
            samples = self._samples(recordings, facts)
            return preview_samples(samples.trajectories, samples.observations, samples.metadata)
        first, last, position = self._measured
        early, late = first._few_steps, last._few_steps
        return dataclasses.replace(
            late,
            metadata={**late.metadata, **self._metadata, "returns": {}, **self._about},
            steps=round(_between(early.steps, late.steps, position)),
            seconds=_between(early.seconds, late.seconds, position),
            sample_bytes=round(_between(early.sample_bytes, late.sample_bytes, position)),
        )

    @cached_property
    def _few_steps(self) -> Preview:
        record = self._record
        episodes = record.episodes or 1
        most = (record.steps or 0) // episodes
        whole = EvaluationOptions.max_steps if self._return_episodes else most
        games = dataclasses.replace(record, episodes=max(episodes, min(self._return_episodes, FEWEST_GAMES)))
        lengths = expected_lengths(self.agent, self.spec, games, most, whole)
        steps = max(MIN_STEPS, min(most, lengths.mean))
        played = preview_play(
            self.agent, self.spec, episodes, steps, record.seed, full_resolution=record.full_resolution
        )
        return dataclasses.replace(
            played,
            count=self._selected or episodes,
            observations=Observations.none(self.agent.observation_shape),
            seconds=played.seconds + self._evaluation_seconds(lengths),
            shared=True,
            sample_bytes=round(episodes * steps * recorded_step_bytes(played.trajectories)),
        )

    def _evaluation_seconds(self, games: Lengths) -> float:
        """Estimate how long, in seconds, the episodes for the mean return take. Several of them are played at once
        until the last one has ended.
        """
        if not self._return_episodes:
            return 0.0
        count = choose_num_envs(self._return_episodes)
        steps = games.longest + games.mean * (-(-self._return_episodes // count) - 1)
        return preview_play(self.agent, self.spec, count, steps, self._record.seed, full_resolution=False).seconds

    def _task(self, recordings: Directory) -> Task:
        return Task(f"playing/{self.name}", partial(self._run, recordings), [self.identity, code_version()])

    def _run(self, recordings: Directory, work: Work) -> TaskResult:
        """Play and record. The facts of the result contain the mean return of the additional episodes, if there are
        any.
        """
        names = record_in_directory(self.agent, self.checkpoint, recordings, self.name, self._record)
        if not self._return_episodes:
            return TaskResult(files=names)
        count, record = self._return_episodes, self._record
        seed = record.seed + (record.episodes or 0)
        options = EvaluationOptions(episodes=count, seed=seed, unseen=False, deterministic=record.greedy)
        evaluation = evaluate_agent("agent", self.agent, self.spec, options)
        error = evaluation.standard_error if count > 1 else None
        return TaskResult({"mean": evaluation.mean, "error": error, "episodes": count}, names)

    def _samples(self, recordings: Directory, returns: JsonObject) -> Samples:
        recording = open_recording(f"{recordings.location}/{self.name}")
        metadata = {**self._metadata, "returns": returns, **self._about}
        return Samples(self._read(recording), Observations.none(self.agent.observation_shape), metadata, recording)

    @property
    def _metadata(self) -> JsonObject:
        sampling = {"seed": self._record.seed, **self._play}
        environment = dataclasses.asdict(self.spec)
        return {**checkpoint_metadata(self.checkpoint), "environment": environment, "sampling": sampling}


def play_identity(checkpoint: Checkpoint, num_actions: int, play: Mapping[str, object], seed: int) -> list[object]:
    """Return a JSON value that identifies a checkpoint and its play, without building the agent."""
    spec = spec_from_metadata(checkpoint.metadata, num_actions=num_actions)
    sources = [formats.source_key(checkpoint), environments.source_key(spec)]
    return [checkpoint.sha256, checkpoint.metadata, dataclasses.asdict(spec), sources, play, seed]


def _between(first: float, last: float, position: float) -> float:
    return first + position * (last - first)

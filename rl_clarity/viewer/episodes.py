"""The content of the page for a recorded episode: its entry, and the arrays and images of its files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from rl_clarity.agents.actions import count_outputs, factors_from_json
from rl_clarity.analyses.analysis import action_info, describe_actions, describe_groups, describe_outputs
from rl_clarity.analyses.numeric_inputs import MOST_INPUTS
from rl_clarity.analyses.trajectories import (
    SCRUB_STEPS,
    EpisodeSummary,
    TrajectoryEntry,
    TrajectoryPageOptions,
    compute_series,
    factor_series,
    recorded_discounts,
    series_arrays,
)
from rl_clarity.base.errors import SamplesError
from rl_clarity.base.threads import thread_count
from rl_clarity.pages.files import ChunkName, ImageName, segments
from rl_clarity.pages.frames import frame_arrays
from rl_clarity.pages.images import filmstrips, frames_side_by_side, newest_frames
from rl_clarity.pages.manifest import AgentInfo, ObservationInfo
from rl_clarity.recordings.advantages import compute_advantages
from rl_clarity.recordings.conversion import recorded_episode
from rl_clarity.recordings.episode import Episode, memory_parts, observed_parts
from rl_clarity.recordings.layout import DONE, GOING, TIME_LIMIT
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Trajectories

SCRUB_RANGE = TrajectoryPageOptions().scrub_range
_ENDS: Mapping[str, Literal["done", "time limit"]] = {DONE: "done", TIME_LIMIT: "time limit"}


def describe_recorded_agent(metadata: Mapping[str, Any], episode: Episode, id: str) -> AgentInfo:
    """Describe the agent of a recording, from its metadata and one of its episodes.

    Raises SamplesError if the episode is damaged, or if its number of actions differs from that in the metadata.
    """
    fields, taken = episode.fields, episode.actions
    outputs = fields.get("policy_logits", fields.get("q_values"))
    combos = [tuple(combo) for combo in metadata.get("action_combos") or ()]
    if combos and outputs is not None and outputs.shape[1:] != (len(combos),):
        raise SamplesError(
            f"the outputs of episode {episode.index} have the shape {outputs.shape}, but action_combos in its "
            f"recording's metadata has {len(combos)} actions"
        )
    if not combos and outputs is not None:
        combos = [(str(action),) for action in range(outputs.shape[-1])]
    elif not combos and taken.ndim == 1 and taken.dtype.kind in "iu":
        combos = [(str(action),) for action in range(1 + int(np.max(taken, initial=0)))]
    factors = factors_from_json(metadata["actions"]) if metadata.get("actions") else None
    if factors is not None and outputs is not None and outputs.shape[1:] != (count_outputs(factors),):
        raise SamplesError(
            f"the outputs of episode {episode.index} have the shape {outputs.shape}, but the actions in its "
            f"recording's metadata have {count_outputs(factors)} outputs"
        )
    actions = describe_actions(combos) if factors is None else describe_outputs(factors)
    is_policy = "policy_logits" in fields or "q_values" not in fields
    return AgentInfo(
        network=str((metadata.get("checkpoint") or {}).get("network") or ""),
        kind="policy" if is_policy else "action_values",
        has_value="values" in fields,
        recurrent=bool(memory_parts(metadata, episode)),
        num_actions=len(actions),
        observation=_describe_observation(metadata, fields),
        actions=actions,
        action_groups=describe_groups(actions) if is_policy and factors is None else (),
        id=id,
        factors=None if factors is None else action_info(factors),
    )


def _describe_observation(metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> ObservationInfo:
    observations, frames = fields["observations"], fields.get("frames")
    if not is_image(observations):
        height, width = (0, 0) if frames is None else frames.shape[1:3]
        return ObservationInfo(0, 0, 0, height, width)
    height, width, channels = observations.shape[1:]
    frame_height, frame_width = (height, width) if frames is None else frames.shape[1:3]
    options = (metadata.get("environment") or {}).get("options") or {}
    frames_of_colors = 1 if channels in (1, 3) else channels // 3 if channels % 3 == 0 else channels
    stack = int(options.get("frame_stack") or frames_of_colors)
    return ObservationInfo(height, width, channels, frame_height, frame_width, stack if channels % stack == 0 else 1)


def is_image(array: Any) -> bool:
    """Return whether a field of a recording can be shown as images: (T, H, W, C) uint8, without empty axes."""
    return bool(array.ndim == 4 and array.dtype == np.uint8 and 0 not in array.shape[1:])


@dataclass(frozen=True)
class EpisodeNames:
    """Names of the files of an episode, in a folder. They contain the number of steps in a file, because the last files
    of a running episode are replaced as it grows.
    """

    folder: str
    steps: int
    going: bool

    @property
    def series(self) -> str:
        return f"{self.folder}/series-{self.steps}{'-live' if self.going else ''}.js"

    @property
    def frames(self) -> list[str]:
        return [f"{self.folder}/frames-{i}-{len(part)}.js" for i, part in enumerate(segments(self.steps), start=1)]

    @property
    def filmstrips(self) -> list[str]:
        parts = segments(self.steps, SCRUB_STEPS)
        return [f"{self.folder}/scrub-{i}-{len(part)}.png" for i, part in enumerate(parts, start=1)]


class ShownEpisode:
    """An episode as the page shows it: its entry, arrays and images.

    Raises:
        SamplesError: The episode has no steps yet, or is damaged. Methods that read arrays raise it, too.
    """

    def __init__(self, recording: Recording, episode: Episode, info: AgentInfo) -> None:
        self._recording, self._episode, self._info = recording, episode, info
        self._images, self._stack = episode.frames, 1
        if self._images is None or not is_image(self._images):
            self._images, self._stack = episode.observations, info.observation.stack

    @cached_property
    def _played(self) -> Trajectories:
        return recorded_episode(self._recording, self._episode)

    def entry(self, folder: str) -> TrajectoryEntry:
        """Return the episode's entry in the manifest. Its files are in `folder`."""
        names = EpisodeNames(folder, len(self._episode), self._episode.end == GOING)
        shown = is_image(self._images)
        return TrajectoryEntry(
            names.steps,
            ChunkName(names.series),
            [ImageName(name) for name in names.filmstrips] if shown else [],
            [ChunkName(name) for name in names.frames] if shown else [],
            episodes=[self._summary()],
        )

    def _summary(self) -> EpisodeSummary:
        """Return the entry's summary from stored facts alone, because a page requests it before anything else."""
        end = _ENDS.get(self._episode.end)
        return EpisodeSummary(0, len(self._episode), self._episode.facts["return"], end or "cut")

    def series(self) -> dict[str, np.ndarray | bytes]:
        """Return the arrays of the series.

        Arrays `info.NAME` contain recorded info, numbers that the agent observed, components of actions that are not
        discrete, and the rewards of training.
        """
        groups: list[Sequence[int]] = [group.actions for group in self._info.action_groups]
        arrays = series_arrays(compute_series(self._played, 0, self.advantages(), groups))
        numbers = dict(self._episode.info)
        if "actions" not in arrays:
            numbers |= factor_series(np.asarray(self._episode.actions))
        numbers |= _observed_numbers(self._recording.metadata, self._episode)
        if self._episode.training_rewards is not None:
            numbers["training_reward"] = self._episode.training_rewards
        steps = len(self._episode)
        single = {name: np.asarray(array, np.float32) for name, array in numbers.items() if np.size(array) == steps}
        return arrays | {f"info.{name}": array.reshape(steps) for name, array in single.items()}

    def advantages(self) -> np.ndarray | None:
        """Return the advantages (T,) of the actions taken; None if neither values nor action values were recorded."""
        played = self._played
        if played.values is None and played.actions[0].ndim > 1:
            return None
        advantages = compute_advantages(played, *recorded_discounts(self._recording.metadata))
        return None if advantages is None else advantages[0]

    def frames(self, part: slice) -> dict[str, np.ndarray | bytes]:
        """Return the arrays of the chunk of a segment's frames."""
        stack = self._info.observation.stack
        stacks = None
        if stack > 1 and is_image(self._episode.observations):
            stacks = frames_side_by_side(np.asarray(self._episode.observations[part]), stack)
        return frame_arrays(self._shown(part), stacks, thread_count())

    def filmstrip(self, part: slice) -> np.ndarray:
        """Return the filmstrip (h, n * w, 1 | 3) uint8 of a range of n steps."""
        return filmstrips(self._shown(part), SCRUB_RANGE)

    def _shown(self, part: slice) -> np.ndarray:
        """Return frames (n, H, W, 1 | 3) uint8: rendered frames if recorded, or the observations' newest frames."""
        if self._images is None or not is_image(self._images):
            raise SamplesError(f"episode {self._episode.index} has no images, because its observations are not images")
        return newest_frames(np.asarray(self._images[part]), self._stack)


def _observed_numbers(metadata: Mapping[str, Any], episode: Episode) -> dict[str, np.ndarray]:
    """Return up to 64 arrays (T,) of numbers that the agent observed, by name.

    They are the elements of a vector, or the numbers beside an image.
    """
    steps, named = len(episode), {name: np.asarray(part) for name, part in observed_parts(metadata, episode).items()}
    if episode.observations.shape[1:3] == (1, 1):
        named = {"input": np.asarray(episode.observations)} | named
    numbers: dict[str, np.ndarray] = {}
    for name, part in named.items():
        columns = np.asarray(part, np.float32).reshape(steps, -1).T
        single = len(columns) == 1
        numbers |= {name if single else f"{name} {i}": column for i, column in enumerate(columns, start=1)}
    return dict(itertools.islice(numbers.items(), MOST_INPUTS))

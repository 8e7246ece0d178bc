"""The effects of objects that were measured for a page, for comparison with its attribution."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.objects.agreement import SHARE_OF_RANGE
from rl_clarity.analyses.objects.measure import chunk_name


@dataclass(frozen=True)
class PageEffects:
    """The effects of N objects on the main output of a page's agent: `value`, or `greedy` if the agent has no value."""

    trajectory: np.ndarray  # (N,), counted from 0
    frame: np.ndarray  # (N,)
    box: np.ndarray  # (N, 4): left, top, right, bottom in pixels of the observation
    change: np.ndarray  # (N,): output with the object minus that without
    episode: np.ndarray  # (N,): a number for each episode of each trajectory
    threshold: float
    """Magnitude of an effect above which signs are compared: 5 % of the output's range."""

    @classmethod
    def read(cls, subject: Subject) -> PageEffects | None:
        """Return the effects that the analysis `objects` stored, or None if it found no objects."""
        played, parts, outputs = subject.trajectories, [], []
        for trajectory in range(len(played)):
            arrays = subject.files.read_chunk(chunk_name(trajectory))
            frames = arrays["frame"]
            if not len(frames):
                continue
            episodes = played.episode_numbers(trajectory)[frames]
            change = arrays[f"effect.{subject.output_kind}"].astype(np.float64)
            parts.append((np.full(len(frames), trajectory), frames, arrays["box"], change, episodes))
            outputs.append(_outputs(subject, trajectory, arrays["frames"]))
        if not parts:
            return None
        threshold = SHARE_OF_RANGE * float(np.ptp(np.concatenate(outputs)))
        trajectories, frames, boxes, changes, episodes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return cls(trajectories, frames, boxes, changes, episodes, threshold)

    @property
    def for_choice(self) -> np.ndarray:
        """Mask (N,) bool of the effects from which the baseline is chosen: those in every second episode.

        The other effects test the choice.
        """
        _, number = np.unique(self.episode, return_inverse=True)
        return np.asarray(number % 2 == 1)

    def select(self, rows: np.ndarray) -> PageEffects:
        """Return some of the effects, by a mask (N,) or indices."""
        arrays = {one.name: getattr(self, one.name)[rows] for one in fields(self) if one.name != "threshold"}
        return replace(self, **arrays)


def _outputs(subject: Subject, trajectory: int, frames: np.ndarray) -> np.ndarray:
    """Return the main output (n,) at some frames of a trajectory."""
    played = subject.trajectories
    if subject.info.has_value and played.values is not None:
        return np.asarray(played.values[trajectory, frames], np.float64)
    scores = played.policy_logits if played.policy_logits is not None else played.q_values
    assert scores is not None
    return np.asarray(scores[trajectory, frames], np.float64).max(axis=-1)

"""What happened along each trajectory: frames, film strips, and the numbers of every step."""

from __future__ import annotations

import numpy as np

from rl_clarity.jobs import TaskResult
from rl_clarity.pages.frames import frames_side_by_side
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.pages.trajectories import Series, write_frames, write_scrub, write_series
from rl_clarity.progress import Report
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.stages.plan import Plan
from rl_clarity.stages.shown import trajectory_frames
from rl_clarity.threads import thread_count


def write_trajectory(
    files: PageFiles, plan: Plan, trajectories: Trajectories, advantages: np.ndarray, trajectory: int, report: Report
) -> TaskResult:
    """Write one trajectory's frames, film strips and series; `advantages` (N, T)."""
    layout, steps = files.layout, trajectories.actions.shape[1]
    names = [layout.series(trajectory)]
    write_series(files, trajectory, series_of(plan, trajectories, advantages, trajectory))
    segments = layout.segments(steps)
    for segment, part in enumerate(segments):
        frames = trajectory_frames(trajectories, trajectory, _slice(part), plan.stack)
        stacks = None
        if plan.stack > 1:
            stacks = frames_side_by_side(trajectories.observations[trajectory, _slice(part)], plan.stack)
        write_frames(files, trajectory, segment, frames, stacks, thread_count())
        names += [layout.frames(trajectory, segment), layout.film(trajectory, segment)]
        report((segment + 1) / len(segments))
    for picture, part in enumerate(layout.scrubs(steps)):
        frames = trajectory_frames(trajectories, trajectory, _slice(part), plan.stack)
        write_scrub(files, trajectory, picture, frames, plan.options.scrub_range)
        names.append(layout.scrub(trajectory, picture))
    return TaskResult(files=names)


def series_of(plan: Plan, trajectories: Trajectories, advantages: np.ndarray, trajectory: int) -> Series:
    """The numbers along a trajectory; of an agent with action values, its greedy policy."""
    if trajectories.policy_logits is not None:
        logits = np.asarray(trajectories.policy_logits[trajectory], np.float32)  # (T, A)
        probabilities = softmax(logits)
    else:
        assert trajectories.q_values is not None
        logits = np.asarray(trajectories.q_values[trajectory], np.float32)
        probabilities = np.eye(logits.shape[-1], dtype=np.float32)[logits.argmax(-1)]
    groups = [logits[:, list(group.actions)].sum(-1) for group in plan.groups]
    return Series(
        actions=trajectories.actions[trajectory],
        rewards=trajectories.rewards[trajectory],
        firsts=trajectories.firsts[trajectory],
        advantages=advantages[trajectory],
        probabilities=probabilities,
        logits=logits,
        groups=np.stack(groups, axis=-1) if groups else np.zeros((len(logits), 0), np.float32),
        values=None if trajectories.values is None else trajectories.values[trajectory],
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities (..., A) of logits."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def _slice(part: range) -> slice:
    return slice(part.start, part.stop)

"""Small recordings for measuring how long the tasks of a page take.

They stand in for the recording of the page, which does not exist yet when the page is planned.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.memory.source import memory_source
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.layout import STOPPED
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import to_arrays
from rl_clarity.reduction.directions import FEWEST_STATES, Directions
from rl_clarity.states.clusters import Clusters
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import FittedStates

EPISODES = 4
"""Number of episodes: the frames of one are replaced by those of the three others."""
STEPS = 64
"""Number of steps per episode, in addition to the frames from which a simulation starts."""
MEASURED_STATES = 500
"""Number of states to which directions and clusters are fitted to measure the time."""


class SampleRecording(Recording):
    """A recording of identical episodes, each of which repeats the few steps of a sample."""

    location = "the sample"

    def __init__(self, sample: Subject) -> None:
        self.metadata = {}
        steps = np.arange(STEPS + memory_source(sample).context) % sample.trajectories.steps(0)
        self._arrays = {name: np.asarray(array[0])[steps] for name, array in to_arrays(sample.trajectories).items()}

    def __len__(self) -> int:
        return EPISODES

    def table(self) -> list[dict[str, Any]]:
        steps = len(self._arrays["actions"])
        return [{"episode": i, "number": i, "end": STOPPED, "steps": steps} for i in range(EPISODES)]

    def _episode(self, index: int) -> Episode:
        return Episode(self.table()[index], self._arrays)


def sample_states(sample: Subject) -> FittedStates:
    """Return the states of a `SampleRecording`, with placeholders for fitted directions and clusters."""
    options = sample.options_of(StateOptions)
    data = read_states(SampleRecording(sample))
    units = data.states.shape[1]
    directions = Directions(np.zeros(units), np.ones(units), np.eye(min(options.count, units), units), "units")
    labels = np.arange(len(data), dtype=np.int32) % options.clusters
    clusters = {method: Clusters(method, labels, 1.0) for method in options.clustering}
    return FittedStates(sample.agent, data, directions, clusters, options)


def random_states(sample: Subject, count: int) -> FittedStates:
    """Return at least `count` random states of a single episode, for measuring how long fits take.

    The states of a sample are not used, because they may be constant.
    """
    fitted = sample_states(sample)
    data: StateData = fitted.data
    count = max(count, fitted.options.clusters + 2, FEWEST_STATES + 1)  # fits leave the first one out
    rows = np.arange(count) % len(data)
    changes: dict[str, Any] = {name: value[rows] for name, value in vars(data).items() if isinstance(value, np.ndarray)}
    changes |= {"time": np.arange(count), "length": np.full(count, count), "episode": np.zeros(count, np.int64)}
    changes["states"] = np.random.default_rng(0).normal(size=(count, data.states.shape[1])).astype(np.float32)
    labels = np.arange(count, dtype=np.int32) % fitted.options.clusters
    clusters = {method: Clusters(method, labels, 1.0) for method in fitted.clusters}
    return dataclasses.replace(fitted, data=dataclasses.replace(data, **changes), clusters=clusters)

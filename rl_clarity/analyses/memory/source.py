"""Data that the analyses of a page about memory share: the recording, the analysis of its states, and the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Subject
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import JsonObject
from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.pages.files import path_in
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.directions import FEWEST_STATES, Directions
from rl_clarity.reduction.methods import REDUCTIONS
from rl_clarity.states.analysis import StateAnalysis, read_analysis
from rl_clarity.states.clusters import Clusters
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import FittedStates
from rl_clarity.world_models.options import FitOptions
from rl_clarity.world_models.simulator import Simulator

FOLDER = "states"
"""Folder of the page that contains the analysis of states. `load_states` can read this folder."""
SIMULATOR = "simulator"
"""Key of the simulator (or None) in the subject's metadata."""
FIT = "states/fit"
"""Name of the task that fits directions and clusters, and writes them to `FOLDER`."""


@dataclass(frozen=True)
class PlayOptions:
    """Options of the episodes that are played for the page."""

    episodes: int = 60
    """Number of episodes."""
    max_steps: int = 160
    """Limit of the average number of steps per episode: play stops after `episodes` times this number of steps."""
    greedy: bool = False
    """Take the most likely action instead of sampling one, and do not take random actions."""
    full_resolution: bool = False
    """Also record frames at the environment's full resolution, and show those."""
    info: tuple[str, ...] = ()
    """Values to record as labels for probes: names in the environment's info, and `objects`."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "episodes", "max_steps")
        check_option(
            self,
            "max_steps",
            self.episodes * self.max_steps >= FEWEST_STATES,
            f"times episodes={self.episodes} must be at least {FEWEST_STATES} steps, to fit directions to the states",
        )


@dataclass(frozen=True)
class MemorySource:
    """The recording that a page explains, and the simulator if there is one."""

    recording: Recording | None
    """The recording, or None while a page is planned and the agent has not played."""
    simulator: Simulator | None = None

    @property
    def required_recording(self) -> Recording:
        """The recording, for use in tasks, which run only after it exists."""
        assert self.recording is not None
        return self.recording

    @property
    def required_simulator(self) -> Simulator:
        """The simulator, for use in tasks of pages that have one."""
        assert self.simulator is not None
        return self.simulator

    @property
    def context(self) -> int:
        """Number of recorded frames from which a simulation starts."""
        return int(self._fit.get("context", FitOptions.context))

    @property
    def horizon(self) -> int:
        """Number of steps that the simulator was fitted for."""
        return int(self._fit.get("horizon", FitOptions.horizon))

    @property
    def _fit(self) -> JsonObject:
        return {} if self.simulator is None else self.simulator.metadata.get("fit") or {}


def direction_names(directions: Directions) -> list[str]:
    """Return the names of directions on the page: `ICA 1`, `ICA 2`, ..., and `ICA 9 (rare)` for a rare one."""
    label = REDUCTIONS.get(directions.method).label
    rare = np.zeros(len(directions), bool) if directions.rare is None else directions.rare
    return [f"{label} {number}{' (rare)' * bool(is_rare)}" for number, is_rare in enumerate(rare, start=1)]


def memory_source(subject: Subject) -> MemorySource:
    """Return the recording and the simulator of a page.

    Raises OptionError for a page that was not made by `explain_memory`.
    """
    if SIMULATOR not in subject.metadata:
        raise OptionError("only pages made by explain_memory (rl-clarity memory) can have analyses of memory")
    return MemorySource(subject.recording, subject.metadata[SIMULATOR])


def read_fit(subject: Subject) -> StateAnalysis:
    """Read the directions, coordinates and clusters that the task `FIT` wrote."""
    return read_analysis(lambda name: subject.files.read_file(path_in(FOLDER, name)), FOLDER)


def fitted_states(subject: Subject) -> FittedStates:
    """Return the states of the recording, with the directions and clusters that the task `FIT` wrote."""
    data = read_states(memory_source(subject).required_recording)
    return with_fit(subject.agent, data, read_fit(subject), subject.options_of(StateOptions))


def with_fit(agent: Agent, data: StateData, analysis: StateAnalysis, options: StateOptions) -> FittedStates:
    """Return states with the directions and clusters of a saved analysis."""
    clusters = {
        one["method"]: Clusters(one["method"], analysis.arrays[f"cluster.{one['method']}"], one["agreement"])
        for one in analysis.facts["clusters"]
    }
    return FittedStates(agent, data, analysis.directions, clusters, options)


def places(fitted: FittedStates, rows: np.ndarray) -> np.ndarray:
    """Return the trajectory and the frame (..., 2) int32 of each row (...) of the states; both are -1 for a row of -1.

    Trajectories are the recorded episodes that have steps, in order and counted from 0.
    """
    trajectory = np.cumsum(fitted.data.time == 0) - 1
    pairs = np.stack([trajectory[rows], fitted.data.time[rows]], axis=-1)
    return np.where(np.asarray(rows)[..., None] < 0, -1, pairs).astype(np.int32)

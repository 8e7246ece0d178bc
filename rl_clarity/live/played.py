"""Read the observations of a page's agent from the page, and compute the agent's states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import before_step, initial_state
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.trajectories import FIRST_STATE
from rl_clarity.base.errors import ClarityError, OptionError, SamplesError
from rl_clarity.pages.frames import STACK, hidden_observations, read_frame
from rl_clarity.pages.results import Results

SEGMENTS, TRAJECTORIES = 16, 8
"""Largest numbers of segments of observations, and of trajectories of states, that are kept in memory."""


class PlayedPage:
    """The observations of a page's trajectories, and the recurrent states before their steps.

    Raises SamplesError for a page that does not contain the agent's observations.
    """

    def __init__(self, results: Results, agent: Agent) -> None:
        self.results, self.agent = results, agent
        self.trajectories: list[dict[str, Any]] = results.section("trajectories")["trajectories"]
        self._segment: int = results.section("trajectories")["segment"]
        self.stack = _checked_stack(results, agent)
        self._observed = lru_cache(SEGMENTS)(self._read_segment)
        self.series = lru_cache(TRAJECTORIES)(results.series)
        self._states = lru_cache(TRAJECTORIES)(self._replay)

    def steps(self, trajectory: int) -> int:
        """Return the number of steps of a trajectory. Raises OptionError if the page does not have the trajectory."""
        if not 0 <= trajectory < len(self.trajectories):
            raise OptionError(f"trajectory {trajectory} is out of range: the page has only {len(self.trajectories)}")
        return int(self.trajectories[trajectory]["steps"])

    def check(self, trajectory: int, first: int, last: int) -> None:
        """Raise OptionError for steps that a trajectory does not have."""
        count = self.steps(trajectory)
        if not 0 <= first <= last < count:
            raise OptionError(f"steps {first} to {last} are out of range: trajectory {trajectory} has {count} steps")

    def observations(self, trajectory: int, first: int, last: int) -> np.ndarray:
        """Return the observations (n, H, W, C) uint8 of the steps from `first` to `last`, inclusive."""
        self.check(trajectory, first, last)
        parts = [
            self._observed(trajectory, number) for number in range(first // self._segment, last // self._segment + 1)
        ]
        start = first - first // self._segment * self._segment
        return np.concatenate(parts)[start : start + last - first + 1]

    def firsts(self, trajectory: int, first: int, last: int) -> np.ndarray:
        """Return for each step (n,) whether an episode begins with it."""
        return np.asarray(self.series(trajectory)["firsts"][first : last + 1], bool)

    def states(self, trajectory: int, first: int, last: int) -> State:
        """Return the states before the steps from `first` to `last`, inclusive, or None for an agent without a state.
        The agent is run on the trajectory's observations to compute them.
        """
        self.check(trajectory, first, last)
        states = self._states(trajectory)
        return None if states is None else tuple(part[first : last + 1] for part in states)

    def _read_segment(self, trajectory: int, number: int) -> np.ndarray:
        name = self.trajectories[trajectory]["frames"][number]
        arrays = self.results.chunk(name)
        count = min(self._segment, self.steps(trajectory) - number * self._segment)
        prefix = STACK if self.stack > 1 else ""
        images = np.stack([read_frame(name, arrays, index, prefix) for index in range(count)])
        observations = np.concatenate(np.split(images, self.stack, axis=2), axis=-1)
        if observations.shape[1:] != tuple(self.agent.observation_shape):
            raise ClarityError(f"chunk {name} is damaged: its observations have the shape {observations.shape[1:]}")
        return observations

    def _replay(self, trajectory: int) -> State:
        return self.replay([trajectory])[0]

    def replay(self, trajectories: Sequence[int]) -> list[State]:
        """Run the agent on the observations of several trajectories together. Return for each trajectory the states
        before its steps, or None for an agent without a state.
        """
        initial = initial_state(self.agent, 1)
        if initial is None:
            return [None] * len(trajectories)
        counts = np.array([self.steps(one) for one in trajectories])
        observations = [self.observations(one, 0, self.steps(one) - 1) for one in trajectories]
        firsts = [self.firsts(one, 0, self.steps(one) - 1) for one in trajectories]
        # Pages of earlier versions have no state, and their trajectories may begin within an episode.
        stored = [self.series(one) for one in trajectories]
        parts = [[one.get(f"{FIRST_STATE}{i}", part) for one in stored] for i, part in enumerate(initial)]
        state = tuple(np.concatenate(part) for part in parts)
        before = [tuple(np.empty((count, *part.shape[1:]), part.dtype) for part in initial) for count in counts]
        for step in range(counts.max()):
            playing = np.flatnonzero(counts > step)
            now = before_step(
                self.agent, tuple(part[playing] for part in state), np.array([firsts[one][step] for one in playing])
            )
            assert now is not None
            for lane, one in enumerate(playing):
                for kept, part in zip(before[one], now, strict=True):
                    kept[step] = part[lane]
            later = self.agent.forward(np.stack([observations[one][step] for one in playing]), now).state
            assert later is not None
            for part, new in zip(state, later, strict=True):
                part[playing] = new
        return list(before)


def _checked_stack(results: Results, agent: Agent) -> int:
    """Return the number of frames in an observation. Raises SamplesError if the page lacks the observations."""
    problem = hidden_observations(results.agent["observation"], agent)
    if problem:
        raise SamplesError(f"the page {results.location} does not contain what its agent observed: {problem}")
    return int(results.agent["observation"]["stack"])

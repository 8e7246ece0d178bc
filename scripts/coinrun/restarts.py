"""Let an agent train mostly in states from which it failed a little later."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping

import numpy as np

from rl_clarity.environments.procgen import ProcgenEnvironment
from rl_clarity.environments.protocol import Step, VectorEnvironment
from rl_clarity.environments.wrappers import Wrapper
from scripts.coinrun.search import SavedGames

SHARE = 0.5
"""Share of episodes that begin in a state before a failure."""
BEFORE = (6, 40)
"""Smallest and largest number of steps from this state to the failure."""
FEWEST, MOST = 64, 512
"""Number of failures that are collected before restarts begin, because the agent would learn only from a few failures
otherwise; and number of latest failures from which states are taken.
"""


class FailureRestarts(Wrapper):
    """CoinRun in which episodes may begin some steps before the end of an earlier episode that failed.

    An agent that completes nine of ten levels learns little from most whole episodes. It learns more from episodes that
    begin before a failure.
    """

    def __init__(self, environment: VectorEnvironment) -> None:
        super().__init__(environment)
        assert isinstance(environment, ProcgenEnvironment)
        self._games = SavedGames(environment._env)
        self._rng = np.random.default_rng()
        self._states: list[deque[bytes]] = [deque(maxlen=BEFORE[1]) for _ in range(self.num_envs)]
        self._restarted = np.zeros(self.num_envs, bool)
        self._failures: deque[bytes] = deque(maxlen=MOST)

    def step(self, actions: np.ndarray) -> Step:
        for i, states in enumerate(self._states):
            states.append(self._games.state(i))
        step = self.environment.step(actions)
        for i in np.flatnonzero(step.firsts).tolist():
            states, before = self._states[i], int(self._rng.integers(BEFORE[0], BEFORE[1] + 1))
            if step.rewards[i] <= 0 and not self._restarted[i] and len(states) >= before:
                self._failures.append(states[-before])
            states.clear()
            self._restarted[i] = len(self._failures) >= FEWEST and self._rng.random() < SHARE
            if self._restarted[i]:
                self._games.restore(i, self._failures[self._rng.integers(len(self._failures))])
        return dataclasses.replace(step, observations=self._games.frames())

    def _state(self) -> dict[str, np.ndarray]:
        sizes = np.array([len(state) for state in self._failures], np.int64)
        return {"failures": np.frombuffer(b"".join(self._failures), np.uint8), "failure_sizes": sizes}

    def _restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        sizes = state["failure_sizes"]
        for end, size in zip(np.cumsum(sizes), sizes, strict=True):
            self._failures.append(state["failures"][end - size : end].tobytes())

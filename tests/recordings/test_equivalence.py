"""Actions of equal effect are found by trying them, and merged only where nothing distinguishes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.protocol import Step
from rl_clarity.recordings.equivalence import find_equivalent_actions
from rl_clarity.recordings.rollouts import RandomPolicyAgent
from tests.fakes import TinyEnvironment


class Walk(TinyEnvironment):
    """Environments of six actions: 0 and 3 move, 1 and 4 wait, 2 gives a reward, and 5 acts only at time 26."""

    num_actions = 6
    action_combos = (("RIGHT",), (), ("A",), ("RIGHT", "B"), ("B",), ("C",))

    def __init__(self, num_envs: int = 2) -> None:
        super().__init__([1000] * num_envs)
        self.places = np.zeros(num_envs, int)

    def step(self, actions: np.ndarray) -> Step:
        self.places += np.isin(actions, (0, 3)) | ((np.asarray(actions) == 5) & (self.time == 26))
        step = super().step(actions)
        step.observations[:, 1, 0, 0] = self.places
        step.rewards[:] = np.asarray(actions) == 2
        return step

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"time": self.time.copy(), "places": self.places.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.time, self.places = snapshot["time"].copy(), snapshot["places"].copy()


def test_actions_that_never_differ_in_effect_form_a_group() -> None:
    environment: Any = Walk()
    assert find_equivalent_actions(RandomPolicyAgent(6), environment, np.random.default_rng(0)) == [[0, 3], [1, 4]]


def test_no_equivalent_actions_are_found_without_snapshots() -> None:
    agent = RandomPolicyAgent(3)
    assert find_equivalent_actions(agent, TinyEnvironment((5, 7)), np.random.default_rng(0)) is None


@pytest.mark.slow
def test_buttons_without_effect_in_coinrun_are_found() -> None:
    pytest.importorskip("procgen")
    environment = make(EnvironmentSpec(name="coinrun"), 8, 0)
    try:
        groups = find_equivalent_actions(RandomPolicyAgent(15), environment, np.random.default_rng(0))
    finally:
        environment.close()
    assert groups == [[4, 9, 10, 11, 12, 13, 14]]
    assert [environment.action_combos[action] for action in groups[0]] == [(), *((key,) for key in "DAWSQE")]

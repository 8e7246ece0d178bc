"""Hints in observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.hints import BRIGHT, DIM
from rl_clarity.environments.protocol import Combo, Step


class Counter:
    """Shows the time; an episode ends, with its last observation, every third step. 34 x 16 pixels, four actions."""

    num_envs = 2
    observation_shape = (34, 16, 2)
    num_actions = 4
    action_combos: tuple[Combo, ...] = tuple((str(action),) for action in range(4))

    def __init__(self) -> None:
        self.time = 0

    def reset(self) -> Step:
        return self.step(np.zeros(2, int))

    def step(self, actions: np.ndarray) -> Step:
        self.time += 1
        observations = np.full((2, *self.observation_shape), self.time, np.uint8)
        first = self.time % 3 == 0
        final = {1: observations[1] + 1} if first else {}
        return Step(observations, np.zeros(2, np.float32), np.full(2, first), np.zeros(2, bool), final)

    def render(self) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"time": np.array(self.time)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.time = int(snapshot["time"])


def time_shown(observations: np.ndarray) -> np.ndarray:
    """An expert: the time, modulo the number of actions."""
    assert (observations == observations[:, :1, :1, :1]).all(), "the expert must not see hints"
    return np.asarray(observations[:, 0, 0, 0] % 4)


def bright_bars(observations: np.ndarray) -> list[int]:
    """The action whose bar is bright, checking all pixels of the bars."""
    actions = []
    for image in observations:
        bars = image[:2].reshape(2, 4, 4, 2).swapaxes(0, 1)  # (actions, rows, columns, C)
        levels = [int(bar.flat[0]) for bar in bars]
        assert all((bar == level).all() for bar, level in zip(bars, levels, strict=True))
        assert sorted(levels) == [DIM] * 3 + [BRIGHT]
        actions.append(levels.index(BRIGHT))
    return actions


def test_the_bright_bar_in_observations_marks_the_experts_action() -> None:
    environment = rl_clarity.ActionHints(Counter(), time_shown)
    step = environment.reset()
    for time in range(1, 6):
        assert bright_bars(step.observations) == [time % 4] * 2 == environment.expert_actions.tolist()
        assert (step.observations[:, ~environment.region] == time).all()
        for final in step.final_observations.values():
            assert bright_bars(final[None]) == [(time + 1) % 4]
        step = environment.step(np.zeros(2, int))
    assert environment.region.sum() == 2 * 16


def test_random_hints_are_uninformative_and_reproducible() -> None:
    def play(seed: int) -> list[list[int]]:
        environment = rl_clarity.ActionHints(Counter(), time_shown, random=True, seed=seed)
        environment.reset()
        bars = []
        for time in range(2, 32):
            bars.append(bright_bars(environment.step(np.zeros(2, int)).observations))
            assert environment.expert_actions.tolist() == [time % 4] * 2
        return bars

    assert play(0) == play(0) != play(1)
    assert {action for pair in play(0) for action in pair} == {0, 1, 2, 3}


def test_restored_environments_continue_with_the_same_hints() -> None:
    first, second = (rl_clarity.ActionHints(Counter(), time_shown, random=True, seed=seed) for seed in (0, 1))
    first.reset()
    saved = first.snapshot()
    assert saved is not None
    second.restore(saved)
    for _ in range(8):
        after: list[Any] = [one.step(np.zeros(2, int)).observations for one in (first, second)]
        np.testing.assert_array_equal(*after)


@pytest.mark.parametrize("actions", [[0], [0, 4], [0, 0.5]])
def test_expert_actions_that_do_not_exist_are_refused(actions: list[float]) -> None:
    environment = rl_clarity.ActionHints(Counter(), lambda observations: np.array(actions))
    with pytest.raises(EnvironmentSetupError, match="for 2 observations, it must return as many actions, each from 0"):
        environment.reset()


def test_observations_too_narrow_for_hints_are_refused() -> None:
    narrow = Counter()
    narrow.num_actions = 17
    with pytest.raises(EnvironmentSetupError, match="16 columns are too narrow for 17 hints"):
        rl_clarity.ActionHints(narrow, time_shown)

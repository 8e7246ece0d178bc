"""Generalized advantage estimation and bookmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.advantages import (
    compute_advantages,
    dones_from_firsts,
    find_bookmarks,
    generalized_advantage_estimation,
)
from rl_clarity.recordings.samples import Trajectories
from tests.golden_data import Golden


def test_gae_advantages_equal_the_original_implementation(golden: Golden) -> None:
    expected = golden.expected
    dones = dones_from_firsts(expected["gae.firsts"])
    np.testing.assert_array_equal(dones, expected["gae.dones"])
    advantages = generalized_advantage_estimation(
        expected["gae.rewards"], expected["gae.values"], dones, gamma=0.999, lam=0.95
    )
    scale = np.abs(expected["gae.advantages"]).max()
    np.testing.assert_allclose(advantages, expected["gae.advantages"], atol=1e-6 * scale, rtol=0)


def test_bookmarks_equal_the_original_implementation(golden: Golden) -> None:
    high, low = find_bookmarks(golden.expected["gae.advantages"], golden.expected["gae.firsts"])
    np.testing.assert_array_equal(high, golden.expected["gae.bookmarks_high"])
    np.testing.assert_array_equal(low, golden.expected["gae.bookmarks_low"])


def estimate(rewards: Any, values: Any, dones: Any, **arguments: Any) -> list[float]:
    rows = [np.array([row], float) for row in (rewards, values, dones)]
    extra = {key: np.array([value]) for key, value in arguments.items()}
    advantages: list[float] = generalized_advantage_estimation(*rows, gamma=0.5, lam=0.5, **extra)[0].tolist()
    return advantages


def test_gae_advantages_equal_a_calculation_by_hand() -> None:
    # deltas: 1 + 0.5 x 4 - 2 = 1, 0 + 0.5 x 8 - 4 = 0, 1 - 8 = -7 (ended), and the last is 0
    assert estimate([1, 0, 1, 5], [2, 4, 8, 1], [0, 0, 1, 0]) == [1 + 0.25 * (0.25 * -7), 0.25 * -7, -7, 0]


def test_truncated_episodes_are_bootstrapped_from_their_final_values() -> None:
    rewards, values, dones = [1, 0, 1, 5, 0], [2, 4, 8, 1, 1], [0, 0, 1, 0, 0]
    truncated = [False, False, True, False, False]
    bootstrapped = estimate(rewards, values, dones, truncated=truncated, final_values=[9.0, 9.0, 6.0, 9.0, 9.0])
    ended = estimate(rewards, values, dones)
    assert bootstrapped[2] == 1 + 0.5 * 6 - 8
    assert ended[2] == 1 - 8
    assert bootstrapped[3:] == ended[3:]
    # Truncation ends an episode even without done; without a final value the bootstrap is 0.
    assert estimate(rewards, values, [0] * 5, truncated=truncated) == ended


def test_arrays_of_gae_must_have_the_same_shape() -> None:
    with pytest.raises(SamplesError, match=r"values have shape \(2, 4\), but rewards have \(2, 3\)"):
        generalized_advantage_estimation(np.zeros((2, 3)), np.zeros((2, 4)), np.zeros((2, 3)), gamma=1, lam=1)


def make_trajectories(**arrays: Any) -> Trajectories:
    n, t = 2, 4
    base = {
        "observations": np.zeros((n, t, 8, 8, 1), np.uint8),
        "actions": np.array([[0, 1, 2, 0], [2, 2, 1, 1]]),
        "rewards": np.ones((n, t), np.float32),
        "firsts": np.array([[1, 0, 1, 0], [0, 0, 0, 1]], bool),
    }
    return Trajectories(**{**base, **arrays})


@pytest.mark.parametrize(
    "arguments", [{"gamma": 5}, {"gamma": -0.1}, {"gamma": float("nan")}, {"lam": 1.1}, {"lam": "1"}]
)
def test_gamma_and_lambda_outside_0_to_1_are_rejected(arguments: dict[str, Any]) -> None:
    ((name, value),) = arguments.items()
    with pytest.raises(OptionError, match=rf"{name}={value!r} must be a number from 0 to 1"):
        generalized_advantage_estimation(*np.zeros((3, 1, 4)), **{"gamma": 0.9, "lam": 0.9, **arguments})


def test_final_values_require_the_truncated_array() -> None:
    with pytest.raises(SamplesError, match="final_values need truncated"):
        generalized_advantage_estimation(*np.zeros((3, 1, 4)), gamma=1, lam=1, final_values=np.zeros((1, 4)))


def test_advantages_are_bootstrapped_at_truncation() -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    truncated = np.zeros((2, 4), bool)
    truncated[0, 1] = True
    plain = compute_advantages(make_trajectories(values=values), 0.9, 0.8)
    bootstrapped = compute_advantages(
        make_trajectories(values=values, truncated=truncated, final_values=values), 0.9, 0.8
    )
    assert plain is not None
    assert bootstrapped is not None
    assert bootstrapped[0, 1] == pytest.approx(plain[0, 1] + 0.9 * values[0, 1])
    np.testing.assert_array_equal(bootstrapped[1], plain[1])


def test_advantages_of_q_value_agents_are_relative_to_the_best_action() -> None:
    q_values = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    trajectories = make_trajectories(q_values=q_values)
    advantages = compute_advantages(trajectories, 0.9, 0.8)
    assert advantages is not None
    assert advantages[0, 2] == q_values[0, 2, 2] - q_values[0, 2].max()
    assert (advantages <= 0).all()


def test_trajectories_without_values_have_no_advantages() -> None:
    assert compute_advantages(make_trajectories(), 0.9, 0.8) is None


def test_bookmarks_have_at_most_one_step_of_each_sign_per_episode() -> None:
    advantages = np.array([[1.0, 3.0, -1.0, 2.0, 5.0], [-1.0, -2.0, -3.0, 0.0, 0.0]])
    firsts = np.array([[0, 0, 1, 0, 0], [1, 0, 0, 1, 0]], bool)
    high, low = find_bookmarks(advantages, firsts)
    assert high.tolist() == [[0, 4], [0, 1]]
    assert low.tolist() == [[1, 2], [0, 2]]
    assert find_bookmarks(advantages, firsts, count=1)[0].tolist() == [[0, 4]]
    assert find_bookmarks(np.zeros((1, 3)), np.zeros((1, 3), bool))[1].shape == (0, 2)

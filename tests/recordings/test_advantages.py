"""Generalised advantage estimation and bookmarks."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.errors import OptionError, SamplesError
from rl_clarity.recordings.advantages import advantages_of, dones_of, generalized_advantage_estimation
from rl_clarity.recordings.bookmarks import bookmarks
from rl_clarity.recordings.samples import Trajectories


def test_advantages_are_the_originals(golden):
    expected = golden.expected
    dones = dones_of(expected["gae.firsts"])
    np.testing.assert_array_equal(dones, expected["gae.dones"])
    advantages = generalized_advantage_estimation(
        expected["gae.rewards"], expected["gae.values"], dones, gamma=0.999, lam=0.95
    )
    scale = np.abs(expected["gae.advantages"]).max()
    np.testing.assert_allclose(advantages, expected["gae.advantages"], atol=1e-6 * scale, rtol=0)


def test_bookmarks_are_the_originals(golden):
    found = bookmarks(golden.expected["gae.advantages"], golden.expected["gae.firsts"])
    np.testing.assert_array_equal(found.high, golden.expected["gae.bookmarks_high"])
    np.testing.assert_array_equal(found.low, golden.expected["gae.bookmarks_low"])


def estimate(rewards, values, dones, **arguments):
    rows = [np.array([row], float) for row in (rewards, values, dones)]
    given = {key: np.array([value]) for key, value in arguments.items()}
    return generalized_advantage_estimation(*rows, gamma=0.5, lam=0.5, **given)[0].tolist()


def test_by_hand():
    # deltas: 1 + 0.5 x 4 - 2 = 1, 0 + 0.5 x 8 - 4 = 0, 1 - 8 = -7 (ended), and the last is 0
    assert estimate([1, 0, 1, 5], [2, 4, 8, 1], [0, 0, 1, 0]) == [1 + 0.25 * (0.25 * -7), 0.25 * -7, -7, 0]


def test_an_episode_cut_by_time_is_worth_what_its_last_state_is():
    rewards, values, dones = [1, 0, 1, 5, 0], [2, 4, 8, 1, 1], [0, 0, 1, 0, 0]
    truncated = [False, False, True, False, False]
    cut = estimate(rewards, values, dones, truncated=truncated, final_values=[9.0, 9.0, 6.0, 9.0, 9.0])
    ended = estimate(rewards, values, dones)
    assert cut[2] == 1 + 0.5 * 6 - 8
    assert ended[2] == 1 - 8
    assert cut[3:] == ended[3:]
    # Time that is up ends the episode, whether or not it is said twice, and without a value is worth nothing.
    assert estimate(rewards, values, [0] * 5, truncated=truncated) == ended


def test_shapes_that_differ_are_an_error():
    with pytest.raises(SamplesError, match=r"values has the shape \(2, 4\), rewards \(2, 3\)"):
        generalized_advantage_estimation(np.zeros((2, 3)), np.zeros((2, 4)), np.zeros((2, 3)), gamma=1, lam=1)


def make_trajectories(**arrays):
    n, t = 2, 4
    base = {
        "observations": np.zeros((n, t, 8, 8, 1), np.uint8),
        "actions": np.array([[0, 1, 2, 0], [2, 2, 1, 1]]),
        "rewards": np.ones((n, t), np.float32),
        "firsts": np.array([[1, 0, 1, 0], [0, 0, 0, 1]], bool),
    }
    return Trajectories(**{**base, **arrays})


@pytest.mark.parametrize("given", [{"gamma": 5}, {"gamma": -0.1}, {"gamma": float("nan")}, {"lam": 1.1}, {"lam": "1"}])
def test_discounts_that_are_none(given):
    ((name, value),) = given.items()
    with pytest.raises(OptionError, match=rf"{name}={value!r} must be a number from 0 to 1"):
        generalized_advantage_estimation(*np.zeros((3, 1, 4)), **{"gamma": 0.9, "lam": 0.9, **given})


def test_values_of_cut_episodes_need_to_be_told_where_they_were_cut():
    with pytest.raises(SamplesError, match="final_values are given, but no truncated"):
        generalized_advantage_estimation(*np.zeros((3, 1, 4)), gamma=1, lam=1, final_values=np.zeros((1, 4)))


def test_advantages_of_trajectories_use_their_truncation():
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    truncated = np.zeros((2, 4), bool)
    truncated[0, 1] = True
    plain = advantages_of(make_trajectories(values=values), 0.9, 0.8)
    cut = advantages_of(make_trajectories(values=values, truncated=truncated, final_values=values), 0.9, 0.8)
    assert cut[0, 1] == pytest.approx(plain[0, 1] + 0.9 * values[0, 1])
    np.testing.assert_array_equal(cut[1], plain[1])


def test_advantages_of_action_values_compare_with_the_best():
    q_values = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    trajectories = make_trajectories(q_values=q_values)
    advantages = advantages_of(trajectories, 0.9, 0.8)
    assert advantages[0, 2] == q_values[0, 2, 2] - q_values[0, 2].max()
    assert (advantages <= 0).all()


def test_no_values_is_an_error():
    with pytest.raises(SamplesError, match="neither values nor action values"):
        advantages_of(make_trajectories(), 0.9, 0.8)


def test_bookmarks_take_one_step_an_episode_and_only_the_right_sign():
    advantages = np.array([[1.0, 3.0, -1.0, 2.0, 5.0], [-1.0, -2.0, -3.0, 0.0, 0.0]])
    firsts = np.array([[0, 0, 1, 0, 0], [1, 0, 0, 1, 0]], bool)
    found = bookmarks(advantages, firsts)
    assert found.high.tolist() == [[0, 4], [0, 1]]
    assert found.low.tolist() == [[1, 2], [0, 2]]
    assert bookmarks(advantages, firsts, count=1).high.tolist() == [[0, 4]]
    assert bookmarks(np.zeros((1, 3)), np.zeros((1, 3), bool)).low.shape == (0, 2)

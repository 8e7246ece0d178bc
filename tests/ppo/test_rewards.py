from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.ppo.rollout import RewardProcessor
from rl_clarity.ppo.trainer import scale_values

NO_ENDS = np.zeros(3, bool)


def test_reward_processing_none_only_scales_rewards() -> None:
    np.testing.assert_array_equal(RewardProcessor("none", 3, 0.9, scale=2)(np.array([1, -2, 0.5]), NO_ENDS), [2, -4, 1])


def test_reward_clipping_keeps_the_sign() -> None:
    np.testing.assert_array_equal(RewardProcessor("clip", 3, 0.9)(np.array([5, -0.1, 0]), NO_ENDS), [1, -1, 0])


def test_reward_normalization_divides_by_the_deviation_of_returns() -> None:
    rng = np.random.default_rng(0)
    processor = RewardProcessor("normalize", 3, 0.9)
    running = np.zeros(3)
    returns: list[float] = []
    for _ in range(300):
        rewards, ends = rng.normal(2, 1, 3), rng.random(3) < 0.1
        running = running * 0.9 + rewards
        returns.extend(running)
        expected = rewards / np.std(returns)
        result = processor(rewards, ends)
        running[ends] = 0
    np.testing.assert_allclose(result, expected, rtol=1e-3)


def test_normalized_rewards_are_clipped_at_10() -> None:
    processor = RewardProcessor("normalize", 3, 0.9)
    for _ in range(100):
        processor(np.zeros(3), NO_ENDS)
    assert processor(np.array([1e6, 0, 0]), NO_ENDS)[0] == pytest.approx(10)


def test_a_restored_reward_normalizer_continues_identically() -> None:
    first, second = RewardProcessor("normalize", 3, 0.9), RewardProcessor("normalize", 3, 0.9)
    rng = np.random.default_rng(1)
    for _ in range(10):
        first(rng.normal(size=3), rng.random(3) < 0.2)
    second.restore(first.state())
    rewards = rng.normal(size=3)
    np.testing.assert_array_equal(first(rewards, NO_ENDS), second(rewards, NO_ENDS))


def test_the_unit_of_normalized_rewards_is_the_deviation_of_returns() -> None:
    processor = RewardProcessor("normalize", 3, 0.9)
    for _ in range(50):
        normalized = processor(np.array([4.0, 0, 1]), NO_ENDS)
    np.testing.assert_allclose(normalized * processor.unit, [4, 0, 1], rtol=1e-5)
    assert RewardProcessor("none", 3, 0.9).unit == 1


def test_saved_value_heads_predict_unnormalized_rewards() -> None:
    head = {"ppo2_model/vf/w:0": np.ones((2, 1)), "ppo2_model/vf/b:0": np.ones(1)}
    parameters = {**head, "ppo2_model/pi/w:0": np.ones(3)}
    saved = scale_values(parameters, 2.5)
    assert [float(saved[name].max()) for name in parameters] == [2.5, 2.5, 1.0]
    assert saved["ppo2_model/vf/w:0"].dtype == np.float32

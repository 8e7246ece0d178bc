from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rl_clarity.environments.protocol import Step
from rl_clarity.ppo.rollout import RewardProcessor, Rollout, Runner, Timer, advantages, sample
from tests.ppo.toys import ACTIONS, Columns


class Brightness:
    """A policy whose logits and values are simple functions of the observations."""

    def initial_state(self, n: int) -> tuple[np.ndarray, ...]:
        return ()

    def act(
        self, observations: np.ndarray, firsts: np.ndarray, state: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        columns = observations.mean(axis=(1, 3))[:, : 5 * ACTIONS].reshape(len(observations), ACTIONS, 5).mean(2)
        return (columns / 50).astype(np.float32), observations.mean(axis=(1, 2, 3)).astype(np.float32), ()


def play(environment: Columns, num_steps: int) -> Rollout:
    rewards = RewardProcessor("none", environment.num_envs, 0.99)
    return Runner(environment, rewards, np.random.default_rng(0), Timer()).play(Brightness(), num_steps)


def test_rollouts_store_logits_and_values() -> None:
    rollout = play(Columns(5, seed=0), 12)
    flat = rollout.observations.reshape(60, 16, 16, 3)
    logits, values, _ = Brightness().act(flat, np.zeros(60, bool), ())
    np.testing.assert_array_equal(rollout.values.ravel(), values)
    log_policy = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(
        rollout.log_probs.ravel(), log_policy[np.arange(60), rollout.actions.ravel()], rtol=1e-4, atol=1e-5
    )


def test_episodes_continue_across_rollouts() -> None:
    environment = Columns(4, seed=0)
    runner = Runner(environment, RewardProcessor("clip", 4, 0.99), np.random.default_rng(0), Timer())
    rollouts = [runner.play(Brightness(), 3) for _ in range(4)]
    lengths = [episode.length for rollout in rollouts for episode in rollout.episodes]
    assert len(lengths) == 12
    assert sorted(lengths)[3:] == [4] * 9  # three environments started in the middle of an episode
    total = sum(rollout.rewards.sum() for rollout in rollouts)
    assert 0 < sum(episode.reward for rollout in rollouts for episode in rollout.episodes) <= total


def test_actions_are_sampled_from_the_policy() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.2]], np.float32)).repeat(20000, axis=0) + 7
    actions, log_probs = sample(logits, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(actions) / 20000, [0.5, 0.3, 0.2], atol=0.015)
    np.testing.assert_allclose(np.exp(log_probs), np.array([0.5, 0.3, 0.2])[actions], rtol=1e-4)


def random_rollout(steps: int, n: int) -> Rollout:
    rng = np.random.default_rng(3)
    dones = rng.random((steps, n)) < 0.3
    truncated = dones & (rng.random((steps, n)) < 0.5)
    values, rewards, final_values = rng.normal(size=(3, steps, n)).astype(np.float32)
    zeros = np.zeros((steps, n), np.int32)
    last = rng.normal(size=n).astype(np.float32)
    return Rollout(zeros, zeros, values, values, rewards, dones, dones, truncated, final_values, last, (), [])


def test_advantages_are_discounted_sums_of_td_errors() -> None:
    gamma, lam = 0.9, 0.8
    rollout = random_rollout(15, 4)
    result = advantages(rollout, gamma, lam)
    assert result.shape == (15, 4)
    for i in range(4):
        for t in range(15):
            expected, factor = 0.0, 1.0
            for k in range(t, 15):
                next_value = rollout.last_values[i] if k == 14 else rollout.values[k + 1, i]
                if rollout.dones[k, i]:
                    next_value = rollout.final_values[k, i] if rollout.truncated[k, i] else 0
                expected += factor * (rollout.rewards[k, i] + gamma * next_value - rollout.values[k, i])
                factor *= gamma * lam
                if rollout.dones[k, i]:
                    break
            assert result[t, i] == pytest.approx(expected, abs=1e-5)


def test_truncated_episodes_are_bootstrapped_from_their_last_observation() -> None:
    bright = np.full((16, 16, 3), 200, np.uint8)

    class Truncated(Columns):
        def step(self, actions: np.ndarray) -> Step:
            step = super().step(actions)
            return dataclasses.replace(step, truncated=np.arange(3) == 1, final_observations={1: bright})

    rollout = play(Truncated(3, seed=0), 8)
    assert rollout.truncated[:, 1].all()
    assert not rollout.truncated[:, [0, 2]].any()
    np.testing.assert_array_equal(rollout.final_values[:, 1], np.full(8, 200, np.float32))


def test_returns_of_games_with_several_lives_cover_the_whole_game() -> None:
    class Lives(Columns):
        def step(self, actions: np.ndarray) -> Step:
            step = super().step(actions)
            return dataclasses.replace(step, new_games=step.firsts & (self._steps % 8 == 0))

    rollout = play(Lives(1, seed=0), 24)
    assert rollout.dones[:, 0].sum() == 6
    assert [episode.length for episode in rollout.episodes] == [8, 8, 8]
    assert [episode.reward for episode in rollout.episodes] == rollout.rewards.reshape(3, 8).sum(1).tolist()

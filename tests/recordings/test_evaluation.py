"""Evaluation: returns of complete episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_clarity.agents.protocol import Outputs, State
from rl_clarity.environments import EnvironmentSpec, Step, make
from rl_clarity.recordings.collection import as_vector_environment
from rl_clarity.recordings.evaluation import Evaluation, choose_num_envs, play_episodes, unseen_levels
from rl_clarity.recordings.rollouts import RandomPolicyAgent
from tests.fakes import TinyAgent, TinyEnvironment


def test_each_environment_plays_its_share_of_episodes() -> None:
    environment = TinyEnvironment((2, 3, 50))
    rng = np.random.default_rng(0)
    evaluation = play_episodes(RandomPolicyAgent(3), environment, 7, rng)
    assert evaluation.environments.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert evaluation.lengths.tolist() == [2, 2, 2, 3, 3, 50, 50]


@pytest.mark.parametrize(
    ("episodes", "environments"),
    [(1, 1), (50, 50), (64, 64), (67, 64), (100, 50), (101, 64), (127, 64), (384, 64), (499, 64), (500, 50)],
)
def test_the_number_of_environments_follows_from_the_number_of_episodes(episodes: int, environments: int) -> None:
    assert choose_num_envs(episodes) == environments


def test_episode_returns_are_sums_of_rewards() -> None:
    environment = TinyEnvironment((4, 6), truncates=[False, True])
    agent = TinyAgent("q", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    evaluation = play_episodes(agent, environment, 4, np.random.default_rng(0))
    rewards = np.array(environment.actions) == 0
    assert evaluation.returns.tolist() == [rewards[:4, 0].sum(), rewards[4:8, 0].sum(), *[rewards[:6, 1].sum()] * 2]
    assert evaluation.truncated.tolist() == [False, False, True, True]


def test_evaluation_reports_mean_standard_error_and_bootstrap_interval() -> None:
    evaluation = Evaluation(np.array([0.0, 10.0, 10.0, 0.0]), np.ones(4, int), np.zeros(4, int), np.zeros(4, bool))
    assert evaluation.mean == 5
    assert evaluation.standard_error == pytest.approx(np.sqrt(100 / 3) / 2)
    low, high = evaluation.bootstrap_interval(np.random.default_rng(0))
    assert low == 0
    assert high == 10
    assert evaluation.bootstrap_interval(np.random.default_rng(0), confidence=0.5) == (2.5, 7.5)


def test_the_random_policy_is_uniform() -> None:
    environment = TinyEnvironment((3000,))
    play_episodes(RandomPolicyAgent(3), environment, 1, np.random.default_rng(0))
    counts = np.bincount(np.concatenate(environment.actions))
    assert counts.min() > 900


def test_progress_counts_episodes() -> None:
    calls: list[tuple[int, int]] = []
    rng = np.random.default_rng(0)
    play_episodes(RandomPolicyAgent(3), TinyEnvironment((2, 3)), 2, rng, progress=lambda *args: calls.append(args))
    assert calls == [(0, 2), (1, 2), (2, 2)]


def test_episodes_longer_than_max_steps_are_cut() -> None:
    environment = TinyEnvironment((4, 10**9))
    evaluation = play_episodes(RandomPolicyAgent(3), environment, 4, np.random.default_rng(0), max_steps=6)
    assert evaluation.lengths.tolist() == [4, 4, 6, 6]
    assert evaluation.truncated.tolist() == [False, False, True, True]
    assert evaluation.cut == 2


def test_recurrent_state_is_reset_between_episodes() -> None:
    agent = TinyAgent("recurrent", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    calls = []

    class RecordingAgent:
        num_actions, initial_state, preprocess = 3, staticmethod(agent.initial_state), staticmethod(agent.preprocess)

        def step(self, observations: np.ndarray, state: Any, firsts: np.ndarray) -> tuple[Outputs, State]:
            calls.append((firsts.copy(), state))
            return agent.step(observations, state, firsts)

    evaluation = play_episodes(RecordingAgent(), TinyEnvironment((2, 5)), 4, np.random.default_rng(0))
    assert evaluation.lengths.tolist() == [2, 2, 5, 5]
    assert [firsts.tolist() for firsts, _ in calls[:3]] == [[True, True], [False, False], [True, False]]
    assert any(np.abs(state[0]).max() > 0 for _, state in calls[1:])


def test_unseen_levels_follow_the_training_levels() -> None:
    spec = EnvironmentSpec(name="coinrun", options={"num_levels": 200, "start_level": 7, "distribution_mode": "easy"})
    others = unseen_levels(spec)
    assert others is not None
    assert others.options == {"num_levels": 2**31 - 1 - 207, "start_level": 207, "distribution_mode": "easy"}
    assert unseen_levels(EnvironmentSpec(name="coinrun")) is None
    assert unseen_levels(EnvironmentSpec("atari", "breakout")) is None


def test_unseen_levels_are_played_in_procgen() -> None:
    pytest.importorskip("procgen")
    spec = EnvironmentSpec(name="coinrun", options={"num_levels": 2**31 - 1 - 1000})
    unseen = unseen_levels(spec)
    assert unseen is not None
    environment: Any = make(unseen, 16, 0)
    environment.reset()
    assert min(info["level_seed"] for info in environment._env.get_info()) >= 2**31 - 1 - 1000
    environment.close()


class Lives(TinyEnvironment):
    """A game has two lives, an episode each. With `own_returns` its return is 100 times the number of its steps."""

    def __init__(self, lengths: Sequence[int], *, own_returns: bool = False) -> None:
        super().__init__(lengths)
        self.lives, self.steps, self.own_returns = np.full(len(lengths), 2), np.zeros(len(lengths)), own_returns

    def step(self, actions: np.ndarray) -> Step:
        step = super().step(actions)
        self.steps += 1
        self.lives -= step.firsts
        new_games = self.lives == 0
        returns = np.where(new_games, 100 * self.steps, np.nan) if self.own_returns else None
        self.lives[new_games], self.steps[new_games] = 2, 0
        return dataclasses.replace(step, new_games=new_games, game_returns=returns)


def test_returns_are_those_of_whole_games_with_several_lives() -> None:
    agent = TinyAgent("q", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    environment = Lives((3, 5))
    evaluation = play_episodes(agent, environment, 4, np.random.default_rng(0))
    rewards = np.array(environment.actions) == 0
    assert evaluation.lengths.tolist() == [6, 6, 10, 10]
    assert evaluation.returns.tolist() == [rewards[:6, 0].sum(), rewards[6:12, 0].sum(), *[rewards[:10, 1].sum()] * 2]
    assert not evaluation.cut


def test_returns_reported_by_the_environment_replace_sums_of_rewards() -> None:
    environment = Lives((3, 500), own_returns=True)
    evaluation = play_episodes(RandomPolicyAgent(3), environment, 3, np.random.default_rng(0), max_steps=20)
    assert evaluation.returns[:2].tolist() == [600, 600]
    assert evaluation.returns[2] <= 20  # cut: the sum of its rewards until then


def test_deterministic_actions_are_the_most_likely() -> None:
    agent = TinyAgent("policy", observation_shape=(16, 16, 1), num_actions=3, patch=4)

    def actions(*, deterministic: bool) -> np.ndarray:
        environment = TinyEnvironment((50,))
        play_episodes(agent, environment, 1, np.random.default_rng(0), deterministic=deterministic)
        return np.concatenate(environment.actions)

    environment = TinyEnvironment((50,))
    step, best = environment.reset(), []
    for _ in range(50):
        logits = agent.step(step.observations, None, step.firsts)[0].policy_logits
        assert logits is not None
        best.append(logits.argmax())
        step = environment.step(np.array([0]))
    assert actions(deterministic=True).tolist() == best
    assert actions(deterministic=False).tolist() != best


def test_autoreset_steps_are_not_counted() -> None:
    class Counting(gymnasium.Env[np.ndarray, Any]):
        observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 1), np.uint8)
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            self.time = 0
            return np.zeros((16, 16, 1), np.uint8), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            self.time += 1
            return np.zeros((16, 16, 1), np.uint8), 1.0, self.time == 4, False, {}

    vector = gymnasium.vector.SyncVectorEnv([Counting] * 2)
    assert vector.metadata["autoreset_mode"].name == "NEXT_STEP"
    evaluation = play_episodes(RandomPolicyAgent(3), as_vector_environment(vector, 0), 6, np.random.default_rng(0))
    assert evaluation.lengths.tolist() == evaluation.returns.tolist() == [4] * 6

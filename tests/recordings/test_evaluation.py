"""Evaluation: returns of complete episodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.protocol import Outputs, State
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.errors import OptionError
from rl_clarity.evaluation import AGENT, UNSEEN, text
from rl_clarity.recordings.evaluation import Evaluation, choose_num_envs, evaluate, evaluate_in, unseen_levels
from rl_clarity.recordings.rollouts import RandomPolicyAgent
from tests.fakes import TinyAgent, TinyEnvironment


def test_every_environment_plays_its_share_of_episodes() -> None:
    environment = TinyEnvironment((2, 3, 50))
    rng = np.random.default_rng(0)
    evaluation = evaluate_in(RandomPolicyAgent(3), environment, 7, rng)
    assert evaluation.environments.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert evaluation.lengths.tolist() == [2, 2, 2, 3, 3, 50, 50]


@pytest.mark.parametrize(
    ("episodes", "environments"),
    [(1, 1), (50, 50), (64, 64), (67, 64), (100, 50), (101, 64), (127, 64), (384, 64), (499, 64), (500, 50)],
)
def test_number_of_environments(episodes: int, environments: int) -> None:
    assert choose_num_envs(episodes) == environments


def test_a_prime_number_of_episodes_uses_all_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = TinyEnvironment((2, 3, 5, 7) * 16)
    monkeypatch.setattr("rl_clarity.recordings.evaluation.make", lambda spec, n, seed: {64: environment}[n])
    evaluation = evaluate(RandomPolicyAgent(3), EnvironmentSpec(), 101, seed=0)
    assert np.bincount(evaluation.environments).tolist() == [2] * 37 + [1] * 27
    assert not evaluation.cut


def test_returns_are_sums_of_rewards() -> None:
    environment = TinyEnvironment((4, 6), truncates=[False, True])
    agent = TinyAgent("q", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    evaluation = evaluate_in(agent, environment, 4, np.random.default_rng(0))
    rewards = np.array(environment.actions) == 0
    assert evaluation.returns.tolist() == [rewards[:4, 0].sum(), rewards[4:8, 0].sum(), *[rewards[:6, 1].sum()] * 2]
    assert evaluation.truncated.tolist() == [False, False, True, True]


def make_evaluation(lengths: list[int]) -> Evaluation:
    returns = np.array([0.0, 10.0, 10.0, 0.0])
    return Evaluation(returns, np.array(lengths), np.zeros(4, int), np.zeros(4, bool))


def test_statistics() -> None:
    evaluation = make_evaluation([1] * 4)
    assert evaluation.mean == 5
    assert evaluation.standard_error == pytest.approx(np.sqrt(100 / 3) / 2)
    low, high = evaluation.bootstrap_interval(np.random.default_rng(0))
    assert low == 0
    assert high == 10
    assert evaluation.bootstrap_interval(np.random.default_rng(0), confidence=0.5) == (2.5, 7.5)


def test_the_random_policy_is_uniform() -> None:
    environment = TinyEnvironment((3000,))
    evaluate_in(RandomPolicyAgent(3), environment, 1, np.random.default_rng(0))
    counts = np.bincount(np.concatenate(environment.actions))
    assert counts.min() > 900


def test_evaluation_is_seeded_and_rewards_are_unscaled() -> None:
    pytest.importorskip("procgen")
    spec = EnvironmentSpec(name="starpilot", reward_scale=0.5)
    evaluation = evaluate(RandomPolicyAgent(15), spec, 6, seed=1)
    assert len(evaluation.returns) == 6
    assert evaluation.returns.tolist() == evaluate(RandomPolicyAgent(15), spec, 6, seed=1).returns.tolist()
    assert evaluation.lengths.tolist() != evaluate(RandomPolicyAgent(15), spec, 6, seed=2).lengths.tolist()
    assert all(value == round(value) for value in evaluation.returns)


def test_atari_episodes_are_games() -> None:
    pytest.importorskip("ale_py")
    spec = EnvironmentSpec("atari", "breakout", {"episodic_life": True, "frame_stack": 4})
    lengths = evaluate(RandomPolicyAgent(4), spec, 2, seed=0).lengths
    assert lengths.min() > 100


def test_progress_counts_episodes() -> None:
    calls: list[tuple[int, int]] = []
    rng = np.random.default_rng(0)
    evaluate_in(RandomPolicyAgent(3), TinyEnvironment((2, 3)), 2, rng, progress=lambda *args: calls.append(args))
    assert calls == [(0, 2), (1, 2), (2, 2)]


def test_long_episodes_are_stopped_and_reported() -> None:
    environment = TinyEnvironment((4, 10**9))
    evaluation = evaluate_in(RandomPolicyAgent(3), environment, 4, np.random.default_rng(0), max_steps=6)
    assert evaluation.lengths.tolist() == [4, 4, 6, 6]
    assert evaluation.truncated.tolist() == [False, False, True, True]
    assert evaluation.cut == 2
    assert "2 episodes were cut off after 6 steps" in text({AGENT: evaluation})
    assert "cut off" not in text({AGENT: dataclasses.replace(evaluation, cut=0)})


def test_first_line_of_the_report() -> None:
    evaluation = make_evaluation([1, 2, 3, 6])
    lines = text({AGENT: evaluation, UNSEEN: evaluation}).splitlines()
    assert lines[0] == "mean return 5.00 +- 2.89 over 4 episodes"
    assert lines[1] == "  95 % interval 0.00 to 10.00 (bootstrap); length 3 steps on average, 1 to 6"
    assert lines[2] == "unseen levels: mean return 5.00 +- 2.89 over 4 episodes"


def test_recurrent_state_is_reset_between_episodes() -> None:
    agent = TinyAgent("recurrent", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    calls = []

    class RecordingAgent:
        num_actions, initial_state, preprocess = 3, staticmethod(agent.initial_state), staticmethod(agent.preprocess)

        def step(self, observations: np.ndarray, state: Any, firsts: np.ndarray) -> tuple[Outputs, State]:
            calls.append((firsts.copy(), state))
            return agent.step(observations, state, firsts)

    evaluation = evaluate_in(RecordingAgent(), TinyEnvironment((2, 5)), 4, np.random.default_rng(0))
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


@pytest.mark.parametrize(
    ("episodes", "options", "message"),
    [
        (0, {}, "episodes=0 must be at least 1"),
        (1, {"num_envs": 0}, "num_envs=0 must be at least 1"),
        (1, {"max_steps": -3}, "max_steps=-3 must be at least 1"),
    ],
)
def test_invalid_counts_are_rejected(episodes: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as raised:
        evaluate(RandomPolicyAgent(15), EnvironmentSpec(name="coinrun"), episodes, seed=0, **options)
    assert str(raised.value) == message

"""`rl_clarity.evaluate`: which episodes are played, and what is reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import Outputs, State
from rl_clarity.base.errors import EvaluationError, OptionError
from rl_clarity.commands.evaluate import AGENT, RANDOM, UNSEEN, text
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment
from rl_clarity.recordings.evaluation import Evaluation
from rl_clarity.recordings.rollouts import RandomPolicyAgent
from tests.fakes import TinyEnvironment

Specs = list[EnvironmentSpec]


class ConstantAgent(RandomPolicyAgent):
    """Prefers action 0."""

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        logits = np.zeros((len(observations), self.num_actions), np.float32)
        logits[:, 0] = 1
        return Outputs(logits), None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[VectorEnvironment], Specs]:
    """Let `make` return an environment; the specs that it is called with."""

    def replace(environment: VectorEnvironment) -> Specs:
        specs: Specs = []

        def make(spec: EnvironmentSpec, num_envs: int, seed: int) -> VectorEnvironment:
            assert num_envs == environment.num_envs
            specs.append(spec)
            return environment

        monkeypatch.setattr("rl_clarity.recordings.evaluation.make", make)
        return specs

    return replace


def test_evaluate_distributes_episodes_over_all_environments(made: Callable[[VectorEnvironment], Specs]) -> None:
    made(TinyEnvironment((2, 3, 5, 7) * 16))
    evaluation = rl_clarity.evaluate(ConstantAgent(3), EnvironmentSpec(), episodes=101)[AGENT]
    assert np.bincount(evaluation.environments).tolist() == [2] * 37 + [1] * 27
    assert not evaluation.cut


def test_evaluate_uses_unscaled_rewards_and_lives_as_in_training(made: Callable[[VectorEnvironment], Specs]) -> None:
    trained = EnvironmentSpec("atari", "breakout", {"episodic_life": True}, epsilon_greedy=0.1, reward_scale=0.5)
    specs = made(TinyEnvironment((2,)))
    rl_clarity.evaluate(ConstantAgent(3), trained, episodes=1)
    assert specs == [dataclasses.replace(trained, reward_scale=1)]


def test_deterministic_evaluation_has_no_random_actions(made: Callable[[VectorEnvironment], Specs]) -> None:
    environment = TinyEnvironment((50,))
    specs = made(environment)
    spec = EnvironmentSpec("atari", "breakout", epsilon_greedy=0.1)
    evaluations = rl_clarity.evaluate(ConstantAgent(3), spec, episodes=1, deterministic=True, random=True)
    assert evaluations[AGENT].mean == 50
    assert 5 < evaluations[RANDOM].mean < 30
    assert [evaluations[name].sampled for name in (AGENT, RANDOM)] == [False, True]
    assert [spec.epsilon_greedy for spec in specs] == [0, 0.1]


def test_evaluate_can_add_unseen_levels_and_a_random_policy(made: Callable[[VectorEnvironment], Specs]) -> None:
    specs = made(TinyEnvironment((5, 5)))
    spec = EnvironmentSpec("procgen", "coinrun", {"num_levels": 10})
    assert set(rl_clarity.evaluate(ConstantAgent(3), spec, episodes=2, random=True)) == {AGENT, UNSEEN, RANDOM}
    assert [spec.options.get("start_level") for spec in specs] == [None, 10, None]
    assert set(rl_clarity.evaluate(ConstantAgent(3), spec, episodes=2, unseen=False)) == {AGENT}


def test_evaluate_plays_a_given_environment_without_closing_it() -> None:
    class Closable(TinyEnvironment):
        closed = False

        def close(self) -> None:
            self.closed = True

    environment = Closable((2, 3))
    assert rl_clarity.evaluate(ConstantAgent(3), environment, episodes=4)[AGENT].lengths.tolist() == [2, 2, 3, 3]
    assert not environment.closed


def test_evaluation_in_procgen_is_reproducible_with_a_seed() -> None:
    pytest.importorskip("procgen")
    spec = EnvironmentSpec(name="starpilot", reward_scale=0.5)
    first, again, other = (
        rl_clarity.evaluate(RandomPolicyAgent(15), spec, episodes=6, seed=seed)[AGENT] for seed in (1, 1, 2)
    )
    assert len(first.returns) == 6
    assert first.returns.tolist() == again.returns.tolist()
    assert first.lengths.tolist() != other.lengths.tolist()
    assert all(value == round(value) for value in first.returns)
    assert len(first.causes) == 6
    assert not {"", "end of episode"} & {*first.causes}, "Procgen says what ended them"


def test_evaluation_in_atari_presses_fire_after_a_lost_life() -> None:
    """Otherwise the game of an agent that never presses it would not end."""
    pytest.importorskip("ale_py")

    def played(episodic_life: bool) -> Evaluation:
        spec = EnvironmentSpec("atari", "breakout", {"episodic_life": episodic_life, "noop_max": 0})
        return rl_clarity.evaluate(ConstantAgent(4), spec, episodes=1, deterministic=True, max_steps=250)[AGENT]

    whole, stuck = played(episodic_life=True), played(episodic_life=False)
    assert (whole.cut, stuck.cut) == (0, 1)
    assert whole.lengths[0] > 100  # five lives


def make_evaluation(lengths: list[int]) -> Evaluation:
    return Evaluation(np.array([0.0, 10.0, 10.0, 0.0]), np.array(lengths), np.zeros(4, int), np.zeros(4, bool))


def test_the_report_states_mean_interval_lengths_and_action_selection() -> None:
    evaluation = make_evaluation([1, 2, 3, 6])
    lines = text({AGENT: evaluation, UNSEEN: evaluation}).splitlines()
    assert lines[0] == "mean return 5.00 +- 2.89 over 4 episodes"
    assert lines[1] == "  95 % interval 0.00 to 10.00 (bootstrap); length 3 steps on average, 1 to 6; actions sampled"
    assert lines[2] == "unseen levels: mean return 5.00 +- 2.89 over 4 episodes"
    assert len(lines) == 4
    causes = ("saw", "level completed", "saw", "time limit")
    ended = text({AGENT: dataclasses.replace(evaluation, causes=causes)})
    assert ended.endswith("\n  ended by: saw 50%, level completed 25%, time limit 25%")
    assert "ended by" not in text({AGENT: dataclasses.replace(evaluation, causes=("end of episode",) * 4)})
    cut = text({AGENT: dataclasses.replace(evaluation, cut=2)})
    assert "2 episodes were cut off after 6 steps" in cut
    assert "; actions greedy (the most likely" in text({AGENT: dataclasses.replace(evaluation, sampled=False)})


@pytest.mark.parametrize(("expected", "tolerance"), [(50, 0), (60, 10), (45, 5)])
def test_an_expected_return_is_checked(expected: float, tolerance: float) -> None:
    options: Any = {"episodes": 3, "deterministic": True, "expect_return": expected}
    play = rl_clarity.evaluate(ConstantAgent(3), TinyEnvironment((50,)), **options, tolerance=tolerance)
    assert play[AGENT].mean == 50
    if tolerance:
        with pytest.raises(EvaluationError) as raised:
            rl_clarity.evaluate(ConstantAgent(3), TinyEnvironment((50,)), **options, tolerance=tolerance - 1)
        assert str(raised.value).startswith(
            f"the 95 % interval of the mean return, 50.00 to 50.00, extended by {tolerance - 1}, does not contain "
            f"expect_return={expected} (mean 50.00 over 3 episodes)"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes=0 must be at least 1"),
        ({"max_steps": -3}, "max_steps=-3 must be at least 1"),
        ({"expect_return": float("inf")}, "expect_return=inf must be a finite number"),
        ({"tolerance": -1}, "tolerance=-1.0 must be a finite number of at least 0"),
        ({"episode": 3}, "unknown option 'episode'; did you mean 'episodes'?"),
        ({"env": None}, "an agent that was not loaded from a checkpoint needs env, and takes no metadata"),
        ({"metadata": {"gamma": 1}}, "an agent that was not loaded from a checkpoint needs env"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    arguments = {"env": TinyEnvironment((2,)), **options}
    with pytest.raises(OptionError) as raised:
        rl_clarity.evaluate(ConstantAgent(3), **arguments)
    assert message in str(raised.value)

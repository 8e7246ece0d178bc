"""Samples and pages of agents whose actions are not one choice, in an environment that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import SyncVectorEnv  # noqa: E402
from torch import nn  # noqa: E402

import rl_clarity  # noqa: E402
from rl_clarity.agents.actions import Binary, Categorical, Factor, Gaussian, count_outputs  # noqa: E402
from rl_clarity.analyses.checkpoints import TrainingAnalysis  # noqa: E402
from rl_clarity.analyses.memory.states import StatesAnalysis  # noqa: E402
from rl_clarity.base.errors import OptionError, SamplesError  # noqa: E402
from tests.point_world import SIDE, PointWorld  # noqa: E402

# small untrained networks have kinks
pytestmark = pytest.mark.filterwarnings("ignore:the network's .* change by")

FACTORS: dict[str, tuple[Factor, ...]] = {
    "multidiscrete": (Categorical(3, "row"), Categorical(2, "column", ("left", "right"))),
    "multibinary": (Binary("up"), Binary("down"), Binary("turbo")),
    "box": (Gaussian(-1, 1, name="x"), Gaussian(0, 2, std=0.5, name="y")),
}


class Network(nn.Module):
    """Policy outputs, and a value unless it is an actor alone."""

    def __init__(self, outputs: int, *, has_value: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Sequential(nn.Conv2d(3, 6, 6, stride=3), nn.ReLU())
        self.actor, self.critic = nn.Linear(6 * 11 * 11, outputs), nn.Linear(6 * 11 * 11, 1)
        self.has_value = has_value

    def forward(self, x: Any) -> dict[str, Any]:
        features = self.conv(x).flatten(1)
        outputs = {"policy_logits": self.actor(features)}
        return outputs | ({"values": self.critic(features)} if self.has_value else {})


class Critic(Network):
    """The value alone, (B, 1)."""

    def forward(self, x: Any) -> Any:
        return self.critic(self.conv(x).flatten(1))


def make_agent(kind: str, *, has_value: bool = True) -> rl_clarity.TorchAgent:
    factors = FACTORS[kind]
    network = Network(count_outputs(factors), has_value=has_value)
    heads = None if has_value else ("policy_logits",)
    return rl_clarity.TorchAgent(network, (SIDE, SIDE, 3), heads=heads, actions=factors)


@pytest.mark.parametrize("kind", FACTORS)
def test_recorded_actions_are_those_passed_to_the_environment(kind: str) -> None:
    agent, environment = make_agent(kind), PointWorld(kind)
    played, _ = rl_clarity.collect(agent, environment, 30, 1)
    assert played.actions.shape == (1, 30, len(FACTORS[kind]))
    assert played.actions.dtype == np.float32
    np.testing.assert_array_equal(played.actions[0], np.stack(environment.taken[:30]))
    assert len(np.unique(played.actions[0], axis=0)) > 3


@pytest.mark.parametrize("kind", FACTORS)
def test_vector_environments_receive_multi_factor_actions(kind: str) -> None:
    agent = make_agent(kind)
    environments = [PointWorld(kind), PointWorld(kind)]
    vector = SyncVectorEnv([lambda: environments[0], lambda: environments[1]])
    played, _ = rl_clarity.collect(agent, vector, 6, 1)
    assert played.actions.shape == (2, 6, len(FACTORS[kind]))
    for i, environment in enumerate(environments):
        np.testing.assert_array_equal(played.actions[i], np.stack(environment.taken[:6]))


def test_a_page_shows_every_output_of_the_action_factors(tmp_path: Path) -> None:
    for kind in ("multidiscrete", "box"):
        agent = make_agent(kind)
        played, observations = rl_clarity.collect(agent, PointWorld(kind), 16, 8)
        page = rl_clarity.generate(
            agent,
            played,
            observations,
            tmp_path / kind,
            saliency={"methods": ("jacobian", "perturbation")},
            features={"count": 3},
        )
        results = page.results()
        info = results.manifest["agents"][0]
        labels = [action["label"] for action in info["actions"]]
        outputs = next(s for s in results.manifest["sections"] if s["kind"] == "attribution")["data"]["outputs"]
        assert [output["label"] for output in outputs] == ["value function", *labels]
        assert [factor["label"] for factor in info["factors"]] == [factor.name for factor in FACTORS[kind]]
        assert info["action_groups"] == []
        kinds = {section["kind"] for section in results.manifest["sections"]}
        assert {"trajectories", "features", "attribution", "saliency", "ablation"} <= kinds


def test_stored_series_have_a_number_for_each_action_factor(tmp_path: Path) -> None:
    from rl_clarity.analyses.trajectories import compute_series, factor_series

    played, _ = rl_clarity.collect(make_agent("box"), PointWorld("box"), 5, 1)
    series = compute_series(played, 0, None, [])
    assert series.actions is None
    assert series.probabilities is None
    assert series.logits is not None
    assert series.logits.shape == (5, 3)
    np.testing.assert_array_equal(factor_series(played.actions[0])["action.1"], played.actions[0, :, 1])


def test_an_actor_without_a_value_gets_a_page_of_its_outputs(tmp_path: Path) -> None:
    agent = make_agent("box", has_value=False)
    samples = rl_clarity.collect(agent, PointWorld("box"), 12, 6)
    page = rl_clarity.generate(agent, *samples, tmp_path, features={"count": 3})
    section = next(s for s in page.results().manifest["sections"] if s["kind"] == "attribution")
    assert [output["id"] for output in section["data"]["outputs"]] == ["action-0", "action-1", "action-2"]


def test_a_critic_without_a_policy_gets_a_page_of_recorded_play(tmp_path: Path) -> None:
    played, extra = rl_clarity.collect(make_agent("box"), PointWorld("box"), 12, 6)
    arrays = {name: getattr(played, name) for name in ("observations", "rewards", "firsts")}
    critic = rl_clarity.TorchAgent(Critic(1), (SIDE, SIDE, 3), heads=("q_values",))
    arrays["actions"] = np.zeros(played.rewards.shape, int)
    page = rl_clarity.generate(critic, arrays, extra.observations, tmp_path, features={"count": 3})
    values = np.asarray(critic.forward(played.observations[0]).q_values)
    np.testing.assert_allclose(page.results().series(0)["logits"], values, rtol=1e-5)


def test_an_environment_with_incompatible_actions_is_refused() -> None:
    with pytest.raises(
        SamplesError,
        match=r"the agent has actions of a choice of 3, a choice of 2, but the environment takes a value from -1 to 1, "
        r"a value from 0 to 2; use the environment",
    ):
        rl_clarity.collect(make_agent("multidiscrete"), PointWorld("box"), 4, 1)


def test_recorded_actions_must_be_valid_for_the_agent(tmp_path: Path) -> None:
    agent = make_agent("multidiscrete")
    played, _ = rl_clarity.collect(agent, PointWorld("multidiscrete"), 4, 1)
    arrays = {name: getattr(played, name) for name in ("observations", "rewards", "firsts")}
    extra = played.observations[0]
    with pytest.raises(
        SamplesError, match=r"expected \(N, T, 2\), because an action of the agent is a choice of 3, a choice"
    ):
        rl_clarity.generate(agent, {**arrays, "actions": np.zeros((1, 4), int)}, extra, tmp_path)
    with pytest.raises(SamplesError, match=r"actions\[..., 1\] must be integers from 0 to 1"):
        rl_clarity.generate(agent, {**arrays, "actions": np.full((1, 4, 2), 2)}, extra, tmp_path)


def test_compare_and_memory_pages_refuse_continuous_actions() -> None:
    options: Any = None
    for analysis in (TrainingAnalysis(), StatesAnalysis()):
        with pytest.raises(
            OptionError, match="a single choice, but an action of the agent is a value from -1 to 1, a value"
        ):
            analysis.check(make_agent("box"), options, options)


def test_options_for_discrete_actions_are_refused_for_continuous_ones(tmp_path: Path) -> None:
    agent = make_agent("box")
    samples = rl_clarity.collect(agent, PointWorld("box"), 4, 1)
    with pytest.raises(
        OptionError, match="action_combos and equivalent_actions require actions that are a single choice"
    ):
        rl_clarity.generate(agent, *samples, tmp_path, equivalent_actions=((0, 1),))

"""Agents that observe vectors: they play, are explained input by input, and get pages without images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution import attribute
from rl_clarity.base.errors import ClarityError, OptionError, SamplesError
from rl_clarity.pages.results import open_results

pytest.importorskip("torch")

import torch

NAMES = ["position", "velocity", "angle", "angular velocity"]
WEIGHTS = np.array([1.0, -2.0, 3.0, 0.5], np.float32)


class Linear(torch.nn.Module):
    """The value is WEIGHTS . x + 7."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.policy, self.value = torch.nn.Linear(4, 2), torch.nn.Linear(4, 1)
        self.value.weight.data = torch.as_tensor(WEIGHTS[None])
        self.value.bias.data = torch.full((1,), 7.0)

    def forward(self, x: Any) -> Any:
        return self.policy(x), self.value(x)


class Hidden(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.act = torch.nn.Linear(4, 8), torch.nn.Tanh()
        self.policy, self.value = torch.nn.Linear(8, 2), torch.nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        hidden = self.act(self.first(x))
        return self.policy(hidden), self.value(hidden)


def make_agent(module: Any) -> Any:
    return rl_clarity.TorchAgent(module, (4,), {"observation_names": NAMES})


def vectors(count: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 3, (count, 4)).astype(np.float32)


def test_the_module_receives_vector_observations_without_scaling() -> None:
    agent, x = make_agent(Linear()), vectors()
    np.testing.assert_allclose(agent.forward(x).values, x @ WEIGHTS + 7, rtol=1e-5)
    np.testing.assert_allclose(agent.activations(x, "input")[:, 0, 0], x)
    gradients = agent.gradients(x, "input", ["value"])
    np.testing.assert_allclose(gradients[0, :, 0, 0], np.tile(WEIGHTS, (len(x), 1)), rtol=1e-5)
    changed = agent.forward(x, write={"input": np.zeros((len(x), 1, 1, 4), np.float32)})
    np.testing.assert_allclose(changed.values, 7, rtol=1e-5)


@pytest.mark.parametrize(("baseline", "start"), [("zero-input", np.zeros(4)), ("blur", None), ("mean", None)])
def test_attribution_of_a_linear_network_is_weight_times_difference(baseline: str, start: np.ndarray | None) -> None:
    x = vectors()
    result = attribute(make_agent(Linear()), x, "input", ["value"], baseline=baseline)
    difference = x - (x.mean(axis=0) if start is None else start)
    np.testing.assert_allclose(result.values[0, :, 0, 0], WEIGHTS * difference, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result.completeness_error, 0, atol=1e-4)


def test_attribution_to_hidden_units_adds_up_to_the_output() -> None:
    agent = make_agent(Hidden())
    assert agent.layers == {"act": (1, 1, 8)}
    result = attribute(agent, vectors(), "act", ["value", 0], baseline="zero-layer")
    assert result.values.shape == (2, 6, 1, 1, 8)
    np.testing.assert_allclose(result.completeness_error, 0, atol=1e-5)


def test_recorded_play_keeps_the_float_observations_of_cartpole() -> None:
    trajectories, observations = rl_clarity.collect(make_agent(Hidden()), gymnasium.make("CartPole-v1"), 40, 8)
    seen = np.asarray(trajectories.observations)
    assert seen.shape == (1, 40, 1, 1, 4)
    assert seen.dtype == observations.observations.dtype == np.float32
    environment = gymnasium.make("CartPole-v1")
    start = int(np.flatnonzero(trajectories.firsts[0])[0])
    environment.reset()
    environment.unwrapped.state = seen[0, start, 0, 0].astype(np.float64)  # type: ignore[attr-defined]
    following = environment.step(int(trajectories.actions[0, start]))[0]
    np.testing.assert_allclose(seen[0, start + 1, 0, 0], following, atol=1e-6)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = make_agent(Hidden())
    samples = rl_clarity.collect(agent, gymnasium.make("CartPole-v1"), 40, 24, obs_every=2)
    return rl_clarity.generate(agent, *samples, tmp_path_factory.mktemp("vector"), features={"count": 3}).path.parent


def test_a_page_of_a_vector_agent_has_a_feature_for_each_input(page: Path) -> None:
    results = open_results(page)
    features = results.section("features")["layers"]
    assert features["input"]["names"] == NAMES
    assert len(features["act"]["thumbnails"]) == 3
    assert results.section("trajectories")["inputs"] == NAMES
    reduced = results.attribution("input", 0)
    played = results.series(0)
    values = make_agent(Hidden()).forward(played["inputs"]).values
    np.testing.assert_allclose(values, played["values"], atol=1e-5)
    assert reduced.channels.shape == (40, 1, 1, 4)
    assert np.abs(reduced.channels).max() > 0
    assert reduced.residual is not None
    np.testing.assert_allclose(reduced.residual, 0, atol=1e-2 * np.abs(reduced.channels).max())


@pytest.mark.parametrize("options", [{"saliency": {"methods": ["jacobian"]}}, {"features": {"optimized": True}}])
def test_options_that_need_images_are_refused_for_vector_agents(options: Any, tmp_path: Path) -> None:
    steps = {"actions": np.zeros((1, 9), int), "rewards": np.zeros((1, 9)), "firsts": np.arange(9)[None] == 0}
    samples = {**steps, "observations": vectors(9)[None]}  # as a program has them, (N, T, n)
    with pytest.raises(OptionError, match="the agent observes vectors"):
        rl_clarity.generate(make_agent(Hidden()), samples, vectors(9), tmp_path / "page", **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rl_clarity.TorchAgent(Linear(), (4,), value_range=(0, 1)), OptionError, "are only for images"),
        (lambda: make_agent(Linear()).forward(np.zeros((2, 3))), SamplesError, r"takes numeric arrays \(B, 4\)"),
        (
            lambda: rl_clarity.collect(make_agent(Linear()), gymnasium.make("Acrobot-v1"), 4, 2),
            ClarityError,
            "2 actions, but the environment has 3",
        ),
    ],
)
def test_observations_that_do_not_match_the_vector_shape_are_refused(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()

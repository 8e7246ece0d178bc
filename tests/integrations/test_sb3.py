"""The network of a Stable-Baselines3 model, as an agent: the library's own outputs, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Space

import rl_clarity
from rl_clarity.base.errors import ClarityError
from rl_clarity.integrations import sb3

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import torch
from sb3_contrib import QRDQN, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.policies import ActorCriticCnnPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from tests.formats.sb3_models import FRAMES, SIDE, CenteredNatureCNN, NatureCNNWithELU, make_model

make_agent: Any = sb3.agent
"""Not typed, because the network decides which outputs are None."""
TOLERANCE = 1e-5


class Extractor(BaseFeaturesExtractor):
    """Two convolutions; counts its calls."""

    calls = 0

    def __init__(self, space: Box, features_dim: int = 8) -> None:
        super().__init__(space, features_dim)
        channels = min(space.shape)
        self.net = nn.Sequential(nn.Conv2d(channels, 6, 8, 4), nn.Tanh(), nn.Conv2d(6, 4, 3), nn.ELU())
        self.last = nn.LazyLinear(features_dim)
        self.forward(torch.zeros(1, *space.shape))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if observations.shape[1] > observations.shape[3]:
            observations = observations.permute(0, 3, 1, 2)
        return self.last(self.net(observations).flatten(1))


def random_images(shape: tuple[int, int, int] = (SIDE, SIDE, 3), count: int = 5) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 256, (count, *shape), np.uint8)


def check_own_outputs(agent: Any, model: Any, images: np.ndarray, observations: np.ndarray) -> None:
    """Compare outputs for images with the model's own for `observations`, which its environment would return."""
    outputs = agent.forward(images)
    tensor, _ = model.policy.obs_to_tensor(observations)
    with torch.no_grad():
        if outputs.policy_logits is None:
            q_values = model.q_net(tensor) if isinstance(model, DQN) else model.quantile_net(tensor).mean(dim=1)
            np.testing.assert_allclose(outputs.q_values, q_values, atol=TOLERANCE)
            assert model.predict(observations, deterministic=True)[0].tolist() == outputs.q_values.argmax(1).tolist()
            return
        actions = torch.arange(len(images)) % agent.num_actions
        values, log_probabilities, entropy = model.policy.evaluate_actions(tensor, actions)
    ours = torch.distributions.Categorical(logits=torch.as_tensor(outputs.policy_logits))
    np.testing.assert_allclose(ours.log_prob(actions), log_probabilities, atol=TOLERANCE)
    np.testing.assert_allclose(ours.entropy(), entropy, atol=TOLERANCE)
    np.testing.assert_allclose(outputs.values, values[:, 0], atol=TOLERANCE)
    assert np.ptp(outputs.values) > 1e-3


SEPARATE: dict[str, Any] = {"share_features_extractor": False}


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [(PPO, {}), (PPO, SEPARATE), (A2C, {}), (MaskablePPO, {}), (MaskablePPO, SEPARATE), (DQN, {}), (QRDQN, {})],
)
def test_outputs_of_an_sb3_agent_equal_those_of_the_model(algorithm: Any, options: dict[str, Any]) -> None:
    model = make_model(algorithm, **options)
    images = random_images()
    agent = make_agent(model)
    assert agent.observation_shape == (SIDE, SIDE, 3)
    check_own_outputs(agent, model, images, images.transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("extractor", "space", "normalize"),
    [
        (NatureCNNWithELU, FRAMES, True),
        (CenteredNatureCNN, FRAMES, True),
        (Extractor, FRAMES, True),
        (Extractor, FRAMES, False),
        (Extractor, Box(0, 255, (SIDE, SIDE, 1), np.uint8), True),
        (Extractor, Box(0, 255, (2, SIDE, SIDE), np.uint8), True),
        (Extractor, Box(0, 255, (20, 24, 12), np.uint8), True),
        (Extractor, Box(0, 1, (3, SIDE, SIDE), np.float32), False),
        (Extractor, Box(-1, 1, (128, 128, 3), np.float32), True),
    ],
    ids=str,
)
def test_models_with_any_features_extractor_and_image_are_supported(
    extractor: Any, space: Box, normalize: bool
) -> None:
    kwargs = {"features_extractor_class": extractor, "normalize_images": normalize}
    model = make_model(PPO, space=space, features_extractor_kwargs={"features_dim": 8}, **kwargs)
    agent = make_agent(model)
    images = random_images(agent.observation_shape)
    observations = images if agent.observation_shape == model.observation_space.shape else images.transpose(0, 3, 1, 2)
    if space.dtype == np.float32:
        low, high = float(space.low.min()), float(space.high.max())
        observations = (low + (high - low) * (observations / 255)).astype(np.float32)
    check_own_outputs(agent, model, images, observations)
    assert agent.metadata["frame_stack"] == {1: 1, 2: 2, 3: 1, 12: 4}[agent.observation_shape[2]]


@pytest.mark.parametrize(
    "options",
    [{}, {"n_lstm_layers": 2, "enable_critic_lstm": False}, {"shared_lstm": True, "enable_critic_lstm": False}],
    ids=str,
)
def test_recurrent_states_of_an_sb3_agent_equal_those_of_the_model(options: dict[str, Any]) -> None:
    model = make_model(RecurrentPPO, "CnnLstmPolicy", lstm_hidden_size=7, **options)
    agent = make_agent(model)
    state, own_state = agent.initial_state(5), None
    firsts = np.array([1, 1, 1, 1, 1], bool)
    for t in range(4):
        images = np.roll(random_images(), t, axis=0)
        outputs, state = agent.step(images, state, firsts)
        observations = images.transpose(0, 3, 1, 2)
        actions, own_state = model.predict(observations, own_state, firsts, deterministic=True)
        assert outputs.policy_logits.argmax(1).tolist() == actions.tolist()
        for ours, own in zip(state[:2], own_state, strict=True):
            np.testing.assert_allclose(ours, own.transpose(1, 0, 2), atol=TOLERANCE)
        firsts = np.array([0, t == 1, 0, 0, t == 2], bool)
    value = agent.gradients(images, "features_extractor.cnn.1", ["value"], state=state)
    assert np.abs(value).max() > 0, "also where the library stops gradients, with shared_lstm"


def test_a_shared_features_extractor_runs_once_per_forward_pass() -> None:
    model = make_model(A2C, features_extractor_class=Extractor)
    agent = make_agent(model)
    extractor = model.policy.features_extractor
    images = random_images()
    before = extractor.calls
    agent.forward(images)
    assert extractor.calls == before + 1
    assert list(agent.layers) == ["features_extractor.net.1", "features_extractor.net.3"]


@pytest.mark.parametrize(("algorithm", "scores"), [(PPO, ["value", 2]), (QRDQN, [1, 2])])
def test_gradients_reach_the_first_layer(algorithm: Any, scores: list[Any]) -> None:
    """Compared with finite differences."""
    model = make_model(algorithm, features_extractor_class=Extractor)
    agent = make_agent(model)
    images, site = random_images(count=2), "features_extractor.net.1"
    values = agent.activations(images, site)
    gradients = agent.gradients(images, site, scores)
    direction = np.random.default_rng(1).normal(size=values.shape).astype(np.float32)
    (tail,) = agent.tails(images, site, scores)
    step = 2e-3
    slopes = (tail.scores(values + step * direction) - tail.scores(values - step * direction)) / (2 * step)
    np.testing.assert_allclose((gradients * direction).sum(axis=(2, 3, 4)), slopes, rtol=2e-2, atol=1e-4)
    assert np.abs(slopes).min() > 5e-4


def test_metadata_of_an_sb3_model_can_be_overridden() -> None:
    model = make_model(PPO)
    metadata = make_agent(model, {"env_name": "Game", "gamma": 0.5}).metadata
    assert metadata == {
        "env_name": "Game",
        "gamma": 0.5,
        "lambda": 0.95,
        "library": "stable-baselines3",
        "network": "ActorCriticCnnPolicy",
        "frame_stack": 1,
    }


class Halved(ActorCriticCnnPolicy):
    """Its values are not those of its layers."""

    def predict_values(self, observations: torch.Tensor) -> torch.Tensor:
        return super().predict_values(observations) / 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_model(PPO, Halved), "Halved computes values in its own way: they differ by up to"),
        (lambda: make_model(PPO, "MultiInputPolicy", Dict({"speed": Box(0, 1, (4,))})), "has no image"),
        (lambda: "model.zip", "a str is not a model of Stable-Baselines3"),
        (lambda: nn.Linear(2, 2), "a Linear is not a model of Stable-Baselines3"),
    ],
)
def test_unsupported_sb3_models_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ClarityError) as raised:
        sb3.agent(make())
    assert message in str(raised.value)


def test_the_error_for_networks_that_flatten_images_says_so() -> None:
    agent = make_agent(make_model(PPO, "MlpPolicy"))
    with pytest.raises(ClarityError, match=r"reads all pixels at once, like that of MlpPolicy.*policy_net\.0"):
        rl_clarity.select_layers(agent)
    images = random_images(count=2)
    assert rl_clarity.integrated_gradients(agent, images, "input", baseline="zero-input").shape == images.shape


def test_an_unbounded_observation_space_needs_a_value_range() -> None:
    space: Space[Any] = Box(-np.inf, np.inf, (SIDE, SIDE, 3), np.float32)
    model = make_model(PPO, space=space, features_extractor_class=Extractor, normalize_images=False)
    with pytest.raises(ClarityError, match=r"value_range=\(low, high\)"):
        sb3.agent(model)
    agent = make_agent(model, value_range=(-2, 2))
    images = random_images()
    check_own_outputs(agent, model, images, (4 * (images / 255) - 2).astype(np.float32))

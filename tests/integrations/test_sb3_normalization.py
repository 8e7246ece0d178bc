"""Models whose observations `VecNormalize` normalizes: the network is given what it was given in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.integrations import sb3
from tests.dictionaries import Dictionary
from tests.point_world import PointWorld

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

pytestmark = [
    pytest.mark.filterwarnings("ignore:the (policy_logits|values) do not depend on"),
    pytest.mark.filterwarnings("ignore:the network's .* change by"),
]
SIZES: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "seed": 0, "device": "cpu"}


def pendulum() -> Any:
    return gymnasium.make("Pendulum-v1")


def normalized(make: Any = pendulum, **options: Any) -> VecNormalize:
    return VecNormalize(DummyVecEnv([make, make]), **options)


def expected_values(model: Any, normalizer: VecNormalize, observations: Any) -> np.ndarray:
    """Return the values of the library for observations that are not normalized."""
    tensors, _ = model.policy.obs_to_tensor(normalizer.normalize_obs(observations))
    with torch.no_grad():
        return np.asarray(model.policy.predict_values(tensors)[:, 0])


def test_the_agent_normalizes_vectors_as_vecnormalize_does() -> None:
    model = PPO("MlpPolicy", normalized(clip_obs=1.0), **SIZES).learn(64)
    normalizer: Any = model.get_vec_normalize_env()
    agent: Any = sb3.agent(model)
    vectors = np.random.default_rng(0).normal(0, 3, (20, 3)).astype(np.float32)
    assert (np.abs(normalizer.normalize_obs(vectors)) == 1).any(), "clipped"
    expected = expected_values(model, normalizer, vectors)
    np.testing.assert_allclose(agent.forward(vectors).values, expected, atol=1e-5)
    assert np.abs(expected - expected_values(model, VecNormalize(normalizer.venv), vectors)).max() > 1e-2
    gradients = agent.gradients(vectors, "input", ["value"])[0, :, 0, 0]
    clipped = np.abs(normalizer.normalize_obs(vectors)) == 1
    assert not gradients[clipped].any()
    assert gradients[~clipped].all()


def test_play_records_raw_observations_and_normalized_rewards() -> None:
    model = PPO("MlpPolicy", VecMonitor(normalized()), **SIZES).learn(64)
    normalizer: Any = model.get_vec_normalize_env()
    before = normalizer.obs_rms.count, normalizer.ret_rms.var.copy()
    trajectories, _ = rl_clarity.collect(sb3.agent(model), sb3.environment(model), 12, 2, obs_every=2)
    seen = np.asarray(trajectories.observations)[:, :, 0, 0]
    np.testing.assert_allclose(np.hypot(seen[..., 0], seen[..., 1]), 1, atol=1e-5)  # cosine and sine
    for values, observations in zip(np.asarray(trajectories.values), seen, strict=True):
        np.testing.assert_allclose(values, expected_values(model, normalizer, observations), atol=1e-5)
    angle, speed, action = (
        np.arctan2(seen[..., 1], seen[..., 0]),
        seen[..., 2],
        np.asarray(trajectories.actions)[..., 0],
    )
    costs = angle**2 + 0.1 * speed**2 + 0.001 * np.clip(action, -2, 2) ** 2
    scale = np.sqrt(normalizer.ret_rms.var + normalizer.epsilon)
    np.testing.assert_allclose(trajectories.rewards[:, :-1], -costs[:, :-1] / scale, rtol=1e-2, atol=1e-3)
    assert (normalizer.obs_rms.count, normalizer.ret_rms.var) == before, "playing does not change the statistics"


def test_the_agent_normalizes_vectors_of_dictionary_observations() -> None:
    kwargs = {"features_extractor_kwargs": {"cnn_output_dim": 8}}
    venv = normalized(Dictionary, norm_obs_keys=["speed"])
    model = PPO("MultiInputPolicy", venv, policy_kwargs=kwargs, **SIZES).learn(32)
    agent: Any = sb3.agent(model)
    seen = [Dictionary().reset(seed=seed)[0] | {"speed": np.array([seed, -1], np.float32)} for seed in range(5)]
    observed = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
    expected = expected_values(model, venv, observed)
    np.testing.assert_allclose(agent.forward(*agent.image_and_state(observed)).values, expected, atol=1e-5)
    assert sb3.environment(model).reset().held_inputs["speed"].tolist() == [[0, 0], [0, 0]]


def test_the_agent_normalizes_images_as_vecnormalize_does() -> None:
    model = PPO("MlpPolicy", normalized(lambda: PointWorld("discrete")), **SIZES).learn(32)
    images = np.random.default_rng(0).integers(0, 256, (5, 36, 36, 3), np.uint8)
    expected = expected_values(model, model.get_vec_normalize_env(), images)
    agent: Any = sb3.agent(model)
    np.testing.assert_allclose(agent.forward(images).values, expected, atol=1e-4)
    observed = sb3.environment(model).reset().observations
    assert observed.dtype == np.uint8
    assert observed.max() == 255


def test_a_loaded_model_is_explained_with_its_vecnormalize_statistics(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"buffer_size": 100, "learning_starts": 30, "policy_kwargs": {"net_arch": [12]}}
    venv = normalized()
    SAC("MlpPolicy", venv, seed=0, device="cpu", **sizes).learn(40).save(tmp_path / "model.zip")
    venv.save(str(tmp_path / "statistics.pkl"))
    model = SAC.load(tmp_path / "model.zip", device="cpu")
    loaded = VecNormalize.load(str(tmp_path / "statistics.pkl"), DummyVecEnv([pendulum]))
    results = sb3.explain(model, tmp_path / "page", loaded, num_steps=12, num_obs=6, features={"count": 2}).results()
    inputs = results.series(0)["inputs"]
    np.testing.assert_allclose(np.hypot(inputs[:, 0], inputs[:, 1]), 1, atol=1e-5)
    tensors, _ = model.policy.obs_to_tensor(loaded.normalize_obs(inputs))
    with torch.no_grad():
        expected = model.policy.actor(tensors, deterministic=True)
    played: Any = sb3.agent(model, vec_normalize=loaded).forward(inputs).policy_logits
    np.testing.assert_allclose(np.tanh(played[:, :1]), expected, atol=1e-5)
    np.testing.assert_allclose(results.series(0)["logits"], played, atol=1e-4)

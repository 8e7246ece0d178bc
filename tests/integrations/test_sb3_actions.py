"""Stable-Baselines3 models whose actions are numbers, several choices, or switches: outputs, play and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rl_clarity
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.action_spaces import ActionSpace
from rl_clarity.integrations import sb3

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import A2C, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv

from tests.point_world import SIDE, PointWorld

pytestmark = [
    pytest.mark.filterwarnings("ignore:the network's .* change by"),
]


def make_model(algorithm: Any, kind: str, steps: int = 30, **options: Any) -> Any:
    """Return a model that has learned for a few steps."""
    # The library adds to it.
    policy = {"features_extractor_kwargs": {"features_dim": 16}, **options.pop("policy_kwargs", {})}
    if algorithm in (SAC, TD3):
        options |= {"buffer_size": 200, "learning_starts": 20, "batch_size": 8}
    else:
        options |= {"n_steps": 16}
    venv = DummyVecEnv([lambda: PointWorld(kind)])
    return algorithm("CnnPolicy", venv, policy_kwargs=policy, seed=0, device="cpu", **options).learn(steps)


def images(count: int = 5) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [(PPO, "box"), (A2C, "multibinary"), (PPO, "multidiscrete"), (SAC, "box"), (TD3, "box")],
)
def test_greedy_actions_equal_the_predictions_of_the_library(algorithm: Any, kind: str) -> None:
    from rl_clarity.agents.actions import sample_factors

    model = make_model(algorithm, kind)
    agent = sb3.agent(model)
    outputs = agent.forward(images())
    assert outputs.policy_logits is not None
    greedy = sample_factors(outputs.policy_logits, agent.action_factors, np.random.default_rng(0), greedy=True)
    expected, _ = model.predict(np.moveaxis(images(), -1, 1), deterministic=True)
    np.testing.assert_allclose(ActionSpace(model.action_space).convert(greedy), expected, rtol=1e-4, atol=1e-4)


def test_outputs_of_sac_and_td3_are_means_before_the_tanh() -> None:
    x = torch.as_tensor(np.moveaxis(images(), -1, 1).copy())
    for algorithm, columns in ((SAC, 4), (TD3, 2)):
        model = make_model(algorithm, "box")
        outputs = sb3.agent(model).forward(images())
        assert outputs.policy_logits is not None
        assert outputs.policy_logits.shape == (5, columns)
        with torch.no_grad():
            actions = model.actor(x, deterministic=True) if algorithm is SAC else model.actor(x)
        means = outputs.policy_logits[:, :: columns // 2]
        np.testing.assert_allclose(np.tanh(means), actions.numpy(), atol=1e-5)
        assert outputs.values is None
    sac = make_model(SAC, "box")
    with torch.no_grad():
        log_stds = sac.actor.get_action_dist_params(x)[1].numpy()
    np.testing.assert_allclose(np.asarray(sb3.agent(sac).forward(images()).policy_logits)[:, 1::2], log_stds, atol=1e-5)


def test_standard_deviations_of_ppo_are_read_from_the_policy() -> None:
    model = make_model(PPO, "box")
    with torch.no_grad():
        model.policy.log_std.copy_(torch.tensor([-1.0, 0.5]))
    factors: Any = sb3.agent(model).action_factors
    np.testing.assert_allclose([factor.std for factor in factors], np.exp([-1, 0.5]), rtol=1e-6)
    assert [(factor.low, factor.high) for factor in factors] == [(-1, 1), (0, 2)]


@pytest.mark.parametrize("algorithm", [PPO, SAC])
@pytest.mark.parametrize("use_expln", [False, True])
def test_standard_deviations_of_gsde_depend_on_the_observation(algorithm: Any, use_expln: bool) -> None:
    model = make_model(algorithm, "box", use_sde=True, policy_kwargs={"use_expln": use_expln, "log_std_init": 0.1})
    agent: Any = sb3.agent(model)
    outputs = np.asarray(agent.forward(images()).policy_logits)
    with torch.no_grad():
        x = torch.as_tensor(np.moveaxis(images(), -1, 1).copy())
        if algorithm is SAC:
            model.actor(x)
            distribution = model.actor.action_dist.distribution
        else:
            distribution = model.policy.get_distribution(x).distribution
    np.testing.assert_allclose(outputs[:, ::2], distribution.mean, atol=1e-5)
    np.testing.assert_allclose(outputs[:, 1::2], distribution.stddev.log(), atol=1e-5)
    assert np.ptp(outputs[:, 1::2], axis=0).min() > 1e-4
    assert all(factor.std is None and factor.squashed == (algorithm is SAC) for factor in agent.action_factors)


@pytest.mark.parametrize(("algorithm", "kind"), [(SAC, "box"), (PPO, "multidiscrete")])
def test_sb3_explain_writes_a_page_for_continuous_actions(algorithm: Any, kind: str, tmp_path: Path) -> None:
    page = sb3.explain(make_model(algorithm, kind), tmp_path, num_steps=16, num_obs=8, features={"count": 3})
    manifest = page.results().manifest
    info = manifest["agents"][0]
    assert len(info["factors"]) == 2
    assert info["has_value"] == (algorithm is PPO)
    assert {"trajectories", "features", "attribution"} <= {section["kind"] for section in manifest["sections"]}


def test_evaluate_plays_episodes_of_a_continuous_action_model() -> None:
    model = make_model(SAC, "box")
    returns = rl_clarity.evaluate(sb3.agent(model), sb3.environment(model), episodes=2)["agent"].returns
    assert returns.shape == (2,)


def test_the_error_for_unsupported_action_spaces_suggests_a_wrapper() -> None:
    with pytest.raises(EnvironmentSetupError, match="Wrap the environment so that its action space is one of these"):
        ActionSpace(spaces.Tuple([spaces.Discrete(2)]))

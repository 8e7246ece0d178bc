"""Models of Stable-Baselines3: the library's own outputs, or an error that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.sb3 import EXTRACTORS
from rl_clarity.integrations import sb3

pytest.importorskip("stable_baselines3")
sb3_contrib = pytest.importorskip("sb3_contrib")

from gymnasium.spaces import Box, Space  # noqa: E402
from stable_baselines3 import A2C, DQN, PPO  # noqa: E402
from stable_baselines3.common.policies import ActorCriticCnnPolicy  # noqa: E402
from stable_baselines3.common.torch_layers import NatureCNN  # noqa: E402
from torch import nn  # noqa: E402

from rl_clarity.environments.images import image_layout  # noqa: E402
from tests import state_dicts  # noqa: E402
from tests.formats import sb3_models  # noqa: E402
from tests.formats.archive_writer import sb3_class, sb3_data, sb3_zip  # noqa: E402
from tests.formats.sb3_models import SIDE, make_model, own_outputs, save  # noqa: E402

load_agent: Any = formats.load_agent
"""Not typed, because the network decides which outputs are None."""
TOLERANCE = 1e-6


def image_space(low: float, high: float, dtype: Any = np.float32, channels: int = 3) -> Space[Any]:
    return Box(low, high, (channels, SIDE, SIDE), dtype)


def with_range(low: float, high: float, algorithm: Any = PPO) -> Any:
    return make_model(algorithm, space=image_space(low, high), normalize_images=False)


MODELS = {
    "PPO": lambda: make_model(PPO),
    "A2C with layers": lambda: make_model(A2C, net_arch={"pi": [8], "vf": [8, 6]}, activation_fn=nn.ELU),
    "DQN": lambda: make_model(DQN, net_arch=[8]),
    "separate extractors": lambda: make_model(PPO, share_features_extractor=False),
    "NatureCNN by name": lambda: make_model(PPO, "MlpPolicy", features_extractor_class=NatureCNN),
    "more features": lambda: make_model(PPO, features_extractor_kwargs={"features_dim": 40}, net_arch=[]),
    "channels first": lambda: make_model(PPO, space=image_space(0, 255, np.uint8, 4)),
    "gray": lambda: make_model(PPO, space=Box(0, 255, (SIDE, SIDE, 1), np.uint8)),
    "images not normalized": lambda: make_model(PPO, normalize_images=False),
    "floats from 0 to 1": lambda: with_range(0, 1),
    "floats from 0 to 255": lambda: with_range(0, 255),
    "floats from -1 to 1": lambda: with_range(-1, 1),
    "floats from -1 to 1, DQN": lambda: with_range(-1, 1, DQN),
    "bytes from 0 to 1": lambda: make_model(PPO, space=image_space(0, 1, np.uint8), normalize_images=False),
    "bytes from 0 to 5": lambda: make_model(PPO, space=image_space(0, 5, np.uint8), normalize_images=False),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_of_an_sb3_zip_equal_those_of_the_model(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    space = model.observation_space
    frames = sb3_models.random_frames(space.shape[0])
    observations = frames.transpose(0, 3, 1, 2).astype(space.dtype)
    low, high = space.low.min(), space.high.max()
    if space.dtype != np.uint8:
        observations = low + observations / np.float32(255) * (high - low)
    elif high < 255:
        observations %= high + 1
        frames = image_layout(space).convert(observations)  # as the environment's observations are
    expected = own_outputs(model, observations)
    largest = max(np.abs(output).max() for output in expected if output is not None)
    agent = load_agent(save(model, tmp_path))
    assert sb3_models.deviation(agent, frames, expected) < TOLERANCE * max(1, largest)


class CustomPolicy(ActorCriticCnnPolicy):
    pass


CUSTOM = {
    "NatureCNNWithELU": lambda: make_model(PPO, features_extractor_class=sb3_models.NatureCNNWithELU),
    "CenteredNatureCNN": lambda: make_model(PPO, features_extractor_class=sb3_models.CenteredNatureCNN),
    "CustomPolicy": lambda: make_model(PPO, CustomPolicy),
    "Hardtanh": lambda: make_model(PPO, activation_fn=nn.Hardtanh),
    "MinigridFeaturesExtractor": lambda: make_model(
        PPO, space=Box(0, 255, (7, 7, 3), np.uint8), features_extractor_class=sb3_models.MinigridFeaturesExtractor
    ),
    "CrossQPolicy": lambda: make_model(sb3_contrib.CrossQ, "MlpPolicy", actions=Box(-1, 1, (2,))),
}


@pytest.mark.parametrize("cause", CUSTOM)
def test_custom_sb3_models_are_refused_with_a_working_alternative(cause: str, tmp_path: Path) -> None:
    model = CUSTOM[cause]()
    with pytest.raises(CheckpointError, match=cause) as error:
        formats.read(save(model, tmp_path))
    assert "sb3.explain(model, 'page')" in str(error.value)
    assert "\n" not in str(error.value)
    agent: Any = sb3.agent(model)
    channels, height, width = model.observation_space.shape
    frames = np.random.default_rng(2).integers(0, 256, (4, height, width, channels), np.uint8)
    assert sb3.environment(model).observation_shape == frames.shape[1:]
    if agent.heads == ("policy_logits", "values"):
        expected = own_outputs(model, frames.transpose(0, 3, 1, 2))
        assert sb3_models.deviation(agent, frames, expected) < 10 * TOLERANCE


def test_a_custom_extractor_named_like_a_built_in_one_is_refused(tmp_path: Path) -> None:
    own = type("NatureCNN", (NatureCNN,), {"__module__": "__main__"})
    with pytest.raises(CheckpointError, match=rf"__main__\.NatureCNN.*only {EXTRACTORS[0]}"):
        formats.read(save(make_model(PPO, features_extractor_class=own), tmp_path))


def test_observations_without_bounds_need_a_value_range(tmp_path: Path) -> None:
    model = with_range(-np.inf, np.inf)
    path = save(model, tmp_path)
    with pytest.raises(CheckpointError, match="no bounds: pass the metadata value_range"):
        load_agent(path)
    frames = sb3_models.random_frames()
    expected = own_outputs(model, frames.transpose(0, 3, 1, 2) / np.float32(255))
    assert sb3_models.deviation(load_agent(path, value_range=[0, 1]), frames, expected) < TOLERANCE


def test_zips_with_observations_normalized_by_vecnormalize_are_refused(tmp_path: Path) -> None:
    """VecNormalize clips at 10 by default; its mean and variance are in another file."""
    path = save(with_range(-10, 10), tmp_path)
    with pytest.raises(CheckpointError, match="range from -10 to 10, like observations that VecNormalize"):
        load_agent(path)


def test_gray_images_of_a_maskable_policy_do_not_imply_atari(tmp_path: Path) -> None:
    policy = sb3_class("sb3_contrib.common.maskable.policies", "MaskableActorCriticCnnPolicy")
    (tmp_path / "plain.zip").write_bytes(sb3_zip(state_dicts.sb3()))
    (tmp_path / "maskable.zip").write_bytes(sb3_zip(state_dicts.sb3(), sb3_data(policy_class=policy)))
    plain, maskable = (formats.read(tmp_path / name).metadata for name in ("plain.zip", "maskable.zip"))
    assert (plain["env_kind"], maskable["env_kind"]) == ("atari", "gymnasium")
    assert "action_masks" not in plain
    assert maskable["action_masks"] is True  # a method that games of Atari do not have

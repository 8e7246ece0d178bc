"""Pages of agents of other environments, and of the larger networks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import ClarityError
from tests.golden_data import load_golden
from tests.pipeline.small import LAST_LAYER, completeness, write_checkpoint

SMALL: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 2, "num_steps": 10},
    "observations_kwargs": {"num_envs": 2, "num_obs": 4, "obs_every": 2},
}


class Light(gymnasium.Env[np.ndarray, Any]):
    """A light on a dark image moves left or right with the action; the episode ends at the edge."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (as Gymnasium defines it)
    observation_space = gymnasium.spaces.Box(0, 255, (48, 40, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, render_mode: str | None = None, size: int = 4) -> None:
        self.render_mode, self.size = render_mode, size

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(10, 30))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.position += int(action) - 1
        return self._observe(), float(action == 2), not 8 < self.position < 32, False, {}

    def render(self) -> np.ndarray:
        return self._observe().repeat(3, axis=0).repeat(3, axis=1)

    def get_action_meanings(self) -> list[str]:
        return ["LEFT", "NOOP", "RIGHT"]

    def _observe(self) -> np.ndarray:
        image = np.zeros((48, 40, 3), np.uint8)
        image[20 : 20 + self.size, self.position : self.position + self.size] = (255, 200, 100)
        return image


gymnasium.register("rl-clarity-tests/Light-v0", lambda **options: Light(**options))


def test_run_explains_an_agent_in_a_gymnasium_environment(tmp_path: Path) -> None:
    args = {
        "env_kind": "gymnasium",
        "env_name": "rl-clarity-tests/Light-v0",
        "cnn": "nature",
        "observation_shape": [48, 40, 3],
    }
    checkpoint = write_checkpoint(tmp_path / "agents" / "light.jd", args, (48, 40, 3), 3)
    page = rl_clarity.run(
        checkpoint,
        tmp_path / "page",
        layer_kwargs=LAST_LAYER,
        load_kwargs={"full_resolution": True, "metadata": {"make_kwargs": {"size": 6}}},
        **SMALL,
    )
    results = page.results()
    assert results.manifest["recordings"][0]["env_name"] == "rl-clarity-tests/Light-v0"
    assert [action["label"] for action in results.agent["actions"]] == ["←", "no-op", "→"]
    observation = results.agent["observation"]
    assert (observation["height"], observation["width"], observation["frame_height"]) == (48, 40, 144)
    frames = results.frames(1)
    assert frames.shape == (10, 144, 120, 3)
    assert (frames.reshape(10, -1, 3).max(axis=1) == (255, 200, 100)).all()
    assert (frames[0] > 0).any(axis=-1).sum() == (3 * 6) ** 2
    series = results.series(1)
    np.testing.assert_array_equal(series["rewards"], series["actions"] == 2)
    assert results.attribution("Relu_2", 0).channels.shape == (10, 2, 1, 8)


def test_run_explains_an_agent_in_atari(tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="the agent plays Pong")
    args = {"env_kind": "atari", "env_name": "pong", "cnn": "nature", "frame_stack": 4, "use_sticky_actions": 1}
    checkpoint = write_checkpoint(tmp_path / "agents" / "pong.jd", args, (84, 84, 4), 6)
    page = rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, input_layer_include=True, **SMALL)
    results = page.results()
    observation = results.agent["observation"]
    assert (observation["height"], observation["width"], observation["channels"]) == (84, 84, 4)
    assert observation["stack"] == 4
    assert [action["combo"] for action in results.agent["actions"]] == [
        [], ["FIRE"], ["RIGHT"], ["LEFT"], ["RIGHT", "FIRE"], ["LEFT", "FIRE"],
    ]  # fmt: skip
    assert results.frames(0).shape == (10, 84, 84, 1)
    chunk = results.chunk(results.trajectory(0)["frames"][0])
    assert chunk["stack_pixels"].shape == (10, 84, 4 * 84, 1)
    assert results.layers == ["input", "Relu_2"]
    assert results.layer("input")["channels"] == 4
    assert results.attribution("input", 0).channels.shape == (10, 84, 84, 4)
    assert results.section("features")["observations"]["height"] == 84


@pytest.mark.slow
def test_run_explains_an_atari_agent_with_full_resolution_frames(tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="the agent plays Pong")
    golden = load_golden("nature")
    checkpoint = Path(shutil.copyfile(golden.checkpoint, tmp_path / "nature.jd"))
    args = rl_clarity.load_agent(checkpoint).metadata
    if args.get("env_kind") != "atari":
        pytest.skip("the golden network is not an Atari agent")
    load = {"full_resolution": True}
    page = rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, load_kwargs=load, **SMALL)
    results = page.results()
    assert results.frames(0).shape == (10, 210, 160, 3)
    assert results.agent["observation"]["stack"] == 4


def test_run_refuses_environments_without_images(tmp_path: Path) -> None:
    args = {"env_kind": "gymnasium", "env_name": "CartPole-v1", "cnn": "nature", "observation_shape": [48, 40, 3]}
    checkpoint = write_checkpoint(tmp_path / "agents" / "cart.jd", args, (48, 40, 3), 2)
    with pytest.raises(ClarityError, match="image"):
        rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **SMALL)
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "layers"), [("clear", ["1a", "2a", "2b", "3a", "4a"]), ("impala", ["block1", "block2", "block3"])]
)
def test_run_explains_clear_and_impala_networks(network: str, layers: list[str], tmp_path: Path) -> None:
    pytest.importorskip("procgen", reason="the agent plays a Procgen game")
    checkpoint = Path(shutil.copyfile(load_golden(network).checkpoint, tmp_path / f"{network}.jd"))
    page = rl_clarity.run(checkpoint, tmp_path / "page", **SMALL)
    results = page.results()
    assert results.layers == layers
    agent = rl_clarity.load_agent(checkpoint)
    frames = results.frames(0)
    attribution = rl_clarity.integrated_gradients(agent, frames, results.layers[-1], error_limit=results.error_limit())
    gap = completeness(results, results.layers[-1], 0, "value")
    np.testing.assert_allclose(gap[:, 0], attribution.sum(axis=(1, 2, 3)), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["bigfish", "maze", "starpilot"])
def test_run_passes_environment_options_to_other_procgen_games(game: str, tmp_path: Path) -> None:
    pytest.importorskip("procgen", reason="the agent plays a Procgen game")
    args = {
        "env_kind": "procgen",
        "env_name": game,
        "cnn": "nature",
        "num_levels": 5,
        "distribution_mode": "easy",
        "use_backgrounds": False,
        "epsilon_greedy": 0.5,
        "reward_scale": 0.1,
    }
    checkpoint = write_checkpoint(tmp_path / "agents" / f"{game}.jd", args)
    page = rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **SMALL)
    groups = {group["group"]: dict(group["items"]) for group in page.results().manifest["provenance"]}
    assert groups["Environment"]["name"] == game
    assert groups["Environment"]["num_levels"] == "5"
    assert groups["Environment"]["epsilon_greedy"] == "0.5"
    assert groups["Environment"]["reward_scale"] == "0.1"
    assert page.results().manifest["recordings"][0]["env_name"] == game

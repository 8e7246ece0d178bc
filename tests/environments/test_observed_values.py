"""The values of observations are compared with the range that is declared for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import SamplesError
from rl_clarity.environments.images import image_layout
from tests.fakes import TinyAgent

SHAPE = (16, 16, 3)
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, *SHAPE), np.uint8)
Box = gymnasium.spaces.Box


class Images(gymnasium.Env[np.ndarray, np.int64]):
    """Images, one after another, as a wrapper leaves them whose space may be another one."""

    action_space = gymnasium.spaces.Discrete(5)

    def __init__(self, images: np.ndarray, space: Box) -> None:
        self.images, self.observation_space = images, space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.age = 0
        return self.images[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.age += 1
        return self.images[self.age % len(self.images)], 0.0, False, False, {}


def collect(images: np.ndarray, space: Box, agent: Any = None, **options: Any) -> np.ndarray:
    """What an agent sees of images."""
    agent = agent or TinyAgent("policy", SHAPE, 5, patch=4)
    samples, _ = rl_clarity.collect(agent, Images(images, space), 4, 2, obs_every=1, **options)
    return samples.observations[0]


def divided(space: Box, count: int) -> Any:
    """Environments (a vector of several) whose images a wrapper divides by 255, and leaves their space as it was."""

    def make() -> Any:
        inner = Images(IMAGES, Box(0, 255, SHAPE, np.uint8))
        return gymnasium.wrappers.TransformObservation(inner, lambda image: image / np.float32(255), space)

    return make() if count == 1 else gymnasium.vector.SyncVectorEnv([make] * count)


@pytest.mark.parametrize(("dtype", "count"), [(np.uint8, 1), (np.float32, 1), (np.float32, 2)])
def test_observations_from_0_to_1_in_a_space_up_to_255_are_refused(dtype: Any, count: int) -> None:
    space = Box(0, 255, SHAPE, dtype)
    agent = TinyAgent("policy", SHAPE, 5, patch=4)
    with pytest.raises(SamplesError, match=r"range from 0 to 1, but 0 to 255 .* value_range=\(0, 1\)"):
        rl_clarity.collect(agent, divided(space, count), 4, 2, obs_every=1)
    samples, _ = rl_clarity.collect(agent, divided(space, count), 3, 2, obs_every=1, value_range=(0, 1))
    assert set(samples.observations.ravel()) > {0, 128, 255}


def test_observations_outside_the_declared_bounds_are_refused() -> None:
    with pytest.raises(SamplesError, match=r"values outside this range are clipped.*value_range=\(0, 255\)"):
        collect(IMAGES.astype(np.float32), Box(0, 1, SHAPE, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_observations_with_nan_or_infinity_are_refused(value: float) -> None:
    images = IMAGES / np.float32(255)
    images[2, 5, 5] = value
    with pytest.raises(SamplesError, match=f"range from .*{value}.*, but images must be finite"):
        collect(images, Box(0, 1, SHAPE, np.float32))


def test_integer_images_of_0_and_1_need_an_explicit_value_range() -> None:
    images = (IMAGES > 128).astype(np.uint8)
    space = Box(0, 255, SHAPE, np.uint8)
    with pytest.raises(SamplesError, match=r"0 and 1 both look black.*are right, pass value_range=\(0, 255\)"):
        collect(images, space)
    assert set(collect(images, space, value_range=(0, 1)).ravel()) == {0, 255}
    assert set(collect(images, space, value_range=(0, 255)).ravel()) == {0, 1}


@pytest.mark.parametrize(
    ("images", "space"),
    [
        ((IMAGES > 128) * np.uint8(255), Box(0, 255, SHAPE, np.uint8)),
        ((IMAGES > 128).astype(np.float32), Box(0, 1, SHAPE, np.float32)),
        ((IMAGES // 100).astype(np.float32) / 2, Box(0, 1, SHAPE, np.float32)),
        (IMAGES // 128 * np.uint8(10), Box(0, 255, SHAPE, np.uint8)),
        (IMAGES * 0, Box(0, 255, SHAPE, np.uint8)),
    ],
    ids=["black and white", "float", "three grays", "numbers of objects", "black"],
)
def test_images_of_few_colors_that_use_their_range_are_accepted(images: np.ndarray, space: Box) -> None:
    collect(images, space)


def test_integer_observations_are_scaled_from_their_space_to_uint8() -> None:
    images = (IMAGES > 128).astype(np.uint8)
    assert set(collect(images, Box(0, 1, SHAPE, np.uint8)).ravel()) == {0, 255}
    assert set(collect(images * 5, Box(0, 5, SHAPE, np.uint8)).ravel()) == {0, 255}


def test_observed_minimum_and_maximum_are_tracked_for_each_channel() -> None:
    layout = image_layout(Box(-1, 1, (3, 8, 8), np.float32))
    images = RNG.uniform(-1, 1, (5, 3, 8, 8)).astype(np.float32)
    for part in (images[:2], images[2:]):
        layout.convert(part)
    np.testing.assert_array_equal(layout.observed.low, images.min(axis=(0, 2, 3)))
    np.testing.assert_array_equal(layout.observed.high, images.max(axis=(0, 2, 3)))


def test_unusual_observation_bounds_need_an_agent_with_a_value_range() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(SHAPE)), 5))
    images, space = IMAGES / np.float32(127.5) - 1, Box(-1, 1, SHAPE, np.float32)

    def agent(**options: Any) -> Any:
        return rl_clarity.TorchAgent(module, SHAPE, heads=("q_values",), channels_first=False, **options)

    with pytest.raises(SamplesError, match=r"from -1 to 1, .* 0 to 1. Use TorchAgent\(..., value_range=\(-1, 1\)\)"):
        collect(images, space, agent())
    told = agent(value_range=(-1, 1))
    seen = collect(images, space, told)
    with torch.no_grad():
        expected = module(torch.as_tensor(images[[0, 1, 2, 3]])).numpy()
    np.testing.assert_allclose(told.forward(seen).q_values, expected, atol=1e-4)
    collect(images, space, agent(value_range=(0, 1)))
    collect(IMAGES, Box(0, 255, SHAPE, np.uint8), agent())


def test_recording_refuses_observations_that_contradict_their_space(tmp_path: Path) -> None:
    def record(name: str, **options: Any) -> None:
        space = Box(0, 255, SHAPE, np.float32)
        images = gymnasium.wrappers.TimeLimit(Images(IMAGES / np.float32(255), space), 4)
        environment = rl_clarity.RecordEpisodes(images, tmp_path / name, on_error="raise", **options)
        environment.reset()
        for _ in range(4):
            environment.step(0)
        environment.close()

    with pytest.raises(SamplesError, match=r"rounding leaves only 2 of 256 levels.*value_range=\(0, 1\)"):
        record("refused")
    record("recorded", value_range=(0, 1))

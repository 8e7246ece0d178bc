"""Images that maximize the activation of a direction."""

from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import ClarityError
from rl_clarity.visualization.optimization import OptimizedImages, optimize_images


def colored_stripes(images: np.ndarray, layer: str, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A layer of two channels: red on even rows minus red on odd rows, and blue minus green."""
    assert layer == "stripes"
    patterns = np.zeros((2, *images.shape[1:]), np.float32)
    patterns[0, ::2, :, 0] = 1
    patterns[0, 1::2, :, 0] = -1
    patterns[1, :, :, 2] = 1
    patterns[1, :, :, 1] = -1
    patterns /= np.prod(images.shape[1:3])
    gradients = np.tensordot(directions, patterns, 1)
    return (gradients * images).sum(axis=(1, 2, 3)), gradients


def optimize(seed: int = 0, **options: Any) -> OptimizedImages:
    rng = np.random.default_rng(seed)
    return optimize_images(colored_stripes, "stripes", np.eye(2), (8, 8, 3), rng, **{"steps": 60, **options})


def test_optimized_images_maximize_the_activation_of_their_direction() -> None:
    result = optimize(jitter=0)
    assert result.images.shape == (2, 8, 8, 3)
    assert result.images.dtype == np.float32
    assert result.images.min() >= 0
    assert result.images.max() <= 1
    assert result.values[0] > 0.3  # of 0.5
    assert result.values[1] > 0.8  # of 1
    assert result.images[1, ..., 2].mean() > 0.9 > 0.1 > result.images[1, ..., 1].mean()


def test_jitter_suppresses_position_dependent_patterns() -> None:
    image = optimize(jitter=3).images[0, ..., 0]
    assert abs(image[::2].mean() - image[1::2].mean()) < 0.15
    without_jitter = optimize(jitter=0).images[0, ..., 0]
    assert without_jitter[::2].mean() - without_jitter[1::2].mean() > 0.3


def test_l2_penalty_keeps_images_gray() -> None:
    free, penalized = optimize().images, optimize(l2_penalty=20.0).images
    assert ((penalized - 0.5) ** 2).mean() < 0.25 * ((free - 0.5) ** 2).mean()


def test_the_same_seed_gives_the_same_optimized_image() -> None:
    np.testing.assert_array_equal(optimize(seed=3).images, optimize(seed=3).images)
    assert not np.array_equal(optimize(seed=3).images, optimize(seed=4).images)


def test_feature_optimization_refuses_nan_gradients() -> None:
    def broken(images: np.ndarray, layer: str, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(images)), np.full_like(images, np.nan)

    with pytest.raises(ClarityError, match="'2b'"):
        optimize_images(broken, "2b", np.eye(2), (8, 8, 3), np.random.default_rng(0), steps=2)

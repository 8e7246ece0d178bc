"""Feature visualization by optimization: images that maximize the activation along directions of a layer's channels.

This follows Olah, Mordvintsev and Schubert, Feature Visualization (Distill, 2017): gradient ascent on the image in a
basis in which low frequencies are easier to change than high ones, with random jitter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.adam import Adam
from rl_clarity.base.errors import ClarityError

GradientOfDirection = Callable[[np.ndarray, str, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function `(images (N, H, W, C) float32 in 0..1, layer, directions (N, c))` that returns values (N,), the mean over
positions of the activations along each direction, and their gradients (N, H, W, C) with respect to the images."""

STEPS = 256
_INITIAL_SPREAD = 0.01


@dataclass(frozen=True)
class OptimizedImages:
    """Images, and their activations along the directions."""

    images: np.ndarray  # (N, H, W, C) float32 in 0..1
    values: np.ndarray  # (N,) float32: mean activation along the direction


def optimize_images(
    gradient_of_direction: GradientOfDirection,
    layer: str,
    directions: np.ndarray,
    image_shape: tuple[int, int, int],
    rng: np.random.Generator,
    *,
    steps: int = STEPS,
    learning_rate: float = 0.05,
    jitter: int = 2,
    l2_penalty: float = 0.0,
) -> OptimizedImages:
    """Optimize an image of `image_shape` (H, W, C) for each of `directions` (N, c) of the layer's channels.

    `jitter` is the range of random shifts in pixels. `l2_penalty` is the weight of the mean squared distance of pixels
    from gray, which is subtracted from the mean activation.
    """
    directions = np.asarray(directions, np.float32)
    height, width, colors = image_shape
    canvas = (height + jitter, width + jitter)
    smoothing = _smoothing(canvas)
    parameters = rng.normal(0, _INITIAL_SPREAD, (len(directions), *canvas, colors))
    optimizer = Adam(parameters.shape, learning_rate)
    for _ in range(steps):
        images = _to_images(parameters, smoothing)
        top, left = rng.integers(0, jitter + 1, 2)
        crop = np.s_[:, top : top + height, left : left + width]
        _, gradient = gradient_of_direction(images[crop].astype(np.float32), layer, directions)
        if not np.isfinite(gradient).all():
            raise ClarityError(
                f"the gradient of layer {layer!r} with respect to the image is not finite; check the parameters for NaN"
            )
        total = np.zeros_like(parameters)
        total[crop] = gradient
        total -= l2_penalty * 2 * (images - 0.5) / (height * width * colors)
        parameters += optimizer.step(_filter(total * images * (1 - images), smoothing))
    middle = np.s_[:, jitter // 2 : jitter // 2 + height, jitter // 2 : jitter // 2 + width]
    final = _to_images(parameters, smoothing)[middle].astype(np.float32)
    values, _ = gradient_of_direction(final, layer, directions)
    return OptimizedImages(final, np.asarray(values, np.float32))


def _to_images(parameters: np.ndarray, smoothing: np.ndarray) -> np.ndarray:
    """Return the images (N, H, W, C) in 0..1 for parameters in the preconditioned basis."""
    return np.asarray(1 / (1 + np.exp(-_filter(parameters, smoothing))))


def _filter(images: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Weight the frequencies of images. The operation is real and symmetric, so it also propagates gradients."""
    return np.fft.irfft2(np.fft.rfft2(images, axes=(1, 2)) * response[..., None], images.shape[1:3], axes=(1, 2))


def _smoothing(size: tuple[int, int]) -> np.ndarray:
    """Return the weight (H, W // 2 + 1) of each frequency: its inverse, as in natural images, with mean square 1."""
    frequency = np.hypot(np.fft.fftfreq(size[0])[:, None], np.fft.rfftfreq(size[1])[None, :])
    weight = 1 / np.maximum(frequency, 1 / max(size))
    return np.asarray(weight / np.sqrt(np.mean(weight**2)))

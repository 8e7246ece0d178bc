"""Convert image observations of any layout to (N, H, W, C) uint8, and vectors to (N, 1, 1, n) float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError, SamplesError
from rl_clarity.environments.observed_values import ObservedValues

MIN_SIDE = 3
"""Smallest side of an image in pixels (or cells, as in MiniGrid's smallest view). Smaller arrays are not images."""


@dataclass(frozen=True)
class ImageLayout:
    """The layout of an environment's image observations."""

    shape: tuple[int, int, int]
    """Shape (H, W, C) after conversion. Stacked images are concatenated along the channels."""
    axes: tuple[int, ...]
    """Indices of the axes of an observation, in the order height, width, stack, channel. Axes that observations do not
    have are omitted."""
    low: float
    """The value of black."""
    high: float
    """The value of white."""
    is_uint8: bool
    """Whether the conversion keeps the values of observations. It does so for vectors and for uint8 images from 0 to
    255."""
    assumed: bool = True
    """Whether the range comes from the observation space rather than from the caller."""
    observed: ObservedValues = field(default_factory=ObservedValues, compare=False, repr=False)
    """The range and levels of all values that were converted."""

    key: str | None = None
    """Key of the image, if observations are dictionaries."""
    held: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the numeric entries of a dictionary besides the image, by name."""

    def held_inputs(self, observations: Any) -> dict[str, np.ndarray]:
        """Return the numeric entries of N observations, except the image, as arrays (N, ...) float32 by name."""
        return {name: np.array(observations[name], np.float32) for name in self.held}

    def last(self, observation: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the image (H, W, C) and the held inputs of a single observation, such as the last of an episode."""
        batch = stacked([observation])
        return self.convert(batch)[0], {name: array[0] for name, array in self.held_inputs(batch).items()}

    def convert(self, observations: Any) -> np.ndarray:
        """Convert a batch of observations (N, ...) with this layout to images (N, H, W, C) uint8. If observations are
        dictionaries, the batch is a dictionary of arrays.
        """
        observations = np.asarray(observations if self.key is None else observations[self.key])
        ordered = observations.transpose(0, *(axis + 1 for axis in self.axes))
        raw = np.ascontiguousarray(ordered.reshape(len(observations), *self.shape))
        levels = scaled = raw
        if raw.dtype != np.uint8 or not self.is_uint8:  # the values may be floats, if a wrapper did not adapt the space
            scaled = np.clip((raw.astype(np.float64) - self.low) / (self.high - self.low), 0, 1) * 255
            with np.errstate(invalid="ignore"):  # NaN, which `check_observed` refuses
                levels = np.rint(scaled).astype(np.uint8)
        self.observed.add(raw, levels, scaled)
        return levels

    @property
    def is_vector(self) -> bool:
        """Whether observations are vectors, not images."""
        return self.shape[:2] == (1, 1)

    def check_observed(self) -> None:
        """Raise SamplesError if the converted observations do not fit the layout's range."""
        self.observed.check(self.low, self.high, assumed=self.assumed)


class VectorLayout(ImageLayout):
    """The layout of observations that are vectors of n numbers. They become images (1, 1, n) float32 with the same
    values.
    """

    def convert(self, observations: Any) -> np.ndarray:
        """Convert observations (N, n) to (N, 1, 1, n) float32. Raises SamplesError for numbers that are not finite."""
        vectors = np.array(observations, np.float32).reshape(len(observations), *self.shape)
        if not np.isfinite(vectors).all():
            raise SamplesError(
                f"an observation contains {vectors[~np.isfinite(vectors)][0]}; observations must be finite"
            )
        return vectors


def image_layout(
    space: Any, *, channels_first: bool | None = None, value_range: tuple[float, float] | None = None
) -> ImageLayout:
    """Return the layout of a Gymnasium observation space of gray, color or stacked images with values in any range.

    A vector (n,) becomes an image of a single pixel. In a dictionary, the largest image is converted, and other numeric
    entries are held inputs. `channels_first` determines whether the channels come before or after height and width. By
    default, the shorter of the first and the last axis of an image is taken as the channel axis. `value_range` contains
    the values of black and white, and is needed if the bounds of the space are missing or wrong. Raises
    EnvironmentSetupError for unsupported spaces.
    """
    if isinstance(getattr(space, "spaces", None), Mapping):
        return _dictionary_layout(space, channels_first, value_range)
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if not hasattr(space, "high") or shape is None or dtype is None:
        raise EnvironmentSetupError(
            f"observation space {space} is not an image; wrap the environment so that it returns one Box of pixels"
        )
    if len(shape) == 1:
        return VectorLayout((1, 1, shape[0]), (0,), 0, 1, is_uint8=True)
    axes = image_axes(tuple(shape), channels_first)
    height, width = shape[axes[0]], shape[axes[1]]
    if min(height, width) < MIN_SIDE:
        raise EnvironmentSetupError(
            f"observation space {space} has {height} x {width} positions, which are too few for an image; "
            "wrap the environment so that it returns pixels (gymnasium.wrappers.AddRenderObservation)"
        )
    channels = int(np.prod([shape[axis] for axis in axes[2:]], dtype=int))
    low, high = value_range or (float(np.min(space.low)), float(np.max(space.high)))
    is_uint8 = np.dtype(dtype) == np.uint8 and (low, high) == (0, 255)
    if not is_uint8 and not (np.isfinite([low, high]).all() and low < high):
        raise EnvironmentSetupError(
            f"observation space {space} has no bounds for black and white; pass value_range=(low, high)"
        )
    return ImageLayout((height, width, channels), axes, low, high, is_uint8, value_range is None)


def stacked(observations: Sequence[Any]) -> Any:
    """Stack the observations of N single environments into an array (N, ...), or into a dict of arrays if they are
    dictionaries.
    """
    first = observations[0]
    if not isinstance(first, Mapping):
        return np.stack(observations)
    return {name: np.stack([one[name] for one in observations]) for name in first}


def rows(observations: Any, count: int) -> list[Any]:
    """Split stacked observations of `count` environments into a list. This is the inverse of `stacked`."""
    if not isinstance(observations, Mapping):
        return list(observations)
    return [{name: array[i] for name, array in observations.items()} for i in range(count)]


def _dictionary_layout(space: Any, channels_first: bool | None, value_range: tuple[float, float] | None) -> ImageLayout:
    parts: Mapping[str, Any] = space.spaces
    images = [name for name, part in parts.items() if len(getattr(part, "shape", None) or ()) == 3]
    if not images:
        raise EnvironmentSetupError(
            f"observation space {space} has no image; wrap the environment so that it returns a single Box "
            "(gymnasium.wrappers.FlattenObservation for numbers)"
        )
    key = max(images, key=lambda name: np.prod(parts[name].shape))
    layout = image_layout(parts[key], channels_first=channels_first, value_range=value_range)
    held = {
        name: tuple(part.shape)
        for name, part in parts.items()
        if name != key and part.shape is not None and np.dtype(part.dtype).kind in "biuf"
    }
    return replace(layout, key=key, held=held, observed=ObservedValues())


def image_axes(shape: tuple[int, ...], channels_first: bool | None = None) -> tuple[int, ...]:
    """Return the indices of an image's axes in the order of `ImageLayout.axes`. `channels_first` is as in
    `image_layout`. Raises EnvironmentSetupError if the shape is not that of an image.
    """
    if len(shape) == 2:
        return 0, 1
    if len(shape) not in (3, 4):
        raise EnvironmentSetupError(
            f"observations of shape {shape} are not images: the shape must be (H, W), (H, W, C) or (C, H, W), a stack "
            "of these, or (n,) for a vector; wrap the environment so that it returns pixels "
            "(gymnasium.wrappers.AddRenderObservation)"
        )
    stack = len(shape) - 3  # the first axis is the stack, oldest image first
    first = shape[stack] < shape[-1] if channels_first is None else channels_first
    order = (1, 2, 0) if first else (0, 1, 2)
    height, width, channel = (axis + stack for axis in order)
    return (height, width, 0, channel) if stack else (height, width, channel)

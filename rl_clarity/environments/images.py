"""Convert image observations of any layout to (N, H, W, C) uint8."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.observed_values import ObservedValues

MIN_SIDE = 3
"""Smallest side of an image in pixels (or cells, as in MiniGrid's smallest view). Smaller arrays are not images."""


@dataclass(frozen=True)
class ImageLayout:
    """The layout of an environment's image observations."""

    shape: tuple[int, int, int]
    """Shape (H, W, C) after conversion. Stacked images follow one another along the channels."""
    axes: tuple[int, ...]
    """Axes of an observation in the order height, width, stack, channel, without missing axes."""
    low: float
    """The value of black."""
    high: float
    """The value of white."""
    is_uint8: bool
    """Whether values stay unchanged."""
    assumed: bool = True
    """Whether the range comes from the observation space and not from the caller."""
    observed: ObservedValues = field(default_factory=ObservedValues, compare=False, repr=False)
    """The range and levels of all values that were converted."""

    def convert(self, observations: np.ndarray) -> np.ndarray:
        """Convert observations (N, ...) of this layout to (N, H, W, C) uint8."""
        observations = np.asarray(observations)
        ordered = observations.transpose(0, *(axis + 1 for axis in self.axes))
        raw = np.ascontiguousarray(ordered.reshape(len(observations), *self.shape))
        levels = scaled = raw
        if raw.dtype != np.uint8 or not self.is_uint8:  # the values may be floats, if a wrapper did not adapt the space
            scaled = np.clip((raw.astype(np.float64) - self.low) / (self.high - self.low), 0, 1) * 255
            with np.errstate(invalid="ignore"):  # NaN, which `check_observed` refuses
                levels = np.rint(scaled).astype(np.uint8)
        self.observed.add(raw, levels, scaled)
        return levels

    def check_observed(self) -> None:
        """Raise SamplesError if the converted observations do not fit the layout's range."""
        self.observed.check(self.low, self.high, assumed=self.assumed)


def image_layout(
    space: Any, *, channels_first: bool | None = None, value_range: tuple[float, float] | None = None
) -> ImageLayout:
    """Return the layout of a Gymnasium observation space of gray, color or stacked images, uint8 or of any range.

    `channels_first` locates the channels if their axis is not the shortest. `value_range` gives the values of black and
    white if the space has no bounds or wrong ones. Raises EnvironmentSetupError for other spaces.
    """
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if not hasattr(space, "high") or shape is None or dtype is None:
        raise EnvironmentSetupError(
            f"observation space {space} is not an image; wrap the environment so that it returns one Box of pixels"
            f"{_hint_of_images(space)}"
        )
    axes = _axes(tuple(shape), channels_first)
    height, width = shape[axes[0]], shape[axes[1]]
    if min(height, width) < MIN_SIDE:
        raise EnvironmentSetupError(
            f"observation space {space} has {height} x {width} positions, too few for an image; "
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


def _axes(shape: tuple[int, ...], channels_first: bool | None) -> tuple[int, ...]:
    if len(shape) == 2:
        return 0, 1
    if len(shape) not in (3, 4):
        raise EnvironmentSetupError(
            f"observations of shape {shape} are not images: (H, W), (H, W, C), (C, H, W) or a stack of these is "
            "needed; wrap the environment so that it returns pixels (gymnasium.wrappers.AddRenderObservation)"
        )
    stack = len(shape) - 3  # the first axis is the stack, oldest image first
    first = shape[stack] < shape[-1] if channels_first is None else channels_first
    order = (1, 2, 0) if first else (0, 1, 2)
    height, width, channel = (axis + stack for axis in order)
    return (height, width, 0, channel) if stack else (height, width, channel)


def _hint_of_images(space: Any) -> str:
    spaces = getattr(space, "spaces", None)
    if not isinstance(spaces, dict):
        return ""
    images = [key for key, part in spaces.items() if len(getattr(part, "shape", None) or ()) >= 2]
    return f"; parts that may be images: {', '.join(map(repr, images))}" if images else ""

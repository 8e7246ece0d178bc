"""Perturbation saliency: how much outputs change when a part of the observation is blurred.

Visualizing and Understanding Atari Agents (Greydanus, Koul, Dodge and Fern, 2018; arXiv 1711.00138). A mask M is a
Gaussian around a center. If A(I) is the blurred observation, the perturbed observation is I (1 - M) + A(I) M. Saliency
at the center is half the squared change of the logits, or of the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import action_factors, require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.attribution.saliency import (
    SaliencyMethod,
    SaliencyOutputs,
    as_outputs,
    head_columns,
    network_input,
    output_differences,
    results_at,
    unlisted,
)
from rl_clarity.base.errors import OptionError

MODES = ("occlude", "searchlight")
REFERENCE_HEIGHT = 80
"""Height in pixels of the observation to which stride and standard deviations refer."""
BATCH_BYTES = 2**26
"""Largest size in bytes of a batch of perturbed observations."""


@dataclass(frozen=True)
class PerturbationGrid:
    """Centers of masks on an observation: 0, stride, 2 stride, ... along both axes, in pixels of the observation."""

    height: int
    width: int
    stride: int
    mask_sigma: float
    blur_sigma: float

    @classmethod
    def for_shape(
        cls,
        height: int,
        width: int,
        *,
        stride: float = 5,
        mask_sigma: float = 5,
        blur_sigma: float = 3,
        pixels: bool = False,
    ) -> PerturbationGrid:
        """Return the grid for observations of H x W pixels.

        Sizes are in pixels of an observation that is 80 pixels high, and scale with the height. With `pixels` they are
        in pixels of the observation itself. Raises OptionError for sizes that are not above 0, and with `pixels` for a
        `stride` that is not an integer.
        """
        for name, size in (("stride", stride), ("mask_sigma", mask_sigma), ("blur_sigma", blur_sigma)):
            if not 0 < size < np.inf:
                raise OptionError(f"{name}={size!r} must be above 0")
        if pixels and stride != int(stride):
            raise OptionError(f"stride={stride!r} must be a whole number of pixels")
        scale = 1 if pixels else height / REFERENCE_HEIGHT
        return cls(height, width, max(1, round(stride * scale)), mask_sigma * scale, blur_sigma * scale)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (gh, gw) of the grid."""
        return -(-self.height // self.stride), -(-self.width // self.stride)

    @property
    def masks(self) -> np.ndarray:
        """Masks (gh * gw, H, W) float32 from 0 to 1, row by row. They are computed once per grid."""
        return _masks(self)

    def blurred(self, images: np.ndarray) -> np.ndarray:
        """Return images (B, H, W, C) with each channel of each stacked frame blurred separately, as float32."""
        from scipy.ndimage import gaussian_filter

        return np.asarray(gaussian_filter(images, (0, self.blur_sigma, self.blur_sigma, 0)), np.float32)

    def upsample(self, maps: np.ndarray) -> np.ndarray:
        """Interpolate maps (..., gh, gw) to all pixels (..., H, W) float32.

        Interpolation is bilinear between centers, and constant beyond the outer centers.
        """
        rows, columns = (self._weights(size, count) for size, count in zip(self._size, self.shape, strict=True))
        return np.asarray(np.einsum("hi,...ij,wj->...hw", rows, maps, columns, optimize=True), np.float32)

    @property
    def _size(self) -> tuple[int, int]:
        return self.height, self.width

    def _weights(self, size: int, count: int) -> np.ndarray:
        """Return the interpolation weights (size, count) of the centers at each pixel of an axis."""
        position = np.minimum(np.arange(size) / self.stride, count - 1)
        return np.maximum(0, 1 - np.abs(position[:, None] - np.arange(count)))


@lru_cache(maxsize=8)
def _masks(grid: PerturbationGrid) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    rows, columns = np.ogrid[: grid.height, : grid.width]
    masks = np.zeros((*grid.shape, grid.height, grid.width), np.float32)
    for i, j in np.ndindex(*grid.shape):
        near = (rows - i * grid.stride) ** 2 + (columns - j * grid.stride) ** 2 <= 1
        mask = gaussian_filter(near.astype(np.float64), grid.mask_sigma)
        masks[i, j] = mask / mask.max()
    stacked = masks.reshape(-1, grid.height, grid.width)
    stacked.flags.writeable = False
    return stacked


@lru_cache(maxsize=8)
def _windows(grid: PerturbationGrid) -> list[tuple[int, np.ndarray]]:
    """Return, for each mask, the index of its first row that is not 0, and the rows (n, W) from it to the last one."""
    lines = [np.flatnonzero(mask.any(axis=1)) for mask in grid.masks]
    return [(int(rows[0]), mask[rows[0] : rows[-1] + 1]) for rows, mask in zip(lines, grid.masks, strict=True)]


def perturbation_saliency(
    agent: Agent,
    observations: np.ndarray,
    output: SaliencyOutputs = "policy",
    *,
    state: State = None,
    mode: str = "occlude",
    signed: bool | Sequence[bool] = False,
    stride: float = 5,
    mask_sigma: float = 5,
    blur_sigma: float = 3,
    pixels: bool = False,
) -> np.ndarray:
    """Return how much outputs change when a part of the observation is blurred, (B, gh, gw) float32.

    Cell (i, j) belongs to the mask around pixel (i * stride, j * stride). `PerturbationGrid.for_shape` returns the
    grid, whose `upsample` interpolates maps to all pixels. The observation is perturbed after preprocessing; the state
    before the step stays the same.

    Args:
        observations: (B, H, W, C) as the agent takes them
        output: "policy" (1/2 |change of the logits|^2, or of the action values), "value" (1/2 change^2), or any other
            score: an action's index, a tuple of indices (the sum of their logits), "greedy", or weights by "value" or
            index. A list of S outputs gives (S, B, gh, gw), at the cost of one output
        state: the state of a recurrent agent before the observations; its initial state if None
        mode: "occlude" blurs the part under the mask; "searchlight" blurs everything else
        signed: whether to return the signed change s(I) - s(I') from the perturbed observation I', which is positive
            where the content of the observation raises the output; not available for "policy". For a list of outputs,
            it may be a list with one bool for each
        stride: distance between neighboring centers
        mask_sigma: standard deviation of the masks
        blur_sigma: standard deviation of the blur
        pixels: whether the three sizes are in pixels of the observation; otherwise they are for a height of 80 and
            scale with it

    Raises OptionError for an object that is not an agent, an unknown output or mode, an invalid size, `signed` for
    "policy", and a list `signed` that is not as long as the list of outputs; SamplesError for observations of the wrong
    shape or range. Source: Greydanus et al. (2018), arXiv 1711.00138.
    """
    if mode not in MODES:
        raise OptionError(f"mode={mode!r} must be one of {', '.join(MODES)}")
    outputs = as_outputs(output)
    signs = [signed] * len(outputs) if isinstance(signed, bool) else list(signed)
    if len(signs) != len(outputs):
        raise OptionError(f"signed={signed!r} must be True, False, or a list with one bool for each output")
    images = network_input(agent, observations, state)
    sizes: dict[str, Any] = {"stride": stride, "mask_sigma": mask_sigma, "blur_sigma": blur_sigma}
    grid = PerturbationGrid.for_shape(*images.shape[1:3], **sizes, pixels=pixels)
    results, columns = head_columns(agent.forward(observations, state))
    perturbed = np.concatenate(list(_perturbed_results(agent, observations, images, state, grid, mode)))
    perturbed = perturbed.reshape(len(images), -1, results.shape[1])
    scores = output_differences(outputs, results, columns, perturbed, action_factors(agent), signed=signs)
    return unlisted(np.asarray(scores, np.float32).reshape(len(outputs), len(images), *grid.shape), output)


def _perturbed_results(
    agent: Agent, observations: np.ndarray, images: np.ndarray, state: State, grid: PerturbationGrid, mode: str
) -> Iterator[np.ndarray]:
    """Yield the heads at the perturbed images in batches: all masks of the first observation, then of the next one.

    A batch may contain images of several observations, so all batches except the last are full.
    """
    blurred = grid.blurred(images)
    kept, shown = (images, blurred) if mode == "occlude" else (blurred, images)
    change, count = shown - kept, len(grid.masks)
    size = 1 << (max(1, BATCH_BYTES // images[:1].nbytes).bit_length() - 1)  # a power of two, as agents' batches are
    memory = np.empty((min(size, count * len(images)), *images.shape[1:]), np.float32)
    for start in range(0, count * len(images), size):
        perturbed = memory[: count * len(images) - start]
        rows = np.arange(start, start + len(perturbed)) // count
        np.take(kept, rows, axis=0, out=perturbed, mode="clip")  # the default mode copies once more
        _blend(grid, change, start, perturbed)
        states = None if state is None else tuple(part[rows] for part in state)
        yield results_at(agent, np.asarray(observations)[rows], perturbed, states)


def _blend(grid: PerturbationGrid, change: np.ndarray, start: int, images: np.ndarray) -> None:
    """Add mask * change (B, H, W, C) to images (n, H, W, C), in place, only where masks are not 0.

    Each image belongs to a pair of an observation and a mask. The pairs are ordered by observation, then by mask. The
    images are those of n successive pairs, of which `start` is the first.
    """
    windows, channels = _windows(grid), images.shape[-1]
    flat, change = images.reshape(len(images), -1), change.reshape(len(change), -1)
    for cell, (line, window) in enumerate(windows):
        first = (cell - start) % len(windows)
        if first < len(images):
            chosen = flat[first :: len(windows)]
            frame = (start + first) // len(windows)
            weights = np.repeat(window.ravel(), channels)
            within = slice(line * grid.width * channels, line * grid.width * channels + len(weights))
            chosen[:, within] += weights * change[frame : frame + len(chosen), within]


def memory_saliency(
    agent: Agent,
    observations: np.ndarray,
    state: State,
    output: SaliencyOutputs = "policy",
    strength: float = 1.0,
) -> np.ndarray:
    """Return how much outputs change when the recurrent state is scaled by 1 - strength, (B,) float32.

    Args:
        observations: (B, H, W, C) as the agent takes them
        state: the state before the observations
        output: see `perturbation_saliency`; a list of S outputs gives (S, B)
        strength: from 0 (the state does not change) to 1 (it becomes zero)

    Raises OptionError for an object that is not an agent, an agent without a state, an unknown output or a strength out
    of range; SamplesError for observations of the wrong shape or range.
    """
    if not 0 <= strength <= 1:
        raise OptionError(f"strength={strength!r} must be from 0 to 1")
    if state is None:
        raise OptionError("state=None: pass the state before the observations")
    agent = require(agent, "forward", for_="memory_saliency")
    outputs = as_outputs(output)
    results, columns = head_columns(agent.forward(observations, state))
    scaled = tuple(np.asarray(part * (1 - strength), np.float32) for part in state)
    perturbed = head_columns(agent.forward(observations, scaled))[0]
    scores = output_differences(outputs, results, columns, perturbed[:, None], action_factors(agent))[..., 0]
    return unlisted(np.asarray(scores, np.float32), output)


PERTURBATION = SaliencyMethod(
    "perturbation",
    "Half the squared change of the output when the observation is blurred around a position (Greydanus et al. 2018, "
    "arXiv 1711.00138); for the policy, of all its logits. Sizes are in pixels of an observation 80 pixels high, and "
    "scale with the height.",
    perturbation_saliency,
    {"mode": "occlude", "stride": 5, "mask_sigma": 5, "blur_sigma": 3},
    passes=256,
    is_grid=True,
    signed_each=True,
)

SIGNED_PERTURBATION = SaliencyMethod(
    "signed perturbation",
    "The output minus its value when the observation is blurred around a position: positive (in the output's color) "
    "where what is seen raises the output, negative (yellow for the policy, cyan for the value) where it lowers the "
    "output. For the policy, the output is the logit (or action value) of the best action. Sizes are as for "
    "perturbation (Greydanus et al. 2018, arXiv 1711.00138).",
    perturbation_saliency,
    {"mode": "occlude", "signed": True, "stride": 5, "mask_sigma": 5, "blur_sigma": 3},
    passes=256,
    is_grid=True,
    signed_each=True,
    signed=True,
)

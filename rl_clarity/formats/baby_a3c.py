"""Read the state dicts `model.<M>.tar` of baby-a3c. Its network has four convolutions of stride 2, a GRU and linear
heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import Network
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.torch_layers import TorchLayers

CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4")
TENSORS = (
    "conv1.weight",
    "conv4.weight",
    "gru.weight_ih",
    "gru.weight_hh",
    "critic_linear.weight",
    "actor_linear.weight",
)
METADATA: dict[str, Any] = {
    "library": "baby-a3c",
    "env_kind": "atari",
    "preprocessing": "none",
    "frame_skip": [2, 5],
    "frame_pooling": False,
    "noop_max": 0,
    "fire_reset": False,
    "use_sticky_actions": False,
    "gamma": 0.99,
    "lambda": 1.0,
}
"""Metadata of Gym's `Breakout-v4`, in which an action is repeated for 2, 3 or 4 frames and the last frame is
observed."""
NOTE = (
    "the file does not record the activation functions, gamma and lambda, so those of the script are assumed. The "
    "metadata gamma and lambda override the last two; the option check compares the agent's outputs with those of the "
    "original network"
)
ROWS = slice(35, 195)
SCREEN_HEIGHT = 210
SIDE = 80


def recognize(file: CheckpointFile) -> bool:
    return all(name in file.tensor_shapes for name in TENSORS)


def read(file: CheckpointFile) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError if it is damaged."""
    return Checkpoint(file.path, "baby_a3c", "gru", file.tensors(), METADATA, file.sha256, (NOTE,))


def build_network(parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int]) -> Network:
    """Build the network of a state dict."""
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    x = observations
    for name in CONVOLUTIONS:
        x = layers.activate(layers.conv(x, name, size=3, strides=2, padding=1), name, "elu")
    x, states = layers.gru(x, "gru", suffix="")
    heads = {"policy_logits": layers.dense(x, "actor_linear"), "values": layers.dense(x, "critic_linear")}
    return layers.builder.finish([observations], heads, states)


class BabyA3CAgent(KerasAgent):
    """An agent of baby-a3c. Its observations are float32 in [0, 1], as `preprocess` returns them, or uint8 in
    [0, 255].
    """

    frame_region = (ROWS.start / SCREEN_HEIGHT, 0.0, ROWS.stop / SCREEN_HEIGHT, 1.0)

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        """Return observations (B, 80, 80, 1) float32 for screens (B, 210, 160, 3) uint8."""
        return np.stack([_preprocess(frame) for frame in frames])

    def _check_range(self, observations: np.ndarray) -> None:
        if not np.issubdtype(observations.dtype, np.floating):
            super()._check_range(observations)

    def _scaled(self, observations: np.ndarray) -> np.ndarray:
        if np.issubdtype(observations.dtype, np.floating):
            return np.asarray(observations, np.float32)
        return super()._scaled(observations)


def build_agent(checkpoint: Checkpoint) -> BabyA3CAgent:
    """Build the agent. Raises CheckpointError if a tensor does not fit."""
    return BabyA3CAgent(build_network(checkpoint.parameters, (SIDE, SIDE, 1)), checkpoint.metadata)


FORMAT = Format("baby-a3c (.tar)", recognize, read, build_agent)


def _preprocess(frame: np.ndarray) -> np.ndarray:
    """Convert rows 35 to 194 of a screen to gray, stretch their contrast and halve their size, like SciPy's former
    `imresize`. Return an observation (80, 80, 1) float32 in [0, 1].
    """
    from PIL import Image

    red, green, blue = np.moveaxis(frame[ROWS].astype(np.uint16), 2, 0)
    sums = red + green + blue  # np.sum takes several times as long along so short an axis
    low, high = sums.min() / 3, sums.max() / 3
    stretched = (np.arange(3 * 255 + 1) / 3 - low) * (255.0 / ((high - low) or 1.0))  # by the sum of the colors
    levels = (stretched.clip(0, 255) + 0.5).astype(np.uint8)
    image = Image.fromarray(levels.take(sums))
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(small, np.float32)[..., None] / np.float32(255)

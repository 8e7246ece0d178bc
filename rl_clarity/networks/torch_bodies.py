"""The convolutional bodies that programs on PyTorch share: Nature's and IMPALA's, with their state dicts' names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rl_clarity.errors import CheckpointError
from rl_clarity.networks.torch_layers import TorchLayers

NATURE = ((8, 4), (4, 2), (3, 1))  # kernel size and stride of each convolution
MAX_BLOCKS = 16


def nature(layers: TorchLayers, x: Any, prefix: str) -> Any:
    """The convolutions of Mnih et al. (2015), as a sequence in which ReLUs lie between them: (B, h, w, c)."""
    for i, (size, strides) in enumerate(NATURE):
        name = f"{prefix}.{2 * i}"
        x = layers.relu(layers.conv(x, name, size=size, strides=strides), f"{name}.relu")
    return x


@dataclass(frozen=True)
class ImpalaNames:
    """How a program calls the parts of IMPALA's residual network."""

    block: Callable[[int], str]
    residuals: Sequence[str]
    convolutions: Sequence[str]
    relu: str
    """The one after the last block, before the dense layer."""


def impala(layers: TorchLayers, x: Any, names: ImpalaNames) -> Any:
    """Blocks of a convolution, a maximum over 3 x 3 positions padded on both sides, and residuals: (B, h, w, c).

    IMPALA (Espeholt et al., 2018), https://arxiv.org/abs/1802.01561. The number of blocks is that of the state dict.
    """
    import keras

    blocks = 0
    while layers.has(f"{names.block(blocks)}.conv") and blocks < MAX_BLOCKS:
        block = names.block(blocks)
        x = layers.conv(x, f"{block}.conv", size=3, padding=1)
        x = layers.max_pool(x, size=3, strides=2, padding=1)
        for residual in names.residuals:
            y = x
            for i, conv in enumerate(names.convolutions):
                y = layers.relu(y, f"{block}.{residual}.relu{i}")
                y = layers.conv(y, f"{block}.{residual}.{conv}", size=3, padding=1)
            x = keras.layers.Add()([y, x])
        blocks += 1
    if not blocks:
        raise CheckpointError(f"tensor '{names.block(0)}.conv.weight' is missing")
    return layers.relu(x, names.relu)

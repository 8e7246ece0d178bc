"""Results of the original implementation for three networks with random parameters (`scripts/make_golden.py`).

| key | meaning |
|---|---|
| observations (24, H, W, C), policy_logits, values | network input (uint8) and outputs |
| layer_keys, all_layer_keys | layers offered with and without `bottleneck_only` |
| input_gradient_of_value | with respect to observations / 255 |
| LAYER.activations, .ig_value_10, .ig_logit2_10, .grad_times_act_value | of the first observations: 1 to 4 |
| nmf.layer, .components (K, c), .attr_{pos,neg}_transformed, .acts_reduced | of the last layer, not converged |
| nmf.reconstruction_error | relative: norm of X - WH / norm of X |
| nmf.multi_path_value_10_all | of the first 2 observations, over all paths |
| vis.feature3_subS_expE, vis.thumb3 (each with .grid) | dataset examples of feature 3; not for `nature` |
| render.channels, .residual, .scale, .{abs,pos,neg}_{prin,all,3,res} | reduced attribution, its RGBA images |
| gae.values, .rewards, .firsts, .dones, .advantages, .bookmarks_{high,low} | gamma 0.999, lambda 0.95 |
| colors.features8, .actions | hexadecimal |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

GOLDEN_DIRECTORY = Path(__file__).parent / "golden"
NETWORKS = ("clear", "impala", "nature")


@dataclass(frozen=True)
class Golden:
    """A network's checkpoint and the expected results."""

    network: str
    checkpoint: Path
    expected: Mapping[str, np.ndarray]

    @property
    def layers(self) -> list[str]:
        """Short names of the layers offered with `bottleneck_only`, in order."""
        return [str(name) for name in self.expected["layer_keys"]]

    def frames(self, key: str) -> np.ndarray:
        """The observations that the array under `key` was computed from: as many as it has rows."""
        return self.expected["observations"][: len(self.expected[key])]


def load_golden(network: str) -> Golden:
    """Load the checkpoint and the read-only expected results of a network."""
    directory = GOLDEN_DIRECTORY / network
    with np.load(directory / "expected.npz") as arrays:
        expected = {key: arrays[key] for key in arrays.files}
    for array in expected.values():
        array.setflags(write=False)
    return Golden(network, directory / "checkpoint.jd", MappingProxyType(expected))

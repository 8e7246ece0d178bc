"""Random parameters of small networks, under the names with which other programs save them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Arrays = dict[str, np.ndarray]
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel size, stride


def layer(rng: np.random.Generator, name: str, shape: Sequence[int]) -> Arrays:
    """Weight (out, in, ...) and bias (out,) of a layer, scaled to keep activations near 1."""
    scale = (2 / np.prod(shape[1:])) ** 0.5
    weight = rng.normal(0, scale, shape)
    return {
        f"{name}.weight": weight.astype(np.float32),
        f"{name}.bias": rng.normal(0, 0.3, shape[0]).astype(np.float32),
    }


def cell(rng: np.random.Generator, name: str, inputs: int, size: int, gates: int, suffix: str = "_l0") -> Arrays:
    """Parameters of an LSTM (4 gates) or of a GRU (3)."""
    arrays = {
        f"weight_ih{suffix}": rng.normal(0, 0.4, (gates * size, inputs)),
        f"weight_hh{suffix}": rng.normal(0, 0.4, (gates * size, size)),
        f"bias_ih{suffix}": rng.normal(0, 0.3, gates * size),
        f"bias_hh{suffix}": rng.normal(0, 0.3, gates * size),
    }
    return {f"{name}.{key}": array.astype(np.float32) for key, array in arrays.items()}


def nature(rng: np.random.Generator, prefix: str, channels: int, side: int) -> tuple[Arrays, int]:
    """Parameters of the convolutions, and the size of their flattened output."""
    arrays: Arrays = {}
    for i, (filters, size, stride) in enumerate(NATURE):
        arrays |= layer(rng, f"{prefix}.{2 * i}", (filters, channels, size, size))
        channels, side = filters, (side - size) // stride + 1
    return arrays, channels * side * side


def impala(
    rng: np.random.Generator, block: str, start: int, residuals: Sequence[str], convs: Sequence[str], side: int = 64
) -> tuple[Arrays, int]:
    """Parameters of three blocks of 4, 6 and 6 channels, and the size of their flattened output."""
    arrays: Arrays = {}
    before = 3
    for i, filters in enumerate((4, 6, 6)):
        name = block.format(i + start)
        arrays |= layer(rng, f"{name}.conv", (filters, before, 3, 3))
        for residual in residuals:
            for conv in convs:
                arrays |= layer(rng, f"{name}.{residual}.{conv}", (filters, filters, 3, 3))
        before, side = filters, (side + 1) // 2
    return arrays, before * side * side


def ppo_atari(seed: int = 0, *, lstm: bool = False, channels: int = 4, side: int = 84) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays, flat = nature(rng, "network", channels, side)
    arrays |= layer(rng, "network.7", (24, flat))
    size = 24
    if lstm:
        arrays |= cell(rng, "lstm", 24, 8, 4)
        size = 8
    return arrays | layer(rng, "actor", (4, size)) | layer(rng, "critic", (1, size))


def dqn_atari(seed: int = 0, *, side: int = 84) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays, flat = nature(rng, "network", 4, side)
    return arrays | layer(rng, "network.7", (24, flat)) | layer(rng, "network.9", (4, 24))


def ppo_procgen(seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays, flat = impala(rng, "network.{}", 0, ("res_block0", "res_block1"), ("conv0", "conv1"))
    arrays |= layer(rng, "network.5", (16, flat))
    return arrays | layer(rng, "actor", (15, 16)) | layer(rng, "critic", (1, 16))


def procgen_pytorch(seed: int = 0, *, gru: bool = False, initial: bool = False) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays, flat = impala(rng, "embedder.block{}", 1, ("res1", "res2"), ("conv1", "conv2"))
    arrays |= layer(rng, "embedder.fc", (16, flat))
    size = 16
    if gru:
        arrays |= cell(rng, "gru.gru", 16, 8, 3)
        size = 8
    if initial:
        arrays["init_hx"] = rng.normal(size=8).astype(np.float32)
    return arrays | layer(rng, "fc_policy", (15, size)) | layer(rng, "fc_value", (1, size))


def baby_a3c(seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    before = 1
    for i in range(1, 5):
        arrays |= layer(rng, f"conv{i}", (4, before, 3, 3))
        before = 4
    arrays |= cell(rng, "gru", 4 * 5 * 5, 8, 3, suffix="")
    return arrays | layer(rng, "critic_linear", (1, 8)) | layer(rng, "actor_linear", (4, 8))


def sb3(
    seed: int = 0,
    *,
    lstm: bool = False,
    shared: bool = True,
    net_arch: Sequence[int] = (),
    channels: int = 4,
    side: int = 84,
) -> Arrays:
    """Parameters of PPO or RecurrentPPO, under all names of the feature extractor."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    bodies = []
    for _ in range(1 if shared else 2):
        body, flat = nature(rng, "cnn", channels, side)
        bodies.append(body | layer(rng, "linear.0", (24, flat)))
    for name, index in (("features_extractor", 0), ("pi_features_extractor", 0), ("vf_features_extractor", -1)):
        arrays |= {f"{name}.{key}": array for key, array in bodies[index].items()}
    size = 24
    if lstm:
        arrays |= cell(rng, "lstm_actor", 24, 8, 4) | cell(rng, "lstm_critic", 24, 8, 4)
        size = 8
    for i, units in enumerate(net_arch):
        for head in ("policy", "value"):
            arrays |= layer(rng, f"mlp_extractor.{head}_net.{2 * i}", (units, size))
        size = units
    return arrays | layer(rng, "action_net", (4, size)) | layer(rng, "value_net", (1, size))


def sb3_dqn(seed: int = 0, *, net_arch: Sequence[int] = ()) -> Arrays:
    arrays: Arrays = {}
    for name, network_seed in (("q_net", seed), ("q_net_target", seed + 1)):
        rng = np.random.default_rng(network_seed)
        body, flat = nature(rng, f"{name}.features_extractor.cnn", 4, 84)
        arrays |= body | layer(rng, f"{name}.features_extractor.linear.0", (24, flat))
        size = 24
        for i, units in enumerate((*net_arch, 4)):
            arrays |= layer(rng, f"{name}.q_net.{2 * i}", (units, size))
            size = units
    return arrays


def renamed(arrays: Mapping[str, np.ndarray], before: str, after: str) -> Arrays:
    return {name.replace(before, after): array for name, array in arrays.items()}

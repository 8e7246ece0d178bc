"""Compare perturbation saliency with the same number of plain forward passes: time per frame, and ratio of times.

The ratio is that of processor times, which other programs on the machine hardly change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import rl_clarity
from benchmarks.comparison import baby_a3c_parameters
from rl_clarity.analyses.attribution import PerturbationGrid, perturbation_saliency
from rl_clarity.formats import baby_a3c

FRAMES = 4
REPEATS = 7


def measure(frames: int = FRAMES, repeats: int = REPEATS) -> dict[str, Any]:
    """Return, for each network, the number of masks, the milliseconds per frame, and the median ratio to plain forward
    passes.
    """
    results = {}
    for name, make in NETWORKS.items():
        agent = make()
        shape = agent.observation_shape
        observations = np.random.default_rng(0).integers(0, 256, (frames, *shape), np.uint8)
        state = agent.initial_state(frames)
        masks = len(PerturbationGrid.for_shape(*shape[:2]).masks)
        repeated = [np.repeat(array, masks + 1, axis=0) for array in (observations, *(state or ()))]
        plain = partial(agent.forward, repeated[0], tuple(repeated[1:]) or None)
        saliency = partial(perturbation_saliency, agent, observations, ["policy", "value"], state=state)
        pairs = [(_seconds(plain), _seconds(saliency)) for _ in range(repeats + 1)][1:]  # the first compiles
        results[name] = {
            "masks": masks,
            "milliseconds": 1000 * median(wall for _, (wall, _) in pairs) / frames,
            "ratio": median(processor / before for (_, before), (_, processor) in pairs),
        }
    return results


def lines(results: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {entry['masks']} masks in {entry['milliseconds']:.0f} ms per frame, {entry['ratio']:.2f} times plain "
        "forward passes"
        for name, entry in results.items()
    ]


def _seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Return the time that a call takes, and its processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def _baby_a3c() -> Any:
    """Return an agent of baby-a3c at its published size, with random weights."""
    return baby_a3c.BabyA3CAgent(baby_a3c.build_network(baby_a3c_parameters(), (80, 80, 1)))


def _nature() -> Any:
    import keras

    observations = keras.Input((84, 84, 4))
    x = observations
    for filters, size, strides in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
        x = keras.layers.Conv2D(filters, size, strides, activation="relu")(x)
    x = keras.layers.Dense(512, activation="relu")(keras.layers.Flatten()(x))
    heads = [keras.layers.Dense(width, name=name)(x) for name, width in (("policy_logits", 4), ("values", 1))]
    return rl_clarity.KerasAgent(keras.Model(observations, heads))


def _torch() -> Any:
    """Return an agent with a convolutional network in PyTorch, with random weights."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten()
            )
            self.policy, self.value = nn.Linear(5184, 4), nn.Linear(5184, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.body(x)
            return self.policy(x), self.value(x)

    return rl_clarity.TorchAgent(Network(), (84, 84, 4), input_divisor=255)


NETWORKS: dict[str, Callable[[], Any]] = {
    "baby-a3c, 80 x 80": _baby_a3c,
    "clear, 64 x 64": partial(rl_clarity.load_agent, "models:coinrun"),
    "impala, 64 x 64": partial(rl_clarity.load_agent, "models:fruitbot"),
    "impala with a GRU, 64 x 64": partial(rl_clarity.load_agent, "models:coinrun-gru"),
    "LSTM, 64 x 64": partial(rl_clarity.load_agent, "models:starpilot-lstm"),
    "Nature, 84 x 84 x 4": _nature,
    "PyTorch, 84 x 84 x 4": _torch,
}

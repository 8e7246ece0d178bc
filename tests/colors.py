"""A game of colors whose right answers are known, and agents that play it by one color alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.environments import EnvironmentKind
from rl_clarity.environments.protocol import Combo, Step

SIZE = 4
STEPS = 5
LAYER = "features"
COLORS = ("red", "green", "blue")


class ColorEnvironment:
    """A red, a green and a blue pixel in every observation. Action 0 is right if red is in the left half, else 1.

    Each right action is rewarded. A wrong one ends the episode (`wrong side`), STEPS right ones complete it (`goal`).
    """

    observation_shape = (SIZE, SIZE, 3)
    num_actions = 2
    action_combos: tuple[Combo, ...] = (("LEFT",), ("RIGHT",))

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        self._rngs = [np.random.default_rng([seed, i]) for i in range(num_envs)]
        self._steps = np.zeros(num_envs, int)
        self._observations = np.zeros((num_envs, *self.observation_shape), np.uint8)

    def reset(self) -> Step:
        self._steps[:] = 0
        self._draw()
        zeros = np.zeros(self.num_envs, bool)
        return Step(self._observations.copy(), np.zeros(self.num_envs, np.float32), ~zeros, zeros)

    def step(self, actions: np.ndarray) -> Step:
        right = np.asarray(actions) == self._observations[:, :, SIZE // 2 :, 0].any(axis=(1, 2))
        self._steps += 1
        complete = right & (self._steps == STEPS)
        firsts = ~right | complete
        self._steps[firsts] = 0
        self._draw()
        ends = {int(i): {"cause": "goal" if complete[i] else "wrong side"} for i in np.flatnonzero(firsts)}
        return Step(
            self._observations.copy(), right.astype(np.float32), firsts, np.zeros(self.num_envs, bool), ends=ends
        )

    def render(self) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def _draw(self) -> None:
        self._observations[:] = 0
        for image, rng in zip(self._observations, self._rngs, strict=True):
            for color in range(3):
                image[*rng.integers(SIZE, size=2), color] = rng.integers(100, 256)


def make(name: str, num_envs: int, seed: int, options: Any, *, full_resolution: bool = False) -> ColorEnvironment:
    return ColorEnvironment(num_envs, seed)


KIND = EnvironmentKind(make)
METADATA: Mapping[str, Any] = {"env_kind": "colors", "env_name": "colors", "gamma": 0.9, "lambda": 0.9}


def head_weights() -> dict[str, np.ndarray]:
    """Dense weights (SIZE * SIZE * 3, n): the value adds up all colors; logits tell on which side red is."""
    side = np.where(np.arange(SIZE) < SIZE // 2, -1.0, 1.0)
    logits = np.zeros((SIZE, SIZE, 3, 2), np.float32)
    logits[..., 0, 0], logits[..., 0, 1] = -10 * side, 10 * side
    value = np.broadcast_to(np.array([1, 2, 3], np.float32)[:, None], (SIZE, SIZE, 3, 1))
    return {"logits": logits.reshape(-1, 2), "value": np.array(value.reshape(-1, 1))}


def torch_agent(kind: str = "policy") -> Any:
    """A TorchAgent whose layer `features` has a channel for each color; `kind` is as for `tests.fakes.TinyAgent`."""
    import torch

    import rl_clarity

    weights = {name: torch.from_numpy(array) for name, array in head_weights().items()}

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 1, bias=False)
            self.conv.weight = torch.nn.Parameter(torch.eye(3)[:, :, None, None])
            self.features = torch.nn.ReLU()

        def forward(self, images: torch.Tensor, state: torch.Tensor | None = None) -> Any:
            x = self.features(self.conv(images)).permute(0, 2, 3, 1).flatten(1)
            logits, value = x @ weights["logits"], x @ weights["value"]
            if kind in ("q", "logits"):
                return logits
            if kind == "recurrent":
                assert state is not None
                return logits, value + state, 0.5 * state + value
            return logits, value

    heads: Any = {"q": ("q_values",), "logits": ("policy_logits",)}.get(kind, ("policy_logits", "values"))
    more: dict[str, Any] = {"initial_state": np.zeros(1, np.float32)} if kind == "recurrent" else {}
    return rl_clarity.TorchAgent(Network(), (SIZE, SIZE, 3), metadata=METADATA, heads=heads, **more)


def keras_agent() -> Any:
    """A KerasAgent with the same network."""
    import keras

    import rl_clarity

    weights = head_weights()
    images = keras.Input((SIZE, SIZE, 3))
    conv = keras.layers.Conv2D(3, 1, use_bias=False, name="conv")
    features = keras.layers.ReLU(name=LAYER)(conv(images))
    flat = keras.layers.Flatten()(features)
    dense = {name: keras.layers.Dense(array.shape[1], use_bias=False, name=name) for name, array in weights.items()}
    model = keras.Model(images, [dense[name](flat) for name in weights])
    conv.set_weights([np.eye(3, dtype=np.float32)[None, None]])
    for name, array in weights.items():
        dense[name].set_weights([array])
    return rl_clarity.KerasAgent(model, metadata=METADATA)

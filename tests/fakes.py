"""A small agent in NumPy that satisfies the Agent protocol: for tests of all that does not need a real network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Operation, Output, Outputs, PathGradients, State
from rl_clarity.agents.scores import select_scores
from rl_clarity.environments.protocol import Combo, Step

KINDS = ("policy", "recurrent", "q")


@dataclass(frozen=True)
class TinyAgent:
    """patches @ kernel -> relu `1a` -> @ kernel -> relu `2a` -> @ dense (+ state @ recurrent) -> tanh -> heads.

    `kind` is "policy" (logits and values), "recurrent" (the same with a state) or "q" (action values). Its weights
    are drawn from `seed`; everything it computes is exact to float64's rounding, then float32.
    """

    kind: str = "policy"
    observation_shape: tuple[int, int, int] = (64, 64, 3)
    num_actions: int = 15
    patch: int = 8
    seed: int = 0
    sharpness: float = 4.0
    """How much the logits differ: 0 is a uniformly random policy."""

    @property
    def layers(self) -> Mapping[str, tuple[int, int, int]]:
        height, width, _ = self.observation_shape
        shape = (height // self.patch, width // self.patch)
        return {"1a": (*shape, 12), "2a": (*shape, 10)}

    @property
    def operations(self) -> Sequence[Operation]:
        return [
            Operation(f"tiny/{name}/{kind.capitalize()}", kind, shape, True)
            for name, shape in self.layers.items()
            for kind in ("conv2d", "relu")
        ]

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"env_name": "coinrun", "gamma": 0.999, "lambda": 0.95}

    @property
    def heads(self) -> tuple[str, ...]:
        return ("q_values",) if self.kind == "q" else ("policy_logits", "values")

    def initial_state(self, n: int) -> State:
        return (np.zeros((n, 6), np.float32),) if self.kind == "recurrent" else None

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        if state is not None:
            state = (np.where(np.asarray(firsts)[:, None], 0, state[0]),)
        first_layer = self._first_layer(observations)
        scores, hidden = self._scores(self._second_layer(first_layer), state)
        new_state = None if self.kind != "recurrent" else (hidden.astype(np.float32),)
        scores = scores.astype(np.float32)
        if self.kind == "q":
            return Outputs(q_values=scores), new_state
        return Outputs(policy_logits=scores[:, :-1], values=scores[:, -1]), new_state

    def forward(self, observations: np.ndarray) -> Outputs:
        n = len(observations)
        return self.step(observations, self.initial_state(n), np.ones(n, bool))[0]

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        return frames

    def activations(self, observations: np.ndarray, layer: str, state: State = None) -> np.ndarray:
        first_layer = self._first_layer(observations)
        return (first_layer if self._is_first(layer) else self._second_layer(first_layer)).astype(np.float32)

    def path_gradients(
        self,
        observations: np.ndarray,
        layer: str,
        points: np.ndarray,
        weights: np.ndarray,
        outputs: Sequence[Output],
        state: State = None,
    ) -> PathGradients:
        activations = self.activations(observations, layer)
        chosen = self._chosen(observations, outputs, state)
        gradients = sum(
            weight * self._gradients(layer, point * activations, chosen, state)
            for point, weight in zip(points, weights, strict=True)
        )
        at, at_zero = (
            np.einsum("bsn,bn->sb", chosen, self._scores_from(layer, point * activations, state)) for point in (1, 0)
        )
        return PathGradients(activations, np.asarray(gradients, np.float32), at, at_zero)

    def gradients(
        self,
        observations: np.ndarray,
        layer: str | None,
        activations: np.ndarray | None,
        outputs: Sequence[Output],
        state: State = None,
    ) -> np.ndarray:
        if activations is None:
            activations = observations / 255 if layer is None else self.activations(observations, layer)
        return self._gradients(layer, activations, self._chosen(observations, outputs, state), state).astype(np.float32)

    def _weights(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        (height, width, first), (_, _, second) = self.layers.values()
        patch = self.patch**2 * self.observation_shape[2]
        flat = height * width * second
        return {
            "first": rng.normal(size=(patch, first)) / np.sqrt(patch),
            "second": rng.normal(size=(first, second)) / np.sqrt(first),
            "dense": rng.normal(size=(flat, 6)) * 4 / np.sqrt(flat),
            "recurrent": rng.normal(size=(6, 6)) / np.sqrt(6),
            "policy": rng.normal(size=(6, self.num_actions)) * self.sharpness / np.sqrt(6),
            "value": rng.normal(size=(6, 1)),
        }

    def _first_layer(self, observations: np.ndarray) -> np.ndarray:
        return self._first_layer_of(np.asarray(observations) / 255)

    def _first_layer_of(self, pixels: np.ndarray) -> np.ndarray:
        return np.maximum(self._patches(pixels) @ self._weights()["first"], 0)

    def _second_layer(self, first_layer: np.ndarray) -> np.ndarray:
        return np.maximum(first_layer @ self._weights()["second"], 0)

    def _scores(self, second_layer: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
        weights = self._weights()
        before = second_layer.reshape(len(second_layer), -1) @ weights["dense"]
        if state is not None:
            before = before + state[0] @ weights["recurrent"]
        hidden = np.tanh(before)
        return hidden @ self._head(), hidden

    def _scores_from(self, layer: str | None, activations: np.ndarray, state: State) -> np.ndarray:
        if layer is None:
            activations = self._first_layer_of(activations)
        if layer is None or self._is_first(layer):
            activations = self._second_layer(activations)
        return self._scores(activations, state)[0]

    def _chosen(self, observations: np.ndarray, outputs: Sequence[Output], state: State) -> np.ndarray:
        scores, _ = self._scores(self._second_layer(self._first_layer(observations)), state)
        return select_scores(outputs, self.heads, self.num_actions, scores)

    def _gradients(self, layer: str | None, activations: np.ndarray, chosen: np.ndarray, state: State) -> np.ndarray:
        """Gradient (S, B, ...) of the chosen scores (B, S, n) at the activations of a layer, or at pixels."""
        weights = self._weights()
        first_layer = self._first_layer_of(activations) if layer is None else activations
        at_first = layer is None or self._is_first(layer)
        second_layer = self._second_layer(first_layer) if at_first else activations
        _, hidden = self._scores(second_layer, state)
        to_hidden = np.einsum("bsn,kn->sbk", chosen, self._head()) * (1 - hidden**2)
        gradient = (to_hidden @ weights["dense"].T).reshape(len(to_hidden), *second_layer.shape)
        if at_first:
            gradient = (gradient * (second_layer > 0)) @ weights["second"].T
        if layer is None:
            gradient = self._unpatch((gradient * (first_layer > 0)) @ weights["first"].T)
        return gradient

    def _head(self) -> np.ndarray:
        weights = self._weights()
        return weights["policy"] if self.kind == "q" else np.hstack([weights["policy"], weights["value"]])

    def _patches(self, pixels: np.ndarray) -> np.ndarray:
        count, height, width, channels = pixels.shape
        h, w, p = height // self.patch, width // self.patch, self.patch
        return pixels.reshape(count, h, p, w, p, channels).transpose(0, 1, 3, 2, 4, 5).reshape(count, h, w, -1)

    def _unpatch(self, patches: np.ndarray) -> np.ndarray:
        scores, count, h, w, _ = patches.shape
        p, channels = self.patch, self.observation_shape[2]
        split = patches.reshape(scores, count, h, w, p, p, channels).transpose(0, 1, 2, 4, 3, 5, 6)
        return split.reshape(scores, count, h * p, w * p, channels)

    def _is_first(self, layer: str) -> bool:
        names = {name: name == "1a" for name in self.layers} | {
            f"tiny/{name}/Relu": name == "1a" for name in self.layers
        }
        return names[layer]


class TinyEnvironment:
    """N environments whose observations tell their number and their time: pixel 0 is 10 x number + 1, pixel 1 the step.

    Environment i ends after `lengths[i]` steps; where `cut[i]`, time cut it, with a final observation whose pixel 2
    is 255. The reward is 1 for action 0.
    """

    observation_shape = (16, 16, 1)
    num_actions = 3
    action_combos: tuple[Combo, ...] = (("LEFT",), ("RIGHT",), ())

    def __init__(self, lengths: Sequence[int], cut: Sequence[bool] | None = None) -> None:
        self.lengths = np.asarray(lengths)
        self.num_envs = len(lengths)
        self.cut = np.zeros(self.num_envs, bool) if cut is None else np.asarray(cut)
        self.time = np.zeros(self.num_envs, int)
        self.actions: list[np.ndarray] = []
        self.renders = 0

    def reset(self) -> Step:
        self.time[:] = 0
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(self._observe(), nothing, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        self.actions.append(np.array(actions))
        self.time += 1
        firsts = self.time >= self.lengths
        final = {}
        for i in np.flatnonzero(firsts & self.cut):
            final[int(i)] = self._observe()[i]
            final[int(i)][0, 2] = 255
        self.time[firsts] = 0
        rewards = (np.asarray(actions) == 0).astype(np.float32)
        return Step(self._observe(), rewards, firsts, firsts & self.cut, final)

    def render(self) -> np.ndarray:
        self.renders += 1
        return np.broadcast_to(self.time.astype(np.uint8)[:, None, None, None], (self.num_envs, 20, 24, 3)).copy()

    def close(self) -> None:
        pass

    def _observe(self) -> np.ndarray:
        observations = np.zeros((self.num_envs, *self.observation_shape), np.uint8)
        observations[:, 0, 0, 0] = 10 * np.arange(self.num_envs) + 1
        observations[:, 0, 1, 0] = self.time
        return observations

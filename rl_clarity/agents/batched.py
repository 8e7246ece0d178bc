"""What agents on any library have in common: batches of one shape, states, scores.

A subclass gives `_forward`, `_cut` and `_backend` (see `differentiation`), in tensors; here is the Protocol `Agent`, in
arrays.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents import differentiation
from rl_clarity.agents.checks import check_pictures, check_state
from rl_clarity.agents.layer_names import layers_of
from rl_clarity.agents.padding import pad, padded_size
from rl_clarity.agents.protocol import Operation, Output, Outputs, PathGradients, State
from rl_clarity.agents.scores import select_scores
from rl_clarity.agents.states import reset_state
from rl_clarity.errors import OptionError, SamplesError

INPUT = "the input"
LEAST, LEAST_GRADIENTS = 8, 16
"""Observations of the smallest batches: what smaller ones give differs in the last bits (seen for gradients of 8)."""


@dataclass(frozen=True)
class Cut:
    """A network in two parts: up to a layer, and from it to the scores."""

    before: Any  # (observations, *state) -> [activations, *tensors that by-pass the layer]
    after: Any  # the same -> scores (B, n)
    step: Any  # the compiled gradient step of `after`


class BatchedAgent(ABC):
    """The protocol `Agent` on top of a network that takes batches.

    Batches have few shapes (the last is padded), so that a function is compiled once or twice, and the numbers of an
    observation do not depend on which others it is computed with.

    Parameters
    ----------
    observation_shape: (H, W, C)
    heads: names of the network's first outputs: `policy_logits` (B, A) and `values` (B, 1), or `q_values` (B, A)
    num_actions: A
    metadata: what is known of its origin: `env_name`, `gamma`, ...
    input_divisor: the network's input is the observations divided by it, in float32 (a product with its reciprocal
        rounds differently, which is enough to cross a kink)
    batch_size: observations a forward pass
    gradient_batch_size: observations a gradient
    """

    def __init__(
        self,
        observation_shape: tuple[int, int, int],
        heads: Sequence[str],
        num_actions: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        input_divisor: float = 255,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
    ) -> None:
        for name, number in (("input_divisor", input_divisor), ("batch_size", batch_size)):
            if not 0 < number < np.inf:
                raise OptionError(f"{name}={number!r} must be above 0")
        self.observation_shape = observation_shape
        self.heads = tuple(heads)
        self.num_actions = num_actions
        self.metadata: Mapping[str, Any] = dict(metadata or {})
        self.batch_size = batch_size
        self.gradient_batch_size = gradient_batch_size
        self._divisor = np.float32(input_divisor)

    @property
    @abstractmethod
    def operations(self) -> tuple[Operation, ...]: ...

    @property
    @abstractmethod
    def _backend(self) -> differentiation.Backend: ...

    @abstractmethod
    def _forward(self, observations: np.ndarray, *state: np.ndarray) -> Sequence[Any]:
        """Heads, then the state after, as tensors."""

    @abstractmethod
    def _cut(self, layer: str) -> Cut:
        """The network cut at a layer (a short or full name), or at `INPUT`."""

    @abstractmethod
    def _mean_activations(self, layer: str) -> Any:
        """A function from the network's input and its state to the mean (B, c) of a layer over its positions."""

    @property
    def _score_count(self) -> int:
        return sum(1 if head == "values" else self.num_actions for head in self.heads)

    @property
    def layers(self) -> dict[str, tuple[int, int, int]]:
        """Shapes (h, w, c) of the ReLU layers (or what a network has in their place) by short name, in order."""
        return layers_of(self.operations)

    def initial_state(self, n: int) -> State:
        """State of n environments before their first step, a tuple of arrays (n, ...); None of an agent without one."""
        return None

    def reset(self, state: State, firsts: np.ndarray) -> State:
        """The state before a step: what `step` makes of the state after the last one, where episodes begin."""
        return reset_state(state, self.initial_state(len(firsts)), firsts)

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        """Outputs for observations (B, H, W, C), and the state after; where `firsts` (B,), the state is begun anew.

        Raises SamplesError for observations of another shape or range, OptionError for a state of another shape.
        """
        check_state(state, self.initial_state(len(firsts)))
        state = self.reset(state, np.asarray(firsts, bool))
        results: list[list[np.ndarray]] = []
        for observation_batch, state_batch, count in self._batches(observations, state, self.batch_size):
            tensors = self._forward(observation_batch, *state_batch)
            results.append([self._backend.array(tensor)[:count] for tensor in tensors])
        tensors = [np.concatenate(parts) for parts in zip(*results, strict=True)]
        heads = dict(zip(self.heads, tensors, strict=False))
        values = heads.get("values")
        outputs = Outputs(heads.get("policy_logits"), None if values is None else values[:, 0], heads.get("q_values"))
        return outputs, tuple(tensors[len(self.heads) :]) or None

    def forward(self, observations: np.ndarray) -> Outputs:
        """One step from the initial state: logits (B, A) and values (B,), or action values (B, A).

        Raises SamplesError for observations of another shape or range.
        """
        return self.step(observations, None, np.ones(len(observations), bool))[0]

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        """Observations from the environment's frames: the frames themselves."""
        return frames

    def activations(self, observations: np.ndarray, layer: str, state: State = None) -> np.ndarray:
        """Result (B, h, w, c) of the operation of that (short or full) name, for observations (B, H, W, C).

        Raises OptionError for a layer that is not there, SamplesError for observations of another shape or range.
        """
        before = self._cut(layer).before
        parts = []
        for observation_batch, state_batch, count in self._batches(observations, state, self.batch_size):
            parts.append(self._backend.array(before(observation_batch, *state_batch)[0])[:count])
        return np.concatenate(parts)

    def path_gradients(
        self,
        observations: np.ndarray,
        layer: str,
        points: np.ndarray,
        weights: np.ndarray,
        outputs: Sequence[Output],
        state: State = None,
    ) -> PathGradients:
        """Weighted mean (S, B, h, w, c) of S scores' gradients at points x activations; see the protocol `Agent`.

        Raises OptionError for a layer, an output or a state that is not the agent's, SamplesError for observations.
        """
        cut_at = self._cut(layer)
        array = self._backend.array
        parts = []
        all_scores_at_zero = None
        for observation_batch, state_batch, count in self._batches(
            observations, state, self.gradient_batch_size, LEAST_GRADIENTS
        ):
            activations, *bypass = cut_at.before(observation_batch, *state_batch)
            all_scores = array(cut_at.after(activations, *bypass))
            if all_scores_at_zero is None or bypass:
                all_scores_at_zero = array(cut_at.after(activations * 0, *bypass))
            else:  # they depend on nothing, and one pass less is a tenth of the time
                all_scores_at_zero = np.broadcast_to(all_scores_at_zero[0], all_scores.shape)
            selection = select_scores(outputs, self.heads, self.num_actions, all_scores)
            gradients, _ = differentiation.path_integral(cut_at.step, activations, points, weights, selection, bypass)
            parts.append(
                PathGradients(
                    array(activations)[:count],
                    array(gradients)[:, :count],
                    np.einsum("bsn,bn->sb", selection, all_scores)[:, :count],
                    np.einsum("bsn,bn->sb", selection, all_scores_at_zero)[:, :count],
                )
            )
        return PathGradients(
            np.concatenate([part.activations for part in parts]),
            np.concatenate([part.gradients for part in parts], axis=1),
            np.concatenate([part.scores for part in parts], axis=1),
            np.concatenate([part.scores_at_zero for part in parts], axis=1),
        )

    def gradients(
        self,
        observations: np.ndarray,
        layer: str | None,
        activations: np.ndarray | None,
        outputs: Sequence[Output],
        state: State = None,
    ) -> np.ndarray:
        """Gradient (S, B, h, w, c) of S scores with respect to a layer, at the observations' activations or others.

        Of the input (`layer=None`), `observations / 255`, it is (S, B, H, W, C). Raises OptionError for a layer, an
        output or a state that is not the agent's, SamplesError for observations or activations of another shape.
        """
        cut_at = self._cut(INPUT if layer is None else layer)
        if activations is not None and len(activations) != len(observations):
            raise SamplesError(f"activations of {len(activations)} observations are given with {len(observations)}")
        parts = []
        start = 0
        for observation_batch, state_batch, count in self._batches(
            observations, state, self.gradient_batch_size, LEAST_GRADIENTS
        ):
            actual, *bypass = cut_at.before(observation_batch, *state_batch)
            given = actual
            if activations is not None:
                given = pad(np.asarray(activations[start : start + count], np.float32), len(observation_batch))
            if any(isinstance(output, str) and output == "greedy" for output in outputs):
                scores = self._backend.array(cut_at.after(actual, *bypass))  # the one output that depends on them
            else:
                scores = np.zeros((len(observation_batch), self._score_count), np.float32)
            selection = select_scores(outputs, self.heads, self.num_actions, scores)
            gradients, _ = differentiation.path_integral(cut_at.step, given, [1.0], [1.0], selection, bypass)
            parts.append(self._backend.array(gradients)[:, :count])
            start += count
        result = np.concatenate(parts, axis=1)
        if layer is not None:
            return result
        # The input is `observations / 255` whatever the network divides by; a gradient is laid out as the observations
        # are.
        result = result * np.float32(255) / self._divisor
        return result if self._channels_last(np.shape(observations)) else np.moveaxis(result, -1, 2)

    def gradient_of_direction(
        self, images: np.ndarray, layer: str, directions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How strongly images (N, H, W, C) in 0..1 excite directions (N, c) of a layer's channels, and the gradient.

        The value (N,) is the mean over positions of the activations times the image's direction, from the initial
        state; the gradient (N, H, W, C) is with respect to the images. Feature visualisation climbs it.
        """
        step = self._direction_step(layer)
        values, gradients = [], []
        for start in range(0, len(images), self.gradient_batch_size):
            part = np.asarray(images[start : start + self.gradient_batch_size], np.float32)
            selection = np.asarray(directions[start : start + len(part)], np.float32)[:, None]  # (n, 1, c)
            state = self.initial_state(len(part)) or ()
            gradient, value = differentiation.path_integral(step, part, [1.0], [1.0], selection, state)
            values.append(self._backend.array(value)[0])
            gradients.append(self._backend.array(gradient)[0])
        return np.concatenate(values), np.concatenate(gradients)

    @functools.cache  # noqa: B019 (an agent lives as long as the program needs it)
    def _direction_step(self, layer: str) -> Any:
        scale = float(np.float32(255) / self._divisor)
        mean_activations = self._mean_activations(layer)
        return self._backend.gradient_step(lambda images, *state: mean_activations(images * scale, *state))

    def _batches(
        self, observations: np.ndarray, state: State, size: int, least: int = LEAST
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray], int]]:
        """Pairs of inputs and state, each padded to `size` or a few smaller ones, and how many of them count."""
        observations = np.asarray(observations)
        if not self._channels_last(observations.shape):
            observations = np.moveaxis(observations, 1, -1)
        initial = self.initial_state(len(observations))
        check_state(state, initial)
        self._check_range(observations)
        if state is None:
            state = initial or ()
        for start in range(0, max(len(observations), 1), size):
            part = self._scaled(observations[start : start + size])
            padded = padded_size(len(part), size, least)
            yield pad(part, padded), [pad(s[start : start + size], padded) for s in state], len(part)

    def _channels_last(self, shape: tuple[int, ...]) -> bool:
        """Whether observations of this shape are (B, H, W, C), rather than (B, C, H, W)."""
        height, width, channels = self.observation_shape
        if shape[1:] == self.observation_shape:
            return True
        if shape[1:] == (channels, height, width):
            return False
        raise SamplesError(
            f"observations have the shape {shape}; the network takes (B, {height}, {width}, {channels}), or the same "
            "with the channels first"
        )

    def _check_range(self, observations: np.ndarray) -> None:
        check_pictures(observations, float(self._divisor))

    def _scaled(self, observations: np.ndarray) -> np.ndarray:
        return np.asarray(observations, np.float32) / self._divisor

"""What the rest of the program needs of an agent, and nothing more.

An agent is a function from observations (and, if it is recurrent, a state) to outputs, with named layers inside that
can be read, replaced and differentiated. It knows no file format and no environment.

Shapes: B observations, H x W pixels, C channels; h x w positions of a layer, c its channels; A actions. Observations
are uint8, 0 black and 255 white; an agent may take floats, too, of that range unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

State = Any
"""A tuple of arrays whose first axis is the batch, or None for an agent that has none."""

Output = str | int | Sequence[int]
"""A score: "value", an action's index (its logit or action value), "greedy" (the best action value), or a sequence
of indices, whose sum is meant."""


@dataclass(frozen=True)
class Outputs:
    """What an agent says of B observations. An agent has either logits and values, or action values."""

    policy_logits: np.ndarray | None = None  # (B, A) float32
    values: np.ndarray | None = None  # (B,) float32
    q_values: np.ndarray | None = None  # (B, A) float32


@dataclass(frozen=True)
class Operation:
    """One operation of a network's graph whose result has the shape (B, h, w, c)."""

    name: str
    """Full name, components separated by `/`, unique in the network."""
    kind: str
    """Lower-case kind: `relu`, `conv2d`, `maxpool`, `avgpool`, `add`, ..."""
    shape: tuple[int, int, int]
    after_bottleneck: bool
    """Every path from an earlier convolution to it passes through a bottleneck of the network."""


@runtime_checkable
class Agent(Protocol):
    """The protocol. `rl_clarity.generate` works with any object that satisfies it."""

    @property
    def layers(self) -> Mapping[str, tuple[int, int, int]]:
        """Shapes (h, w, c) of the ReLU layers by short name, in the order of computation."""
        ...

    @property
    def operations(self) -> Sequence[Operation]:
        """Every operation of rank 4, in the order of computation: what `select_layers` chooses from."""
        ...

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one observation as `forward` takes it."""
        ...

    @property
    def num_actions(self) -> int:
        """A."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What is known of where the agent comes from: `env_name`, `gamma`, ...; may be empty."""
        ...

    def initial_state(self, n: int) -> State:
        """State of n environments before their first step; None if the agent has no state."""
        ...

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        """Outputs for `observations` (B, H, W, C) uint8, and the state after; `firsts` (B,) bool resets the state.

        What it resets a state to is the initial state, unless the agent has a method `reset(state, firsts)` that gives
        the state before the step (see `agents.states.before_step`).
        """
        ...

    def forward(self, observations: np.ndarray) -> Outputs:
        """One step from the initial state: logits (B, A) and values (B,), or action values (B, A)."""
        ...

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        """Observations from the environment's frames; the frames themselves where nothing needs doing.

        They are uint8, or float32 from 0 to 1 in steps of 1 / 255: then `forward` takes them as uint8, too.
        """
        ...

    def activations(self, observations: np.ndarray, layer: str, state: State = None) -> np.ndarray:
        """Result (B, h, w, c) of the operation of that (short or full) name."""
        ...

    def path_gradients(
        self,
        observations: np.ndarray,
        layer: str,
        points: np.ndarray,
        weights: np.ndarray,
        outputs: Sequence[Output],
        state: State = None,
    ) -> PathGradients:
        """Weighted mean of gradients along the straight line from 0 to the layer's activations a.

        For every score s in `outputs`: sum_i weights[i] * ds/da at points[i] * a, all scores from one forward pass a
        point; every path of the network that by-passes the layer keeps its value at the observation. The initial
        state stands for `state=None`.
        """
        ...

    def gradients(
        self,
        observations: np.ndarray,
        layer: str | None,
        activations: np.ndarray | None,
        outputs: Sequence[Output],
        state: State = None,
    ) -> np.ndarray:
        """Gradient (S, B, h, w, c) of each score with respect to the layer, at the given activations of it.

        `layer=None` is the network's input, `observations / 255` in float32: then the result is (S, B, H, W, C).
        `activations=None` are those of the observations.
        """
        ...


@dataclass(frozen=True)
class PathGradients:
    """What integrating along a straight line needs and yields."""

    activations: np.ndarray  # (B, h, w, c)
    gradients: np.ndarray  # (S, B, h, w, c), weighted mean over the path
    scores: np.ndarray  # (S, B): s(a)
    scores_at_zero: np.ndarray  # (S, B): s(0)

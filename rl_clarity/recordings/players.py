"""What sampling needs of an agent, and an agent that only chance guides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rl_clarity.agents.protocol import Outputs, State


class Player(Protocol):
    """The part of `rl_clarity.agents.protocol.Agent` that plays."""

    @property
    def num_actions(self) -> int: ...

    def initial_state(self, n: int) -> State: ...

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]: ...

    def preprocess(self, frames: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class RandomPolicyAgent:
    """A player that takes each of its actions equally often: what any other is to be compared with."""

    num_actions: int

    def initial_state(self, n: int) -> State:
        return None

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        n = len(observations)
        return Outputs(np.zeros((n, self.num_actions), np.float32), np.zeros(n, np.float32)), None

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        return frames


def choose_actions(outputs: Outputs, rng: np.random.Generator) -> np.ndarray:
    """Actions (B,) int64: drawn from the softmax of the logits, or those of the best action values."""
    if outputs.policy_logits is None:
        if outputs.q_values is None:
            raise ValueError("an agent's outputs must have policy_logits or q_values")
        return outputs.q_values.argmax(-1)
    logits = np.asarray(outputs.policy_logits, np.float64)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    cumulative = weights.cumsum(-1)
    # The least action whose cumulative weight is above a uniform share of the whole (inverse of the distribution).
    return (cumulative <= rng.random(len(logits))[:, None] * cumulative[:, -1:]).sum(-1)

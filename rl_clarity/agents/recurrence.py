"""Gradients through the recurrent cell of an agent, from the state after a step to the state before it."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl_clarity.agents.capabilities import initial_state
from rl_clarity.agents.differentiation import GradientStep
from rl_clarity.agents.protocol import Agent, State, Tensor
from rl_clarity.agents.scores import pad
from rl_clarity.agents.sites import INPUT
from rl_clarity.base.errors import OptionError

if TYPE_CHECKING:
    from rl_clarity.agents.batched import BatchedAgent

SMALLEST_BATCH = 16


def join_state(state: State) -> np.ndarray:
    """Return the arrays (n, ...) of a state side by side, (n, H). Raises OptionError for None."""
    if state is None:
        raise OptionError("the agent has no recurrent state")
    return np.concatenate([np.reshape(part, (len(part), -1)) for part in state], axis=1)


def split_state(values: np.ndarray, initial: State) -> State:
    """Split values (n, H) into the arrays of a state, with the shapes and types of those in `initial`."""
    if initial is None:
        raise OptionError("the agent has no recurrent state")
    ends = np.cumsum([int(np.prod(part.shape[1:])) for part in initial])
    parts = np.split(np.asarray(values), ends[:-1], axis=1)
    return tuple(
        part.reshape(len(part), *like.shape[1:]).astype(like.dtype) for part, like in zip(parts, initial, strict=True)
    )


def agent_state(agent: Agent, values: np.ndarray) -> State:
    """Split values (n, H) into the arrays of an agent's state."""
    return split_state(values, initial_state(agent, len(values)))


def state_gradients(
    agent: BatchedAgent, observations: np.ndarray, state: State, weights: np.ndarray, site: Literal["state", "input"]
) -> np.ndarray:
    """Implement `BatchedAgent.state_gradients`."""
    shapes = [part.shape[1:] for part in agent.initial_state(1) or ()]
    if not shapes:
        raise OptionError("the agent has no recurrent state")
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    if np.ndim(weights) != 3 or np.shape(weights)[::2] != (len(observations), ends[-1]):
        raise OptionError(
            f"weights have the shape {np.shape(weights)}; ({len(observations)}, S, {ends[-1]}) is needed: S "
            "combinations of the state for each observation"
        )
    backend, names = agent._backend, [f"state/{i}" for i in range(len(shapes))]
    reshape = backend.operations.reshape

    def make() -> GradientStep:
        section = agent._edited(agent._inputs, tuple(f"after/{i}" for i in range(len(shapes))))

        def after(point: Tensor, other: Tensor, *edits: Tensor) -> Tensor:
            inputs, states = (other, point) if site == "state" else (point, other)
            parts = [
                reshape(states[:, start:end], (-1, *shape))
                for (start, end), shape in zip(itertools.pairwise(ends), shapes, strict=True)
            ]
            return backend.concatenate(
                [reshape(part, (-1, math.prod(part.shape[1:]))) for part in section(inputs, *parts, *edits)]
            )

        return backend.gradient_step(after)

    step = agent._cached(("state gradients", site), make)
    results = []
    for rows, arrays in agent._batches(observations, state, agent.gradient_batch_size, SMALLEST_BATCH):
        values = join_state(tuple(arrays[name] for name in names)).astype(np.float32), arrays[INPUT]
        point, other = values if site == "state" else values[::-1]
        selection = pad(np.asarray(weights[rows], np.float32), len(point))
        edits = [arrays[name] for name in agent._edits.names]
        one, total = np.float32(1), backend.zeros(selection.shape[1], point)
        gradients = step(total, np.float32(0), point, one, one, selection, other, *edits)[0]
        results.append(backend.array(gradients)[:, : rows.stop - rows.start])
    scale = np.float32(1 if site == "state" else agent._unit / agent._divisor)
    return np.concatenate(results, axis=1) * scale

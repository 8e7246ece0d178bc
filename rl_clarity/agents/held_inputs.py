"""The inputs that an agent takes besides its image, such as the vectors in a dictionary of observations.

Analyses explain the image, and hold the other inputs fixed at their recorded values, like a recurrent state. These held
inputs are therefore stored as the last arrays of the agent's state. The environment replaces them before each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import has, initial_state, reset_state
from rl_clarity.agents.protocol import State
from rl_clarity.base.errors import SamplesError


def held_inputs(agent: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the agent's held inputs by name, in the order of their arrays at the end of the state."""
    return dict(agent.held_inputs) if has(agent, "held_inputs") else {}


def is_recurrent(agent: Any) -> bool:
    """Return whether the agent's state contains arrays other than its held inputs."""
    return len(initial_state(agent, 1) or ()) > len(held_inputs(agent))


def split_held(agent: Any, state: State) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Split the arrays of a state into the recurrent state and the held inputs."""
    parts = state or ()
    memory = len(parts) - len(held_inputs(agent))
    return parts[:memory], parts[memory:]


def with_held(agent: Any, state: State, inputs: Mapping[str, np.ndarray]) -> State:
    """Return the state with its held inputs replaced by arrays (N, ...), by name. Unknown names are ignored.

    Raises SamplesError if an input of the agent is missing or has the wrong shape.
    """
    shapes = held_inputs(agent)
    found = {name: np.shape(array)[1:] for name, array in inputs.items()}
    wrong = [f"{name!r} of shape {shape}" for name, shape in shapes.items() if found.get(name) != shape]
    if wrong:
        have = ", ".join(f"{name!r} of shape {shape}" for name, shape in found.items()) or "none"
        raise SamplesError(
            f"besides the image, the agent takes {', '.join(wrong)}, but the environment's observations have {have}. "
            "Use the environment that the agent was trained in, or correct observation_shape"
        )
    if not shapes:
        return state
    memory, _ = split_held(agent, state)
    return (*memory, *(np.asarray(inputs[name], np.float32) for name in shapes))


class HoldsInputs:
    """Base class of agents, with the methods for held inputs. By default, an agent has no held inputs."""

    held_inputs: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """Shapes of the inputs besides the image, by name."""
    _image: str | None = None
    """Key of the image, if observations are dictionaries."""

    def initial_state(self, n: int) -> State:
        """Return the state of n environments before their first step as arrays (n, ...), or None for an agent without a
        state.
        """
        raise NotImplementedError

    def image_and_state(self, observations: Mapping[str, np.ndarray], state: State = None) -> tuple[np.ndarray, State]:
        """Return the images in a dictionary of observations (B, ...), and the state with the held inputs in it.

        Pass both to functions such as `integrated_gradients`, as observations and `state`. The argument `state` is the
        recurrent state without held inputs, by default the initial one. Raises SamplesError for inputs that are missing
        or have the wrong shape.
        """
        images = np.asarray(observations[self._image or "image"])
        memory = split_held(self, self.initial_state(len(images)))[0] if state is None else tuple(state)
        held = tuple(np.zeros((len(images), *shape), np.float32) for shape in self.held_inputs.values())
        return images, with_held(self, (*memory, *held), observations)

    def reset(self, state: State, firsts: np.ndarray) -> State:
        """Return the state before a step: the initial state where an episode begins. Held inputs stay as they are."""
        memory, held = split_held(self, self.initial_state(len(firsts)) if state is None else state)
        initial, _ = split_held(self, self.initial_state(len(firsts)))
        return (*(reset_state(memory, initial, firsts) or ()), *held) or None

"""The numeric inputs of an agent, which a page shows as tracks: the entries of a vector, or the held inputs in addition
to an image.
"""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.capabilities import is_vector
from rl_clarity.agents.held_inputs import held_inputs, split_held
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import JsonObject
from rl_clarity.recordings.samples import Trajectories

MOST_INPUTS = 64
"""Maximum number of inputs that a page shows."""


def input_names(agent: Agent, metadata: JsonObject) -> list[str]:
    """Return the names of an agent's numeric inputs, at most 64.

    The entries of a vector are named by `observation_names` in the metadata; by default, they are numbered. If a held
    input has several entries, they are numbered, too. Raises OptionError if `observation_names` is not as long as the
    vector.
    """
    names = vector_names(agent, metadata) if is_vector(agent) else []
    for name, shape in held_inputs(agent).items():
        size = int(np.prod(shape))
        names += [name] if size == 1 else [f"{name} {number}" for number in range(1, size + 1)]
    return names[:MOST_INPUTS]


def vector_names(agent: Agent, metadata: JsonObject) -> list[str]:
    """Return the names of all inputs of an agent that observes vectors; see `input_names`."""
    size, names = agent.observation_shape[-1], metadata.get("observation_names")
    if names is None:
        return [f"input {number}" for number in range(1, size + 1)]
    if len(names) != size:
        raise OptionError(f"observation_names has {len(names)} names, but the agent observes vectors of length {size}")
    return [*map(str, names)]


def input_values(agent: Agent, trajectories: Trajectories, trajectory: int) -> np.ndarray | None:
    """Return the values (T, K) of an agent's numeric inputs in a trajectory of T steps, in the order of `input_names`.

    Return None for an agent that observes only images.
    """
    if is_vector(agent):
        return np.asarray(trajectories.observations[trajectory])[:, 0, 0, :MOST_INPUTS]
    if not held_inputs(agent):
        return None
    _, held = split_held(agent, tuple(part[trajectory] for part in trajectories.states or ()))
    return np.concatenate([np.reshape(part, (len(part), -1)) for part in held], axis=1)[:, :MOST_INPUTS]

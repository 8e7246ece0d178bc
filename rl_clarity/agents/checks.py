"""Whether what a user gives is an agent, and what an agent is given are observations and a state of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import State
from rl_clarity.errors import OptionError, SamplesError

PROTOCOL = (
    "layers",
    "operations",
    "observation_shape",
    "num_actions",
    "metadata",
    "initial_state",
    "step",
    "forward",
    "preprocess",
    "activations",
    "path_gradients",
    "gradients",
)
PLAYING = ("num_actions", "initial_state", "step", "preprocess")
"""What an agent that only plays needs."""
FRAMEWORKS = {("keras", "Layer"): "rl_clarity.KerasAgent(model)"}
FRAMEWORKS |= {("torch", "Module"): "rl_clarity.TorchAgent(module, (height, width, channels))"}


def check_agent(agent: Any, needed: Sequence[str] = PROTOCOL) -> None:
    """Raises OptionError, with the way out, for what lacks some of what is `needed` of the protocol `Agent`."""
    missing = [name for name in needed if not (hasattr(type(agent), name) or hasattr(agent, name))]
    if isinstance(agent, str | os.PathLike):
        raise OptionError(f"agent={os.fspath(agent)!r} is a path or a name: rl_clarity.load_agent({str(agent)!r})")
    if isinstance(agent, type):
        raise OptionError(f"agent={agent.__name__} is a class; an object of it is needed")
    if not missing:
        return
    for ancestor in type(agent).__mro__:
        made = FRAMEWORKS.get((ancestor.__module__.split(".")[0], ancestor.__name__))
        if made is not None:
            raise OptionError(f"a {type(agent).__name__} is a network; its agent is {made}")
    raise OptionError(
        f"a {type(agent).__name__} is no agent: it lacks {', '.join(missing)} of the protocol rl_clarity.Agent. For "
        "networks of your own there are rl_clarity.KerasAgent and TorchAgent, for files rl_clarity.load_agent"
    )


def check_pictures(observations: np.ndarray, divisor: float) -> None:
    """Raises SamplesError for observations that are not from 0 to 255, or that have been divided already.

    A network that takes its input as it is (`divisor` 1) may be given floats of any range.
    """
    kind = observations.dtype.kind
    if observations.dtype == np.uint8 or observations.size == 0 or (kind == "f" and divisor == 1):
        return
    if kind not in "iuf":
        raise SamplesError(f"observations are of the type {observations.dtype}; uint8 from 0 to 255 is needed")
    low, high = observations.min(), observations.max()
    if not (low >= 0 and high <= 255):  # NaN is neither
        raise SamplesError(f"observations reach from {low} to {high}; uint8 from 0 to 255 is needed")
    if kind == "f" and 0 < high <= 1:
        raise SamplesError(
            f"observations of the type {observations.dtype} reach from {low:.3g} to {high:.3g}: they seem to have been "
            f"divided by 255 already. The agent divides by {divisor:g} itself; give it uint8 from 0 to 255, "
            "np.rint(observations * 255).astype(np.uint8)"
        )


def check_state(state: State, initial: State) -> None:
    """Raises OptionError for a state that is none of the agent's; `initial` is its initial one, of as many."""
    if state is None:
        return
    if initial is None:
        raise OptionError("a state is given to an agent that has none: leave it out, or give state=None")
    shapes = [np.shape(part) for part in state] if isinstance(state, list | tuple) else f"a {type(state).__name__}"
    needed = [np.shape(part) for part in initial]
    if shapes != needed:
        raise OptionError(f"the state has the shapes {shapes}; that of these observations has {needed}")

"""Look up an agent's capabilities by name, and check observations and states."""

from __future__ import annotations

import os
from typing import Any, cast

import numpy as np

from rl_clarity.agents.actions import Categorical, Factor
from rl_clarity.agents.protocol import Agent, FrameRegion, State
from rl_clarity.base.errors import OptionError, SamplesError

PLAYING = ("num_actions", "step")
EXPLAINING = ("metadata", "observation_shape", "sites", "forward", "activations", "tails", "gradients")
"""Capabilities that an agent needs for a page, in addition to those for playing."""
WRAPPERS = {("keras", "Layer"): "rl_clarity.KerasAgent(model)"}
WRAPPERS |= {("torch", "Module"): "rl_clarity.TorchAgent(module, (height, width, channels))"}
WRAPPERS |= {("flax", "Module"): "rl_clarity.JaxAgent(module.apply, parameters, (height, width, channels))"}
WRAPPERS |= {("stable_baselines3", "BaseAlgorithm"): "rl_clarity.integrations.sb3.agent(model)"}


def has(agent: Any, name: str) -> bool:
    """Return whether the agent implements a member. A placeholder that is inherited from the protocol does not
    count.
    """
    member = getattr(type(agent), name, None)
    if member is None:
        return hasattr(agent, name)
    return member is not getattr(Agent, name, None)


def require(agent: Any, *names: str, for_: str) -> Any:
    """Return the agent if it has all of these capabilities; otherwise raise OptionError with the missing ones."""
    if isinstance(agent, str | os.PathLike):
        path = os.fspath(agent)
        raise OptionError(f"agent={path!r} is a path or a name: load it with rl_clarity.load_agent({path!r})")
    if isinstance(agent, type):
        raise OptionError(f"agent={agent.__name__} is a class: pass an instance")
    missing = [name for name in names if not has(agent, name)]
    if not missing:
        return agent
    kind = type(agent).__name__
    for ancestor in type(agent).__mro__:
        wrapper = WRAPPERS.get((ancestor.__module__.split(".")[0], ancestor.__name__))
        if wrapper is not None:
            raise OptionError(f"a {kind} is a network, not an agent: wrap it with {wrapper}")
    raise OptionError(
        f"{for_} needs an agent with {', '.join(missing)}, which {kind} does not have. Implement "
        "rl_clarity.Agent, wrap a network with rl_clarity.KerasAgent, TorchAgent or JaxAgent, or load one with "
        "rl_clarity.load_agent"
    )


def initial_state(agent: Any, n: int) -> State:
    """Return the state of n environments before their first step, or None for an agent without a state."""
    return cast(Agent, agent).initial_state(n) if has(agent, "initial_state") else None


def preprocess(agent: Any, frames: np.ndarray) -> np.ndarray:
    """Return the observations for an environment's frames: the frames themselves if the agent does not preprocess."""
    return cast(Agent, agent).preprocess(frames) if has(agent, "preprocess") else frames


def frame_region(agent: Any) -> FrameRegion | None:
    """Return the region of the environment's frame that an observation shows, or None for the whole frame."""
    return cast(FrameRegion, agent.frame_region) if has(agent, "frame_region") else None


def action_factors(agent: Any) -> tuple[Factor, ...]:
    """Return the factors of an agent's or environment's action; by default a single choice among `num_actions`."""
    return tuple(agent.action_factors) if has(agent, "action_factors") else (Categorical(agent.num_actions),)


def uses_action_masks(agent: Any) -> bool:
    """Return whether the agent chooses among the actions that its environment's `action_masks` allows."""
    return bool(getattr(agent, "metadata", {}).get("action_masks"))


def parameters(agent: Any) -> dict[str, np.ndarray]:
    """Return the arrays that distinguish an agent from others, by name; an empty dict if it does not expose any."""
    return dict(agent.parameters()) if has(agent, "parameters") else {}


def parallel_calls(agent: Any, threads: int | None = None) -> int:
    """Return the number of threads that should call the agent at once, at most `threads`. It is 1 for an agent without
    `parallel_calls`.
    """
    calls = int(agent.parallel_calls) if has(agent, "parallel_calls") else 1
    return calls if threads is None else min(calls, threads)


def before_step(agent: Any, state: State, firsts: np.ndarray) -> State:
    """Return the state from which `agent.step(observations, state, firsts)` starts, which attribution holds fixed.

    Agents without `reset` start every episode in their initial state.
    """
    if has(agent, "reset"):
        return cast(State, agent.reset(state, firsts))
    return reset_state(state, initial_state(agent, len(firsts)), firsts)


def reset_state(state: State, initial: State, firsts: np.ndarray, later: State = None) -> State:
    """Return the state with the initial state where an episode begins, or with `later` if that is not None.

    With `later`, an environment that is still in its initial state keeps it, because it has not made a step yet.
    """
    if initial is None or state is None:
        return initial
    firsts = np.asarray(firsts, bool)
    if not firsts.any():
        return state
    if later is not None:
        unchanged = [
            np.all(np.reshape(old == new, (len(firsts), -1)), axis=1) for old, new in zip(state, initial, strict=True)
        ]
        firsts = firsts & ~np.all(unchanged, axis=0)
    return tuple(
        np.where(firsts.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)
        for old, new in zip(state, initial if later is None else later, strict=True)
    )


def is_vector(agent: Any) -> bool:
    """Return whether observations are vectors of n values, which are stored as images (1, 1, n) of a single pixel."""
    return tuple(getattr(agent, "observation_shape", ())[:2]) == (1, 1)


def as_vectors(observations: np.ndarray, size: int) -> np.ndarray:
    """Return vectors (B, n) or (B, 1, 1, n) as (B, 1, 1, n) float32; raise SamplesError for anything else."""
    shape = observations.shape
    if shape[1:] not in ((size,), (1, 1, size)) or observations.dtype.kind not in "biuf":
        raise SamplesError(
            f"observations have the shape {shape} and the type {observations.dtype}; the network takes numeric arrays "
            f"(B, {size})"
        )
    return observations.astype(np.float32).reshape(len(observations), 1, 1, size)


def check_observations(observations: np.ndarray, divisor: float) -> None:
    """Raise SamplesError for observations outside 0 to 255, or observations that were already divided by 255.

    A network whose `divisor` is 1 takes floats of any range.
    """
    kind = observations.dtype.kind
    if observations.dtype == np.uint8 or observations.size == 0 or (kind == "f" and divisor == 1):
        return
    if kind not in "iuf":
        raise SamplesError(f"observations have the type {observations.dtype}; uint8 from 0 to 255 is needed")
    low, high = observations.min(), observations.max()
    if not (low >= 0 and high <= 255):  # written so that NaN fails
        raise SamplesError(f"observations range from {low} to {high}; uint8 from 0 to 255 is needed")
    if kind == "f" and 0 < high <= 1:
        raise SamplesError(
            f"observations of type {observations.dtype} range from {low:.3g} to {high:.3g}: they seem to have been "
            f"divided by 255 already. The agent divides by {divisor:g} itself, so pass uint8 from 0 to 255: "
            "np.rint(observations * 255).astype(np.uint8)"
        )


def checked_state(state: State | np.ndarray, initial: State) -> State:
    """Return a state as a tuple of arrays. A state with a single array may be passed as that array itself.

    Raises OptionError for a state whose shapes differ from those of the initial state.
    """
    if state is None:
        return None
    if initial is None:
        raise OptionError("the agent has no state: leave the state out, or pass state=None")
    parts = state if isinstance(state, list | tuple) else (state,)
    shapes = [np.shape(part) for part in parts]
    expected = [np.shape(part) for part in initial]
    if shapes != expected:
        raise OptionError(f"the state has the shapes {shapes}; for these observations it must have {expected}")
    return tuple(parts)

"""Samples that the user gives as arrays, checked and completed with what the agent says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import before_step, initial_state, parameters
from rl_clarity.agents.protocol import Agent, Outputs
from rl_clarity.errors import SamplesError
from rl_clarity.keys import key_of
from rl_clarity.parsing import unknown_option
from rl_clarity.recordings.named_arrays import to_arrays
from rl_clarity.recordings.samples import Observations, Trajectories

OPTIONAL = ("truncated", "final_values", "observations_full")
KEYS = ("observations", "actions", "rewards", "firsts", "dones", *OPTIONAL)
OUTPUTS = ("policy_logits", "values", "q_values")
FEW = 64
"""Frames by which an agent's outputs are told from another's."""
SAME = 1e-3
"""Relative to the largest output: far more than another batch or machine changes."""


def as_trajectories(agent: Agent, given: Trajectories | Mapping[str, Any]) -> Trajectories:
    """Trajectories of the agent, from a dict of `observations` (N, T, H, W, C) uint8, `actions` and `rewards` (N, T),
    `firsts` or `dones` (N, T), and maybe `truncated` (N, T), `final_values` (N, T) of the states where time cut
    episodes short, `observations_full` (N, T, H', W', 3).

    Outputs and states that `Trajectories` hold are kept where the agent says the same now; those of another agent are
    replaced by its own, so that it can be compared with the one that played.

    Raises SamplesError for shapes and types that do not fit each other or the agent.
    """
    if not isinstance(given, Trajectories):
        given = _trajectories(given)
    _check_images(given.observations, agent, "trajectories' observations", 5)
    shape = given.observations.shape[:2]
    for name in ("actions", "rewards", "firsts", "truncated", "final_values"):
        array = getattr(given, name)
        if array is not None and array.shape != shape:
            raise SamplesError(f"trajectories: {name} has the shape {array.shape}, observations begin with {shape}")
    _check_frames(given.observations_full, shape, "trajectories: observations_full")
    actions = given.actions
    if actions.dtype.kind not in "iu":
        raise SamplesError(f"trajectories: actions have the type {actions.dtype}; they must be whole numbers")
    if actions.size and not (actions.min() >= 0 and actions.max() < agent.num_actions):
        raise SamplesError(
            f"trajectories: actions reach from {actions.min()} to {actions.max()}; the agent has {agent.num_actions}"
        )
    for name in ("rewards", "final_values", *OUTPUTS):
        _check_finite(getattr(given, name), f"trajectories: {name}")
    return given if _agrees(agent, given) else _replayed(agent, given)


def as_observations(agent: Agent, given: Observations | np.ndarray, full: np.ndarray | None = None) -> Observations:
    """Extra observations, from an array (M, H, W, C) uint8 and maybe human-scale frames (M, H', W', 3)."""
    if not isinstance(given, Observations):
        given = Observations(np.asarray(given), observations_full=None if full is None else np.asarray(full))
    _check_images(given.observations, agent, "observations", 4)
    _check_frames(given.observations_full, given.observations.shape[:1], "observations_full")
    return given


def agent_key(agent: Agent, trajectories: Trajectories) -> str:
    """Hash of what an agent computes (its parameters, where it shows them, else what it says now) and of its origin."""
    digest = hashlib.sha256(f"{type(agent).__name__} {key_of(agent.metadata)}".encode())
    for name, array in sorted((parameters(agent) or _present(_says(agent, trajectories))).items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def samples_key(samples: Trajectories | Observations) -> str:
    """Hash of samples given as arrays."""
    digest = hashlib.sha256(repr(getattr(samples, "action_combos", None)).encode())
    for name, array in to_arrays(samples).items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        for part in array:  # which may be mapped into memory, and larger than it
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _trajectories(given: Mapping[str, Any]) -> Trajectories:
    for key in given:
        if key not in KEYS:
            raise unknown_option(f"trajectories.{key}", KEYS)
    missing = [key for key in ("observations", "actions", "rewards") if key not in given]
    if missing or ("firsts" not in given and "dones" not in given):
        raise SamplesError(f"trajectories lack {', '.join(missing) or 'firsts (or dones)'}; they have {sorted(given)}")
    optional: dict[str, Any] = {key: None if given.get(key) is None else np.asarray(given[key]) for key in OPTIONAL}
    if optional["final_values"] is not None and optional["truncated"] is None:
        raise SamplesError("trajectories have final_values, but no truncated that says where time cut an episode short")
    firsts = given.get("firsts")
    if firsts is None:
        ended = np.asarray(given["dones"], bool)
        firsts = _firsts_of(ended if optional["truncated"] is None else ended | optional["truncated"].astype(bool))
    return Trajectories(
        observations=np.asarray(given["observations"]),
        actions=np.asarray(given["actions"]),
        rewards=np.asarray(given["rewards"], np.float32),
        firsts=np.asarray(firsts, bool),
        **optional,
    )


def _firsts_of(dones: np.ndarray) -> np.ndarray:
    """An observation begins an episode if the step before ended one; so does the very first."""
    return np.concatenate([np.ones_like(dones[:, :1]), dones[:, :-1]], axis=1)


def _check_images(observations: np.ndarray, agent: Agent, what: str, rank: int) -> None:
    axes = "(N, T, H, W, C)" if rank == 5 else "(M, H, W, C)"
    if observations.ndim != rank or observations.shape[-3:] != tuple(agent.observation_shape):
        raise SamplesError(
            f"{what} have the shape {observations.shape}; "
            f"they must be {axes} with (H, W, C) = {agent.observation_shape}"
        )
    if 0 in observations.shape:
        raise SamplesError(f"{what} of shape {observations.shape} are empty")
    if observations.dtype != np.uint8:
        raise SamplesError(f"{what} have the type {observations.dtype}; they must be uint8, from 0 to 255")


def _check_frames(frames: np.ndarray | None, begin: tuple[int, ...], what: str) -> None:
    """Frames that are shown have the shape (*begin, H, W, 1 or 3)."""
    if frames is None:
        return
    if frames.ndim != len(begin) + 3 or frames.shape[: len(begin)] != begin or frames.shape[-1] not in (1, 3):
        raise SamplesError(f"{what} has the shape {frames.shape}; it must be {begin} and (H, W, 1 or 3) after that")
    if frames.dtype != np.uint8:
        raise SamplesError(f"{what} has the type {frames.dtype}; it must be uint8, from 0 to 255")


def _check_finite(array: np.ndarray | None, what: str) -> None:
    if array is not None and not np.isfinite(array).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise SamplesError(f"{what}{list(first)} is {array[first]}; they must be finite")


def _agrees(agent: Agent, given: Trajectories) -> bool:
    """Whether the agent says what the trajectories hold, on a few frames and from the states they hold."""
    held = {name: getattr(given, name) for name in OUTPUTS if getattr(given, name) is not None}
    if not held or (given.states is None) != (initial_state(agent, 1) is None):
        return False
    said = _present(_says(agent, given))
    few = _few(given)
    return said.keys() == held.keys() and all(
        said[name].shape == np.shape(held[name][few])
        and np.allclose(said[name], held[name][few], rtol=0, atol=SAME * max(1e-6, float(np.abs(said[name]).max())))
        for name in said
    )


def _says(agent: Agent, trajectories: Trajectories) -> Outputs:
    """An agent's outputs on a few frames, from the states before them that the trajectories hold, if any."""
    few = _few(trajectories)
    observations = np.asarray(trajectories.observations[few])
    if trajectories.states is None or initial_state(agent, 1) is None:
        return agent.forward(observations)
    state = tuple(np.asarray(part[few]) for part in trajectories.states)
    return agent.step(observations, state, np.zeros(len(observations), bool))[0]


def _few(trajectories: Trajectories) -> tuple[np.ndarray, ...]:
    """Places (trajectory, step) of some frames, spread over all."""
    count = trajectories.actions.size
    return np.unravel_index(np.linspace(0, count - 1, min(FEW, count)).astype(int), trajectories.actions.shape)


def _replayed(agent: Agent, given: Trajectories) -> Trajectories:
    """The same with what the agent says at each step; a recurrent agent's state is carried from the start."""
    count, steps = given.actions.shape
    given = replace(given, policy_logits=None, values=None, q_values=None, states=None)
    if initial_state(agent, 1) is None:
        flat = given.observations.reshape(count * steps, *given.observations.shape[2:])
        outputs = agent.forward(flat)
        said: Any = {name: array.reshape(count, steps, *array.shape[1:]) for name, array in _present(outputs).items()}
        return replace(given, **said)
    state = initial_state(agent, count)
    states, found = [], []
    for t in range(steps):
        firsts = given.firsts[:, t]
        states.append(before_step(agent, state, firsts))
        outputs, state = agent.step(given.observations[:, t], state, firsts)
        found.append(_present(outputs))
    joined: Any = {name: np.stack([one[name] for one in found], axis=1) for name in found[0]}
    return replace(given, states=tuple(np.stack(parts, axis=1) for parts in zip(*states, strict=True)), **joined)


def _present(outputs: Outputs) -> dict[str, np.ndarray]:
    named = {name: getattr(outputs, name) for name in OUTPUTS}
    return {name: array for name, array in named.items() if array is not None}

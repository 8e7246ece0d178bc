"""Check samples that are passed as arrays, and add the agent's outputs to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rl_clarity.agents.actions import Binary, Categorical, describe_factors, is_single_choice
from rl_clarity.agents.capabilities import action_factors, before_step, initial_state, is_vector, parameters
from rl_clarity.agents.held_inputs import held_inputs, with_held
from rl_clarity.agents.protocol import Agent, Outputs
from rl_clarity.base.errors import SamplesError
from rl_clarity.base.keys import cache_key
from rl_clarity.base.parsing import unknown_option
from rl_clarity.recordings.advantages import firsts_from_dones
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Observations, Trajectories, to_arrays

OPTIONAL = ("dones", "truncated", "final_values", "observations_full")
KEYS = ("observations", "actions", "rewards", "firsts", *OPTIONAL)
FLAGS = ("firsts", "dones", "truncated")
OUTPUTS = ("policy_logits", "values", "q_values")
COMPARED_FRAMES = 64
"""Number of frames at which saved outputs are compared with those of an agent."""
TOLERANCE = 1e-3
"""Largest difference between saved and recomputed outputs, relative to the largest output. It is far above the effect
of batch sizes or hardware."""


def as_trajectories(agent: Agent, samples: Trajectories | Recording | Mapping[str, Any]) -> Trajectories:
    """Return trajectories with the agent's outputs and states.

    A mapping contains arrays of N trajectories with T steps: `observations` (N, T, H, W, C) uint8, `actions` and
    `rewards` (N, T), `firsts` or `dones` (N, T), and optionally `truncated` (N, T), `final_values` (N, T) of the states
    in which episodes were truncated, and `observations_full` (N, T, H', W', 3). Outputs and states in `Trajectories`
    are kept if the agent reproduces them. Otherwise they are computed with the agent, so an agent can be explained on
    another agent's episodes.

    Raises SamplesError for arrays that do not match each other or the agent.
    """
    if isinstance(samples, Recording):
        samples = samples.to_trajectories()
    trajectories = samples if isinstance(samples, Trajectories) else _from_mapping(agent, samples)
    check_trajectories(agent, trajectories)
    return trajectories if _reproduces(agent, trajectories) else _with_outputs(agent, trajectories)


def as_observations(
    agent: Agent, samples: Observations | Recording | np.ndarray, full: np.ndarray | None = None
) -> Observations:
    """Return extra observations from an array of M observations (M, H, W, C) uint8 and optional rendered frames `full`
    (M, H', W', 3). Raises SamplesError if they do not match each other or the agent.
    """
    if isinstance(samples, Recording):
        samples = samples.to_observations()
    if not isinstance(samples, Observations):
        samples = Observations(
            _stored(agent, np.asarray(samples)), observations_full=None if full is None else np.asarray(full)
        )
    check_observations(agent, samples)
    return samples


def check_trajectories(agent: Agent, trajectories: Trajectories) -> None:
    """Raise SamplesError for shapes, types and values that do not match each other or the agent."""
    _check_observations(trajectories.observations, agent, "trajectories.observations", "(N, T, H, W, C)")
    _check_shapes(to_arrays(trajectories))
    _check_frames(trajectories.observations_full, trajectories.rewards.shape, "trajectories.observations_full")
    _check_actions(agent, trajectories.actions)
    for name in ("rewards", "final_values", *OUTPUTS):
        _check_numbers(getattr(trajectories, name), f"trajectories.{name}")
    firsts = _as_bool(trajectories.firsts, "trajectories.firsts")
    if trajectories.truncated is not None:
        truncated = _as_bool(trajectories.truncated, "trajectories.truncated")
        _check_firsts(firsts, firsts_from_dones(truncated), "truncated", exact=False)


def check_observations(agent: Agent, observations: Observations) -> None:
    """Raise SamplesError for shapes and types that do not match each other or the agent."""
    _check_observations(observations.observations, agent, "observations", "(M, H, W, C)")
    _check_frames(observations.observations_full, observations.observations.shape[:1], "observations_full")
    count = len(observations.observations)
    for name, array in to_arrays(observations).items():
        if len(array) != count:
            raise SamplesError(f"observations.{name} has {len(array)} entries, but there are {count} observations")


def agent_key(agent: Agent, trajectories: Trajectories) -> str:
    """Hash an agent's metadata and its parameters, or its outputs on some frames if it has no parameters."""
    digest = hashlib.sha256(f"{type(agent).__name__} {cache_key(agent.metadata)}".encode())
    arrays = parameters(agent) or _named(_compute_outputs(agent, trajectories))
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def samples_key(samples: Trajectories | Observations) -> str:
    """Hash the arrays and actions of samples."""
    digest = hashlib.sha256(repr(getattr(samples, "action_combos", None)).encode())
    for name, array in to_arrays(samples).items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        for part in array:  # it may be memory-mapped and larger than memory
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _from_mapping(agent: Agent, samples: Mapping[str, Any]) -> Trajectories:
    for key in samples:
        if key not in KEYS:
            raise unknown_option(f"trajectories.{key}", KEYS)
    arrays = {key: np.asarray(value) for key, value in samples.items() if value is not None}
    if "observations" in arrays:
        arrays["observations"] = _stored(agent, arrays["observations"])
    missing = [key for key in ("observations", "actions", "rewards") if key not in arrays]
    if missing or not arrays.keys() & {"firsts", "dones"}:
        raise SamplesError(f"trajectories lack {', '.join(missing) or 'firsts (or dones)'}; they have {sorted(arrays)}")
    if "final_values" in arrays and "truncated" not in arrays:
        raise SamplesError("trajectories.final_values need truncated, which marks where episodes were truncated")
    _check_observations(arrays["observations"], agent, "trajectories.observations", "(N, T, H, W, C)")
    _check_shapes(arrays)
    _check_numbers(arrays["rewards"], "trajectories.rewards")
    arrays |= {name: _as_bool(arrays[name], f"trajectories.{name}") for name in FLAGS if name in arrays}
    if "dones" in arrays:
        arrays["dones"] = arrays["dones"] | arrays.get("truncated", False)
        firsts = firsts_from_dones(arrays["dones"])
        _check_firsts(arrays.setdefault("firsts", firsts), firsts, "dones", exact=True)
    rewards = arrays["rewards"].astype(np.float32)
    optional: dict[str, Any] = {name: arrays.get(name) for name in OPTIONAL}
    return Trajectories(arrays["observations"], arrays["actions"], rewards, arrays["firsts"], **optional)


def _stored(agent: Agent, observations: np.ndarray) -> np.ndarray:
    """Return vectors (..., n) in the form in which they are stored, (..., 1, 1, n) float32. Images stay as they are."""
    size = agent.observation_shape[-1]
    if not is_vector(agent) or observations.shape[-3:] == (1, 1, size) or observations.dtype.kind not in "biuf":
        return observations
    return observations[..., None, None, :].astype(np.float32)


def _check_shapes(arrays: Mapping[str, np.ndarray]) -> None:
    shape = arrays["observations"].shape[:2]
    for name in ("actions", "rewards", *FLAGS, "final_values"):
        if name in arrays and arrays[name].shape[: 2 if name == "actions" else None] != shape:
            raise SamplesError(
                f"trajectories.{name} has shape {arrays[name].shape}; expected {shape}, like the observations"
            )


def _check_actions(agent: Agent, actions: np.ndarray) -> None:
    """Raise SamplesError for actions that the agent does not have."""
    factors = action_factors(agent)
    if not is_single_choice(factors):
        expected = describe_factors(factors)
        if actions.ndim != 3 or actions.shape[2] != len(factors):
            raise SamplesError(
                f"trajectories.actions has shape {actions.shape}; expected (N, T, {len(factors)}), because an "
                f"action of the agent is {expected}"
            )
        _check_numbers(actions, "trajectories.actions")
        for i, factor in enumerate(factors):
            count = {Categorical: getattr(factor, "n", 0), Binary: 2}.get(type(factor))
            if count is not None and not np.isin(actions[..., i], np.arange(count)).all():
                raise SamplesError(
                    f"trajectories.actions[..., {i}] must be integers from 0 to {count - 1}, because an action of the "
                    f"agent is {expected}"
                )
        return
    if actions.ndim != 2 or actions.dtype.kind not in "iu":
        raise SamplesError(
            f"trajectories.actions has type {actions.dtype} and shape {actions.shape}; actions must be integers (N, T)"
        )
    if not (actions.min() >= 0 and actions.max() < agent.num_actions):
        raise SamplesError(
            f"trajectories.actions ranges from {actions.min()} to {actions.max()}, but the agent has "
            f"{agent.num_actions} actions"
        )


def _check_observations(observations: np.ndarray, agent: Agent, name: str, axes: str) -> None:
    shape = observations.shape
    if is_vector(agent):
        if shape[axes.count(",") - 2 :] != tuple(agent.observation_shape) or observations.dtype != np.float32:
            raise SamplesError(
                f"{name} has the shape {shape} and the type {observations.dtype}; expected float32 vectors of "
                f"{agent.observation_shape[-1]} numbers"
            )
        _check_numbers(observations, name)
        return
    if len(shape) != axes.count(",") + 1 or shape[-3:] != tuple(agent.observation_shape):
        raise SamplesError(f"{name} has shape {shape}; expected {axes} with (H, W, C) = {agent.observation_shape}")
    if 0 in shape:
        raise SamplesError(f"{name} of shape {shape} is empty")
    if observations.dtype != np.uint8:
        raise SamplesError(f"{name} has type {observations.dtype}; it must be uint8, from 0 to 255")


def _check_frames(frames: np.ndarray | None, shape: tuple[int, ...], name: str) -> None:
    """Check that rendered frames have the shape (*shape, H, W, 1 or 3)."""
    if frames is None:
        return
    if frames.ndim != len(shape) + 3 or frames.shape[: len(shape)] != shape or frames.shape[-1] not in (1, 3):
        raise SamplesError(f"{name} has shape {frames.shape}; expected {shape} followed by (H, W, 1 or 3)")
    if frames.dtype != np.uint8:
        raise SamplesError(f"{name} has type {frames.dtype}; it must be uint8, from 0 to 255")


def _check_numbers(array: np.ndarray | None, name: str) -> None:
    if array is None:
        return
    if array.dtype.kind not in "biuf":
        raise SamplesError(f"{name} has type {array.dtype}; it must hold real numbers")
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise SamplesError(f"{name}{list(index)} is {array[index]}; it must be finite")


def _as_bool(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind in "biuf":
        flags = array.astype(bool)
        wrong = np.argwhere(flags != array)
        if len(wrong) == 0:
            return flags
        index = tuple(int(i) for i in wrong[0])
        raise SamplesError(f"{name}{list(index)} is {array[index]}; it must be 0 or 1")
    raise SamplesError(f"{name} has type {array.dtype}; it must be bool")


def _check_firsts(firsts: np.ndarray, expected: np.ndarray, name: str, *, exact: bool) -> None:
    """Check `firsts` (N, T) from the second step on. With `exact` they must equal the expected ones; otherwise they
    must be True wherever the expected ones are.
    """
    wrong = (firsts != expected if exact else expected & ~firsts)[:, 1:]
    if wrong.any():
        trajectory, step = (int(i) for i in np.argwhere(wrong)[0])
        raise SamplesError(
            f"trajectories.firsts[{trajectory}, {step + 1}] is {firsts[trajectory, step + 1]}, which contradicts "
            f"{name}[{trajectory}, {step}]: firsts marks the steps after those that ended an episode"
        )


def _reproduces(agent: Agent, trajectories: Trajectories) -> bool:
    """Return whether the agent reproduces the saved outputs on some frames, starting from the saved states."""
    saved = {name: array for name, array in to_arrays(trajectories).items() if name in OUTPUTS}
    if not saved or (trajectories.states is None) != (initial_state(agent, 1) is None):
        return False
    outputs = _named(_compute_outputs(agent, trajectories))
    steps = _spread_steps(trajectories)
    return outputs.keys() == saved.keys() and all(
        array.shape == np.shape(saved[name][steps])
        and np.allclose(array, saved[name][steps], rtol=0, atol=TOLERANCE * max(1e-6, float(np.abs(array).max())))
        for name, array in outputs.items()
    )


def _compute_outputs(agent: Agent, trajectories: Trajectories) -> Outputs:
    """Compute outputs on some frames, from the saved states if there are any."""
    steps = _spread_steps(trajectories)
    observations = np.asarray(trajectories.observations[steps])
    if trajectories.states is None or initial_state(agent, 1) is None:
        return agent.forward(observations)
    state = tuple(np.asarray(part[steps]) for part in trajectories.states)
    return agent.step(observations, state, np.zeros(len(observations), bool))[0]


def _spread_steps(trajectories: Trajectories) -> tuple[np.ndarray, ...]:
    """Return indices (trajectory, step) of evenly spaced frames."""
    count = trajectories.rewards.size
    frames = np.linspace(0, count - 1, min(COMPARED_FRAMES, count)).astype(int)
    return np.unravel_index(frames, trajectories.rewards.shape)


def _with_outputs(agent: Agent, trajectories: Trajectories) -> Trajectories:
    """Compute the agent's outputs at each step; a recurrent agent starts from its initial state."""
    count, steps = trajectories.rewards.shape
    inputs = _recorded_inputs(agent, trajectories)
    trajectories = replace(trajectories, policy_logits=None, values=None, q_values=None, states=None)
    if initial_state(agent, 1) is None:
        outputs = _named(agent.forward(trajectories.observations.reshape(count * steps, *agent.observation_shape)))
        named: Any = {name: array.reshape(count, steps, *array.shape[1:]) for name, array in outputs.items()}
        return replace(trajectories, **named)
    state = initial_state(agent, count)
    states, results = [], []
    for t in range(steps):
        firsts = trajectories.firsts[:, t]
        held = {name: array[:, t] for name, array in inputs.items()}
        states.append(with_held(agent, before_step(agent, state, firsts), held))
        output, state = agent.step(trajectories.observations[:, t], states[-1], np.zeros(count, bool))
        results.append(_named(output))
    named = {name: np.stack([result[name] for result in results], axis=1) for name in results[0]}
    parts = tuple(np.stack(parts, axis=1) for parts in zip(*states, strict=True))
    return replace(trajectories, states=parts, **named)


def _recorded_inputs(agent: Agent, trajectories: Trajectories) -> dict[str, np.ndarray]:
    """Return the agent's held inputs (the inputs other than the image) at all steps, (N, T, ...) by name. Raises
    SamplesError if they were not recorded.
    """
    shapes = held_inputs(agent)
    parts = (trajectories.states or ())[-len(shapes) :] if shapes else ()
    if [np.shape(part)[2:] for part in parts] != list(shapes.values()):
        raise SamplesError(
            f"the trajectories lack the agent's inputs besides the image, {', '.join(shapes)}; use rl_clarity.collect, "
            "which records them"
        )
    return dict(zip(shapes, parts, strict=True))


def _named(outputs: Outputs) -> dict[str, np.ndarray]:
    arrays = {name: getattr(outputs, name) for name in OUTPUTS}
    return {name: array for name, array in arrays.items() if array is not None}

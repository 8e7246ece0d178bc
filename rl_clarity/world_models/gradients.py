"""Gradients through time in a simulation: `saliency_through_time`, and `simulated_influence` of directions on each
other.

An earlier frame influences a later output along two paths. Through memory: frame -> state -> ... -> state -> output.
Through actions: frame -> action -> world -> later frame -> output. With `world_gradients=False`, gradients do not flow
through actions into the world, so only the first path is left. The difference from the full gradient is due to the
second path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rl_clarity.agents.editing import Edit
from rl_clarity.agents.protocol import Tensor
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.directions import Directions
from rl_clarity.world_models.networks import normalized
from rl_clarity.world_models.simulation import Simulation, simulate
from rl_clarity.world_models.simulator import Simulator, Start
from rl_clarity.world_models.windows import Windows

Target: TypeAlias = str | int | Sequence[int] | np.ndarray | Callable[[Simulation, int], Tensor]
"""The target that is explained at a step: "value"; "value change", the difference from the value of the previous step;
an action or a sequence of actions, the mean of their logits minus the mean of the others'; weights (H,), a direction of
the agent's state after the step, such as a column of `Directions.readout`; or a function of simulation and step that
returns (B,)."""


@dataclass(frozen=True)
class ThroughTime:
    """Gradients of S targets at step t with respect to the frames and states of steps 0 to t, for B simulations."""

    frames: np.ndarray  # (S, B, t + 1, H, W, C)
    states: tuple[np.ndarray, ...]  # parts (S, B, t + 1, ...), the agent's state before each step
    world_states: np.ndarray  # (S, B, t + 1, D + V x K)
    targets: np.ndarray  # (S, B): values of the targets
    at: int


def saliency_through_time(
    simulator: Simulator,
    starts: Start | int | np.ndarray,
    targets: Sequence[Target],
    at: int,
    noise_copies: int = 8,
    noise: float = 0.01,
    *,
    world_gradients: bool = True,
    actions: np.ndarray | None = None,
    edits: Sequence[Edit] = (),
    baseline: np.ndarray | None = None,
    points: int = 4,
    seed: int = 0,
) -> ThroughTime:
    """Return gradients of targets at a step of a simulation with respect to all earlier frames and states.

    They are means over copies of each simulation, which start from its latent with added Gaussian noise, as in
    SmoothGrad (Smilkov et al. 2017, https://arxiv.org/abs/1706.03825).

    Args:
        simulator: a simulator from `fit_simulator` or `load_simulator`
        starts: where B simulations start, as in `simulate`
        targets: S targets; see `Target`
        at: the step of the targets, counted from 0
        noise_copies: number of copies of each simulation
        noise: standard deviation of the noise in each dimension of the latent, which is scaled to length 1 again
        world_gradients: whether gradients flow through actions into the world
        actions: (B, at + 1) integers, taken instead of the agent's actions
        edits: edits of the agent
        baseline: (H, W, C) uint8, or (B, at + 1, H, W, C) with a frame for each step. With it, no noise is added.
            Gradients are means over the line from the baseline to the simulated frames, along which all frames that the
            agent gets change, as in integrated gradients (Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365)
        points: number of points on that line
        seed: seed of the noise, and of samples in the simulation, which are the same for all copies

    Raises OptionError for invalid arguments, and for noise where a start has no latent.
    """
    if at < 0 or noise_copies < 1 or points < 1 or not noise >= 0 or not targets:
        raise OptionError(
            f"at={at}, noise_copies={noise_copies}, noise={noise}, points={points}, targets={targets!r}: at and noise "
            "must not be negative, and at least one copy, one point and one target are needed"
        )
    simulator = simulator.with_edits(edits)
    for target in targets:
        check_target(simulator, target, at)
    begin = simulator.start(starts, seed=seed)
    rng = np.random.default_rng([seed % 2**63, 4])
    total: list[np.ndarray] = []
    shares = np.ones(noise_copies) if baseline is None else (np.arange(points) + 0.5) / points
    for share in shares:
        copy = begin if baseline is not None else _noisy(simulator, starts, begin, noise, rng, seed)
        seen: list[Tensor] = []
        with _tape(copy) as tape:
            see = None if baseline is None else partial(_see, baseline, share, seen)
            simulation = simulate(simulator, copy, at + 1, actions, (), world_gradients, see=see, seed=seed)
            values = [target_value(simulation, target, at) for target in targets]
        frames = seen or [step.frame for step in simulation.steps]
        parts = [_gradients(tape, value, simulation, frames) for value in values]
        arrays = [np.stack(part) for part in zip(*parts, strict=True)]  # (S, B, t + 1, ...) each
        arrays.append(np.stack([np.asarray(value) for value in values]))
        total = (
            [a + b / len(shares) for a, b in zip(total, arrays, strict=True)]
            if total
            else [array / len(shares) for array in arrays]
        )
    of_frames, world, *states, scores = total
    return ThroughTime(of_frames, tuple(states), world, scores, at)


def _see(baseline: np.ndarray, share: float, seen: list[Tensor], step: int, frame: Tensor) -> Tensor:
    """Return a frame on the line from the baseline (`share` 0) to `frame` (`share` 1), and append it to `seen`."""
    start = (baseline if baseline.ndim == 3 else baseline[:, step]).astype(np.float32) / 255
    seen.append(start + np.float32(share) * (frame - start))
    return seen[-1]


def simulated_influence(
    simulator: Simulator,
    recording: Recording,
    directions: Directions,
    lags: Sequence[int] = (1, 2, 4, 8),
    *,
    world_gradients: bool = True,
    by: np.ndarray | None = None,
    samples: int = 64,
    context: int = 3,
    seed: int = 0,
) -> np.ndarray:
    """Return the mean Jacobian (L, D, D) of coordinate j at t + lag with respect to coordinate i at t, in a simulation.

    Unlike `influence`, which covers memory alone, this function does not hold the frames fixed. With `world_gradients`,
    the result includes the effects of the agent's actions on the world, and on later frames. Simulations start from
    windows of the recording, with the recorded state of the agent, and end at t + lag.

    Args:
        simulator: a simulator from `fit_simulator` or `load_simulator`
        recording: a recording of the same agent
        directions: D directions, fitted to the agent's whole state (all of its parts, concatenated)
        lags: L numbers of steps, at least 1
        world_gradients: whether gradients flow through actions into the world
        by: a label (n,) for each step of the recording. The result is then (K, L, D, D): means over the samples whose
            earlier step has each of the K sorted labels, NaN for labels without samples
        samples: largest number of simulations
        context: number of frames from which a simulation starts
        seed: seed of the choice of windows, and of samples in the simulation

    Raises OptionError for invalid arguments, such as lags below 1, directions that do not fit the agent's state, and a
    wrong number of labels, and for a recording without an episode that is long enough.
    """
    if not len(lags) or min(lags) < 1 or samples < 1:
        raise OptionError(f"lags={list(lags)} and samples={samples} must be at least 1")
    if len(directions.mean) != simulator.world.state_size:
        raise OptionError(
            f"directions are for {len(directions.mean)} units, but the state has {simulator.world.state_size}"
        )
    at = max(lags)
    windows = Windows(recording, simulator.agent, context, at)
    if by is not None and np.shape(by) != (windows.steps,):
        raise OptionError(f"by has the shape {np.shape(by)}; ({windows.steps},) is needed, a label for each step")
    complete = windows.complete()
    if not len(complete):
        raise OptionError(f"lags={list(lags)}: no episode of {recording.location} has {context + at} steps")
    rng = np.random.default_rng([seed % 2**63, 7])
    numbers = np.sort(rng.choice(complete, min(samples, len(complete)), replace=False))
    batch = windows.read(numbers)
    state = [np.asarray(part) for part in simulator.split_state(batch.states[:, 0])]
    begin = simulator.start(batch.frames[:, :context], state=state, action=batch.actions[:, context - 1], seed=seed)
    with _tape(begin) as tape:
        simulation = simulate(simulator, begin, at, None, (), world_gradients, seed=seed)
        columns = flat_state(simulation.steps[-1].after) @ directions.readout.astype(np.float32)
        targets = [columns[:, j] for j in range(len(directions))]
    sources = [part for lag in lags for part in simulation.steps[at - lag].state]
    rows = [differentiate(tape, target, sources) for target in targets]
    parts = len(begin.state)
    gradients = [
        [np.concatenate([np.reshape(g, (len(g), -1)) for g in row[i : i + parts]], axis=1) for row in rows]
        for i in range(0, len(sources), parts)
    ]
    jacobians = np.moveaxis(directions.pull(np.array(gradients)), (2, 0, 3, 1), (0, 1, 2, 3))  # (n, L, D from, D to)
    if by is None:
        return np.asarray(jacobians.mean(axis=0))
    episodes, firsts = windows.places(numbers)
    steps = windows.offsets[episodes] + firsts + context
    labels = np.asarray(by)
    groups = np.unique(labels)
    result = np.full((len(groups), *jacobians.shape[1:]), np.nan)
    for i, lag in enumerate(lags):
        earlier = labels[steps + at - lag]
        for k, group in enumerate(groups):
            if (earlier == group).any():
                result[k, i] = jacobians[earlier == group, i].mean(axis=0)
    return result


def target_value(simulation: Simulation, target: Target, at: int) -> Tensor:
    """Return a target (B,) at a step of a simulation, as a tensor."""
    import tensorflow as tf

    step = simulation.steps[at]
    if callable(target):
        return target(simulation, at)
    if isinstance(target, str):
        index = simulation.heads.index("values")
        value = step.heads[index][:, 0]
        return value if target == "value" else value - simulation.steps[at - 1].heads[index][:, 0]
    if isinstance(target, np.ndarray) and target.dtype.kind == "f":
        return tf.linalg.matvec(flat_state(step.after), tf.constant(target, tf.float32))
    chosen = np.isin(np.arange(step.heads[0].shape[-1]), target)
    weights = chosen / chosen.sum() - ~chosen / max((~chosen).sum(), 1)
    return tf.linalg.matvec(step.heads[0], tf.constant(weights, tf.float32))


def flat_state(state: Sequence[Tensor]) -> Tensor:
    """Flatten the parts (B, ...) of an agent's state, and concatenate them to (B, H)."""
    import tensorflow as tf

    return tf.concat([tf.reshape(part, (part.shape[0], -1)) for part in state], axis=1)


def check_target(simulator: Simulator, target: Target, at: int) -> None:
    """Raise OptionError for a target that the agent does not have."""
    actions = simulator.world.num_actions
    if callable(target):
        valid = True
    elif isinstance(target, str):
        valid = target in ("value", "value change") and "values" in simulator.agent.heads
        valid = valid and (target == "value" or at > 0)
    elif isinstance(target, np.ndarray) and target.dtype.kind == "f":
        valid = target.shape == (simulator.world.state_size,) and target.size > 0
    else:
        chosen = np.atleast_1d(np.asarray(target))
        valid = chosen.dtype.kind in "iu" and chosen.ndim == 1 and 0 < len(np.unique(chosen)) < max(actions, 2)
        valid = valid and chosen.min() >= 0 and chosen.max() < actions
    if not valid:
        raise OptionError(
            f"target={target!r} at step {at} must be 'value', 'value change' (from step 1 on), some of the actions "
            f"0 to {actions - 1}, or float weights ({simulator.world.state_size},) for the agent's state"
        )


def _noisy(simulator: Simulator, starts: Any, begin: Start, noise: float, rng: np.random.Generator, seed: int) -> Start:
    """Return a start whose latent has added noise. The agent's state is predicted from the new latent, unless the
    caller passed a `Start`, whose state is kept.
    """
    if noise == 0:
        return begin
    if begin.latent is None:
        raise OptionError("noise is added to latents, but this start has no latent: use noise=0 and noise_copies=1")
    latent = np.asarray(begin.latent)
    latent = normalized(latent + noise * rng.normal(size=latent.shape).astype(np.float32))
    copy = simulator.start(latent, seed=seed)
    if not isinstance(starts, Start):
        return copy
    return Start(copy.deterministic, copy.stochastic, begin.state, begin.action, latent)


@contextmanager
def _tape(start: Start) -> Iterator[Any]:
    """Provide a persistent gradient tape that watches the start of a simulation."""
    import tensorflow as tf

    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        for tensor in start.tensors():
            tape.watch(tensor)
        yield tape


def _gradients(tape: Any, value: Tensor, simulation: Simulation, frames: Sequence[Tensor]) -> list[np.ndarray]:
    """Return gradients (B, t + 1, ...) of values (B,) with respect to the frames that the agent gets, the world's
    states and the parts of the agent's state.
    """
    steps = simulation.steps
    sources = [list(frames), [step.deterministic for step in steps], [s.stochastic for s in steps]]
    sources += [[step.state[i] for step in steps] for i in range(len(steps[0].state))]
    flat = differentiate(tape, value, [tensor for part in sources for tensor in part])
    arrays = [np.stack(flat[i : i + len(steps)], axis=1) for i in range(0, len(flat), len(steps))]
    return [arrays[0], np.concatenate(arrays[1:3], axis=-1), *arrays[3:]]


def differentiate(tape: Any, value: Tensor, sources: Sequence[Tensor]) -> list[np.ndarray]:
    import tensorflow as tf

    zero = tf.UnconnectedGradients.ZERO
    return [np.asarray(part) for part in tape.gradient(value, list(sources), unconnected_gradients=zero)]

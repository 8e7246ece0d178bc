"""Explain steps of a recording by the frames of the windows that end there, through memory and through the world."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

import numpy as np

from rl_clarity.agents.protocol import Score, Tensor
from rl_clarity.analyses.memory.source import MemorySource
from rl_clarity.states.data import StateData
from rl_clarity.states.memory_path import memory_gradients, outputs_at
from rl_clarity.states.parts import FittedStates
from rl_clarity.states.replacement import measured_causes
from rl_clarity.world_models.gradients import Target, flat_state, saliency_through_time, target_value
from rl_clarity.world_models.simulation import Simulation, simulate

WORLD_POINTS = 4
"""Number of points on the path of gradients through the world. Each point takes a simulation."""
MATERIAL = 0.05
"""Causes count if they have at least this share of the largest cause of their window and target."""


def explain_windows(
    fitted: FittedStates,
    rows: np.ndarray,
    directions: np.ndarray,
    steps: int,
    compared: np.ndarray,
    mean: np.ndarray,
    *,
    points: int,
    grid: int,
    partners: int,
    seed: int,
    source: MemorySource | None = None,
) -> list[dict[str, np.ndarray]]:
    """Return the arrays of each of B windows of equal length, for its chunk. docs/page-format.md describes them.

    Args:
        fitted: The states of a recording.
        rows: (B,) rows of the states at which the windows end.
        directions: (B, D) int, the directions that are explained in addition to the outputs.
        steps: Length of the windows.
        compared: (B,) rows of the states in other episodes, or -1. Each window is compared with the window that ends
            at this row, or for -1 with the mean frame.
        mean: The mean frame (H, W, C) uint8 of the recording.
        points: See `memory_gradients`.
        grid: See `window_arrays`.
        partners: See `measured_causes`.
        seed: See `measured_causes`.
        source: If it has a simulator, windows are also explained through the world.
    """
    agent, data = fitted.agent, fitted.data
    weights = fitted.directions.readout.T[directions].astype(np.float32)  # (B, D, H)
    outputs = outputs_at(agent, data, rows)
    baseline = _compared_frames(data, compared, steps, mean)
    gradients = memory_gradients(
        agent, data, rows, list(outputs.values()), weights, steps, baseline=baseline, points=points
    )
    paths = {"memory": gradients}
    causes = measured_causes(
        agent, data, rows, outputs, weights, gradients[0], baseline, mean, partners=partners, seed=seed
    )
    if source is not None and source.simulator is not None:
        frames, states, causes["whole.change"] = _simulated(source, data, rows, outputs, weights, steps, baseline)
        paths["whole"] = frames, states
    windows = []
    for i, row in enumerate(rows.tolist()):
        arrays = {key: values[:, i] for key, values in causes.items()}
        for path, (frames, states) in paths.items():
            arrays |= window_arrays(fitted, path, row, frames[:, i], states[:, i], baseline[i], grid)
        windows.append(arrays)
    return windows


def cause_agreement(arrays: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """Return how many causes of a window were measured, and how many of their estimates disagree with the measurement.

    An estimate disagrees if it differs from the measured effect by more than half of the larger of the two. To measure
    an effect, the frame of the cause is replaced by the frame that it is compared with. Causes below a twentieth of the
    largest cause of their target are left out. The page marks the same causes (`replacements` in measured.js).
    """
    places, sums = arrays["replaced.frames"], arrays["memory.sums"]
    estimated = np.take_along_axis(sums, np.maximum(places, 0), axis=1)
    measured = np.nan_to_num(arrays["replaced.change"])
    sizes = np.where(places >= 0, np.maximum(np.abs(estimated), np.abs(measured)), 0)
    counted = (sizes > 0) & (sizes >= MATERIAL * sizes.max(axis=1, keepdims=True))
    return int(counted.sum()), int((counted & (np.abs(estimated - measured) > sizes / 2)).sum())


def _compared_frames(data: StateData, compared: np.ndarray, steps: int, mean: np.ndarray) -> np.ndarray:
    """Return the frames (B, n, H, W, C) uint8 with which the n frames of each window are compared."""
    frames = data.windows(np.maximum(compared - steps + 1, 0), steps)
    return np.where((compared < 0)[:, None, None, None, None], mean, frames)


def _simulated(
    source: MemorySource,
    data: StateData,
    rows: np.ndarray,
    outputs: Mapping[str, Score],
    weights: np.ndarray,
    steps: int,
    baseline: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return gradients of the targets with respect to frames and states in simulations, and changes of the targets.

    The agent acts in the simulations, which start from the recorded frames before the window. A change is how much
    larger the target is than in a simulation in which the agent sees the baseline (B, n, H, W, C) instead.
    """
    import tensorflow as tf

    simulator, context = source.required_simulator, source.context

    def action(simulation: Simulation, at: int) -> Tensor:
        by_action = cast(Mapping[int, np.ndarray], outputs["action"])
        of_actions = np.stack([by_action[i] for i in range(len(by_action))], axis=1)
        return tf.reduce_sum(simulation.steps[at].heads[0] * of_actions.astype(np.float32), 1)

    def direction(number: int, simulation: Simulation, at: int) -> Tensor:
        return tf.reduce_sum(flat_state(simulation.steps[at].state) * weights[:, number], 1)

    targets: list[Target] = [action if name == "action" else "value" for name in outputs]
    targets += [partial(direction, number) for number in range(weights.shape[1])]
    first = rows - steps + 1
    before = data.windows(first - context, context)
    state = [np.asarray(part) for part in simulator.split_state(data.states[first])]
    start = simulator.start(before, state=state, action=data.actions[first - 1])
    saliency = saliency_through_time(simulator, start, targets, steps - 1, baseline=baseline, points=WORLD_POINTS)
    other = tf.constant(baseline.astype(np.float32) / 255)
    values = []
    for see in (None, lambda step, frame: other[:, step]):
        simulation = simulate(simulator, start, steps, see=see)
        values.append(np.stack([np.asarray(target_value(simulation, one, steps - 1)) for one in targets]))
    states = [np.reshape(part, (*part.shape[:3], -1)) for part in saliency.states]
    return saliency.frames, np.concatenate(states, axis=-1), values[0] - values[1]


def window_arrays(
    fitted: FittedStates, path: str, row: int, frames: np.ndarray, states: np.ndarray, baseline: np.ndarray, grid: int
) -> dict[str, np.ndarray]:
    """Return the arrays of a window for one path, `memory` or `whole`.

    `frames` (G, n, h, w, C) and `states` (G, n, H) are gradients of G targets with respect to n frames, and to the
    states of H units before them. Gradients of frames are multiplied by the frames minus the baseline (n, h, w, C),
    both from 0 to 1; those of states by the centered coordinates. Maps have at most `grid` rows and columns.
    """
    rows = np.arange(row - frames.shape[1] + 1, row + 1)
    seen = (fitted.data.observations(rows) - baseline.astype(np.float32)) / 255
    maps = _cells((frames * seen).sum(axis=-1), grid)  # (G, n, rows, columns)
    scale = np.abs(maps).max(axis=(1, 2, 3))
    codes = np.rint(maps / np.where(scale > 0, scale, 1)[:, None, None, None] * 127).astype(np.int8)
    centered = fitted.coordinates[rows] - fitted.center
    components = fitted.directions.pull(states) * centered
    return {
        path: codes,
        f"{path}.sums": maps.sum(axis=(-2, -1)).astype(np.float32),
        f"{path}.scale": scale.astype(np.float32),
        f"{path}.components": components.astype(np.float32),
    }


def _cells(maps: np.ndarray, grid: int) -> np.ndarray:
    """Return the sums of maps (..., h, w) over the cells of a grid with at most `grid` rows and columns."""
    for axis in (-2, -1):
        size = maps.shape[axis]
        edges = np.linspace(0, size, min(grid, size) + 1).astype(int)[:-1]
        maps = np.add.reduceat(maps, edges, axis=axis)
    return maps

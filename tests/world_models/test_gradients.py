"""Gradients through a simulation have known answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.directions import Directions
from rl_clarity.world_models.gradients import Target, saliency_through_time, simulated_influence, target_value
from rl_clarity.world_models.latents import interpolate_latents, maximize
from rl_clarity.world_models.rollouts import follow
from rl_clarity.world_models.simulation import simulate
from rl_clarity.world_models.simulator import Simulator
from rl_clarity.world_models.windows import Windows

AT = 3
ONE: dict[str, Any] = {"noise": 0, "noise_copies": 1}
UNITS = Directions(np.zeros(5), np.ones(5), np.eye(5))


def test_saliency_without_noise_does_not_depend_on_noise_copies(simulator: Simulator) -> None:
    one = saliency_through_time(simulator, 2, ["value"], AT, **ONE)
    four = saliency_through_time(simulator, 2, ["value"], AT, noise=0, noise_copies=4)
    np.testing.assert_allclose(four.frames, one.frames, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(four.targets, one.targets, rtol=1e-5)


def test_noisy_saliency_is_averaged_over_copies(simulator: Simulator) -> None:
    plain = saliency_through_time(simulator, 2, ["value"], AT, **ONE)
    noisy = saliency_through_time(simulator, 2, ["value"], AT, noise_copies=2, noise=0.3)
    assert not np.allclose(noisy.frames, plain.frames, rtol=1e-3)
    assert np.array_equal(noisy.frames, saliency_through_time(simulator, 2, ["value"], AT, 2, 0.3).frames)


def test_gradients_through_memory_equal_those_with_fixed_actions(simulator: Simulator) -> None:
    """The Jacobian with the action edge cut is that of a simulation whose actions do not depend on anything."""
    targets: list[Target] = ["value", 0, [1, 2]]
    actions = simulate(simulator, 2, AT + 1).actions
    start = simulator.start(2)
    start = dataclasses.replace(start, action=np.asarray(start.action))
    cut = saliency_through_time(simulator, start, targets, AT, world_gradients=False, **ONE)
    fixed = saliency_through_time(simulator, start, targets, AT, actions=actions, **ONE)
    for one, other in zip((cut.frames, *cut.states), (fixed.frames, *fixed.states), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-8)
    whole = saliency_through_time(simulator, start, targets, AT, **ONE)
    assert not np.allclose(whole.frames, cut.frames, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(whole.frames[:, :, AT], cut.frames[:, :, AT], rtol=1e-4, atol=1e-8)


def test_gradients_through_a_simulation_equal_finite_differences(simulator: Simulator) -> None:
    """With respect to the first state of the agent, through its memory; actions are given."""
    start, actions = simulator.start(1), np.zeros((1, AT + 1), int)
    gradient = saliency_through_time(simulator, start, ["value"], AT, actions=actions, **ONE).states[0][0, 0, 0]
    state = np.asarray(start.state[0])

    def value(shift: np.ndarray) -> float:
        moved = dataclasses.replace(start, state=((state + shift).astype(np.float32),))
        return float(target_value(simulate(simulator, moved, AT + 1, actions), "value", AT)[0])

    step = 0.01
    differences = [(value(step * e) - value(-step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(gradient, differences, rtol=0.02, atol=1e-5)


def test_saliency_of_a_target_does_not_depend_on_other_targets(simulator: Simulator) -> None:
    weights = np.arange(5, dtype=np.float32)
    together = saliency_through_time(simulator, 2, ["value", 1, weights, "value change"], AT, **ONE)
    assert together.frames.shape == (4, 2, AT + 1, 8, 8, 3)
    assert together.world_states.shape == (4, 2, AT + 1, 24)
    alone = saliency_through_time(simulator, 2, [weights], AT, **ONE)
    np.testing.assert_allclose(together.frames[2], alone.frames[0], rtol=1e-5, atol=1e-9)


def test_an_action_target_is_its_logit_minus_the_mean_of_the_others(simulator: Simulator) -> None:
    simulation = simulate(simulator, 2, AT + 1)
    logits = simulation.policy_logits
    assert logits is not None
    expected = logits[:, AT, 0] - logits[:, AT, 1:].mean(axis=1)
    np.testing.assert_allclose(target_value(simulation, 0, AT), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(target_value(simulation, [1, 2], AT), -expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", ["policy", 3, [0, 1, 2], np.zeros(4, np.float32), []])
def test_unknown_targets_are_refused(simulator: Simulator, target: Any) -> None:
    with pytest.raises(OptionError, match="must be 'value'"):
        saliency_through_time(simulator, 1, [target], AT)


def test_simulated_influence_is_the_jacobian_of_later_states(simulator: Simulator, recording: Recording) -> None:
    """Without the world it is the product of the cell's Jacobians at the simulated frames."""
    lags = (1, 2)
    result = simulated_influence(simulator, recording, UNITS, lags, world_gradients=False, samples=4, seed=1)
    assert result.shape == (2, 5, 5)
    windows = Windows(recording, simulator.agent, 3, 2)
    numbers = np.sort(np.random.default_rng([1, 7]).choice(windows.complete(), 4, replace=False))
    simulation = follow(simulator, windows.read(numbers), seed=1)["closed_loop"]
    jacobians = []
    for step in simulation.steps:
        h = np.asarray(step.state[0])
        rows = []
        for i in range(5):
            shift = 0.005 * np.eye(5, dtype=np.float32)[i]
            after = [simulator.agent.differentiable_step()(step.frame, h + s)[2] for s in (shift, -shift)]
            rows.append((np.asarray(after[0]) - np.asarray(after[1])) / 0.01)
        jacobians.append(np.stack(rows, axis=1))  # (B, from, to)
    np.testing.assert_allclose(result[0], jacobians[1].mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(result[1], (jacobians[0] @ jacobians[1]).mean(axis=0), atol=2e-3)


def test_simulated_influence_by_label_uses_only_steps_with_the_label(
    simulator: Simulator, recording: Recording
) -> None:
    labels = np.concatenate([np.arange(20) for _ in range(6)])
    by = simulated_influence(simulator, recording, UNITS, (1,), by=(labels > 9).astype(int), samples=8)
    assert by.shape == (2, 1, 5, 5)
    assert np.isfinite(by).all()
    with pytest.raises(OptionError, match=r"by has the shape \(3,\)"):
        simulated_influence(simulator, recording, UNITS, (1,), by=np.zeros(3))


def test_maximize_finds_latents_with_a_higher_target_than_the_data(simulator: Simulator) -> None:
    result = maximize(simulator, "value", 3, at=1, iterations=8)
    assert result.values[0] > result.best_of_data
    assert (np.diff(result.values) <= 0).all()
    np.testing.assert_allclose(np.linalg.norm(result.latents, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(target_value(result.simulation, "value", 1), result.values, rtol=1e-4)


def test_interpolated_latents_lie_on_the_great_circle() -> None:
    points = interpolate_latents(np.array([1.0, 0, 0]), np.array([0, 1.0, 0]), 3)
    np.testing.assert_allclose(points, [[1, 0, 0], [0.5**0.5, 0.5**0.5, 0], [0, 1, 0]], atol=1e-6)
    with pytest.raises(OptionError, match="opposite"):
        interpolate_latents(np.array([1.0, 0]), np.array([-1.0, 0]), 3)

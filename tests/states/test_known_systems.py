"""Directions, influence and replays of agents that are built by hand, whose components and memory are known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.memory.interventions import strongest_directions
from rl_clarity.analyses.memory.source import direction_names
from rl_clarity.base.parsing import parse
from rl_clarity.states.data import read_states
from rl_clarity.states.memory_path import mean_frame, memory_gradients
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import fit_states, removal_effects
from rl_clarity.states.replay import replay
from tests import memory_systems as systems
from tests.memory_systems import record_frames

OPTIONS: dict[str, Any] = {"clusters": 2, "maps": ("pca",), "replay_steps": 0}
UNITS: dict[str, Any] = {**OPTIONS, "method": "units", "count": systems.REGISTER_LAG, "lags": (1, 4)}


def last_signals(start: float = 0.0) -> Agent:
    """Three units that hold the signals of the last frame."""
    import torch

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        return state.sum(dim=1), torch.stack([systems.signal(observations, channel) for channel in range(3)], dim=1)

    return systems.make_agent(step, 3, start)


def cosines(analysis: rl_clarity.StateAnalysis) -> np.ndarray:
    """|cosine| (D, H) of directions with units."""
    vectors = analysis.directions.vectors
    return np.asarray(np.abs(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True))


def by_unit(analysis: rl_clarity.StateAnalysis, matrices: np.ndarray) -> np.ndarray:
    """Matrices (L, D, D) of the method `units` in the order of the units."""
    order = np.argsort([int(name.removeprefix("unit ")) for name in analysis.directions.names])
    return matrices[:, order][:, :, order]


def test_the_initial_state_does_not_form_a_component(tmp_path: Path) -> None:
    """It is far from all others: with it, the first component would be the diagonal, and its examples at step 0."""
    agent = last_signals(start=8.0)
    recording = record_frames(agent, systems.noise_frames(12, 60), tmp_path / "recording")
    analysis = rl_clarity.analyze_states(agent, recording, count=3, **OPTIONS)
    assert sorted(cosines(analysis).argmax(axis=1)) == [0, 1, 2]
    assert cosines(analysis).max(axis=1).min() > 0.95
    assert analysis.directions.stability.min() > 0.9
    time, coordinates = analysis.arrays["time"], analysis.arrays["coordinates"]
    for name in ("top", "middle", "bottom"):
        rows = analysis.arrays[f"card.{name}"]
        assert (time[rows[rows >= 0]] > 0).all()
    later = coordinates[time > 0]
    for i, edges in enumerate(analysis.arrays["card.edges"]):
        np.testing.assert_allclose(edges[[0, -1]], [later[:, i].min(), later[:, i].max()], rtol=1e-5)
    np.testing.assert_array_equal(analysis.arrays["card.histogram"].sum(axis=1), (time > 0).sum())
    np.testing.assert_allclose(analysis.arrays["card.kurtosis"], (later**4).mean(axis=0) - 3, atol=1e-2)
    np.testing.assert_array_equal(analysis.arrays["map.rows"], np.flatnonzero(time > 0))


def test_the_initial_state_does_not_form_a_cluster(tmp_path: Path) -> None:
    """Two values of one signal are two clusters, although the initial state is farther away."""
    signals = np.zeros((12, 30, 3))
    signals[:, :, 0] = np.random.default_rng(0).choice([-1.0, 1.0], (12, 30))
    agent = last_signals(start=8.0)
    recording = record_frames(agent, systems.signal_frames(signals), tmp_path / "recording")
    analysis = rl_clarity.analyze_states(agent, recording, method="units", count=1, **OPTIONS)
    later = analysis.arrays["time"] > 0
    coordinates, labels = analysis.arrays["coordinates"][later, 0], analysis.arrays["cluster.kmeans"][later]
    assert len(set(labels[coordinates > 0])) == len(set(labels[coordinates < 0])) == len(set(labels)) - 1 == 1


def test_states_that_have_not_changed_yet_count_as_the_initial_state(tmp_path: Path) -> None:
    """The state of the XOR agent stays 0 until the first cue, which is shown at step 1."""
    agent = systems.xor_agent()
    data = read_states(record_frames(agent, systems.xor_frames(4), tmp_path / "recording"))
    np.testing.assert_array_equal(data.changed, data.time > systems.XOR_STEPS["first"])


def test_a_state_that_returns_to_the_initial_state_counts_as_changed(tmp_path: Path) -> None:
    signals = np.full((2, 6, 3), -1.0)
    signals[:, 1] = 1
    agent = last_signals(start=-1.0)
    data = read_states(record_frames(agent, systems.signal_frames(signals), tmp_path / "recording"))
    np.testing.assert_array_equal(data.changed, data.time >= 2)


def test_a_component_that_varies_in_few_steps_is_last_and_labeled_rare(tmp_path: Path) -> None:
    """Unit 1 is different in one of 100 steps, and so the least Gaussian."""
    rng = np.random.default_rng(0)
    signals = rng.uniform(-1, 1, (8, 100, 3))
    signals[:, :, 1] = 0
    signals[np.arange(8), rng.integers(10, 90, 8), 1] = 1
    agent = last_signals()
    recording = record_frames(agent, systems.signal_frames(signals), tmp_path / "recording")
    analysis = rl_clarity.analyze_states(agent, recording, count=3, **OPTIONS)
    assert [row["rare"] for row in analysis.table()] == [False, False, True]
    assert cosines(analysis)[2, 1] > 0.95
    assert direction_names(analysis.directions) == ["ICA 1", "ICA 2", "ICA 3 (rare)"]


def test_influence_and_correlation_of_a_shift_register_are_exact(tmp_path: Path) -> None:
    agent = systems.shift_register()
    recording = record_frames(agent, systems.noise_frames(12, 30), tmp_path / "recording")
    analysis = rl_clarity.analyze_states(agent, recording, **UNITS)
    expected = np.stack([np.eye(systems.REGISTER_LAG, k=lag) for lag in (1, 4)])
    np.testing.assert_allclose(by_unit(analysis, analysis.arrays["influence"]), expected, atol=0.1)
    np.testing.assert_allclose(by_unit(analysis, analysis.arrays["correlation"]), expected, atol=0.2)
    causes = analysis.table("causes")
    assert [(row["count"], row["share"]) for row in causes] == [(4, 1), (1, 1)]


def test_independent_units_have_no_influence_on_each_other(tmp_path: Path) -> None:
    agent = systems.independent_units(decay=0.9)
    recording = record_frames(agent, systems.noise_frames(8, 30), tmp_path / "recording")
    analysis = rl_clarity.analyze_states(agent, recording, **UNITS)
    expected = np.stack([0.9**lag * np.eye(3) for lag in (1, 4)])
    np.testing.assert_allclose(analysis.arrays["influence"], expected, atol=1e-6)
    assert not any(row["count"] for row in analysis.table("causes"))


def test_a_step_counter_is_changed_by_a_state_reset_but_not_by_a_swap(tmp_path: Path) -> None:
    agent = systems.counter()
    data = read_states(record_frames(agent, systems.noise_frames(6, 12), tmp_path / "recording"))
    curves = replay(agent, data, steps=4)
    policy = dict(zip(curves.changes, curves.policy, strict=True))
    assert not policy["swapped"].any()
    assert policy["reset"].min() > 0.1


def test_components_are_ordered_by_measured_effect_not_by_mean_gradient(tmp_path: Path) -> None:
    """The gradients of each cue of an exclusive or cancel over episodes, that of a decoy does not."""
    agent = systems.xor_agent()
    signals = np.zeros((8, systems.XOR_LENGTH, 3))
    for channel, step in enumerate(systems.XOR_STEPS.values()):
        signals[:, step, channel] = np.where(np.arange(8) >> channel & 1, 1, -1)
    recording = record_frames(agent, systems.signal_frames(signals), tmp_path / "recording")
    options: dict[str, Any] = {**OPTIONS, "replay_steps": 4, "replay_samples": 64, "influence_samples": 0}
    analysis = rl_clarity.analyze_states(agent, recording, method="units", count=3, lags=(1,), **options)
    fitted = fit_states(agent, read_states(recording), parse(StateOptions, {**options, "method": "units", "count": 3}))
    effects = removal_effects(analysis.directions, analysis.arrays)
    assert effects is not None
    cues = [analysis.directions.names.index(f"unit {i}") for i in (0, 1)]
    decoy = analysis.directions.names.index("unit 2")
    assert effects[cues, 1].min() > 3 * effects[decoy, 2]
    assert strongest_directions(fitted, analysis.arrays["card.readout"], effects[:, 0])[-1] == decoy
    assert strongest_directions(fitted, analysis.arrays["card.readout"])[0] == decoy
    assert [row["effect"] for row in analysis.table()] == pytest.approx(effects[:, 0])


def test_rare_components_come_last_whatever_their_effect(tmp_path: Path) -> None:
    agent = last_signals()
    data = read_states(record_frames(agent, systems.noise_frames(6, 12), tmp_path / "recording"))
    fitted = fit_states(agent, data, parse(StateOptions, {**OPTIONS, "method": "units", "count": 3}))
    rare = dataclasses.replace(fitted.directions, rare=np.array([True, False, False]))
    ordered = strongest_directions(dataclasses.replace(fitted, directions=rare), None, np.array([9.0, 1.0, 2.0]))
    assert ordered.tolist() == [2, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ica", "pca"])
def test_states_stay_bounded_when_any_component_is_removed_in_play(method: str, tmp_path: Path) -> None:
    """The states of a trained GRU vary along few directions, and the episodes are longer than those of its training."""
    agent = systems.cue_agent(12)
    recording = rl_clarity.record(agent, tmp_path / "recording", episodes=24)
    states = read_states(recording).states
    directions = rl_clarity.analyze_states(
        agent, recording, method=method, influence_samples=0, lags=(1,), **OPTIONS
    ).directions
    assert np.linalg.cond(directions.basis) < 40
    frames, _ = systems.light_switch_frames(8, 40, 3)
    for i in range(len(directions)):
        edited: Any = rl_clarity.edit(agent, rl_clarity.SwapDirections({i: None}, directions=directions))
        state = agent.initial_state(8)
        for step in range(42):
            state = edited.step(frames[:, step], state, np.full(8, step == 0))[1]
        assert state is not None
        assert np.abs(state[0]).max() < 3 * np.abs(states).max()


def test_integrated_gradients_find_the_cause_of_a_saturated_state(tmp_path: Path) -> None:
    """The state keeps the sign of the first signal, which is so clear that a little more of it changes nothing."""
    import torch

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        return state[:, 0], state + torch.tanh(8 * systems.signal(observations, 0)[:, None])

    signals = np.zeros((8, 6, 3))
    signals[:, 0, 0] = np.resize([-1, 1], 8)
    agent = systems.make_agent(step, 1)
    data = read_states(record_frames(agent, systems.signal_frames(signals), tmp_path / "recording"))
    rows, scores, weights = data.starts + 5, ["value"], np.zeros((8, 0, 1), np.float32)
    baseline = mean_frame(data)
    difference = (data.observations(data.starts) - baseline.astype(np.float32)) / 255
    integrated, plain = (
        (
            memory_gradients(agent, data, rows, scores, weights, 6, baseline=line, points=64)[0][0, :, 0] * difference
        ).sum(axis=(1, 2, 3))
        for line in (baseline, None)
    )
    np.testing.assert_allclose(integrated, signals[:, 0, 0], atol=0.1)
    assert np.abs(plain).max() < 0.05

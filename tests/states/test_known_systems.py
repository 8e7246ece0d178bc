"""Directions, influence and replays of agents that are built by hand, whose components and memory are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.memory.source import direction_names
from rl_clarity.states.data import read_states
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


def test_the_initial_state_is_no_component(tmp_path: Path) -> None:
    """It is far from all others: with it, the first component would be the diagonal, and its examples at step 0."""
    agent = last_signals(start=8.0)
    recording = record_frames(agent, systems.noise_frames(12, 60), tmp_path / "recording")
    analysis = rl_clarity.analyze_states(agent, recording, count=3, **OPTIONS)
    assert sorted(cosines(analysis).argmax(axis=1)) == [0, 1, 2]
    assert cosines(analysis).max(axis=1).min() > 0.95
    assert analysis.directions.stability.min() > 0.9
    for name in ("top", "middle", "bottom"):
        rows = analysis.arrays[f"card.{name}"]
        assert (analysis.arrays["time"][rows[rows >= 0]] > 0).all()


def test_states_that_have_not_changed_yet_are_the_initial_state(tmp_path: Path) -> None:
    """The state of the XOR agent stays 0 until the first cue, which is shown at step 1."""
    agent = systems.xor_agent()
    data = read_states(record_frames(agent, systems.xor_frames(4), tmp_path / "recording"))
    np.testing.assert_array_equal(data.changed, data.time > systems.XOR_STEPS["first"])


def test_a_state_that_returns_to_the_initial_one_has_changed(tmp_path: Path) -> None:
    signals = np.full((2, 6, 3), -1.0)
    signals[:, 1] = 1
    agent = last_signals(start=-1.0)
    data = read_states(record_frames(agent, systems.signal_frames(signals), tmp_path / "recording"))
    np.testing.assert_array_equal(data.changed, data.time >= 2)


def test_a_component_that_varies_in_few_steps_is_last_and_rare(tmp_path: Path) -> None:
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


def test_a_shift_register_passes_its_signals_on(tmp_path: Path) -> None:
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


def test_a_counter_is_changed_by_a_reset_and_not_by_what_others_saw(tmp_path: Path) -> None:
    agent = systems.counter()
    data = read_states(record_frames(agent, systems.noise_frames(6, 12), tmp_path / "recording"))
    curves = replay(agent, data, steps=4)
    policy = dict(zip(curves.changes, curves.policy, strict=True))
    assert not policy["swapped"].any()
    assert policy["reset"].min() > 0.1

"""Influence and replays of agents that are built by hand, whose memory is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.states.data import read_states
from rl_clarity.states.replay import replay
from tests import memory_systems as systems
from tests.memory_systems import record_frames

OPTIONS: dict[str, Any] = {"clusters": 2, "maps": ("pca",), "replay_steps": 0}
UNITS: dict[str, Any] = {**OPTIONS, "method": "units", "count": systems.REGISTER_LAG, "lags": (1, 4)}


def by_unit(analysis: rl_clarity.StateAnalysis, matrices: np.ndarray) -> np.ndarray:
    """Matrices (L, D, D) of the method `units` in the order of the units."""
    order = np.argsort([int(name.removeprefix("unit ")) for name in analysis.directions.names])
    return matrices[:, order][:, :, order]


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

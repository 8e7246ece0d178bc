"""Replaced frames: what each frame causes, measured by computing the outputs again, in agents built by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.recurrence import agent_state
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.memory_path import mean_frame, memory_gradients, outputs_at
from rl_clarity.states.replacement import measured_causes
from tests import memory_systems as systems
from tests.memory_systems import XOR_STEPS, record_frames

STEPS = systems.XOR_LENGTH


def causes(
    agent: Agent, data: StateData, compared: np.ndarray | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Measured causes of the last decisions, and the sums of their maps (G, B, n).

    Frames are compared with those of the rows (B,) of other decisions, or with the mean frame.
    """
    rows = data.starts + STEPS - 1
    outputs, weights = outputs_at(agent, data, rows), np.zeros((len(rows), 0, data.states.shape[1]), np.float32)
    mean = mean_frame(data)
    baseline = np.broadcast_to(mean, (len(rows), STEPS, *mean.shape))
    if compared is not None:
        baseline = np.stack([data.observations(compared - STEPS + 1 + i) for i in range(STEPS)], axis=1)
    frames, _ = memory_gradients(agent, data, rows, list(outputs.values()), weights, STEPS, baseline=baseline)
    seen = np.stack([data.observations(data.starts + step) for step in range(STEPS)], axis=1)
    sums = (frames * (seen - baseline.astype(np.float32)) / 255).sum(axis=(-3, -2, -1))
    return measured_causes(agent, data, rows, outputs, weights, frames, baseline, mean), sums


@pytest.fixture(scope="module")
def xor(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, np.ndarray], np.ndarray]:
    agent = systems.xor_agent()
    folder = tmp_path_factory.mktemp("xor") / "recording"
    return causes(agent, read_states(record_frames(agent, systems.xor_frames(16), folder)))


def test_both_xor_cues_have_larger_effects_than_the_decoy(xor: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    found, sums = xor
    value = found["replaced.frames"][0]
    assert {tuple(sorted(places[:2])) for places in value.tolist()} == {(XOR_STEPS["first"], XOR_STEPS["second"])}
    assert (value[:, 2] == XOR_STEPS["decoy"]).all()
    assert np.abs(found["replaced.change"][0]) == pytest.approx(np.tile([2, 2, 0.3], (16, 1)), abs=0.05)
    assert np.abs(found["replaced.partner"][0]) == pytest.approx(np.tile([4, 4, 0.6], (16, 1)), abs=0.05)
    # of the partners, those with the same frame are left out
    assert found["replaced.partner.spread"][0] == pytest.approx(0, abs=0.05)
    assert set(found["replaced.partners"][0, :, :2].ravel().tolist()) - {4}
    # the effect of both cues together is divided between them
    assert (np.abs(sums[0, :, XOR_STEPS["first"]]) < 0.5 * np.abs(found["replaced.change"][0, :, 0])).all()


def test_replacing_a_cue_changes_the_policy_to_the_opposite_preference(
    xor: tuple[dict[str, np.ndarray], np.ndarray],
) -> None:
    p, q = (1 / (1 + np.exp(-sign * 2 - 0.3)) for sign in (1, -1))
    opposite = [a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b)) for a, b in ((p, q), (q, p))]
    found = xor[0]["replaced.partner.policy"][0, :, :2]
    assert np.abs(found[..., None] - opposite).min(axis=-1).max() < 0.02


def test_only_one_replaced_frame_changes_a_shift_register(tmp_path: Path) -> None:
    agent = systems.shift_register()
    data = read_states(record_frames(agent, systems.noise_frames(8, STEPS), tmp_path / "recording"))
    found, sums = causes(agent, data)
    at = STEPS - 1 - systems.REGISTER_LAG
    assert (found["replaced.frames"][:, :, 0] == at).all()
    np.testing.assert_allclose(found["replaced.change"][..., 0], sums[..., at], rtol=0.01)  # it is linear
    np.testing.assert_allclose(found["memory.change"], sums.sum(axis=-1), rtol=0.01)
    assert not found["replaced.change"][..., 1:].any()
    assert not found["replaced.change.policy"][..., 1:].any()


def test_frames_are_replaced_by_those_of_another_episode(tmp_path: Path) -> None:
    agent = systems.shift_register()
    data = read_states(record_frames(agent, systems.noise_frames(8, STEPS), tmp_path / "recording"))
    rows = data.starts + STEPS - 1
    found, sums = causes(agent, data, np.roll(rows, 1))
    at = STEPS - 1 - systems.REGISTER_LAG
    values = agent.forward(data.observations(rows), agent_state(agent, data.states[rows])).values
    assert values is not None
    difference = values - np.roll(values, 1)
    assert np.abs(difference).max() > 0.1
    np.testing.assert_allclose(found["replaced.change"][0, :, 0], difference, atol=1e-4)
    np.testing.assert_allclose(sums[0, :, at], difference, atol=1e-3)
    np.testing.assert_allclose(found["memory.change"][0], difference, atol=1e-4)


def test_a_single_episode_has_no_replacement_frames(tmp_path: Path) -> None:
    agent = systems.shift_register()
    data = read_states(record_frames(agent, systems.noise_frames(1, STEPS), tmp_path / "recording"))
    found, _ = causes(agent, data)
    assert np.isnan(found["replaced.partner"]).all()
    assert not found["replaced.partners"].any()
    assert np.isfinite(found["replaced.change"]).all()
    np.testing.assert_array_equal(found["replaced.mean"], found["replaced.change"])

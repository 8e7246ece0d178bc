"""The memory matrix of agents whose memory is known: which step writes, which reads, and how far back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.states import matrix as module
from tests import memory_systems as systems
from tests.memory_systems import record_frames

REGISTER_FRAMES = systems.noise_frames(12, 14)


@pytest.fixture(scope="module")
def register(tmp_path_factory: pytest.TempPathFactory) -> rl_clarity.MemoryMatrix:
    agent = systems.shift_register()
    folder = tmp_path_factory.mktemp("register") / "recording"
    return rl_clarity.memory_matrix(agent, record_frames(agent, REGISTER_FRAMES, folder))


def test_memory_of_a_shift_register_reaches_exactly_its_length(register: rl_clarity.MemoryMatrix) -> None:
    reach = register.reach()
    assert (reach.steps, reach.longest, reach.episodes) == (5, 13, 12)
    lags = register.largest_by_lag()
    assert np.nanmax(lags[:, 6:]) == 0
    assert reach.effect.low > 0.5


def test_matrix_entries_are_policy_divergences_after_swapping_frames(
    register: rl_clarity.MemoryMatrix,
) -> None:
    """The partners that differ most have the opposite signal in the five places, as far as there are such episodes."""
    p, q = 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(2.0))
    opposite = p * np.log(p / q) + q * np.log(q / p)
    entries = register.policy[:, 5:, :]
    values = entries[np.isfinite(entries)]
    assert values.max() == pytest.approx(opposite, rel=1e-2)
    assert values.min() == 0
    t, u = np.meshgrid(range(14), range(14), indexing="ij")
    assert np.isnan(register.policy[:, (u < t) | (t == 0)]).all()
    assert np.isfinite(register.policy[:, (u >= t) & (t > 0)]).all()


def test_policy_changes_follow_from_the_signals_of_partner_episodes(register: rl_clarity.MemoryMatrix) -> None:
    """The policy changes where the partner's signal in the place that is read is another one."""
    bright = REGISTER_FRAMES[:, :, 0, 0, 0] > 128
    lag, largest = systems.REGISTER_LAG, np.nanmax(register.policy_changes)
    assert register.exchanges.tolist() == [list(range(1, 14))] * 12
    for (e, x, p), partner in np.ndenumerate(register.partner_episodes):
        t = register.exchanges[e, x]
        expected = [
            largest * (0 <= u - lag < t and bright[partner, u - lag] != bright[e, u - lag]) for u in range(t, 14)
        ]
        np.testing.assert_allclose(register.policy_changes[e, x, p, t:], expected, rtol=1e-3, atol=1e-6)


def test_matrix_means_and_deviations_are_over_partner_episodes(tmp_path: Path) -> None:
    agent = systems.independent_units()
    recording = record_frames(agent, systems.noise_frames(3, 5), tmp_path / "recording")
    found = rl_clarity.memory_matrix(agent, recording)
    assert (found.partners, found.policy_changes.shape) == (4, (3, 4, 4, 5))
    assert (found.partner_episodes >= 0).sum(axis=2).max() == 2  # there are two other episodes
    for e, x in np.ndindex(3, 4):
        t = x + 1
        count = (found.partner_episodes[e, x] >= 0).sum()
        for name in ("policy", "value"):
            changes = getattr(found, f"{name}_changes")[e, x, :count, t:].astype(np.float64)
            np.testing.assert_allclose(getattr(found, name)[e, t, t:], changes.mean(axis=0), rtol=1e-6)
            np.testing.assert_allclose(getattr(found, f"{name}_spread")[e, t, t:], changes.std(axis=0), rtol=1e-5)


def test_a_decision_begins_at_the_step_that_stored_what_it_reads(register: rl_clarity.MemoryMatrix) -> None:
    read = register.read()
    found = [(e, u) for e, u in np.argwhere(read > 0.5) if u >= 6]
    begins = [register.begins(e, u) for e, u in found]
    assert len(begins) > 20
    assert all(begin is not None and 0 <= u - begin <= 5 for (_, u), begin in zip(found, begins, strict=True))
    assert np.mean([begin == u - 5 for (_, u), begin in zip(found, begins, strict=True)]) > 0.5


def test_the_xor_decision_depends_on_both_cues_but_not_on_the_decoy(tmp_path: Path) -> None:
    """Partners with the opposite of both cues would change nothing: there are others."""
    agent = systems.xor_agent()
    found = rl_clarity.memory_matrix(agent, record_frames(agent, systems.xor_frames(24), tmp_path / "recording"))
    first, second, decoy = (found.policy[:, step + 1, -1].mean() for step in systems.XOR_STEPS.values())
    assert first > 1
    assert second > 0.5
    before_decoy = found.policy[:, systems.XOR_STEPS["decoy"], -1].mean()
    assert decoy < before_decoy + 0.1 * second  # nothing that matters is written there
    assert found.reach().steps == systems.XOR_LENGTH - 1 - systems.XOR_STEPS["first"]


def test_decisions_of_a_step_counter_depend_on_no_observation(tmp_path: Path) -> None:
    agent = systems.counter()
    reach = rl_clarity.memory_matrix(agent, record_frames(agent, systems.noise_frames(10, 8), tmp_path / "r")).reach()
    assert (reach.steps, reach.count, reach.longest) == (0, 0, 7)
    assert reach.effect.mean == 0
    assert reach.detectable == pytest.approx(1 - 0.05**0.1)


def test_only_some_steps_are_swapped_in_long_episodes(tmp_path: Path) -> None:
    agent = systems.shift_register()
    recording = record_frames(agent, systems.noise_frames(6, 30), tmp_path / "recording")
    found = rl_clarity.memory_matrix(agent, recording, exchanges=8, partners=2, episodes=3)
    assert found.policy.shape == (3, 30, 30)
    assert found.exchanged.sum(axis=1).tolist() == [8, 8, 8]
    assert found.exchanged[:, [1, 29]].all()
    assert 1 <= found.reach().steps <= 5


def test_the_memory_matrix_does_not_depend_on_the_batching_of_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = systems.independent_units()
    recording = record_frames(agent, systems.noise_frames(6, 8), tmp_path / "recording")
    whole = rl_clarity.memory_matrix(agent, recording)
    monkeypatch.setattr(module, "LANES", 5)
    monkeypatch.setattr(module, "BYTES", 4 * 4 * 8 * 8 * 6)  # the matrices fit exactly; replays do not
    parts = rl_clarity.memory_matrix(agent, recording)
    np.testing.assert_allclose(parts.policy, whole.policy, atol=1e-6)
    np.testing.assert_allclose(parts.value_spread, whole.value_spread, atol=1e-6)


def test_recordings_without_partner_episodes_are_refused(tmp_path: Path) -> None:
    agent = systems.counter()
    recording = record_frames(agent, systems.noise_frames(1, 8), tmp_path / "recording")
    with pytest.raises(OptionError, match="1 episodes of more than one step; at least 2"):
        rl_clarity.memory_matrix(agent, recording)
    with pytest.raises(OptionError, match="partners=0"):
        rl_clarity.memory_matrix(agent, recording, partners=0)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [5, 12, 20])
def test_the_memory_matrix_of_a_trained_agent_finds_the_cue_step(delay: int, tmp_path: Path) -> None:
    agent = systems.cue_agent(delay)
    frames, right = systems.light_switch_frames(32, delay, seed=1)
    recording = record_frames(agent, frames, tmp_path / "recording")
    last = np.array([np.asarray(episode.policy_logits)[-1].argmax() for episode in recording])
    assert (last == right).mean() > 0.95
    found = rl_clarity.memory_matrix(agent, recording)
    reach = found.reach()
    assert reach.steps == delay + 1
    assert reach.count == reach.episodes == 32
    assert {found.begins(e, delay + 1) for e in range(32)} == {0}
    assert reach.effect.low > 0.3

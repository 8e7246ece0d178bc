"""`analyze_states` on the light switch: what its states hold, and how far back memory reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError, OutputError, SamplesError
from rl_clarity.environments.kinds import EnvironmentSpec
from rl_clarity.formats import architectures, native
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.recordings.recording import Recording
from rl_clarity.states.analysis import StateAnalysis, analyze_states, load_states
from rl_clarity.states.cards import direction_cards, find_behaviors
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.replay import replay
from tests.fakes import TinyAgent
from tests.light_switch import Game, checkpoint

OPTIONS: dict[str, Any] = {
    "method": "pca",
    "count": 3,
    "clusters": 4,
    "lags": (1, 2, 4),
    "maps": ("pca",),
    "influence_samples": 32,
    "replay_steps": 8,
    "replay_samples": 24,
}


@pytest.fixture(scope="module")
def recording(light_switch_recordings: dict[Game, Recording]) -> Recording:
    return light_switch_recordings["memory"]


@pytest.fixture(scope="module")
def data(recording: Recording) -> StateData:
    return read_states(recording)


@pytest.fixture(scope="module")
def agent() -> Any:
    return rl_clarity.load_agent(checkpoint("memory"))


@pytest.fixture(scope="module")
def analysis(agent: Any, recording: Recording) -> StateAnalysis:
    return analyze_states(agent, recording, **OPTIONS)


def test_recorded_states_equal_those_of_a_replay(agent: Any, recording: Recording, data: StateData) -> None:
    for number in (0, 5):
        episode = recording[number]
        state = agent.initial_state(1)
        for t in range(len(episode)):
            row = np.flatnonzero((data.episode == number) & (data.time == t))
            np.testing.assert_allclose(data.states[row], state[0], atol=1e-5)
            np.testing.assert_array_equal(data.observations(row)[0], episode.observations[t])
            state = agent.forward(np.asarray(episode.observations[t])[None], state).state


def test_both_lstm_state_arrays_equal_those_of_a_replay(tmp_path: Path) -> None:
    options = {"stack_channels": "2", "emb_size": 4, "use_lstm": True}
    metadata = {**EnvironmentSpec("light_switch", "memory").metadata(), "observation_shape": [16, 16, 3], **options}
    network = architectures.build("impala", (16, 16, 3), 3, options)
    path = tmp_path / "lstm.safetensors"
    native.write(path, Checkpoint(path, "baselines", "impala", network.parameters(), metadata))
    recording = rl_clarity.record(path, tmp_path / "recording", episodes=4)
    agent: Any = rl_clarity.load_agent(path)
    for part in range(2):
        data = read_states(recording, part=part)
        for number in range(2):
            state = agent.initial_state(1)
            for t, row in enumerate(np.flatnonzero(data.episode == number)):
                np.testing.assert_allclose(data.states[row], state[part][0], atol=1e-5)
                state = agent.forward(np.asarray(recording[number].observations[t])[None], state).state
        analysis = analyze_states(agent, recording, part=part, **OPTIONS)
        expected = analysis.directions.to(data.states)
        np.testing.assert_allclose(analysis.arrays["coordinates"], expected, atol=1e-5)
        assert "influence" not in analysis.arrays  # gradients need both parts


def test_observations_can_be_read_in_any_row_order(data: StateData) -> None:
    rows = np.array([55, 3, 130, 4, 54])
    np.testing.assert_array_equal(data.observations(rows)[[1, 3]], data.observations(np.array([3, 4])))


def test_state_sequences_are_episodes_or_segments_of_them(data: StateData) -> None:
    whole = data.sequences(data.time[:, None].astype(float))
    assert whole.shape == (48, 10, 1)
    np.testing.assert_array_equal(whole[7, :, 0], np.arange(10))
    parts = data.sequences(data.time[:, None].astype(float), 4)
    assert parts.shape == (3 * 48, 4, 1)
    np.testing.assert_array_equal(parts[2, :, 0], [8, 9, np.nan, np.nan])


def test_analyze_states_is_complete_and_reproducible(analysis: StateAnalysis, agent: Any, recording: Recording) -> None:
    again = analyze_states(agent, recording, **OPTIONS)
    assert set(again.arrays) == set(analysis.arrays)
    for name, array in analysis.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name], err_msg=name)
    assert (analysis.facts["steps"], analysis.facts["episodes"], analysis.facts["skipped"]) == (480, 48, {})
    assert analysis.arrays["correlation"].shape == analysis.arrays["influence"].shape == (3, 3, 3)
    assert analysis.arrays["influence.by"].shape == (4, 3, 3, 3)
    assert analysis.facts["clusters"][0]["agreement"] > 0.9
    assert [row["lag"] for row in analysis.table("causes")] == [1, 2, 4]
    assert len(analysis.table("directions")) == 3


def test_the_result_of_analyze_states_can_be_saved_and_loaded(analysis: StateAnalysis, tmp_path: Path) -> None:
    analysis.save(tmp_path / "states")
    loaded = load_states(tmp_path / "states")
    for name in ("directions", "clusters", "behaviors", "causes", "memory"):
        assert loaded.table(name) == analysis.table(name)
    np.testing.assert_array_equal(loaded.directions.basis, analysis.directions.basis)
    (tmp_path / "states" / "states.json").write_text('{"version": 99}')
    with pytest.raises(SamplesError, match="has an unsupported version"):
        load_states(tmp_path / "states")
    (tmp_path / "states" / "states.json").write_text("[]")
    for folder in (tmp_path, tmp_path / "states"):
        with pytest.raises(SamplesError, match="contains no analysis of states"):
            load_states(folder)


@pytest.mark.parametrize("name", ["states.npz", "states.json"])
def test_saving_an_analysis_does_not_replace_foreign_files(analysis: StateAnalysis, tmp_path: Path, name: str) -> None:
    analysis.save(tmp_path)
    analysis.save(tmp_path)
    content = (tmp_path / name).read_bytes()
    for foreign in (b"mine", b"[]", b"PK\x03\x04", b""):
        (tmp_path / name).write_bytes(foreign)
        with pytest.raises(OutputError, match=rf"contains {name}, which another program wrote.*\(--force\)"):
            analysis.save(tmp_path)
        assert (tmp_path / name).read_bytes() == foreign
    analysis.save(tmp_path, overwrite=True)
    assert (tmp_path / name).read_bytes() == content


def test_examples_of_a_component_are_extreme_and_from_different_episodes(
    analysis: StateAnalysis, data: StateData
) -> None:
    coordinates = analysis.arrays["coordinates"]
    for i, (top, middle, bottom) in enumerate(
        zip(*(analysis.arrays[f"card.{name}"] for name in ("top", "middle", "bottom")), strict=True)
    ):
        highest, central, lowest = (coordinates[rows[rows >= 0], i] for rows in (top, middle, bottom))
        assert highest.min() > central.max() > central.min() > lowest.max()
        for rows in (top, middle, bottom):
            assert len(set(data.episode[rows[rows >= 0]])) == (rows >= 0).sum() > 1


def test_the_readout_of_a_component_is_the_slope_of_the_outputs(
    analysis: StateAnalysis, agent: Any, data: StateData
) -> None:
    directions = analysis.directions
    readout = direction_cards(agent, data, directions, analysis.arrays["coordinates"])["readout"]
    rows = np.sort(np.random.default_rng(0).choice(len(data), 128, replace=False))  # the frames of the card
    observations, steps = data.observations(rows), 1e-2 * directions.vectors[1]
    higher, lower = (agent.forward(observations, (data.states[rows] + sign * steps,)) for sign in (1, -1))
    slopes = (higher.policy_logits - lower.policy_logits).mean(axis=0) / 2e-2
    np.testing.assert_allclose(readout[1, :3], slopes, atol=2e-3)
    np.testing.assert_allclose(readout[1, 3], (higher.values - lower.values).mean() / 2e-2, atol=2e-3)


def test_component_cards_contain_correlations_with_step_statistics(agent: Any, data: StateData) -> None:
    directions = rl_clarity.fit_directions(data.states, "pca", 3)
    coordinates = directions.to(data.states)
    cards = direction_cards(None, data, directions, coordinates)
    expected = np.corrcoef(coordinates[data.changed, 0], data.time[data.changed])[0, 1]
    np.testing.assert_allclose(cards["correlation.time"][0], expected)
    assert cards["correlation.action"].shape == (3, 3)
    assert not cards["correlation.length"].any()  # all episodes have the same
    np.testing.assert_allclose(np.diag(cards["cosine"]), 1)
    assert "readout" not in cards


def test_behavior_clusters_have_the_statistics_of_their_steps(data: StateData) -> None:
    coordinates = rl_clarity.fit_directions(data.states, "pca", 2).to(data.states)
    rows, clusters, cards = find_behaviors(data, coordinates, 3)
    assert (data.time[rows] < 4).all()  # 6 steps come after
    for label in range(clusters.count):
        members = rows[clusters.labels == label]
        np.testing.assert_allclose(cards["components"][label], coordinates[members].mean(axis=0), atol=1e-6)
        assert np.isin(cards["clips"][label][cards["clips"][label] >= 0], members).all()
        assert cards["actions"][label].sum() == pytest.approx(1)
    permuted = np.random.default_rng(0).permutation(clusters.labels)
    assert not np.allclose(coordinates[rows[permuted == 0]].mean(axis=0), cards["components"][0], atol=1e-2)


def test_replays_show_that_memory_reaches_back_to_the_cue(agent: Any, data: StateData) -> None:
    curves = replay(agent, data, steps=9, samples=48)  # of 10 steps: states are changed right after the cue
    same = dict(zip(curves.changes, curves.same_action, strict=True))
    assert (same["reset"][:-1] > 0.9).all()
    assert same["swapped"][-1] < 0.8  # about half of the others saw the other cue
    policy = dict(zip(curves.changes, curves.policy, strict=True))
    assert policy["swapped"][-1] > 10 * policy["swapped"][3]
    assert policy["reset"][-1] > 10 * policy["reset"][3]
    low, high = np.moveaxis(curves.policy_interval, -1, 0)
    assert ((low <= curves.policy + 1e-12) & (curves.policy <= high + 1e-12)).all()


def test_replays_from_an_unchanged_state_give_the_same_outputs(agent: Any, data: StateData) -> None:
    directions = rl_clarity.fit_directions(data.states, "units", 2)
    far = rl_clarity.Directions(data.states.mean(axis=0), np.ones(16), 1e-12 * np.eye(16)[:1], names=("nothing",))
    curves = replay(agent, data, far, kinds=[], steps=4, samples=8)
    assert curves.changes == ("removed nothing",)
    assert replay(agent, data, directions, kinds=["frozen"], steps=4, samples=8).policy.shape == (3, 4)


def test_invalid_options_and_agents_without_a_state_are_refused(
    agent: Any, recording: Recording, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match="method='tsne' must be one of pca, ica"):
        analyze_states(agent, recording, method="tsne")
    with pytest.raises(OptionError, match="unknown option"):
        analyze_states(agent, recording, counts=3)
    other: Any = TinyAgent("recurrent")
    with pytest.raises(OptionError, match=r"parts of the sizes \(16,\), but those of the agent have \(6,\)"):
        analyze_states(other, recording)
    with rl_clarity.Recorder(tmp_path / "plain", name=None) as recorder:
        recorder.add(observation=np.zeros((16, 16, 3), np.uint8), action=0, reward=0.0, terminated=True)
    with pytest.raises(OptionError, match="has no recurrent states; record a recurrent agent"):
        analyze_states(agent, tmp_path / "plain")
    with pytest.raises(OptionError, match="table 'cards' must be one of directions"):
        StateAnalysis(rl_clarity.fit_directions(np.random.default_rng(0).normal(size=(9, 3)), "pca", 1), {}).table(
            "cards"
        )

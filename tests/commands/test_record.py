"""`rl_clarity.record`: what is recorded is aligned, complete, and the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.action_choice import POLICY, ActionChoice
from rl_clarity.recordings.agent_play import play_and_record
from rl_clarity.recordings.arrays import as_observations, as_trajectories
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, StoredRecording, open_recording
from tests.fakes import TinyAgent, TinyEnvironment


def record_tiny(
    directory: Path, agent: Any, choice: ActionChoice = POLICY, *, lengths: tuple[int, ...] = (7, 40, 3), **options: Any
) -> Recording:
    truncates = [index == 1 for index in range(len(lengths))]
    with Recorder(directory, name=None, envs=None, seed=options.get("seed", 0)) as recorder:
        play_and_record(recorder, agent, TinyEnvironment(lengths, truncates), RecordOptions(**options), choice)
    return open_recording(directory)


def tiny_agent(kind: str) -> Any:
    return TinyAgent(kind, observation_shape=(16, 16, 1), num_actions=3)


def check_replay(agent: Agent, episode: Episode) -> None:
    """Compare recorded outputs and states with those that the agent computes from observations and states."""
    states = None if episode.states is None else tuple(np.asarray(part) for part in episode.states)
    outputs, after = agent.step(np.asarray(episode.observations), states, np.zeros(len(episode), bool))
    for name in ("policy_logits", "values", "q_values"):
        computed, recorded = getattr(outputs, name), getattr(episode, name)
        assert (computed is None) == (recorded is None)
        if computed is not None:
            np.testing.assert_allclose(recorded, computed, atol=1e-5)
    if states is not None:
        initial = agent.initial_state(1)
        assert initial is not None
        assert after is not None
        assert episode.final_states is not None
        for part, first, later, final in zip(states, initial, after, episode.final_states, strict=True):
            np.testing.assert_array_equal(part[:1], first)
            np.testing.assert_allclose(part[1:], later[:-1], atol=1e-5)
            np.testing.assert_allclose(final, later[-1], atol=1e-5)


@pytest.mark.parametrize("kind", ["policy", "recurrent", "q"])
def test_replaying_recorded_observations_gives_the_recorded_outputs(tmp_path: Path, kind: str) -> None:
    recording = record_tiny(tmp_path, tiny_agent(kind), episodes=9)
    for episode in recording:
        check_replay(tiny_agent(kind), episode)


def test_recorded_observations_actions_and_rewards_are_aligned(tmp_path: Path) -> None:
    for episode in record_tiny(tmp_path, tiny_agent("recurrent"), episodes=6):
        pixels = np.asarray(episode.observations)[:, 0, :3, 0]
        assert pixels[:, 0].tolist() == [10 * episode.facts["environment"] + 1] * len(episode)
        assert pixels[:, 1].tolist() == list(range(len(episode)))
        # The environment's reward is 1 for action 0.
        np.testing.assert_array_equal(episode.rewards, np.asarray(episode.actions) == 0)


def test_recorded_episodes_are_divided_among_environments(tmp_path: Path) -> None:
    recording = record_tiny(tmp_path, tiny_agent("policy"), episodes=7)
    rows = recording.table()
    assert np.bincount([row["environment"] for row in rows]).tolist() == [3, 2, 2]
    assert {(row["environment"], row["steps"], row["end"]) for row in rows} == {
        (0, 7, "done"),
        (1, 40, "time limit"),
        (2, 3, "done"),
    }


def test_truncated_episodes_have_a_final_observation_and_value(tmp_path: Path) -> None:
    agent = tiny_agent("recurrent")
    recording = record_tiny(tmp_path, agent, episodes=3)
    (truncated,) = (episode for episode in recording if episode.end == "time limit")
    assert truncated.final_observation is not None
    assert truncated.final_observation[0, 2, 0] == 255
    assert truncated.final_states is not None
    state = tuple(part[None] for part in truncated.final_states)
    outputs, _ = agent.step(truncated.final_observation[None], state, np.zeros(1, bool))
    assert truncated.final_value == pytest.approx(outputs.values[0], abs=1e-5)


def test_the_number_of_recorded_steps_counts_all_environments(tmp_path: Path) -> None:
    recording = record_tiny(tmp_path, tiny_agent("policy"), steps=31)
    rows = recording.table()
    assert sum(row["steps"] for row in rows) == 31
    assert {row["end"] for row in rows} == {"done", "stopped"}


def test_recording_with_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    choice = ActionChoice(action_noise=0.2)
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        record_tiny(tmp_path / name, tiny_agent("recurrent"), choice, episodes=5, seed=seed)
    files = ("data-00000.bin", "blocks.bin")
    a, b, c = ([(tmp_path / name / file).read_bytes() for file in files] for name in "abc")
    assert a == b
    assert a != c


def test_action_noise_is_recorded_separately_from_the_policy(tmp_path: Path) -> None:
    agent = tiny_agent("policy")
    recording = record_tiny(tmp_path, agent, ActionChoice(temperature=2, action_noise=0.25), episodes=30)
    logits = np.concatenate([np.asarray(episode.policy_logits) for episode in recording]).astype(np.float64)
    behavior = np.concatenate([np.asarray(episode.behavior_logits) for episode in recording])
    weights = np.exp(logits / 2)
    expected = 0.75 * weights / weights.sum(1, keepdims=True) + 0.25 / 3
    np.testing.assert_allclose(np.exp(behavior), expected, rtol=1e-5)
    check_replay(agent, recording[0])
    actions = np.concatenate([np.asarray(episode.actions) for episode in recording])
    frequency = (np.arange(3) == actions[:, None]).mean(0)
    np.testing.assert_allclose(frequency, expected.mean(0), atol=0.08)


def test_greedy_play_takes_the_most_likely_actions(tmp_path: Path) -> None:
    for episode in record_tiny(tmp_path, tiny_agent("policy"), ActionChoice(greedy=True), episodes=3):
        np.testing.assert_array_equal(episode.actions, np.argmax(episode.policy_logits, axis=1))  # type: ignore[arg-type]
        assert episode.behavior_logits is None


@pytest.mark.parametrize("option", [{"temperature": 0.0}, {"temperature": float("nan")}, {"action_noise": 1.5}])
def test_invalid_temperature_and_action_noise_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(option))}="):
        ActionChoice(**option)


def test_recorded_frames_precede_the_action_of_their_step(tmp_path: Path) -> None:
    recording = record_tiny(tmp_path, tiny_agent("policy"), episodes=3, full_resolution=True)
    for episode in recording:
        assert episode.frames is not None
        assert episode.frames[:, 0, 0, 0].tolist() == list(range(len(episode)))


def test_recorded_outputs_are_kept_only_for_the_agent_that_played(tmp_path: Path) -> None:
    recording = record_tiny(tmp_path, tiny_agent("recurrent"), episodes=6)
    kept = as_trajectories(tiny_agent("recurrent"), recording)
    assert kept.values is not None
    np.testing.assert_array_equal(kept.values[0, :3], np.asarray(recording[0].values)[:3])
    assert kept.states is not None
    other = as_trajectories(tiny_agent("policy"), recording)
    assert other.values is not None
    assert other.states is None
    assert not np.allclose(kept.values, other.values)
    assert len(as_observations(tiny_agent("policy"), recording).observations) == sum(map(len, recording))


@pytest.mark.slow
def test_generate_explains_a_recording(tmp_path: Path) -> None:
    agent = tiny_agent("recurrent")
    recording = record_tiny(tmp_path / "recording", agent, episodes=6)
    page = rl_clarity.generate(agent, recording, recording, tmp_path / "page", batch_size=64)
    results = rl_clarity.open_results(page.path)
    assert results.trajectory(0)["steps"] == sum(map(len, recording)) // 6  # one trajectory per episode


@pytest.mark.slow
def test_a_recurrent_agent_of_a_checkpoint_is_recorded_and_replayed(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    recording = rl_clarity.record("models:starpilot-lstm", tmp_path, steps=200, action_noise=0.1, seed=1)
    agent = rl_clarity.load_agent("models:starpilot-lstm")
    for episode in recording:
        if episode.end != "stopped":
            check_replay(agent, episode)
    assert recording.metadata["checkpoint"]["format"] == "baselines"
    assert recording.metadata["environment"]["name"] == "starpilot"
    assert recording.metadata["sampling"] == {"temperature": 1.0, "greedy": False, "action_noise": 0.1}
    assert all(row["level_seed"] is not None for row in recording.table())
    with pytest.raises(OptionError, match=r"seed=1: .* already has episodes with this seed"):
        rl_clarity.record("models:starpilot-lstm", tmp_path, steps=10, action_noise=0.1, seed=1)
    again = rl_clarity.record("models:starpilot-lstm", tmp_path, steps=10, action_noise=0.1, seed=2)
    assert len(again) == len(recording) + 10


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("action", 3, "ranges from 0 to 3, but the agent has 3 actions"),
        ("action", 0.5, "actions must be integers"),
        ("reward", float("nan"), r"rewards\[.*\] is nan; it must be finite"),
        ("observation", np.zeros((8, 8, 1), np.uint8), r"observations has shape \(1, 16, 8, 8, 1\)"),
    ],
)
def test_recordings_that_are_incompatible_with_the_agent_are_refused(
    tmp_path: Path, field: str, value: Any, message: str
) -> None:
    values = {"observation": np.zeros((16, 16, 1), np.uint8), "action": 0, "reward": 0.0}
    with Recorder(tmp_path, name=None) as recorder:
        for step in range(16):
            changed = {field: value} if step or field == "observation" or isinstance(value, float) else {}
            recorder.add(**{**values, **changed}, terminated=step == 15)
    with pytest.raises(SamplesError, match=message):
        as_trajectories(tiny_agent("policy"), StoredRecording(tmp_path).to_trajectories(1))

"""Windows of a recording are its steps, in order, and end with their episode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.windows import Windows
from tests.world_models.dots import dot_agent, record_dots


def test_windows_contain_consecutive_steps_of_an_episode(recording: Recording, agent: KerasAgent) -> None:
    windows = Windows(recording, agent, 3, 8)
    assert len(windows) == 6 * 17
    batch = windows.read([17 + 5])  # the second episode from its sixth step on
    episode = recording[1]
    np.testing.assert_array_equal(batch.frames[0], episode.observations[5:16])
    np.testing.assert_array_equal(batch.actions[0], episode.actions[5:16])
    np.testing.assert_array_equal(batch.rewards[0], episode.rewards[8:16])
    assert episode.states is not None
    np.testing.assert_array_equal(batch.states[0], episode.states[0][8:17])
    assert batch.mask.all()
    assert not batch.ends.any()


def test_windows_end_with_the_end_of_their_episode(recording: Recording, agent: KerasAgent) -> None:
    batch = Windows(recording, agent, 3, 8).read([14])
    assert batch.mask[0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert batch.ends[0].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert batch.state_mask[0].tolist() == batch.mask[0].tolist()
    final = recording[0].final_states
    assert final is not None
    np.testing.assert_array_equal(batch.states[0, 3], final[0])
    assert not batch.frames[0, 6:].any()


def test_recorded_states_in_windows_equal_those_of_the_agent(recording: Recording, agent: KerasAgent) -> None:
    """The first step of an episode included, whose state is the learned initial one."""
    episode = recording[0]
    assert episode.states is not None
    state = (np.asarray(episode.states[0][0])[None],)
    np.testing.assert_array_equal(state[0], agent.initial_state(1)[0])  # type: ignore[index]
    step = agent.differentiable_step()
    for t in range(4):
        frames = np.asarray(episode.observations[t])[None].astype(np.float32) / 255
        _, _, after = step(frames, state[0])
        state = (np.asarray(after),)
        np.testing.assert_allclose(state[0][0], episode.states[0][t + 1], atol=1e-5)


def test_windows_refuse_recordings_of_another_agent(recording: Recording, tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match="agent states with the shapes"):
        Windows(recording, dot_agent(recurrent=False), 3, 8)
    short = record_dots(tmp_path / "short", dot_agent(), episodes=1, steps=3)
    with pytest.raises(SamplesError, match="no episode of more than 3 steps"):
        Windows(short, dot_agent(), 3, 8)

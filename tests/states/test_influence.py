"""Influence through memory: a linear cell, whose answer is known, and the light switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.directions import fit_directions
from rl_clarity.states import influence
from rl_clarity.states.data import read_states
from rl_clarity.states.influence import memory_jacobians
from tests.light_switch import Game, checkpoint

UNITS = 6


def linear_agent(transition: np.ndarray) -> Any:
    """h' = A h + (a color of the frame)."""
    pytest.importorskip("torch")
    import torch

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = torch.nn.Linear(UNITS, UNITS, bias=False)
            self.body, self.actor, self.critic = (
                torch.nn.Linear(3, UNITS),
                *(torch.nn.Linear(UNITS, n) for n in (2, 1)),
            )
            self.cell.weight.data = torch.as_tensor(transition, dtype=torch.float32)

        def forward(self, x: Any, state: Any) -> Any:
            after = self.cell(state) + self.body(x.mean(dim=(2, 3)))
            return self.actor(after), self.critic(after), after

    return rl_clarity.TorchAgent(Linear(), (4, 4, 3), initial_state=np.zeros(UNITS))


def recorded(agent: Any, folder: Path, lengths: tuple[int, ...] = (12, 5, 9)) -> Recording:
    rng = np.random.default_rng(0)
    with rl_clarity.Recorder(folder, name=None, on_error="raise") as recorder:
        for length in lengths:
            state = agent.initial_state(1)
            for t in range(length):
                frame = rng.integers(0, 256, (1, 4, 4, 3), np.uint8)
                outputs = agent.forward(frame, state)
                recorder.add(
                    observation=frame[0],
                    action=0,
                    reward=1.0,
                    terminated=t == length - 1,
                    state=tuple(part[0] for part in state),
                    logits=outputs.policy_logits[0],
                    value=outputs.values[0],
                )
                state = outputs.state
    return rl_clarity.open_recording(folder)


def test_influence_of_a_linear_cell_equals_powers_of_its_matrix(tmp_path: Path) -> None:
    transition = np.random.default_rng(1).normal(0, 0.4, (UNITS, UNITS))
    agent = linear_agent(transition)
    data = read_states(recorded(agent, tmp_path))
    directions = fit_directions(data.states, "ica", UNITS)
    result = influence(agent, data, directions, (1, 3))
    # d s_j(t + lag) / d s_i(t) = readout_j . A^lag vector_i
    expected = [
        (directions.readout.T @ np.linalg.matrix_power(transition, lag) @ directions.vectors.T).T for lag in (1, 3)
    ]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5)
    ends, _ = memory_jacobians(agent, data, directions.readout, [3])
    assert (data.time[ends] >= 3).all()  # never across episodes
    assert set(data.episode[ends]) == {0, 1, 2}


def test_influence_by_cluster_uses_only_the_steps_of_the_cluster(tmp_path: Path) -> None:
    agent = rl_clarity.load_agent(checkpoint("memory"))
    recording = rl_clarity.record(checkpoint("memory"), tmp_path / "memory", episodes=4)
    data = read_states(recording)
    directions = fit_directions(data.states, "pca", 3)
    everything = influence(agent, data, directions, [2], samples=1000)
    by_time = influence(agent, data, directions, [2], by=data.time, samples=1000)
    assert by_time.shape == (10, 1, 3, 3)
    assert np.isnan(by_time[8:]).all()  # no later step
    np.testing.assert_allclose(by_time[:8].mean(axis=0), everything, rtol=1e-4)
    assert np.ptp(by_time[:8, 0], axis=0).max() > 0.1  # the Jacobian depends on the step
    with pytest.raises(OptionError, match=r"by has the shape \(3,\); expected \(40,\)"):
        influence(agent, data, directions, [2], by=np.zeros(3))


def test_influence_finds_the_cue_in_memory_only_if_the_world_hides_it(
    light_switch_recordings: dict[Game, Recording],
) -> None:
    effects = {}
    for game, recording in light_switch_recordings.items():
        agent: Any = rl_clarity.load_agent(checkpoint(game))
        data = read_states(recording)
        after_cue, last = np.flatnonzero(data.time == 1), np.flatnonzero(data.time == 9)
        cues = data.observations(after_cue - 1)[:, 3, 7, 0] > 100  # orange
        assert 0.2 < cues.mean() < 0.8
        apart = data.states[after_cue][cues].mean(axis=0) - data.states[after_cue][~cues].mean(axis=0)
        # The gradient of the logits' difference with respect to the last state, and through 8 steps of the cell.
        gradient = agent.gradients(data.observations(last), "state/0", [{2: 1.0, 1: -1.0}], state=(data.states[last],))[
            0
        ]
        ends, jacobians = memory_jacobians(agent, data, np.eye(data.states.shape[1]), [8], samples=len(data))
        memory = np.einsum("nh,nhk,k->n", gradient, jacobians[np.isin(ends, last), 0], apart)
        effects[game] = np.abs(memory).mean()
    assert effects["memory"] > 10 * effects["world"]


def test_invalid_agents_and_lags_are_refused(light_switch_recordings: dict[Game, Recording]) -> None:
    agent = rl_clarity.load_agent(checkpoint("memory"))
    data = read_states(light_switch_recordings["memory"])
    directions = fit_directions(data.states, "pca", 3)
    with pytest.raises(OptionError, match=r"lags=\[10\] are too large, .* more than 10 steps; the longest has 10"):
        influence(agent, data, directions, [10])
    with pytest.raises(OptionError, match="must be at least 1"):
        influence(agent, data, directions, [0])
    with pytest.raises(OptionError, match="weights have 4 rows, but the states have 16 values"):
        influence(
            agent,
            read_states(light_switch_recordings["memory"], part=0),
            fit_directions(data.states[:, :4], "pca", 2),
            [1],
        )

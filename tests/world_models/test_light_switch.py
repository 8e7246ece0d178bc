"""The light switch: the cue of the first frame is in the agent's memory in one game, in the world in the other."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.environments.light_switch import CUE_COLORS, LEFT, RIGHT
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.fitting import fit_simulator
from rl_clarity.world_models.gradients import saliency_through_time
from rl_clarity.world_models.losses import Batch
from rl_clarity.world_models.quality import measure_quality
from rl_clarity.world_models.simulation import simulate
from rl_clarity.world_models.simulator import Simulator, Start
from rl_clarity.world_models.windows import Windows
from tests.light_switch import Game, checkpoint

DELAY, CONTEXT, HORIZON = 4, 3, 3
STEPS = {"memory": 150, "world": 400}
DECISION = HORIZON - 1
"""The step with the switches, of simulations that start after the first frames of an episode."""


@dataclass(frozen=True)
class Played:
    """A fitted simulator, and simulations of whole episodes."""

    simulator: Simulator
    recording: Recording
    batch: Batch
    start: Start
    cues: np.ndarray  # 0 left, 1 right

    def preference(self, start: Start) -> np.ndarray:
        """Logit of the left switch minus that of the right one at the decision, (B,)."""
        logits = simulate(self.simulator, start, HORIZON, sample_world=False).policy_logits
        assert logits is not None
        return np.asarray(logits[:, DECISION, LEFT] - logits[:, DECISION, RIGHT])


@pytest.fixture(scope="module", params=["memory", "world"])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Game, Played]:
    game: Game = request.param
    folder = tmp_path_factory.mktemp(game)
    recording = rl_clarity.record(
        checkpoint(game), folder / "recording", episodes=300, seed=1, action_noise=0.1, metadata={"delay": DELAY}
    )
    agent = rl_clarity.load_agent(checkpoint(game))
    options: dict[str, Any] = {"size": "tiny", "horizon": HORIZON, "batch_size": 32, "learning_rate": 2e-3, "kl": 1.0}
    simulator = fit_simulator(agent, recording, steps=STEPS[game], **options)
    windows = Windows(recording, agent, CONTEXT, HORIZON)
    batch = windows.read(windows.complete())
    state = [np.asarray(part) for part in simulator.split_state(batch.states[:, 0])]
    start = simulator.start(batch.frames[:, :CONTEXT], state=state, action=batch.actions[:, CONTEXT - 1])
    cues = (batch.frames[:, 0, 3, 7] == CUE_COLORS[1]).all(axis=1).astype(int)
    return game, Played(simulator, recording, batch, start, cues)


@pytest.mark.slow
def test_the_simulated_agent_presses_the_right_switch(played: tuple[Game, Played]) -> None:
    _, one = played
    assert 0.3 < one.cues.mean() < 0.7
    assert ((one.preference(one.start) < 0) == one.cues).mean() > 0.95


@pytest.mark.slow
def test_gradients_show_whether_memory_or_the_world_stores_the_cue(played: tuple[Game, Played]) -> None:
    """The influence of a state is the gradient of the decision along the difference that the cue makes in it."""
    game, one = played
    saliency = saliency_through_time(one.simulator, one.start, [LEFT, RIGHT], DECISION, noise=0, noise_copies=1)
    simulation = simulate(one.simulator, one.start, HORIZON)
    influence = {}
    states = {
        "memory": (saliency.states[0], simulation.states[0]),
        "world": (saliency.world_states, simulation.world_states),
    }
    for name, (gradients, values) in states.items():
        difference = values[one.cues == 1, 0].mean(axis=0) - values[one.cues == 0, 0].mean(axis=0)
        influence[name] = np.abs((gradients[0] - gradients[1])[:, 0] @ difference).mean()
    other = "world" if game == "memory" else "memory"
    assert influence[game] > 10 * influence[other], influence


@pytest.mark.slow
def test_swapping_states_changes_the_decision_only_where_the_cue_is_stored(played: tuple[Game, Played]) -> None:
    """Episodes are given the agent's state, or the world's, of an episode with the other cue."""
    game, one = played
    order = np.argsort(one.cues, kind="stable")
    others = np.empty_like(order)
    others[order] = np.roll(order, int(one.cues.sum()))
    exchanged = one.cues != one.cues[others]
    assert exchanged.mean() > 0.7
    start = one.start
    memory = dataclasses.replace(start, state=tuple(np.asarray(part)[others] for part in start.state))
    deterministic, stochastic = (np.asarray(part)[others] for part in (start.deterministic, start.stochastic))
    world = dataclasses.replace(start, deterministic=deterministic, stochastic=stochastic)
    before = one.preference(start)
    changes = {
        name: np.abs(one.preference(changed) - before)[exchanged].mean()
        for name, changed in (("memory", memory), ("world", world))
    }
    other = "world" if game == "memory" else "memory"
    assert changes[game] > 10 * changes[other], changes


@pytest.mark.slow
def test_posterior_frames_are_more_accurate_than_prior_frames(played: tuple[Game, Played]) -> None:
    _, one = played
    quality = measure_quality(one.simulator, one.recording, windows=128, horizon=HORIZON, compass_steps=0)
    frames = {name: errors[0].mean() for name, errors in quality.errors["frame"].items()}
    assert frames["posterior"] <= frames["prior"]
    assert frames["prior"] < min(frames["last_frame"], frames["mean_frame"])

"""Recomputed outputs are compared with the recorded ones."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.agreement import Agreement, check_first_step, check_player, output_differences
from rl_clarity.recordings.episode import Episode
from tests.fakes import TinyAgent

SHAPE, STEPS = (16, 12, 3), 20
OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (STEPS, *SHAPE), np.uint8)


def agent(seed: int = 0, kind: str = "policy") -> TinyAgent:
    return TinyAgent(kind, SHAPE, 5, patch=4, seed=seed)


def played(player: TinyAgent, **fields: Any) -> Episode:
    """An episode with the outputs of its player, and its states before each step."""
    arrays: dict[str, Any] = {"observations": OBSERVATIONS, "actions": np.zeros(STEPS, int)}
    state, rows = player.initial_state(1), []
    for step in range(STEPS):
        outputs, after = player.step(OBSERVATIONS[step : step + 1], state, np.array([step == 0]))
        named = {name: getattr(outputs, name) for name in ("policy_logits", "values", "q_values")}
        named |= {f"states.{i}": part for i, part in enumerate(state or ())}
        rows.append({name: array for name, array in named.items() if array is not None})
        state = after
    arrays |= {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    arrays = {name: array for name, array in {**arrays, **fields}.items() if array is not None}
    return Episode({"episode": 0, "number": 0, "steps": STEPS, "end": "done"}, arrays)


def differences(player: TinyAgent, episode: Episode) -> np.ndarray | None:
    return output_differences(player, episode, np.arange(0, STEPS, 2))


@pytest.mark.parametrize("kind", ["policy", "recurrent", "q"])
@pytest.mark.parametrize("states", [True, False], ids=["recorded states", "replayed states"])
def test_outputs_of_the_agent_that_played_agree_at_every_step(kind: str, states: bool) -> None:
    episode = played(agent(kind=kind), **({} if states else {"states.0": None}))
    same, other = differences(agent(kind=kind), episode), differences(agent(1, kind), episode)
    assert same is not None
    assert other is not None
    assert same.shape == (10,)
    assert same.max() < 1e-5
    assert other.min() > 1e-2


def test_log_probabilities_and_masked_logits_agree_with_logits() -> None:
    logits = np.array(played(agent()).policy_logits)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    logits[::2, 1], logits[1::2, 3], logits[4, 2] = -np.inf, -1e8, np.nan
    found = differences(agent(), played(agent(), policy_logits=logits))
    assert found is not None
    assert found.max() < 1e-5


def test_rounding_errors_of_constant_outputs_are_tolerated() -> None:
    constant = TinyAgent("policy", SHAPE, 5, patch=4, sharpness=0)
    values = np.full(STEPS, 2.0)
    episode = played(constant, values=values + 1e-6 * np.arange(STEPS), policy_logits=np.zeros((STEPS, 5)))

    class Constant(TinyAgent):
        def forward(self, observations: np.ndarray, *arguments: Any, **options: Any) -> Any:
            outputs = super().forward(observations, *arguments, **options)
            return rl_clarity.Outputs(np.zeros_like(outputs.policy_logits), np.full(len(observations), 2, np.float32))

    found = differences(Constant("policy", SHAPE, 5, patch=4), episode)
    assert found is not None
    assert found.max() <= 1e-3


@pytest.mark.parametrize(("share", "is_refused"), [(5e-4, False), (2e-3, True)])
def test_the_first_step_may_differ_by_a_thousandth_of_the_output_range(share: float, is_refused: bool) -> None:
    values = np.array(played(agent()).values)
    values[0] += share * np.ptp(values[1:])
    found = differences(agent(), played(agent(), values=values))
    with pytest.raises(OptionError, match=r"more than 0\.001") if is_refused else nullcontext():
        check_first_step(played(agent()), found)


def test_an_agent_with_another_number_of_actions_does_not_agree() -> None:
    found = differences(TinyAgent("policy", SHAPE, 4, patch=4), played(agent()))
    assert found is not None
    assert np.isinf(found).all()


def test_recordings_without_outputs_are_not_compared() -> None:
    episode = played(agent(), policy_logits=None, values=None)
    assert differences(agent(), episode) is None
    assert str(Agreement(0)) == "not checked, because the recording has no outputs"


def test_a_recording_of_another_agent_is_refused_unless_allowed(tmp_path: Path) -> None:
    with rl_clarity.Recorder(tmp_path, name=None, on_error="raise") as recorder:
        for number in range(3):
            for step in range(STEPS):
                outputs = agent().forward(OBSERVATIONS[step : step + 1])
                assert outputs.policy_logits is not None
                assert outputs.values is not None
                recorder.add(
                    observation=OBSERVATIONS[step], action=0, reward=0.0, terminated=step == STEPS - 1,
                    logits=outputs.policy_logits[0], value=outputs.values[0] + (number == 2 and step > 5),
                )  # fmt: skip
    recording = rl_clarity.open_recording(tmp_path)
    found = check_player(agent(), recording, other_agent=False)
    assert found.steps == 3 * 16
    assert found.largest > 0.1, "the values of later steps differ"
    with pytest.raises(OptionError, match=r"not the one that played episode 0: .* other_agent=True"):
        check_player(agent(1), recording, other_agent=False)
    assert str(check_player(agent(1), recording, other_agent=True)).startswith("deliberately not the agent that played")

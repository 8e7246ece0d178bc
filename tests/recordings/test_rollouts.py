"""Rollouts: trajectories and observations of an agent."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from rl_clarity.agents.protocol import Outputs
from rl_clarity.base.errors import SamplesError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.pages.options import ORIGINAL, ObservationsOptions
from rl_clarity.recordings.action_choice import ActionChoice, choose_actions
from rl_clarity.recordings.array_stores import FileStore
from rl_clarity.recordings.rollouts import (
    RandomPolicyAgent,
    collect_observations,
    collect_trajectories,
)
from rl_clarity.recordings.samples import to_arrays
from tests.fakes import KINDS, TinyAgent, TinyEnvironment

LENGTHS = (5, 7, 100)


def make_agent(kind: str = "policy", **arguments: Any) -> TinyAgent:
    return TinyAgent(kind, observation_shape=(16, 16, 1), num_actions=3, patch=4, **arguments)


def collect(
    kind: str = "policy",
    num_steps: int = 20,
    seed: int = 0,
    environment: TinyEnvironment | None = None,
    **arguments: Any,
) -> Any:
    environment = environment or TinyEnvironment(LENGTHS)
    return collect_trajectories(make_agent(kind), environment, num_steps, np.random.default_rng(seed), **arguments)


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_trajectories_begin_with_the_first_step_of_an_episode(kind: str) -> None:
    environment = TinyEnvironment(LENGTHS)
    trajectories = collect(kind, environment=environment)
    assert trajectories.firsts[:, 0].all()
    assert trajectories.observations[:, 0, 0, 1, 0].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(trajectories.actions.T, environment.actions)
    if kind == "recurrent":
        assert not trajectories.states[0][:, 0].any(), "the initial state"
    discarded = collect(kind, num_steps=19, discard_first=True)
    np.testing.assert_array_equal(discarded.actions, trajectories.actions[:, 1:])


def test_trajectories_consist_of_consecutive_steps() -> None:
    environment = TinyEnvironment(LENGTHS)
    trajectories = collect(environment=environment, discard_first=True)
    number, time = trajectories.observations[..., 0, 0, 0], trajectories.observations[..., 0, 1, 0]
    assert number.tolist() == [[1] * 20, [11] * 20, [21] * 20]
    for i, length in enumerate(LENGTHS):
        assert time[i].tolist() == [(t + 1) % length for t in range(20)]
    np.testing.assert_array_equal(trajectories.firsts, time == 0)
    np.testing.assert_array_equal(trajectories.rewards, trajectories.actions == 0)
    np.testing.assert_array_equal(trajectories.actions.T, environment.actions[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_outputs_match_their_observations(kind: str) -> None:
    agent, trajectories = make_agent(kind), collect(kind)
    state = None if kind != "recurrent" else tuple(part[:, 9] for part in trajectories.states)
    outputs, _ = agent.step(trajectories.observations[:, 9], state, np.zeros(3, bool))
    for name in ("policy_logits", "values", "q_values"):
        stored, expected = getattr(trajectories, name), getattr(outputs, name)
        assert (stored is None) == (expected is None)
        if expected is not None:
            np.testing.assert_array_equal(stored[:, 9], expected)
    if kind == "q":
        np.testing.assert_array_equal(trajectories.actions, trajectories.q_values.argmax(-1))


def test_recorded_states_precede_the_step_and_reset_with_each_episode() -> None:
    agent: Any = make_agent("recurrent")
    trajectories = collect("recurrent")
    (states,) = trajectories.states
    assert states.shape == (3, 20, 6)
    np.testing.assert_array_equal((states == 0).all(-1), trajectories.firsts)
    for t in range(19):
        _, (after,) = agent.step(trajectories.observations[:, t], (states[:, t],), np.zeros(3, bool))
        continuing = ~trajectories.firsts[:, t + 1]
        np.testing.assert_array_equal(after[continuing], states[continuing, t + 1])


def test_a_custom_state_reset_of_the_agent_is_used() -> None:
    @dataclasses.dataclass(frozen=True)
    class LearnedInitialState(TinyAgent):
        def reset(self, state: Any, firsts: np.ndarray) -> tuple[np.ndarray, ...]:
            return (np.where(firsts[:, None], 0.5, state[0]).astype(np.float32),)

    agent = LearnedInitialState("recurrent", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    trajectories: Any = collect_trajectories(agent, TinyEnvironment((5, 7)), 12, np.random.default_rng(0))
    np.testing.assert_array_equal((trajectories.states[0] == 0.5).all(-1), trajectories.firsts)


@pytest.mark.parametrize("kind", ["recurrent", "q"])
def test_truncated_episodes_have_a_final_value(kind: str) -> None:
    environment = TinyEnvironment(LENGTHS, truncates=[True, False, False])
    trajectories = collect(kind, environment=environment)
    np.testing.assert_array_equal(np.flatnonzero(trajectories.truncated[0]), [4, 9, 14, 19])
    assert not trajectories.truncated[1:].any()
    assert not trajectories.final_values[~trajectories.truncated].any()
    final = np.zeros((1, 16, 16, 1), np.uint8)
    final[0, 0, :3, 0] = 1, 5, 255
    agent, state = make_agent(kind), None
    if kind == "recurrent":
        before = (trajectories.states[0][:1, 4],)
        _, state = agent.step(trajectories.observations[:1, 4], before, np.zeros(1, bool))
    outputs: Any = agent.step(final, state, np.zeros(1, bool))[0]
    expected = outputs.q_values.max() if kind == "q" else outputs.values[0]
    assert trajectories.final_values[0, 4] == pytest.approx(expected, rel=1e-6)
    assert expected != 0


def test_the_same_seed_gives_the_same_trajectories() -> None:
    original, repeated, other = collect(seed=1), collect(seed=1), collect(seed=2)
    for name, array in to_arrays(original).items():
        np.testing.assert_array_equal(array, to_arrays(repeated)[name])
    assert (original.actions != other.actions).any()


def test_actions_are_sampled_from_the_policy() -> None:
    logits = np.tile(np.log([[0.5, 0.2, 0.3]]), (40_000, 1)).astype(np.float32)
    actions = choose_actions(Outputs(policy_logits=logits + 7), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(actions) / 40_000, [0.5, 0.2, 0.3], atol=0.01)
    certain = np.array([[0, -1000, -1000], [-1000, -1000, 1000]], np.float32)
    assert choose_actions(Outputs(policy_logits=certain), np.random.default_rng(0)).tolist() == [0, 2]


def test_masked_actions_are_never_sampled() -> None:
    scores = np.tile(np.array([0.0, 9.0, 1.0], np.float32), (100, 1))
    masks = np.array([[True, False, True]] * 50 + [[True, True, False]] * 50)
    rng = np.random.default_rng(0)
    for outputs in (Outputs(policy_logits=scores), Outputs(q_values=scores)):
        assert choose_actions(outputs, rng, ActionChoice(greedy=True), masks).tolist() == [2] * 50 + [1] * 50
    sampled = choose_actions(Outputs(policy_logits=scores), rng, masks=masks)
    assert set(sampled[:50]) == {0, 2}
    assert 2 not in sampled[50:]


def test_arrays_in_files_equal_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_clarity.recordings.array_stores._BUFFERED_BYTES", 3000)  # several blocks
    in_memory = to_arrays(collect("recurrent", full_resolution=True))
    in_files = to_arrays(collect("recurrent", full_resolution=True, store=FileStore(tmp_path)))
    assert in_memory.keys() == in_files.keys()
    for name, array in in_files.items():
        assert isinstance(array, np.memmap)
        assert array.dtype == in_memory[name].dtype
        np.testing.assert_array_equal(array, in_memory[name])
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), in_memory[name])


def test_rendered_frames_show_the_observations() -> None:
    environment = TinyEnvironment(LENGTHS)
    trajectories = collect(environment=environment, full_resolution=True)
    assert trajectories.observations_full.shape == (3, 20, 20, 24, 3)
    np.testing.assert_array_equal(trajectories.observations_full[..., 0, 0, 0], trajectories.observations[..., 0, 1, 0])
    assert environment.renders == 20
    assert collect().observations_full is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_nth_extra_observation_is_collected(kind: str) -> None:
    environment = TinyEnvironment((1000, 1000))
    rng = np.random.default_rng(0)
    observations: Any = collect_observations(make_agent(kind), environment, 3, 4, rng, full_resolution=True)
    assert observations.observations.shape == (6, 16, 16, 1)
    assert observations.observations[:, 0, 0, 0].tolist() == [1, 11] * 3
    # As in the original, the first recorded observation is the fourth.
    assert observations.observations[:, 0, 1, 0].tolist() == [3, 3, 7, 7, 11, 11]
    assert observations.observations_full[:, 0, 0, 0].tolist() == [3, 3, 7, 7, 11, 11]
    assert environment.renders == 3
    if kind == "recurrent":
        assert observations.states[0].shape == (6, 6)
        assert observations.states[0].any()


def test_observations_store_their_step_within_the_episode() -> None:
    rng = np.random.default_rng(0)
    observations: Any = collect_observations(make_agent(), TinyEnvironment(LENGTHS), 5, 6, rng)
    np.testing.assert_array_equal(observations.ages, observations.observations[:, 0, 1, 0])
    # Within an environment, the number changes exactly where the age does not grow by the steps in between.
    episodes, ages = observations.episodes.reshape(5, -1), observations.ages.reshape(5, -1)
    np.testing.assert_array_equal(np.diff(episodes, axis=0) != 0, np.diff(ages, axis=0) != 6)
    assert len(set(episodes[0])) == episodes.shape[1], "episodes of two environments have different numbers"


def test_burn_in_steps_precede_the_first_observation() -> None:
    rng = np.random.default_rng(0)
    observations: Any = collect_observations(make_agent(), TinyEnvironment((1000,)), 2, 4, rng, burn_in=10)
    assert observations.observations[:, 0, 1, 0].tolist() == [13, 17]


def test_reported_progress_counts_environment_steps() -> None:
    calls: list[tuple[int, int]] = []
    collect(num_steps=4, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(3, 12), (6, 12), (9, 12), (12, 12)]


def test_environment_frames_are_preprocessed_by_the_agent() -> None:
    @dataclasses.dataclass(frozen=True)
    class Inverting(TinyAgent):
        def preprocess(self, frames: np.ndarray) -> np.ndarray:
            return 255 - frames

    agent = Inverting(observation_shape=(16, 16, 1), num_actions=3, patch=4)
    trajectories = collect_trajectories(agent, TinyEnvironment((9,)), 4, np.random.default_rng(0))
    assert trajectories.observations[0, :, 0, 1, 0].tolist() == [255, 254, 253, 252]


def test_rollouts_in_procgen_are_deterministic() -> None:
    pytest.importorskip("procgen")

    def samples(seed: int) -> dict[str, np.ndarray]:
        environment = make(EnvironmentSpec(name="starpilot", epsilon_greedy=0.1, options={"frame_stack": 2}), 3, seed)
        agent = TinyAgent("recurrent", observation_shape=(64, 64, 6))
        trajectories = collect_trajectories(agent, environment, 150, np.random.default_rng(seed))
        environment.close()
        return to_arrays(trajectories)

    original, repeated, other = samples(1), samples(1), samples(2)
    assert original["firsts"].any()
    for name, array in original.items():
        np.testing.assert_array_equal(array, repeated[name])
    assert (original["observations"] != other["observations"]).any()


class RunRight(RandomPolicyAgent):
    """Mostly runs and jumps to the right, which reaches late states of CoinRun."""

    def step(self, observations: np.ndarray, state: Any, firsts: np.ndarray) -> tuple[Outputs, None]:
        logits = np.zeros((len(observations), self.num_actions), np.float32)
        logits[:, [7, 8]] = 4.5, 4.9
        return Outputs(logits, np.zeros(len(observations), np.float32)), None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "agent", "mean_age"),
    [("coinrun", RunRight(15), 30), ("bigfish", RandomPolicyAgent(15), 75)],
)
def test_observations_have_the_episode_ages_of_the_original(game: str, agent: Any, mean_age: float) -> None:
    pytest.importorskip("procgen")

    def collect_ages(plan: dict[str, Any], seed: int) -> np.ndarray:
        environment = make(EnvironmentSpec(name=game), plan["num_envs"], seed)
        rng = np.random.default_rng(seed)
        observations: Any = collect_observations(agent, environment, plan["num_obs"], plan["obs_every"], rng)
        environment.close()
        ages: np.ndarray = observations.ages
        return ages

    original = collect_ages(ORIGINAL["observations_kwargs"], seed=1)
    fewer = collect_ages(dataclasses.asdict(ObservationsOptions()), seed=2)
    assert original.mean() > 0.8 * mean_age
    assert scipy.stats.ks_2samp(original, fewer).statistic <= 0.05


def test_agent_and_environment_must_match_in_actions_and_observations() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(SamplesError, match="the agent has 15 actions, but the environment has 3"):
        collect_trajectories(TinyAgent(), TinyEnvironment((5,)), 3, rng)
    with pytest.raises(SamplesError, match=r"shape \(64, 64, 3\), but the environment returns \(16, 16, 1\)"):
        collect_trajectories(TinyAgent(num_actions=3), TinyEnvironment((5,)), 3, rng)


def test_preprocessed_floats_are_stored_as_uint8() -> None:
    class Halved(TinyAgent):
        def preprocess(self, frames: np.ndarray) -> np.ndarray:
            return (frames // 2).astype(np.float32) / 255

    agent = Halved("policy", observation_shape=(16, 16, 1), num_actions=3, patch=4)
    floats, plain = (
        collect_trajectories(a, TinyEnvironment(LENGTHS), 5, np.random.default_rng(0)) for a in (agent, make_agent())
    )
    assert floats.observations.dtype == np.uint8
    np.testing.assert_array_equal(floats.observations[:, 0], plain.observations[:, 0] // 2)


def test_causes_of_episode_ends_are_stored_with_the_last_step() -> None:
    environment = make(EnvironmentSpec("light_switch", "memory"), 2, 0)
    agent = RandomPolicyAgent(environment.num_actions)
    trajectories = collect_trajectories(agent, environment, 60, np.random.default_rng(0))
    assert trajectories.causes
    ends = [(i, t) for i, t, _ in trajectories.causes]
    assert trajectories.dones is not None
    assert ends == [(int(i), int(t)) for i, t in np.argwhere(trajectories.dones)]
    rewarded = [bool(trajectories.rewards[i, t]) for i, t, _ in trajectories.causes]
    assert rewarded == [cause == "right switch" for _, _, cause in trajectories.causes]
    assert trajectories.select(1).causes == tuple((0, t, cause) for i, t, cause in trajectories.causes if i == 1)

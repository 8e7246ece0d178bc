"""`rl_clarity.collect` in single and vector Gymnasium environments, with every autoreset mode."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import rl_clarity
from rl_clarity.agents.capabilities import before_step
from rl_clarity.base.errors import EnvironmentSetupError, OptionError, SamplesError
from rl_clarity.recordings.samples import to_arrays
from tests.fakes import TinyAgent, TinyEnvironment

SHAPE = (16, 12, 3)
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
ENDS = (4, 6)
"""Steps after which an episode terminates, and is truncated."""


class Ticks(gymnasium.Env[np.ndarray, Any]):
    """Images of noise; episodes alternately terminate and are truncated; the reward is the number of the step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, ends: tuple[int, int] = ENDS, shape: tuple[int, ...] = SHAPE, kind: str = "uint8") -> None:
        self.ends, self.render_mode = ends, "rgb_array"
        low, high = {"uint8": (0, 255), "unit": (0.0, 1.0), "signed": (-1.0, 1.0)}[kind]
        self.observation_space = Box(low, high, shape, np.uint8 if kind == "uint8" else np.float32)
        self.action_space = Discrete(3)
        self.episode = -1

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT", "JUMP"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        truncates = self.episode % 2 == 1
        over = self.time == self.ends[truncates]
        return self._observe(), float(self.time), over and not truncates, over and truncates, {}

    def render(self) -> np.ndarray:
        return np.full((20, 30, 3), self.time, np.uint8)

    def _observe(self) -> np.ndarray:
        space: Any = self.observation_space
        pixels = self.np_random.integers(0, 256, space.shape)
        if space.dtype == np.uint8:
            return pixels.astype(np.uint8)
        return (space.low + pixels / 255 * (space.high - space.low)).astype(np.float32)


class Tocks(Ticks):
    """Episodes of other lengths."""

    def __init__(self) -> None:
        super().__init__(ends=(9, 3))


def make_agent(kind: str = "recurrent", **changes: Any) -> TinyAgent:
    """An agent with a deterministic policy."""
    options: dict[str, Any] = {"observation_shape": SHAPE, "num_actions": 3, "patch": 4, "sharpness": 1e6}
    return TinyAgent(kind, **{**options, **changes})


def collect_in(mode: AutoresetMode, kind: str = "recurrent", make: Any = SyncVectorEnv, **options: Any) -> Any:
    env = make([Ticks, Tocks], autoreset_mode=mode)
    try:
        return rl_clarity.collect(make_agent(kind), env, 40, 5, obs_every=7, seed=3, **options)
    finally:
        env.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["recurrent", "q"])
def test_collected_steps_equal_those_of_a_single_environment(mode: AutoresetMode, kind: str) -> None:
    """In every autoreset mode no step is lost, and none is added."""
    trajectories, _ = collect_in(mode, kind)
    seeds = np.random.SeedSequence(3).generate_state(2)
    for i, make in enumerate((Ticks, Tocks)):
        agent: Any = make_agent(kind)
        env, first = make(), True
        state: Any = None
        frame, _ = env.reset(seed=int(seeds[i]))
        for t in range(40):
            state = before_step(agent, state, np.array([first]))
            outputs, after = agent.step(frame[None], state, np.array([first]))
            action = int((outputs.q_values if kind == "q" else outputs.policy_logits)[0].argmax())
            next_frame, reward, ended, truncated, _ = env.step(action)
            at = (i, t)
            assert np.array_equal(trajectories.observations[at], frame)
            sample = (
                trajectories.actions[at],
                trajectories.rewards[at],
                trajectories.firsts[at],
                trajectories.truncated[at],
            )
            assert sample == (action, reward, first, truncated)
            if kind == "recurrent":
                assert np.array_equal(trajectories.states[0][at], state[0][0])
                assert trajectories.values[at] == outputs.values[0]
                value = agent.step(next_frame[None], after, np.array([False]))[0].values[0] if truncated else 0
                assert trajectories.final_values[at] == pytest.approx(value, abs=1e-6)
            state, frame, first = after, env.reset()[0] if ended or truncated else next_frame, ended or truncated
    assert trajectories.truncated.sum() > 4
    assert (trajectories.firsts.sum(1) > 5).all()


def test_asynchronous_environments_give_the_same_samples() -> None:
    original, repeated = collect_in(MODES[0]), collect_in(MODES[0], make=AsyncVectorEnv)
    for first, second in zip(original, repeated, strict=True):
        arrays, others = to_arrays(first), to_arrays(second)
        assert arrays.keys() == others.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, others[name])


@pytest.mark.parametrize("mode", MODES)
def test_extra_observations_come_from_later_episodes(mode: AutoresetMode) -> None:
    trajectories, observations = collect_in(mode)
    assert observations.observations.shape == (10, *SHAPE)
    assert observations.states[0].shape == (10, 6)
    assert observations.ages.max() < 9
    frames = trajectories.observations.reshape(-1, *SHAPE)
    assert not (observations.observations[:, None] == frames[None]).all(axis=(2, 3, 4)).any()


@pytest.mark.parametrize("mode", MODES)
def test_rendered_frames_match_their_steps(mode: AutoresetMode) -> None:
    trajectories, observations = collect_in(mode, full_resolution=True)
    assert trajectories.observations_full.shape == (2, 40, 20, 30, 3)
    ages = trajectories.observations_full[..., 0, 0, 0].astype(int)
    np.testing.assert_array_equal(ages == 0, trajectories.firsts)
    assert (np.diff(ages, axis=1)[~trajectories.firsts[:, 1:]] == 1).all()
    np.testing.assert_array_equal(observations.observations_full[:, 0, 0, 0], observations.ages)


@pytest.mark.parametrize("kind", ["uint8", "unit", "signed"])
@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((16, 12), (16, 12, 1)),
        ((16, 12, 3), (16, 12, 3)),
        ((3, 16, 12), (16, 12, 3)),
        ((4, 16, 12), (16, 12, 4)),
        ((16, 12, 4), (16, 12, 4)),
        ((4, 16, 12, 3), (16, 12, 12)),
    ],
)
def test_images_of_any_layout_are_converted_to_uint8_channels_last(
    kind: str, shape: tuple[int, ...], expected: tuple[int, int, int]
) -> None:
    agent = make_agent("policy", observation_shape=expected)
    env = Ticks(shape=shape, kind=kind)
    trajectories, _ = rl_clarity.collect(agent, env, 8, 1, obs_every=1, seed=1)
    env = Ticks(shape=shape)  # the same images as uint8
    pixels = env.reset(seed=int(np.random.SeedSequence(1).generate_state(1)[0]))[0]
    if len(shape) == 4:
        pixels = np.concatenate(list(pixels), axis=-1)
    elif len(shape) == 3 and shape[0] < 5:
        pixels = np.moveaxis(pixels, 0, -1)
    assert trajectories.observations.shape == (1, 8, *expected)
    assert trajectories.observations.dtype == np.uint8
    np.testing.assert_array_equal(trajectories.observations[0, 0], pixels.reshape(expected))


def test_environments_that_reuse_their_observation_array_are_supported() -> None:
    original, _ = collect_in(AutoresetMode.NEXT_STEP)
    env = SyncVectorEnv([Ticks, Tocks], copy=False)
    repeated, _ = rl_clarity.collect(make_agent(), env, 40, 5, obs_every=7, seed=3)
    np.testing.assert_array_equal(original.observations, repeated.observations)


def test_the_same_seed_gives_the_same_samples() -> None:
    agent = make_agent("policy", sharpness=1.0)
    original, repeated, other = (
        rl_clarity.collect(agent, Ticks(), 30, 3, obs_every=2, seed=seed) for seed in (5, 5, 6)
    )
    for i in (0, 1):
        for array, again in zip(to_arrays(original[i]).values(), to_arrays(repeated[i]).values(), strict=True):
            np.testing.assert_array_equal(array, again)
    assert (original[0].observations != other[0].observations).any()


def test_environments_of_the_packages_own_protocol_are_accepted() -> None:
    agent = TinyAgent(observation_shape=(16, 16, 1), num_actions=3, patch=4)
    trajectories, observations = rl_clarity.collect(agent, TinyEnvironment((5, 7)), 12, 2, obs_every=3)
    assert trajectories.observations.shape == (2, 12, 16, 16, 1)
    assert observations.observations.shape == (4, 16, 16, 1)


def test_action_meanings_of_the_environment_are_recorded() -> None:
    for env in (Ticks(), SyncVectorEnv([Ticks])):
        trajectories, _ = rl_clarity.collect(make_agent(), env, 3, 1, obs_every=1)
        assert trajectories.action_combos == ((), ("LEFT",), ("JUMP",))


@pytest.mark.parametrize(
    ("env", "options", "error", "words"),
    [
        ("CartPole-v1", {}, EnvironmentSetupError, "str is not a Gymnasium environment"),
        (Ticks(shape=(16, 16, 3)), {}, SamplesError, r"\(16, 12, 3\).*\(16, 16, 3\)"),
        (Ticks(), {"num_steps": 0}, OptionError, "num_steps=0"),
    ],
)
def test_invalid_arguments_are_rejected(env: Any, options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rl_clarity.collect(make_agent(), env, **{"num_steps": 3, "num_obs": 1, "obs_every": 1, **options})


def test_rewards_must_be_finite() -> None:
    env = gymnasium.wrappers.TransformReward(Ticks(), lambda reward: reward if float(reward) < 3 else float("nan"))
    with pytest.raises(SamplesError, match=r"rewards of step 2 are \[nan\]; they must be finite real numbers"):
        rl_clarity.collect(make_agent(), env, 8, 1, obs_every=1)


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("reward", [np.complex64(1 + 2j), "1"])
def test_rewards_must_be_real_numbers(vector: bool, reward: Any) -> None:
    class Strange(Ticks):
        def step(self, action: Any) -> Any:
            return (self._observe(), reward, False, False, {})

    class StrangeVector(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            observations, _, *rest = super().step(actions)
            return (observations, np.array([reward]), *rest)

    env: Any = StrangeVector([Ticks], autoreset_mode=AutoresetMode.SAME_STEP) if vector else Strange()
    with pytest.raises(SamplesError, match=r"the environment returned the rewards .*; rewards must be real numbers"):
        rl_clarity.collect(make_agent(), env, 3, 1, obs_every=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.full(3, 1j)}, r"rewards of step 0 are .*; they must be finite real numbers"),
        ({"firsts": np.full(3, np.nan)}, r"firsts of step 0 are \[nan nan nan\], of type float64; they must be bool"),
        ({"firsts": np.full(3, 5)}, r"firsts of step 0 are \[5 5 5\], of type int64; they must be bool"),
        ({"truncated": np.ones(3)}, r"truncated of step 0 are \[1. 1. 1.\], of type float64; they must be bool"),
    ],
)
def test_invalid_steps_of_custom_environments_are_refused(changes: dict[str, Any], message: str) -> None:
    class Strange(TinyEnvironment):
        def step(self, actions: np.ndarray) -> Any:
            return dataclasses.replace(super().step(actions), **changes)

    agent = TinyAgent(observation_shape=(16, 16, 1), num_actions=3, patch=4)
    with pytest.raises(SamplesError, match=message):
        rl_clarity.collect(agent, Strange((5, 7, 100)), 3, 1, obs_every=1)


def test_vector_environments_need_an_autoreset_mode() -> None:
    env = SyncVectorEnv([Ticks])
    env.metadata = {}
    with pytest.raises(EnvironmentSetupError, match="autoreset_mode"):
        rl_clarity.collect(make_agent(), env, 3, 1, obs_every=1)


def test_generate_accepts_collected_samples(tmp_path: Path) -> None:
    agent = dataclasses.replace(make_agent(), sharpness=4.0)
    collected: Any = rl_clarity.collect(agent, SyncVectorEnv([Ticks, Tocks]), 25, 6, obs_every=3)
    trajectories, observations = collected
    results = rl_clarity.generate(agent, trajectories, observations, tmp_path / "page").results()
    assert [action["label"] for action in results.agent["actions"]] == ["no-op", "←", "JUMP"]
    series = results.series(1)
    np.testing.assert_array_equal(series["firsts"], trajectories.firsts[1])
    delta = trajectories.rewards + 0.999 * trajectories.final_values - trajectories.values
    truncated = trajectories.truncated[1]
    np.testing.assert_allclose(series["advantages"][truncated], delta[1][truncated], rtol=1e-4)

"""Loops of environments that reset by themselves: every observation is in the episode that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest

from rl_clarity.recordings.layout import DONE, TIME_LIMIT
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, open_recording

STEPS = 40


class Counter(gymnasium.Env[np.ndarray, np.int64]):
    """Observations are (env, episode, step); episode e of environment i lasts 2 + (i + e) % 4 steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (3, 4, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, env: int = 0) -> None:
        self.env, self.episode = env, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        self.step_number = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        ended = self.step_number == length(self.env, self.episode)
        return (
            self.observe(),
            float(self.step_number),
            ended and self.episode % 2 == 0,
            ended and self.episode % 2 == 1,
            {},
        )

    def observe(self) -> np.ndarray:
        return image(self.env, self.episode, self.step_number)


def length(env: int, episode: int) -> int:
    return 2 + (env + episode) % 4


def image(env: int, episode: int, step: int) -> np.ndarray:
    return np.array([env, episode, step], np.uint8)[:, None, None].repeat(4, 1)


def check_episodes(recording: Recording, envs: int, finals: bool = True) -> None:
    """Check that recorded episodes are those of `Counter`, complete and in order."""
    counts = [0] * envs
    ended = [episode for episode in recording if episode.end != "stopped"]
    assert len(ended) > 4 * envs
    for episode in sorted(ended, key=lambda episode: int(episode.facts["start_step"])):
        env = int(episode.facts["environment"])
        number = counts[env]
        counts[env] += 1
        assert len(episode) == length(env, number)
        expected = [image(env, number, step) for step in range(len(episode) + 1)]
        np.testing.assert_array_equal(episode.observations, expected[:-1])
        assert episode.final_observation is not None
        np.testing.assert_array_equal(episode.final_observation, expected[-1])
        assert episode.rewards[:].tolist() == [step + 1.0 for step in range(len(episode))]
        assert episode.end == (DONE if number % 2 == 0 else TIME_LIMIT)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_gymnasium_autoreset_modes_give_complete_episodes(
    tmp_path: Path, mode: Literal["same_step", "next_step", "disabled"]
) -> None:
    makers: list[Callable[[], Counter]] = [lambda env=env: Counter(env) for env in range(2)]  # type: ignore[misc]
    autoreset = gymnasium.vector.AutoresetMode[mode.upper()]
    envs = gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=autoreset)
    observations, _ = envs.reset(seed=0)
    with Recorder(tmp_path, envs=None, autoreset=mode, on_error="raise") as recorder:
        for _ in range(STEPS):
            actions = np.zeros(2, int)
            following, rewards, terminated, truncated, infos = envs.step(actions)
            recorder.add(
                observation=observations,
                action=actions,
                reward=rewards,
                terminated=terminated,
                truncated=truncated,
                final_observation=infos.get("final_obs") if mode == "same_step" else following,
            )
            if mode == "disabled" and (terminated | truncated).any():
                following, _ = envs.reset(options={"reset_mask": terminated | truncated})
            observations = following
    check_episodes(open_recording(tmp_path), 2)


def test_reset_steps_after_unrecorded_episodes_are_left_out(tmp_path: Path) -> None:
    """The step that only resets is also left out after episodes that are not recorded."""
    envs = gymnasium.vector.SyncVectorEnv([Counter], autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP)
    observations, _ = envs.reset(seed=0)
    with Recorder(tmp_path, every=3, autoreset="next_step", on_error="raise") as recorder:
        for _ in range(STEPS):
            following, rewards, terminated, truncated, _ = envs.step(np.zeros(1, int))
            recorder.add(
                observation=observations,
                action=[0],
                reward=rewards,
                terminated=terminated,
                truncated=truncated,
                final_observation=following,
            )
            observations = following
    for episode in open_recording(tmp_path):
        expected = [image(0, episode.number, step) for step in range(len(episode))]
        np.testing.assert_array_equal(episode.observations, expected)


def test_stable_baselines3_vector_environments_give_complete_episodes(tmp_path: Path) -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    envs = vec_env.DummyVecEnv([lambda env=env: Counter(env) for env in range(2)])
    observations = envs.reset()
    with Recorder(tmp_path, envs=None, on_error="raise") as recorder:
        for _ in range(STEPS):
            actions = np.zeros(2, int)
            following, rewards, dones, infos = envs.step(actions)
            truncated = np.array([info["TimeLimit.truncated"] for info in infos])
            recorder.add(
                observation=observations,
                action=actions,
                reward=rewards,
                terminated=dones & ~truncated,
                truncated=truncated,
                final_observation=[info.get("terminal_observation") for info in infos],
            )
            observations = following.copy()
    check_episodes(open_recording(tmp_path), 2)


def test_procgen_episodes_have_no_final_observation(tmp_path: Path) -> None:
    procgen = pytest.importorskip("procgen")
    env = procgen.ProcgenGym3Env(num=2, env_name="starpilot", rand_seed=0)
    rng = np.random.default_rng(0)
    shown: list[list[np.ndarray]] = [[], []]
    _, observations, _ = env.observe()
    with Recorder(tmp_path, envs=None, on_error="raise") as recorder:
        for _ in range(150):
            actions = rng.integers(15, size=2)
            env.act(actions)
            rewards, following, firsts = env.observe()
            for i in range(2):
                shown[i].append(observations["rgb"][i].copy())
            recorder.add(observation=observations["rgb"], action=actions, reward=rewards, terminated=firsts)
            observations = following
    env.close()
    recording = open_recording(tmp_path)
    assert sum(episode.end == DONE for episode in recording) > 2
    for episode in recording:
        start = int(episode.facts["start_step"]) // 2
        frames = shown[int(episode.facts["environment"])][start : start + len(episode)]
        np.testing.assert_array_equal(episode.observations, frames)
        assert episode.final_observation is None

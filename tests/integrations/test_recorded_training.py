"""Training that is really recorded: replaying episodes gives their outputs, and returns are those of the library."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.recording import Recording, open_recording

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.atari_wrappers import ClipRewardEnv
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from rl_clarity.integrations import sb3
from rl_clarity.integrations.sb3_callback import RecorderCallback

STEPS = 2048
TOLERANCE = 1e-5
SIDE = 8


class Dot(gymnasium.Env[np.ndarray, np.int64]):
    """Keep the dot in the middle. The corners tell the episode, the step and the environment's random number."""

    observation_space = gymnasium.spaces.Box(0, 255, (3, SIDE, SIDE), np.uint8)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(3)
    render_mode = "rgb_array"

    def __init__(self) -> None:
        self.episode = -1

    def get_action_meanings(self) -> list[str]:
        return ["LEFT", "NOOP", "RIGHT"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        self.position, self.age = 4, 0
        return self.draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        move = int(np.clip(np.round(action).item(), -1, 1)) if np.ndim(action) else int(action) - 1
        self.position = int(np.clip(self.position + move + self.np_random.integers(-1, 2), 0, 7))
        self.age += 1
        return self.draw(), 2.5 * (self.position == 4), self.position in (0, 7), self.age == 30, {}

    def draw(self) -> np.ndarray:
        image = np.zeros((3, SIDE, SIDE), np.uint8)
        image[0, 4, self.position] = 255
        image[1, 0, 0], image[2, 0, 0] = self.episode % 256, self.age
        return image

    def render(self) -> Any:
        return self.draw().transpose(1, 2, 0).repeat(2, 0)


class Small(BaseFeaturesExtractor):
    def __init__(self, space: Any, features_dim: int = 16) -> None:
        super().__init__(space, features_dim)
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36, features_dim))

    def forward(self, observations: torch.Tensor) -> Any:
        return self.net(observations)


class Snapshots(BaseCallback):
    """Parameters, by the number of steps that were made before."""

    def _on_training_start(self) -> None:
        self.parameters: dict[int, Any] = {}

    def _on_rollout_start(self) -> None:
        self.parameters[self.num_timesteps] = copy.deepcopy(self.model.policy.state_dict())

    def _on_step(self) -> bool:
        return True


def train(algorithm: Any, policy: str, folder: Path, num_envs: int, recorder: dict[str, Any], **options: Any) -> Any:
    """Train a small model; return it, its environments, the parameters and the recording."""
    venv = make_vec_env(Dot, n_envs=num_envs, seed=0, wrapper_class=ClipRewardEnv)
    kwargs = {"features_extractor_class": Small, **options.pop("policy_kwargs", {})}
    model = algorithm(policy, venv, policy_kwargs=kwargs, seed=0, device="cpu", **options)
    snapshots = Snapshots()
    callback = sb3.RecorderCallback(folder, on_error="raise", **recorder)
    model.learn(STEPS, callback=[snapshots, callback])
    return model, venv, snapshots.parameters, open_recording(folder)


def check_replay(model: Any, parameters: dict[int, Any], recording: Recording, num_envs: int, name: str) -> None:
    """Check that the model of that time gives the recorded outputs for the recorded observations and states."""
    begins = np.array(sorted(parameters))
    compared = 0
    for begin in begins:
        model.policy.load_state_dict(parameters[begin])
        agent = sb3.agent(model)
        for episode in recording:
            steps = int(episode.facts["start_step"]) + num_envs * np.arange(len(episode))
            rows = begins[np.searchsorted(begins, steps, side="right") - 1] == begin
            if rows.any():
                check_steps(agent, episode, rows)
            compared += int(rows.sum())
    assert compared > 100
    assert getattr(recording[0], name) is not None


def check_steps(agent: Any, episode: Episode, rows: np.ndarray) -> None:
    states = None if episode.states is None else tuple(np.asarray(part)[rows] for part in episode.states)
    outputs, after = agent.step(np.asarray(episode.observations)[rows], states, np.zeros(rows.sum(), bool))
    for field in ("policy_logits", "values", "q_values"):
        recorded, replayed = getattr(episode, field), getattr(outputs, field)
        assert (recorded is None) == (replayed is None)
        if recorded is not None:
            np.testing.assert_allclose(np.asarray(recorded)[rows], replayed, atol=TOLERANCE)
    if episode.final_states is not None and rows[-1]:
        for part, final in zip(after, episode.final_states, strict=True):
            np.testing.assert_allclose(part[-1], final, atol=TOLERANCE)


def check_episodes(recording: Recording, every: int = 1) -> None:
    """Check observations, frames and last observations, which tell their episodes and steps."""
    assert len(recording) > 3
    for episode in recording:
        observations = np.asarray(episode.observations)
        assert observations.shape[1:] == (SIDE, SIDE, 3)
        assert observations[:, 0, 0, 2].tolist() == [*range(len(episode))]
        assert len(set(observations[:, 0, 0, 1])) == 1
        if episode.frames is not None:
            np.testing.assert_array_equal(np.asarray(episode.frames)[:, ::2], observations)
        if episode.end == "stopped":
            continue
        assert episode.final_observation is not None
        assert episode.final_observation[0, 0, 1:].tolist() == [observations[0, 0, 0, 1], len(episode)]
        assert (episode.end == "time limit") == (len(episode) == 30 and episode.final_observation[4, 1:7, 0].any())
        assert episode.number % every == 0


def check_returns(recording: Recording, venv: Any, env: int = 0, every: int = 1) -> None:
    """Check that returns are those of `Monitor`, below the wrapper that clips rewards."""
    (monitor,) = venv.env_method("get_wrapper_attr", "get_episode_rewards", indices=[env])
    expected = monitor()
    episodes = [one for one in recording if one.facts["environment"] == env and one.end != "stopped"]
    returns = [float(np.sum(np.asarray(one.rewards))) for one in episodes]
    assert returns == pytest.approx(expected[::every], abs=1e-6)
    assert returns == [one.facts["return"] for one in episodes]
    for one in episodes:
        assert one.training_rewards is not None
        np.testing.assert_array_equal(np.sign(one.rewards), one.training_rewards)
    assert any(returns)


def first_outputs(model: Any, episode: Episode) -> np.ndarray:
    outputs = sb3.agent(model).forward(episode.observations[:1])
    return np.asarray(outputs.q_values if outputs.policy_logits is None else outputs.policy_logits)


@pytest.mark.slow
def test_recorded_ppo_training_can_be_replayed(tmp_path: Path) -> None:
    recorder = {"every": 3, "frames": True}
    options = {"n_steps": 128, "batch_size": 128, "n_epochs": 1, "learning_rate": 3e-3}
    model, venv, parameters, recording = train(PPO, "CnnPolicy", tmp_path, 2, recorder, **options)
    check_episodes(recording, every=3)
    check_returns(recording, venv, every=3)
    check_replay(model, parameters, recording, 2, "policy_logits")
    assert recording.metadata["action_combos"] == [["LEFT"], [], ["RIGHT"]]
    assert recording.metadata["gamma"] == 0.99
    assert recording[0].frames is not None
    for episode in (recording[0], recording[-1]):
        checkpoint = recording.checkpoint(episode)
        assert checkpoint is not None
        recorded = np.asarray(episode.policy_logits)[:1]
        np.testing.assert_allclose(first_outputs(PPO.load(checkpoint), episode), recorded, atol=TOLERANCE)
    ended = [episode for episode in recording if episode.end == "time limit"]
    assert all(episode.final_value is not None for episode in ended)


@pytest.mark.slow
def test_recorded_dqn_training_can_be_replayed(tmp_path: Path) -> None:
    options = {"buffer_size": 256, "learning_starts": 256, "train_freq": 256, "gradient_steps": 2, "batch_size": 16}
    model, venv, parameters, recording = train(DQN, "CnnPolicy", tmp_path, 1, {"every": 1}, **options)
    check_episodes(recording)
    check_returns(recording, venv)
    check_replay(model, parameters, recording, 1, "q_values")
    episode = recording[-1]
    recorded = np.asarray(episode.q_values)[:1]
    checkpoint = recording.checkpoint(episode)
    assert checkpoint is not None
    np.testing.assert_allclose(first_outputs(DQN.load(checkpoint), episode), recorded, atol=TOLERANCE)


@pytest.mark.slow
def test_recorded_recurrent_ppo_training_has_reset_states(tmp_path: Path) -> None:
    recorder = {"envs": None}
    options = {"n_steps": 256, "batch_size": 512, "n_epochs": 1, "policy_kwargs": {"lstm_hidden_size": 6}}
    model, venv, parameters, recording = train(RecurrentPPO, "CnnLstmPolicy", tmp_path, 2, recorder, **options)
    check_episodes(recording)
    for env in range(2):
        check_returns(recording, venv, env)
    check_replay(model, parameters, recording, 2, "states")
    for episode in recording:
        assert episode.states is not None
        assert len(episode.states) == 4
        assert not np.asarray(episode.states[0])[0].any(), "reset where the episode begins"
        assert np.asarray(episode.states[0])[1:].any()


def test_continuous_actions_are_recorded_without_outputs(tmp_path: Path) -> None:
    class Continuous(Dot):
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    options = {"buffer_size": 64, "learning_starts": 100, "policy_kwargs": {"features_extractor_class": Small}}
    model = SAC("CnnPolicy", Continuous(), seed=0, device="cpu", **options)
    model.learn(60, callback=sb3.RecorderCallback(tmp_path, on_error="raise", checkpoints=False))
    recording = open_recording(tmp_path)
    assert recording[0].actions.shape[1:] == (1,)
    assert recording[0].values is None
    assert recording.checkpoint(recording[0]) is None


def test_an_error_of_the_recorder_does_not_end_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs = {"features_extractor_class": Small}
    model = PPO("CnnPolicy", Dot(), n_steps=32, batch_size=32, n_epochs=1, policy_kwargs=kwargs)
    monkeypatch.setattr(RecorderCallback, "_recorded", no_screen)
    with pytest.warns(RuntimeWarning, match="stopped recording to .*: no screen"):
        model.learn(64, callback=sb3.RecorderCallback(tmp_path))
    assert model.num_timesteps == 64


def record_with_frames(loop: str, folder: Path) -> None:
    """Record some episodes."""
    if loop == "sb3":
        kwargs = {"features_extractor_class": Small}
        model = PPO("CnnPolicy", Dot(), n_steps=32, batch_size=32, n_epochs=1, policy_kwargs=kwargs)
        model.learn(64, callback=sb3.RecorderCallback(folder, frames=True, on_error="raise"))
        return
    env = rl_clarity.RecordEpisodes(Dot(), folder, on_error="raise")
    for _ in range(2):
        env.reset(seed=0)
        while not any(env.step(1)[2:4]):
            pass
    env.close()


@pytest.mark.parametrize("loop", ["sb3", "wrapper"])
@pytest.mark.parametrize("working", [0, 3])
def test_a_failing_renderer_leaves_out_only_the_frames(
    loop: str, working: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The episode in which it fails has the same fields at all steps."""
    calls = []

    def render(self: Any) -> np.ndarray:
        calls.append(1)
        return no_screen() if len(calls) > working else np.full((8, 8, 3), 9, np.uint8)

    monkeypatch.setattr(Dot, "render", render)
    with pytest.warns(RuntimeWarning, match="frames are no longer recorded, .*: no screen") as warned:
        record_with_frames(loop, tmp_path)
    assert len([one for one in warned if "frames" in str(one.message)]) == 1
    assert len(calls) == working + 1
    episodes = list(open_recording(tmp_path))
    frames = [np.asarray(episode.frames) for episode in episodes if episode.frames is not None]
    assert len(frames) < len(episodes)
    assert all(episode.frames is None for episode in episodes[len(frames) :])
    brightest = [int(frame.max()) for part in frames for frame in part]  # episodes may be shorter than `working`
    assert brightest == [9] * working + [0] * (len(brightest) - working)
    assert bool(frames) == bool(working)


def no_screen(*arguments: Any) -> Any:
    raise RuntimeError("no screen")


@pytest.mark.slow
def test_training_recorded_by_the_gymnasium_wrapper_can_be_replayed(tmp_path: Path) -> None:
    monitored = gymnasium.wrappers.RecordEpisodeStatistics(Dot())
    env = rl_clarity.RecordEpisodes(monitored, tmp_path, every=2, on_error="raise")
    torch.manual_seed(0)
    network = nn.Sequential(Small(Dot.observation_space), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    env.recorder.agent(lambda path: torch.save(network.state_dict(), path))
    returns, weights, steps = [], [], 0
    while steps < STEPS:
        observation, _ = env.reset(seed=steps)
        log_probs, rewards, ended = [], [], False
        weights.append(copy.deepcopy(network.state_dict()))
        while not ended:
            outputs = network(torch.as_tensor(observation)[None] / 255)[0]
            policy = torch.distributions.Categorical(logits=outputs[:3])
            action = policy.sample()
            env.outputs(logits=outputs[:3], value=outputs[3])
            observation, reward, terminated, truncated, info = env.step(int(action))
            log_probs.append(policy.log_prob(action))
            rewards.append(float(reward))
            ended = terminated or truncated
            steps += 1
        returns.append(info["episode"]["r"])
        loss = -torch.stack(log_probs).sum() * (sum(rewards) - float(np.mean(returns)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        env.recorder.agent(lambda path: torch.save(network.state_dict(), path))
    env.close()
    recording = open_recording(tmp_path)
    check_episodes(recording, every=2)
    assert [row["return"] for row in recording.table()] == pytest.approx(returns[::2], abs=1e-5)
    for episode in recording:
        checkpoint = recording.checkpoint(episode)
        assert checkpoint is not None
        saved = torch.load(checkpoint)
        assert all(torch.equal(saved[name], value) for name, value in weights[episode.number].items())
        network.load_state_dict(saved)
        with torch.no_grad():
            replayed = network(torch.as_tensor(np.asarray(episode.observations)).permute(0, 3, 1, 2) / 255).numpy()
        assert episode.policy_logits is not None
        assert episode.values is not None
        np.testing.assert_allclose(episode.policy_logits, replayed[:, :3], atol=TOLERANCE)
        np.testing.assert_allclose(episode.values, replayed[:, 3], atol=TOLERANCE)


def test_a_reset_before_the_episode_end_records_it_as_stopped(tmp_path: Path) -> None:
    env = rl_clarity.RecordEpisodes(Dot(), tmp_path, on_error="raise")
    for seed in range(2):
        env.reset(seed=seed)
        env.step(1)
    env.close()
    assert [(len(episode), episode.end) for episode in open_recording(tmp_path)] == [(1, "stopped")] * 2


class Told(Dot):
    """Its info has the position and the age, from the reset on."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return super().reset(seed=seed)[0], {"place": self.position, "age": self.age}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return *super().step(action)[:4], {"place": self.position, "age": self.age}


def test_info_values_are_recorded_with_their_own_observation(tmp_path: Path) -> None:
    venv = make_vec_env(Told, n_envs=2, seed=0)
    model = PPO("MlpPolicy", venv, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(200, callback=sb3.RecorderCallback(tmp_path, info=["age", "place"], envs=None, on_error="raise"))
    steps = 0
    for episode in open_recording(tmp_path):
        observations = np.asarray(episode.observations)
        np.testing.assert_array_equal(observations[:, 0, 0, 2], np.asarray(episode.info["age"]))
        np.testing.assert_array_equal(observations[:, 4, :, 0].argmax(axis=1), np.asarray(episode.info["place"]))
        steps += len(episode)
    assert steps > 100

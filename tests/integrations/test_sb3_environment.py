"""The environment of a Stable-Baselines3 model: wrapped as in training, evaluated as by the library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import rl_clarity
from rl_clarity.base.errors import ClarityError, EnvironmentSetupError
from rl_clarity.commands.evaluate import AGENT
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.integrations import sb3
from rl_clarity.recordings.evaluation import Evaluation
from tests.dictionaries import Dictionary

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.atari_wrappers import ClipRewardEnv, EpisodicLifeEnv
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize
from torch import nn

SIDE = 36


class Game(gymnasium.Env[np.ndarray, Any]):
    """Random images, three lives of random length; 5 points for action 1. A game is truncated after 60 steps."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = Box(0, 255, (SIDE, SIDE, 1), np.uint8)
    action_space = Discrete(3)

    def __init__(self, render_mode: str | None = None) -> None:
        self.ale, self.render_mode = self, render_mode

    def lives(self) -> int:
        return self._lives

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "UP", "LEFTFIRE"]

    def action_masks(self) -> np.ndarray:
        return np.array([True, False, True])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._lives, self.time = 3, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self._lives -= int(self.np_random.random() < 0.1)
        return self._observe(), 5.0 * (action == 1), self._lives == 0, self.time == 60, {}

    def render(self) -> np.ndarray:
        return np.full((50, 60, 3), self.time, np.uint8)

    def _observe(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (SIDE, SIDE, 1), np.uint8)


class Parts(Game):
    observation_space = gymnasium.spaces.Dict({"image": Game.observation_space, "direction": Discrete(4)})  # type: ignore[assignment]


gymnasium.register("ClarityParts-v0", lambda **_: Parts())


def make_training_env(num_envs: int = 2, make: Callable[[], Any] = Game) -> VecFrameStack:
    """Wrapped like an Atari game: Monitor below the wrappers that change episodes and rewards."""
    venv = DummyVecEnv([lambda: ClipRewardEnv(EpisodicLifeEnv(Monitor(make())))] * num_envs)
    return VecFrameStack(venv, 4)


def make_model(algorithm: Any = PPO, env: Any = None) -> Any:
    sizes = {"buffer_size": 8} if algorithm is DQN else {"n_steps": 4, "batch_size": 4}
    options = {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 8}}, "seed": 0, "device": "cpu"}
    return algorithm("CnnPolicy", env or make_training_env(), **options, **sizes)


def evaluate(model: Any, episodes: int, **options: Any) -> Evaluation:
    return rl_clarity.evaluate(sb3.agent(model), sb3.environment(model, seed=5), episodes=episodes, **options)[AGENT]


@pytest.mark.parametrize(("name", "given"), [(None, None), ("names", ["a", "b", "c", "d"])])
def test_sb3_explain_explains_a_vector_model_in_one_call(name: Any, given: Any, tmp_path: Path) -> None:
    model = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=8, batch_size=8, device="cpu")
    size: dict[str, Any] = {"num_steps": 12, "num_obs": 6, "features": {"count": 2}}
    results = sb3.explain(model, tmp_path / "page", observation_names=given, **size).results()
    names = given or ["input 1", "input 2", "input 3", "input 4"]
    assert results.section("features")["layers"]["input"]["names"] == names
    played = results.series(0)
    tensor, _ = model.policy.obs_to_tensor(played["inputs"])
    with torch.no_grad():
        np.testing.assert_allclose(played["values"], model.policy.predict_values(tensor)[:, 0], atol=1e-5)
    assert results.agent["observation"]["stack"] == 1


def test_sb3_explain_explains_an_image_and_vector_model_in_one_call(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"features_extractor_kwargs": {"cnn_output_dim": 8}}
    model = PPO("MultiInputPolicy", Dictionary(), n_steps=8, batch_size=8, device="cpu", policy_kwargs=sizes)
    agent: Any = sb3.agent(model)
    assert agent.held_inputs == {"direction": (), "speed": (2,)}
    seen = [Dictionary().reset(seed=seed)[0] | {"direction": seed % 4} for seed in range(5)]
    observed = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
    tensors, _ = model.policy.obs_to_tensor(observed)
    with torch.no_grad():
        expected = model.policy.predict_values(tensors)[:, 0]
    np.testing.assert_allclose(agent.forward(*agent.image_and_state(observed)).values, expected, atol=1e-5)
    page = sb3.explain(model, tmp_path / "page", num_steps=12, num_obs=6, features={"count": 2})
    assert page.results().section("trajectories")["inputs"] == ["direction", "speed 1", "speed 2"]


def test_sb3_explain_explains_an_image_model_in_one_call(tmp_path: Path) -> None:
    model = make_model()
    sizes: dict[str, Any] = {"num_steps": 8, "num_obs": 4, "seed": 3}
    page: dict[str, Any] = {"layers": {"name_contains_one_of": ["cnn.5"]}, "title": "A model"}
    explained = sb3.explain(model, tmp_path / "line", **sizes, **page)
    agent, env = sb3.agent(model), sb3.environment(model, seed=3)
    separate = rl_clarity.generate(agent, *rl_clarity.collect(agent, env, **sizes), tmp_path / "parts", seed=3, **page)
    ours, theirs = explained.results(), separate.results()
    assert ours.manifest["title"] == "A model"
    np.testing.assert_array_equal(ours.frames(1), theirs.frames(1))
    np.testing.assert_array_equal(ours.series(0)["values"], theirs.series(0)["values"])


def test_play_uses_the_wrappers_of_training() -> None:
    model = make_model()
    trajectories, observations = rl_clarity.collect(sb3.agent(model), sb3.environment(model), 80, 3, obs_every=2)
    assert trajectories.observations.shape == (2, 80, SIDE, SIDE, 4)
    assert observations.observations.shape[1:] == (SIDE, SIDE, 4)
    assert set(np.unique(trajectories.rewards)) == {0, 1}, "clipped"
    assert trajectories.firsts.sum() > 80 * 2 * 0.05, "an episode ends with a life"
    stacks = trajectories.observations[0]
    for t in range(1, 80):
        older = 0 if trajectories.firsts[0, t] else stacks[t - 1, ..., 1:]
        np.testing.assert_array_equal(stacks[t, ..., :3], np.broadcast_to(older, (SIDE, SIDE, 3)))
    assert trajectories.action_combos == ((), ("UP",), ("LEFT", "FIRE"))


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_returns_equal_those_of_sb3_evaluate_policy(algorithm: Any) -> None:
    """With the same seed, episode by episode: unclipped, and of games of three lives."""
    model = make_model(algorithm)
    model.get_env().seed(5)
    own, _ = evaluate_policy(model, model.get_env(), 10, deterministic=True, return_episode_rewards=True)
    evaluation = evaluate(model, 10, deterministic=True)
    assert sorted(evaluation.returns.tolist()) == sorted(own)
    assert evaluation.lengths.min() > 3
    assert not evaluation.cut


def test_returns_without_a_monitor_are_sums_of_rewards() -> None:
    model = make_model(env=VecFrameStack(DummyVecEnv([Game, Game]), 4))
    evaluation = evaluate(model, 4)
    assert evaluation.returns.max() > 5
    assert (evaluation.returns % 5 == 0).all()


def test_a_reset_starts_a_new_game_with_all_lives() -> None:
    model = make_model()
    environment = sb3.environment(model)
    environment.reset()
    games = [env.unwrapped for env in model.get_env().unwrapped.envs]
    while min(game.lives() for game in games) == 3:
        environment.step(np.zeros(2, int))
    environment.reset()
    assert [game.lives() for game in games] == [3, 3]


def test_truncated_episodes_have_a_final_observation() -> None:
    environment = sb3.environment(make_model(), make_training_env(num_envs=8), seed=1)
    environment.reset()
    steps = [environment.step(np.ones(8, int)) for _ in range(200)]
    cut = [step for step in steps if step.truncated.any()]
    assert cut
    for step in cut:
        assert set(step.final_observations) == set(np.flatnonzero(step.firsts))
        for i, final in step.final_observations.items():
            assert final.shape == (SIDE, SIDE, 4)
            assert final[..., :3].any()
            assert not step.observations[i][..., :3].any()


def test_a_seed_makes_the_first_observation_reproducible() -> None:
    model = make_model()

    def first(seed: int) -> np.ndarray:
        return sb3.environment(model, seed=seed).reset().observations

    np.testing.assert_array_equal(first(1), first(1))
    assert (first(1) != first(2)).any()


def test_masked_actions_are_never_sampled() -> None:
    model = make_model(MaskablePPO)
    agent, environment = sb3.agent(model), sb3.environment(model)
    trajectories, _ = rl_clarity.collect(agent, environment, 50, 1, obs_every=1)
    assert set(np.unique(trajectories.actions)) == {0, 2}
    assert trajectories.policy_logits is not None
    assert np.isfinite(trajectories.policy_logits).all()
    evaluation = rl_clarity.evaluate(agent, environment, episodes=2, random=True)
    assert [part.mean for part in evaluation.values()] == [0, 0]
    assert sb3.environment(make_model()).reset().action_masks is None, "PPO ignores masks"


def test_frames_of_an_sb3_environment_are_rendered() -> None:
    model = make_model(env=make_training_env(make=lambda: Game("rgb_array")))
    trajectories, _ = rl_clarity.collect(
        sb3.agent(model), sb3.environment(model), 5, 1, obs_every=1, full_resolution=True
    )
    assert trajectories.observations_full is not None
    assert trajectories.observations_full.shape == (2, 5, 50, 60, 3)
    with (
        pytest.raises(EnvironmentSetupError, match="render_mode='rgb_array'"),
        pytest.warns(UserWarning, match="render mode is None"),
    ):
        sb3.environment(make_model()).render()


def test_environments_made_from_an_id_stack_frames_like_the_model() -> None:
    gymnasium.register("rl_clarity/TestGame-v0", lambda **arguments: Game(**arguments))
    environment = sb3.environment(make_model(), "rl_clarity/TestGame-v0", num_envs=3)
    assert environment.reset().observations.shape == (3, SIDE, SIDE, 4)
    evaluation = rl_clarity.evaluate(sb3.agent(make_model()), environment, episodes=3)[AGENT]
    assert (evaluation.returns % 5 == 0).all()
    assert evaluation.returns.any()


def test_a_single_gymnasium_environment_is_accepted() -> None:
    model = make_model(env=Game())
    assert sb3.environment(model, Game()).reset().observations.shape == (1, SIDE, SIDE, 1)


def test_unwrapped_sb3_models_and_environments_are_refused_with_advice() -> None:
    model = make_model()
    with pytest.raises(ClarityError, match=r"a PPO is .* wrap it with rl_clarity\.integrations\.sb3\.agent\(model\)"):
        rl_clarity.collect(model, sb3.environment(model))
    with pytest.raises(ClarityError, match=r"integrations\.sb3\.environment\(model, env\)"):
        rl_clarity.collect(sb3.agent(model), model.get_env())


def stackable() -> DummyVecEnv:
    return DummyVecEnv([Game])


def make_loaded() -> Any:
    model = make_model()
    model.env = None
    return model


@pytest.mark.parametrize(
    ("make", "env", "options", "message"),
    [
        (make_loaded, None, {}, "the model has no environment: load it with one"),
        (make_model, Game, {}, "the environment has Box(0, 255, (36, 36, 1), uint8): wrap it as in training"),
        (make_model, lambda: VecFrameStack(VecNormalize(stackable()), 4), {}, "a VecFrameStack is around VecNormalize"),
        (make_model, lambda: "Missing-v0", {}, "cannot make 'Missing-v0'"),
        (
            make_model,
            lambda: "ClarityParts-v0",
            {},
            "observations of 'ClarityParts-v0' are a Dict, not an image: ids are",
        ),
        (make_model, lambda: 3, {}, "a int is not a VecEnv"),
        (make_model, Game, {"noop_max": 3}, "noop_max: options of AtariWrapper apply only if env is the id of a game"),
        (make_model, lambda: "CartPole-v1", {"noop_max": 3}, "'CartPole-v1' is not an Atari game"),
        (lambda: "model.zip", None, {}, "a str is not a model of Stable-Baselines3"),
    ],
)
def test_unsuitable_environments_are_refused(make: Any, env: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ClarityError) as raised:
        sb3.environment(make(), env and env(), **options)
    assert message in str(raised.value)


def check_agreement(evaluation: Evaluation, own: list[float]) -> None:
    """Compare mean returns, within three standard errors of their difference."""
    error = np.hypot(evaluation.standard_error, np.std(own, ddof=1) / np.sqrt(len(own)))
    assert error > 0
    assert abs(evaluation.mean - np.mean(own)) < 3 * error


@pytest.mark.slow
def test_returns_in_breakout_equal_those_of_sb3(tmp_path: Path) -> None:
    """In its own environment episode by episode; from its zip, in this package's environment, within the error."""
    pytest.importorskip("ale_py")
    model = make_model(env=VecFrameStack(make_atari_env("BreakoutNoFrameskip-v4", n_envs=8), 4))
    with torch.no_grad():
        model.policy.action_net.weight.mul_(300)  # untrained, but its actions depend on the image
    model.get_env().seed(5)
    own, _ = evaluate_policy(model, model.get_env(), 16, deterministic=True, return_episode_rewards=True)
    assert sorted(evaluate(model, 16, deterministic=True).returns.tolist()) == sorted(own)
    model.save(tmp_path / "model.zip")
    options: dict[str, Any] = {"episodes": 24, "deterministic": True, "max_steps": 3000}
    evaluation = rl_clarity.evaluate(tmp_path / "model.zip", metadata={"env_name": "Breakout-v4"}, **options)[AGENT]
    assert not evaluation.cut, "the ball is served after a lost life"
    check_agreement(evaluation, own)


@pytest.mark.slow
def test_returns_in_minigrid_equal_those_of_sb3() -> None:
    """In its own environment, and in this package's, within the error."""
    pytest.importorskip("minigrid")
    from minigrid.wrappers import ImgObsWrapper

    class Cells(BaseFeaturesExtractor):
        """As in MiniGrid's documentation, smaller."""

        def __init__(self, space: Box) -> None:
            super().__init__(space, 64)
            self.net = nn.Sequential(nn.Conv2d(3, 8, 2), nn.ReLU(), nn.Conv2d(8, 16, 2), nn.ReLU(), nn.Flatten())
            self.last = nn.Sequential(nn.Linear(16 * 25, 64), nn.ReLU())

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return self.last(self.net(observations))

    def make(**arguments: Any) -> Any:
        return ImgObsWrapper(gymnasium.make("MiniGrid-Empty-Random-5x5-v0", **arguments))

    venv = DummyVecEnv([lambda: Monitor(make())] * 8)
    options: dict[str, Any] = {"policy_kwargs": {"features_extractor_class": Cells}, "seed": 0, "device": "cpu"}
    model = PPO("CnnPolicy", venv, n_steps=128, batch_size=256, **options)
    model.learn(8192)
    own, _ = evaluate_policy(model, venv, 64, deterministic=False, return_episode_rewards=True)
    assert np.mean(own) > 0.3
    check_agreement(evaluate(model, 64), own)
    spec = EnvironmentSpec("gymnasium", "MiniGrid-Empty-Random-5x5-v0", {"factory": make})
    check_agreement(rl_clarity.evaluate(sb3.agent(model), spec, episodes=64)[AGENT], own)
    venv.seed(5)
    own, _ = evaluate_policy(model, venv, 16, deterministic=True, return_episode_rewards=True)
    assert sorted(evaluate(model, 16, deterministic=True).returns.tolist()) == pytest.approx(sorted(own), abs=1e-5)

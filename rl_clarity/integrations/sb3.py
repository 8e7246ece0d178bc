"""Explain a model of Stable-Baselines3 or sb3-contrib that is in memory, in the environment that it was trained in.

    sb3.explain(model, "page")

`RecorderCallback` records episodes while a model learns.

The network computes what the library computes, with two differences for attribution: layers that policy and value share
are evaluated once for both, and gradients pass where the library stops them (`shared_lstm`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rl_clarity.agents import torch_mode
from rl_clarity.agents.actions import is_single_choice
from rl_clarity.agents.behavior import noise
from rl_clarity.agents.held_inputs import split_held
from rl_clarity.agents.torch_agent import TorchAgent
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from rl_clarity.commands.run import generate
from rl_clarity.environments.action_spaces import ActionSpace
from rl_clarity.environments.gymnasium_ import named_combos
from rl_clarity.environments.images import ImageLayout, image_layout
from rl_clarity.environments.protocol import Combo, Step
from rl_clarity.integrations.sb3_networks import (
    OWN_FORWARD,
    comparable_outputs,
    is_maskable,
    own_outputs,
    policy_factors,
    policy_network,
)
from rl_clarity.integrations.sb3_normalization import Normalization, without_normalization
from rl_clarity.pages.results import Page
from rl_clarity.recordings.collection import collect

if TYPE_CHECKING:
    from rl_clarity.integrations.sb3_callback import RecorderCallback as RecorderCallback

TOLERANCE = 1e-4
"""Largest allowed difference from the library's log probabilities and values, relative for values above 1."""


def explain(
    model: Any,
    output_dir: str | os.PathLike[str],
    env: Any = None,
    *,
    num_steps: int = 512,
    num_obs: int = 128,
    seed: int = 0,
    full_resolution: bool = False,
    channels_first: bool | None = None,
    value_range: tuple[float, float] | None = None,
    observation_names: Sequence[str] | None = None,
    **options: Any,
) -> Page:
    """Let a model play in its environment, and write the page that explains it. Return the page.

    This is the same as `generate(a, *collect(a, e), output_dir)` with the results `a` of `agent` and `e` of
    `environment`.

    Args:
        model: a model in memory, as for `agent`.
        output_dir: directory of the page.
        env: as for `environment`; by default the model's own environment.
        num_steps: as for `collect`.
        num_obs: as for `collect`.
        seed: seed of the environment, the actions and the page.
        full_resolution: as for `collect`.
        channels_first: as for `agent`.
        value_range: as for `agent`.
        observation_names: names of the elements of a vector observation; by default the environment's attribute
            `observation_names`, or "input 1", ...
        options: options of the page, as for `generate`.

    Raises what `agent`, `environment`, `collect` and `generate` raise.
    """
    layout: Any = {"channels_first": channels_first, "value_range": value_range}
    place = environment(model, env, seed=seed, **layout)
    layout["vec_normalize"] = _vec_normalize(env)
    names = place.observation_names if observation_names is None else observation_names
    played = agent(model, None if names is None else {"observation_names": list(names)}, **layout)
    samples = collect(played, place, num_steps, num_obs, seed=seed, full_resolution=full_resolution)
    return cast("Page", generate(played, *samples, Path(output_dir), seed=seed, **options))


def agent(
    model: Any,
    metadata: Mapping[str, Any] | None = None,
    *,
    channels_first: bool | None = None,
    value_range: tuple[float, float] | None = None,
    vec_normalize: Any = None,
    **options: Any,
) -> TorchAgent:
    """Return the agent of a model of PPO, A2C, TRPO, DQN, QRDQN, SAC, TQC, TD3, DDPG, RecurrentPPO or MaskablePPO.

    The model's features extractor may be of any class. The agent takes images (B, H, W, C) from 0 to 255, and converts
    them to the layout and the range of the model's observation space. Vectors (B, n) are not converted. If observations
    are a dictionary, its image is explained, and its numbers are held inputs (see `TorchAgent`). Action values of QRDQN
    are the means of the quantiles; logits of MaskablePPO are those before the mask. Outputs for actions in a `Box` are
    means (for SAC, TD3 and DDPG before the hyperbolic tangent), and for SAC and gSDE also logarithms of standard
    deviations. For SAC, TD3 and DDPG, the agent is the actor, which has no value.

    Args:
        model: a model in memory; an algorithm's `load` reads one from a zip.
        metadata: additional metadata, which override those of the model: `env_name`, `gamma`, `frame_stack`, ...
        channels_first: whether images are (C, H, W); needed if the channel axis is not the shortest.
        value_range: values of black and white; needed if the observation space is unbounded.
        vec_normalize: the `VecNormalize` whose statistics normalize observations; by default that of the model's
            environment. The agent takes observations that are not normalized, and normalizes them with the statistics
            at the time of this call.
        options: `device`, `batch_size` and `gradient_batch_size`, as in `TorchAgent`.

    Raises OptionError for any other algorithm, and for a policy whose class overrides how outputs are computed;
    EnvironmentSetupError for observations that are not images, and for actions in a Dict or Tuple space.
    """
    policy = _policy(model)
    factors = policy_factors(policy, model.action_space)
    normalization = Normalization.of(model, vec_normalize)
    layout = _layout(normalization, channels_first, value_range)
    module, network, initial_state = policy_network(policy)

    def observations(images: Any) -> Any:
        return normalization.apply(_observations(images, layout, normalization.space))

    def forward(module: Any, images: Any, state: Any) -> dict[str, Any]:
        return network(module, observations(images), state)

    result = TorchAgent(
        module,
        _observation_shape(layout),
        {**model_metadata(model, layout), **(metadata or {})},
        heads=("policy_logits",) if module is getattr(policy, "actor", None) else None,
        initial_state=initial_state,
        forward=forward,
        channels_first=False,
        input_divisor=1,
        actions=None if is_single_choice(factors) else factors,
        **options,
    )
    _check_outputs(result, policy, layout, observations)
    return result


def environment(
    model: Any,
    env: Any = None,
    *,
    num_envs: int = 8,
    seed: int = 0,
    channels_first: bool | None = None,
    value_range: tuple[float, float] | None = None,
    **atari_options: Any,
) -> SB3Environment:
    """Return the environment of a model, wrapped as in training, for `collect` and `evaluate`.

    `VecNormalize` is removed, because the agent normalizes observations. Rewards are still normalized, because the
    value predicts normalized rewards. Frame stacks, sticky actions, no-op starts, FIRE, episodes that end with a life,
    and clipped rewards are those of the environment's wrappers. `evaluate` returns the same as `evaluate_policy`: the
    returns of whole games, as `Monitor` reports them. Models of MaskablePPO choose among valid actions.

    Args:
        model: a model in memory.
        env: a `VecEnv`, a Gymnasium environment, or a Gymnasium id; by default the model's own environment
            (`PPO.load(path, env=env)`). For an id, `num_envs` environments are made with Stable-Baselines3's wrappers
            (`make_atari_env` or `make_vec_env`), and with as many stacked frames as the model takes.
        num_envs: number of environments that are made for an id.
        seed: seed of the first reset.
        channels_first: as in `agent`.
        value_range: as in `agent`.
        atari_options: options of `AtariWrapper`, for the id of an Atari game: `terminal_on_life_loss`, `noop_max`,
            `action_repeat_probability`, ...

    Raises EnvironmentSetupError if there is no environment, or if its observations do not fit the model; OptionError
    for `atari_options` without the id of an Atari game.
    """
    _policy(model)
    env = model.get_env() if env is None else env
    if env is None:
        raise EnvironmentSetupError(
            "the model has no environment: load it with one (PPO.load(path, env=env)), or call sb3.environment(model, "
            "env) with a VecEnv, a Gymnasium environment or an id such as 'BreakoutNoFrameskip-v4'"
        )
    if atari_options and not isinstance(env, str):
        raise OptionError(f"{', '.join(atari_options)}: options of AtariWrapper apply only if env is the id of a game")
    normalizer = _vec_normalize(env) or model.get_vec_normalize_env()
    layout = _layout(Normalization.of(model, normalizer), channels_first, value_range)
    venv = _vec_env(env, layout, num_envs, seed, atari_options)
    own = image_layout(venv.observation_space, channels_first=channels_first, value_range=value_range)
    if replace(own, axes=layout.axes) != layout:
        raise EnvironmentSetupError(
            f"the model was trained on observations {model.observation_space}, but the environment has "
            f"{venv.observation_space}: wrap it as in training (VecFrameStack, ...)"
        )
    masked = is_maskable(model.policy) and venv.has_attr("action_masks")
    return SB3Environment(venv, own, seed, masked=masked, normalizer=normalizer)


class SB3Environment:
    """Adapts a `VecEnv` with images of any layout to `VectorEnvironment`."""

    def __init__(
        self, venv: Any, layout: ImageLayout, seed: int, *, masked: bool = False, normalizer: Any = None
    ) -> None:
        from stable_baselines3.common.monitor import Monitor
        from stable_baselines3.common.vec_env import VecMonitor, is_vecenv_wrapped

        self._venv, self.layout, self._masked, self._normalizer = venv, layout, masked, normalizer
        self._monitored = is_vecenv_wrapped(venv, VecMonitor) or venv.env_is_wrapped(Monitor)[0]
        self._actions = ActionSpace(venv.action_space)
        self.num_actions, self.action_factors = self._actions.num_actions, self._actions.factors
        self.num_envs: int = venv.num_envs
        self.observation_shape = layout.shape
        self.action_combos = action_combos(venv, self.num_actions) if is_single_choice(self.action_factors) else ()
        named = venv.has_attr("observation_names")
        self.observation_names: Sequence[str] | None = venv.get_attr("observation_names")[0] if named else None
        venv.seed(seed)

    def reset(self) -> Step:
        if self._venv.has_attr("was_real_done"):  # otherwise EpisodicLifeEnv would continue a game that is not over
            self._venv.env_method("set_wrapper_attr", "was_real_done", True)
        seen = self._venv.reset()
        nothing, ones = np.zeros(self.num_envs, np.float32), np.ones(self.num_envs, bool)
        held = self.layout.held_inputs(seen)
        return Step(self._converted(seen), nothing, ones, ~ones, action_masks=self._action_masks(), held_inputs=held)

    def step(self, actions: np.ndarray) -> Step:
        observations, rewards, dones, infos = self._venv.step(self._actions.convert(actions))
        firsts = np.array(dones, bool)
        truncated = firsts & [bool(info.get("TimeLimit.truncated")) for info in infos]
        last = {int(i): self.layout.last(infos[i]["terminal_observation"]) for i in np.flatnonzero(firsts)}
        new_games, returns = None, None
        if self._monitored:  # `Monitor` is inside the wrappers that clip rewards and end an episode with each life
            new_games = firsts & ["episode" in info for info in infos]
            returns = np.array([info.get("episode", {}).get("r", np.nan) for info in infos], np.float64)
        rewards = rewards if self._normalizer is None else self._normalizer.normalize_reward(rewards)
        return Step(
            self._converted(observations),
            np.array(rewards, np.float32),
            firsts,
            truncated,
            {i: image for i, (image, _) in last.items()},
            new_games,
            returns,
            action_masks=self._action_masks(),
            held_inputs=self.layout.held_inputs(observations),
            final_held_inputs={i: held for i, (_, held) in last.items()},
        )

    def render(self) -> np.ndarray:
        """Return images (N, height, width, 3) uint8 of the current states, as the environments render them.

        Raises EnvironmentSetupError for environments without `render_mode="rgb_array"`.
        """
        frames = self._venv.get_images()
        if any(frame is None for frame in frames):
            raise EnvironmentSetupError("make the environments with render_mode='rgb_array' to render them")
        return np.stack(frames)

    def close(self) -> None:
        self._venv.close()

    def _action_masks(self) -> np.ndarray | None:
        return self._actions.masks(self._venv.env_method("action_masks")) if self._masked else None

    def _converted(self, observations: Any) -> np.ndarray:
        # Copy, because some environments reuse their array.
        return np.array(self.layout.convert(observations))


def action_combos(venv: Any, num_actions: int) -> tuple[Combo, ...]:
    """Return the buttons that each action of a `VecEnv` presses."""
    if venv.has_attr("get_action_meanings"):
        names = venv.env_method("get_action_meanings")[0]
    else:
        names = venv.get_attr("actions")[0] if venv.has_attr("actions") else None
    return named_combos(names, num_actions)


def __getattr__(name: str) -> Any:
    if name == "RecorderCallback":  # a subclass of the library's, which is imported when it is needed
        from rl_clarity.integrations.sb3_callback import RecorderCallback

        return RecorderCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _policy(model: Any) -> Any:
    if not hasattr(model, "get_vec_normalize_env"):
        raise OptionError(
            f"a {type(model).__name__} is not a model of Stable-Baselines3: pass what PPO(...) or PPO.load(path) "
            "returns; rl_clarity.load_agent(path) reads a zip without Stable-Baselines3"
        )
    return model.policy


def _layout(
    normalization: Normalization, channels_first: bool | None, value_range: tuple[float, float] | None
) -> ImageLayout:
    return image_layout(normalization.space, channels_first=channels_first, value_range=value_range)


def _vec_normalize(env: Any) -> Any:
    """Return the `VecNormalize` among the wrappers of an environment, or None."""
    from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

    return unwrap_vec_normalize(env) if isinstance(env, VecEnv) else None


def _observations(images: Any, layout: ImageLayout, space: Any) -> Any:
    """Convert a tensor of images (B, H, W, C) from 0 to 255 to observations (B, ...) of the model's space.

    If the space is a dictionary, `images` has the images and the held inputs by name.
    """
    if layout.key is not None:
        image = _observations(images[layout.key], replace(layout, key=None), space[layout.key])
        return {**images, layout.key: image}
    shape = space.shape
    ordered = images.reshape(len(images), *(shape[axis] for axis in layout.axes))
    observations = ordered.permute(0, *(int(axis) + 1 for axis in np.argsort(layout.axes))).contiguous()
    return observations if layout.is_uint8 else observations * ((layout.high - layout.low) / 255) + layout.low


def model_metadata(model: Any, layout: ImageLayout | None) -> dict[str, Any]:
    """Return metadata of a model's environment and training. `layout` is the layout of its images."""
    channels = 1 if layout is None or layout.is_vector else layout.shape[2]
    frames = 1 if channels in (1, 3) else channels // 3 if channels % 3 == 0 else channels
    metadata = {"library": "stable-baselines3", "network": type(model.policy).__name__, "frame_stack": frames}
    metadata |= {"gamma": getattr(model, "gamma", None), "lambda": getattr(model, "gae_lambda", None)}
    environments = getattr(getattr(model.env, "unwrapped", None), "envs", None)
    spec = environments[0].spec if environments else None
    metadata["env_name"] = None if spec is None else spec.id
    metadata["action_masks"] = is_maskable(model.policy) or None
    return {name: value for name, value in metadata.items() if value is not None}


def _observation_shape(layout: ImageLayout) -> Any:
    """Return the argument `observation_shape` for `TorchAgent`."""
    if layout.key is not None:
        return {layout.key: layout.shape, **layout.held}
    return layout.shape[2:] if layout.is_vector else layout.shape


def _check_outputs(agent: TorchAgent, policy: Any, layout: ImageLayout, observations: Callable[[Any], Any]) -> None:
    """Raise OptionError if the policy's methods compute different outputs from the agent, as user-defined ones may."""
    if agent.heads == ("q_values",):
        return
    import torch

    images = noise(agent, 2)
    outputs = agent.forward(images)
    memory, held = (
        [torch.as_tensor(part, device=agent.device) for part in parts]
        for parts in split_held(agent, agent.initial_state(2))
    )
    tensor = torch.as_tensor(images, device=agent.device).float()
    observed = tensor if layout.key is None else {layout.key: tensor, **dict(zip(layout.held, held, strict=True))}
    x = observations(observed)
    parts = [part.transpose(0, 1) for part in memory]
    ones = torch.ones(2, device=agent.device)
    recurrent = [[tuple(part.contiguous() for part in pair), ones] for pair in (parts[:2], parts[-2:]) if parts]
    with torch_mode.computing(policy), torch.no_grad():
        own = own_outputs(policy, x, recurrent)
    for name, expected in own.items():
        actual = torch.as_tensor(getattr(outputs, name))
        actual = comparable_outputs(actual, agent.action_factors) if name == "policy_logits" else actual
        if not torch.allclose(actual, expected.cpu().float(), rtol=TOLERANCE, atol=TOLERANCE):
            difference = float((actual - expected.cpu()).abs().max())
            raise OptionError(
                f"{type(policy).__name__} computes {name} in its own way: they differ by up to {difference:.3g} from "
                f"those of its features extractor and layers. {OWN_FORWARD}"
            )


def _vec_env(env: Any, layout: ImageLayout, num_envs: int, seed: int, atari_options: dict[str, Any]) -> Any:
    """Return a VecEnv for an id, an environment or a VecEnv."""
    import gymnasium
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

    if isinstance(env, str):
        return _make(env, layout, num_envs, seed, atari_options)
    if isinstance(env, gymnasium.Env):
        single = env
        return DummyVecEnv([lambda: Monitor(single)])
    if not isinstance(env, VecEnv):
        raise EnvironmentSetupError(
            f"a {type(env).__name__} is not a VecEnv of Stable-Baselines3, a Gymnasium environment, or the id of one"
        )
    return without_normalization(env)


def _make(name: str, layout: ImageLayout, num_envs: int, seed: int, atari_options: dict[str, Any]) -> Any:
    import gymnasium
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack

    with contextlib.suppress(ImportError):
        import ale_py  # noqa: F401  # registers Atari games
    try:
        if "ale_py" in str(gymnasium.spec(name).entry_point):
            venv = make_atari_env(name, n_envs=num_envs, seed=seed, wrapper_kwargs=atari_options)
        elif atari_options:
            raise OptionError(
                f"the options {', '.join(atari_options)} of AtariWrapper do not apply, because "
                f"{name!r} is not an Atari game"
            )
        else:
            check = None if layout.held else _check_image
            venv = make_vec_env(name, n_envs=num_envs, seed=seed, wrapper_class=check)
    except (gymnasium.error.Error, TypeError) as error:
        raise EnvironmentSetupError(f"cannot make {name!r} ({error}); pass an environment instead") from error
    frames = layout.shape[2] // image_layout(venv.observation_space).shape[2]
    return VecFrameStack(venv, frames) if frames > 1 else venv


def _check_image(env: Any) -> Any:
    """Return the environment. Raises EnvironmentSetupError if observations are dictionaries or tuples, as in
    MiniGrid.
    """
    space = env.observation_space
    if hasattr(space, "spaces"):
        raise EnvironmentSetupError(
            f"observations of {env.spec.id!r} are a {type(space).__name__}, not an image: ids are for environments "
            "with image observations. Wrap the environment as in training (for MiniGrid, ImgObsWrapper), and pass the "
            "wrapped environment: sb3.environment(model, env)"
        )
    return env

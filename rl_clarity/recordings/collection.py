"""`rl_clarity.collect` lets an agent act in an existing environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require, uses_action_masks
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.recordings.rollouts import Player, Progress, collect_observations, collect_trajectories
from rl_clarity.recordings.samples import Observations, Trajectories


def collect(
    agent: Player,
    env: Any,
    num_steps: int = 512,
    num_obs: int = 128,
    *,
    obs_every: int = 24,
    seed: int = 0,
    full_resolution: bool = False,
    channels_first: bool | None = None,
    value_range: tuple[float, float] | None = None,
    progress: Progress | None = None,
) -> tuple[Trajectories, Observations]:
    """Let an agent act in an environment; `generate(agent, *collect(agent, env), output_dir)` explains the result.

    Args:
        agent: the agent, whose `preprocess` receives images (N, H, W, C) uint8. Float images are scaled from the bounds
            of the observation space to the range 0 to 255
        env: a Gymnasium environment, a Gymnasium vector environment (any autoreset mode) or a
            `rl_clarity.environments.VectorEnvironment`. Observations are images (H, W), (H, W, C), (C, H, W) or a stack
            of these, whose channels are concatenated; vectors (n,); or dictionaries of an image and numbers. The action
            space must match the agent's actions: `Discrete`, `MultiDiscrete`, `MultiBinary` or a `Box`. The environment
            is reset, but not closed. If the agent's metadata contain `action_masks`, the environment's method
            `action_masks` must return which actions are valid
        num_steps: steps of each trajectory; there is one trajectory for each environment
        num_obs: number of extra observations that are collected afterwards from each environment
        obs_every: steps between extra observations
        seed: seed of the environment's first reset and of the actions, which are sampled from the policy (greedy for
            action values)
        full_resolution: also keep the frames that the environment renders (`render_mode="rgb_array"`), and show these
        channels_first: whether images are (C, H, W); by default, the shorter of the first and the last axis is that of
            the channels
        value_range: the values (black, white), if they differ from the bounds of the observation space
        progress: a function that is called with the number of finished environment steps and the total, first for the
            trajectories, then for the observations

    For a truncated episode, `Trajectories.final_values` has the value of its final state. States of a recurrent agent
    are those before each step, reset at the start of an episode. Raises OptionError for an invalid agent,
    EnvironmentSetupError or SamplesError if environment and agent do not match (all are ValueErrors).
    """
    require(agent, *PLAYING, for_="collect")
    if num_steps < 1 or num_obs < 1 or obs_every < 1:
        raise OptionError(f"num_steps={num_steps}, num_obs={num_obs} and obs_every={obs_every} must be at least 1")
    reading = {"channels_first": channels_first, "value_range": value_range, "action_masks": uses_action_masks(agent)}
    environment = as_vector_environment(env, seed, full_resolution=full_resolution, **reading)
    rngs = [np.random.default_rng([seed % 2**63, stream]) for stream in range(2)]
    options: Any = {"full_resolution": full_resolution, "progress": progress}
    trajectories = collect_trajectories(agent, environment, num_steps, rngs[0], **options)
    observations = collect_observations(agent, environment, num_obs, obs_every, rngs[1], **options)
    return dataclasses.replace(trajectories, action_combos=environment.action_combos), observations


def as_vector_environment(env: Any, seed: int, **options: Any) -> VectorEnvironment:
    """Wrap a Gymnasium environment as a `VectorEnvironment`. An environment that already follows this protocol is
    returned unchanged. Raises EnvironmentSetupError for other objects.
    """
    import gymnasium

    from rl_clarity.environments.gymnasium_ import GymnasiumEnvironment
    from rl_clarity.environments.gymnasium_vector import GymnasiumVectorEnvironment

    if isinstance(env, gymnasium.Env):
        return GymnasiumEnvironment([env], seed, **options)
    if isinstance(env, gymnasium.vector.VectorEnv):
        return GymnasiumVectorEnvironment(env, seed, **options)
    required = ("num_envs", "num_actions", "observation_shape", "action_combos", "reset", "step")
    missing = [name for name in required if not hasattr(env, name)]
    if missing:
        raise EnvironmentSetupError(
            f"{type(env).__name__} is not a Gymnasium environment (gymnasium.Env, gymnasium.vector.VectorEnv), and "
            f"lacks {', '.join(missing)} of the protocol rl_clarity.environments.VectorEnvironment. For a VecEnv of "
            "Stable-Baselines3, use rl_clarity.integrations.sb3.environment(model, env); for an environment of the old "
            "gym package, use shimmy.GymV21CompatibilityV0(env=env) or GymV26CompatibilityV0(env=env)"
        )
    environment: VectorEnvironment = env
    return environment

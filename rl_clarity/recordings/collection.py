"""Letting an agent play in an environment that is at hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.errors import EnvironmentSetupError, OptionError
from rl_clarity.recordings.players import Player
from rl_clarity.recordings.rollouts import Progress, collect_observations, collect_trajectories
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
    """Let an agent play in an environment, and keep what `generate(agent, *collect(agent, env), output_dir)` takes.

    Parameters
    ----------
    agent: its `preprocess` is given the images as (N, H, W, C) uint8, floats spread over 0 to 255 by the space's bounds
    env: a Gymnasium environment, a Gymnasium vector environment (of any autoreset mode) or a
        `rl_clarity.environments.VectorEnvironment`, with discrete actions and images: (H, W), (H, W, C), (C, H, W) or a
        stack of these, whose pictures' channels then follow one another. It is reset, and left open
    num_steps: steps of each trajectory, one an environment
    num_obs, obs_every: then as many more observations of each environment, as many steps apart, to find features on
    seed: of the environment's first reset and of the actions, drawn from the policy (the best ones of action values)
    full_resolution: also keep what the environment renders (`render_mode="rgb_array"`), and show that
    channels_first: where an image's channels are, if their axis is not the shortest
    value_range: (black, white), if the space has no bounds
    progress: called with the number of environment steps done and of all, twice from the beginning

    An episode that time cut (truncated, not terminated) is told apart: `Trajectories.final_values` has the value of the
    state that it was cut in. States of a recurrent agent are kept from before each step, begun anew with an episode.
    Raises OptionError for what is no agent, and EnvironmentSetupError or SamplesError where environment and agent do
    not fit (all of them ValueErrors).
    """
    require(agent, *PLAYING, for_="collect")
    if num_steps < 1 or num_obs < 1 or obs_every < 1:
        raise OptionError(f"num_steps={num_steps}, num_obs={num_obs} and obs_every={obs_every} must be at least 1")
    layout = {"channels_first": channels_first, "value_range": value_range}
    environment = as_vector_environment(env, seed, full_resolution=full_resolution, **layout)
    rngs = [np.random.default_rng([seed % 2**63, stream]) for stream in range(2)]
    shown: Any = {"full_resolution": full_resolution, "progress": progress}
    trajectories = collect_trajectories(agent, environment, num_steps, rngs[0], **shown)
    observations = collect_observations(agent, environment, num_obs, obs_every, rngs[1], **shown)
    return dataclasses.replace(trajectories, action_combos=environment.action_combos), observations


def as_vector_environment(env: Any, seed: int, **layout: Any) -> VectorEnvironment:
    """An environment of Gymnasium's by our protocol; what follows that already, as it is."""
    import gymnasium

    from rl_clarity.environments.gymnasium_ import GymnasiumEnvironment
    from rl_clarity.environments.gymnasium_vector import GymnasiumVectorEnvironment

    if isinstance(env, gymnasium.Env):
        return GymnasiumEnvironment([env], seed, **layout)
    if isinstance(env, gymnasium.vector.VectorEnv):
        return GymnasiumVectorEnvironment(env, seed, **layout)
    needed = ("num_envs", "num_actions", "observation_shape", "action_combos", "reset", "step")
    missing = [name for name in needed if not hasattr(env, name)]
    if missing:
        raise EnvironmentSetupError(
            f"a {type(env).__name__} is no environment of Gymnasium's (gymnasium.Env, gymnasium.vector.VectorEnv), and "
            f"lacks {', '.join(missing)} of rl_clarity.environments.VectorEnvironment. For one of the older gym: "
            "shimmy.GymV21CompatibilityV0(env=env) or GymV26CompatibilityV0(env=env)"
        )
    found: VectorEnvironment = env
    return found

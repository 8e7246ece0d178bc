"""Play episodes for the debugger, and save the states of the environment."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.recordings.rollouts import collect_trajectories
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.recordings.world_states import WorldStatesWriter


def play_sample(agent: Agent, spec: EnvironmentSpec, num_envs: int, num_steps: int, seed: int = 0) -> Trajectories:
    """Let an agent play, and return its trajectories, with the states of the environment if these can be saved."""
    levels, actions = np.random.SeedSequence([seed, 4]).generate_state(2)
    try:
        states = WorldStatesWriter(spec, num_envs)
    except WorldError:
        states = None
    with closing(make(spec, num_envs, int(levels % 2**31))) as environment:
        played = collect_trajectories(agent, environment, num_steps, np.random.default_rng(actions), states=states)
        return replace(played, action_combos=environment.action_combos)

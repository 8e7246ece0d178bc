"""Make `models/NAME.samples.npz`: samples of an agent, for `make demo` without Procgen.

python scripts/make_samples.py coinrun
"""

from __future__ import annotations

import sys

import numpy as np

from rl_clarity import formats
from rl_clarity.base.quiet import import_keras
from rl_clarity.base.resources import models_directory
from rl_clarity.commands.demo import OBSERVATIONS, TRAJECTORIES
from rl_clarity.environments import make, spec_from_metadata
from rl_clarity.formats.included import path_of
from rl_clarity.recordings.rollouts import collect_observations, collect_trajectories

VARIED = 256


def main(name: str) -> None:
    """Sample a shipped agent."""
    import_keras()
    agent = formats.load_agent(path_of(name))
    spec = spec_from_metadata(agent.metadata, num_actions=agent.num_actions)
    environment = make(spec, TRAJECTORIES["num_envs"], seed=0)
    trajectories = collect_trajectories(agent, environment, TRAJECTORIES["num_steps"], np.random.default_rng([0, 0]))
    varied = make(spec, OBSERVATIONS["num_envs"], seed=100)
    count = VARIED // OBSERVATIONS["num_envs"]
    observations = collect_observations(agent, varied, count, OBSERVATIONS["obs_every"], np.random.default_rng([0, 1]))
    np.savez_compressed(
        models_directory() / f"{name}.samples.npz",
        observations=trajectories.observations,
        actions=trajectories.actions.astype(np.int32),
        rewards=trajectories.rewards,
        firsts=trajectories.firsts,
        varied=observations.observations,
        action_combos=np.array(["+".join(combo) for combo in environment.action_combos]),
    )
    environment.close()
    varied.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

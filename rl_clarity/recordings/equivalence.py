"""Find actions that have the same effect, by trying each of them from the same states of the environment."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

import numpy as np

from rl_clarity.environments.protocol import Resumable, Step, VectorEnvironment, snapshot
from rl_clarity.recordings.rollouts import Player, play

STATES = 192
APART = 12
"""Number of steps between the states in which actions are compared."""
REPEATS = 4
"""Number of steps for which an action is repeated, because some effects, such as a change of speed, appear later."""


def find_equivalent_actions(
    agent: Player, environment: VectorEnvironment, rng: np.random.Generator, states: int = STATES
) -> list[list[int]] | None:
    """Return groups of two or more actions after which frames, rewards and ends of episodes were always the same.

    The agent plays, and every `APART` steps each action is repeated from the same snapshot of the environments. Actions
    can still differ in states that were not reached. Returns None if the environment cannot save its state.

    Args:
        states: number of states in which actions are compared, counted over all environments
    """
    groups = [[*range(environment.num_actions)]]
    moments = islice(play(agent, environment, rng), APART - 1, APART * -(-states // environment.num_envs), APART)
    for _ in moments:
        state = snapshot(environment)
        if state is None:
            return None
        assert isinstance(environment, Resumable)
        parts: list[list[int]] = []
        for group in groups:
            outcomes: dict[bytes, list[int]] = defaultdict(list)
            for action in group:
                outcomes[_outcome(environment, action)].append(action)
                environment.restore(state)
            parts += outcomes.values()
        groups = [part for part in parts if len(part) > 1]
        if not groups:
            break
    return sorted(groups)


def _outcome(environment: VectorEnvironment, action: int) -> bytes:
    """Return the observations, rewards and ends of episodes while all environments repeat an action, as bytes."""
    actions = np.full(environment.num_envs, action)
    return b"".join(_bytes(environment.step(actions)) for _ in range(REPEATS))


def _bytes(step: Step) -> bytes:
    return step.observations.tobytes() + step.rewards.tobytes() + step.firsts.tobytes()

"""Play unseen levels of CoinRun with a network, one episode per level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.environments.procgen import LEVELS as ALL_LEVELS
from scripts.coinrun.network import Clear, outputs
from scripts.coinrun.search import LEVELS, NOOP, SavedGames, open_games

TIME_LIMIT = 1000
"""Steps after which Procgen ends an episode."""


@dataclass(frozen=True)
class Played:
    """Episodes on unseen levels."""

    completed: float
    """Share of the levels that were completed."""
    steps: float
    """Mean length."""
    explained_variance: float
    """Share of the variance of discounted returns that the values explain."""


def play_unseen(
    network: Clear,
    episodes: int,
    *,
    discount: float,
    reward: float = 1.0,
    greedy: bool = False,
    seed: int = 0,
    limit: int = TIME_LIMIT,
) -> Played:
    """Play levels that are not for training, and return how it went. Actions are sampled, or `greedy`.

    `discount`, and the reward of a completed level, are those of the network's values.
    """
    rng = np.random.default_rng(seed)
    unseen = open_games(episodes, seed, start_level=LEVELS, num_levels=ALL_LEVELS - LEVELS)
    games = SavedGames(unseen)
    values: list[list[float]] = [[] for _ in range(episodes)]
    won, playing = np.zeros(episodes, bool), np.arange(episodes)
    for _ in range(limit):
        policy, value = outputs(network, games.frames()[playing])
        for i, predicted in zip(playing.tolist(), value.tolist(), strict=True):
            values[i].append(predicted)
        actions = np.full(episodes, NOOP)
        actions[playing] = policy.argmax(1) if greedy else sampled(policy, rng)
        rewards, firsts = games.step(actions)
        won[playing] |= rewards[playing] > 0
        playing = playing[~firsts[playing]]
        if not len(playing):
            break
    games.games.close()
    predictions = np.concatenate(values)
    returns = np.concatenate(
        [w * reward * discount ** np.arange(len(v))[::-1] for w, v in zip(won, values, strict=True)]
    )
    explained = 1 - np.var(returns - predictions) / max(float(np.var(returns)), 1e-12)
    return Played(float(won.mean()), float(np.mean([len(v) for v in values])), float(explained))


def sampled(policy: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an action (B,) drawn from each policy (B, A)."""
    drawn = rng.random((len(policy), 1)) < np.cumsum(policy, axis=1)
    drawn[:, -1] = True
    return drawn.argmax(1)

"""Play levels of CoinRun with a network, one episode per level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rl_clarity.environments.procgen import LEVELS as ALL_LEVELS
from rl_clarity.ppo.trainer import explained_variance
from scripts.coinrun.network import Clear, mixed_precision
from scripts.coinrun.search import LEVELS, NOOP, SavedGames, open_games

TIME_LIMIT = 1000
"""Number of steps after which Procgen ends an episode."""
UNSEEN = {"start_level": LEVELS, "num_levels": ALL_LEVELS - LEVELS}
"""Levels that are not used for training."""


@dataclass(frozen=True)
class Episodes:
    """Episodes that a network played."""

    won: np.ndarray
    """(N,) whether the level was completed."""
    features: list[np.ndarray]
    """Activations (T, 512) of the last hidden layer, for each episode."""

    def returns(self, discount: float, reward: float) -> np.ndarray:
        """Return the discounted returns of all frames, if completing a level gives this reward."""
        remaining = [np.arange(len(features))[::-1] for features in self.features]
        return np.concatenate([w * reward * discount**steps for w, steps in zip(self.won, remaining, strict=True)])


@dataclass(frozen=True)
class Played:
    """Results of episodes on unseen levels."""

    completed: float
    """Share of the levels that were completed."""
    steps: float
    """Mean length of the episodes, in steps."""
    explained_variance: float
    """Share of the variance of discounted returns that the values explain."""


def play(
    network: Clear, count: int, *, greedy: bool = False, seed: int = 0, limit: int = TIME_LIMIT, **levels: int
) -> Episodes:
    """Play episodes, by default on training levels. Actions are sampled, or `greedy`."""
    rng = np.random.default_rng(seed)
    games = SavedGames(open_games(count, seed, **levels))
    features: list[list[np.ndarray]] = [[] for _ in range(count)]
    won, playing = np.zeros(count, bool), np.arange(count)
    for _ in range(limit):
        with torch.inference_mode(), mixed_precision():
            hidden = network.features(torch.from_numpy(games.frames()[playing]))
            policy = torch.softmax(network.heads[0](hidden).float(), 1).numpy()
        for i, row in zip(playing.tolist(), hidden.float().numpy(), strict=True):
            features[i].append(row)
        actions = np.full(count, NOOP)
        actions[playing] = policy.argmax(1) if greedy else sampled(policy, rng)
        rewards, firsts = games.step(actions)
        won[playing] |= rewards[playing] > 0
        playing = playing[~firsts[playing]]
        if not len(playing):
            break
    games.games.close()
    return Episodes(won, [np.stack(rows) for rows in features])


def play_unseen(
    network: Clear,
    count: int,
    *,
    discount: float,
    reward: float = 1.0,
    greedy: bool = False,
    seed: int = 0,
    limit: int = TIME_LIMIT,
) -> Played:
    """Play levels that are not used for training, and return the results. Actions are sampled, or `greedy`.

    `discount`, and the `reward` for completing a level, are those of the network's values.
    """
    episodes = play(network, count, greedy=greedy, seed=seed, limit=limit, **UNSEEN)
    returns = episodes.returns(discount, reward)
    with torch.inference_mode():
        values = network.heads[1](torch.from_numpy(np.concatenate(episodes.features)))[:, 0].numpy()
    steps = float(np.mean([len(features) for features in episodes.features]))
    return Played(float(episodes.won.mean()), steps, explained_variance(values, returns))


def sampled(policy: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an action (B,) drawn from each policy (B, A)."""
    drawn = rng.random((len(policy), 1)) < np.cumsum(policy, axis=1)
    drawn[:, -1] = True
    return drawn.argmax(1)

"""Collect frames of CoinRun with the searcher's actions, which a network learns to imitate.

First the searcher plays, with some random actions. Then the network plays, and the searcher takes over for a few steps
from states of these episodes, mostly from states before a failure (DAgger, Ross et al. 2011,
https://arxiv.org/abs/1011.0686).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scripts.coinrun.data import NO_ACTION, NO_END, SHARD, Shard
from scripts.coinrun.evaluate import sampled
from scripts.coinrun.network import Clear, outputs
from scripts.coinrun.search import ACTIONS, LEVELS, SavedGames, Searcher, open_games

EXECUTED = (3, 8)
"""Smallest and largest number of steps of a plan that are executed, and labeled with the plan's actions."""
RANDOM = 0.06
"""Probability that a random action is executed instead of the label."""
GAMES = 16
"""Number of games that the network plays in parallel."""
STUCK = 200
"""Number of steps after which an episode of the network counts as failed."""
BEFORE_FAILURE, FAILURE_LABELS, WON_LABELS = 25, 10, 2
"""Number of last steps of a failed episode from which states are chosen; number of states that are chosen from a failed
episode, and from a won one."""
VALUED = 8
"""Every eighth frame of the network's episodes is stored, with the outcome of the episode."""


def search_shard(seed: int, levels: int = LEVELS) -> dict[str, np.ndarray]:
    """Let the searcher play some of the first `levels` levels, and return the arrays of a file."""
    rng, shard = np.random.default_rng(seed), Shard()
    searcher, game = Searcher(seed), SavedGames(open_games(1, seed, num_levels=levels))
    while len(shard) < SHARD:
        _take_over(shard, searcher, game, rng)
    searcher.close()
    game.games.close()
    return shard.arrays()


def network_shard(network: Clear, seed: int, levels: int = LEVELS) -> dict[str, np.ndarray]:
    """Let the network play, and the searcher take over at some states. Return the arrays of a file."""
    rng, shard = np.random.default_rng(seed), Shard()
    searcher, game = Searcher(seed), SavedGames(open_games(1, seed, num_levels=levels))
    for states, frames, won in episodes(network, rng, seed, levels):
        for step in range(int(rng.integers(VALUED)), len(frames), VALUED):
            remaining = len(frames) - 1 - step
            shard.add(frames=frames[step], actions=NO_ACTION, critical=False, won=won, remaining=remaining)
        first = 0 if won or len(states) >= STUCK else max(0, len(states) - BEFORE_FAILURE)
        count = min(len(states) - first, WON_LABELS if won else FAILURE_LABELS)
        for step in rng.choice(np.arange(first, len(states)), count, replace=False):
            game.restore(0, states[step])
            _take_over(shard, searcher, game, rng)
        if len(shard) >= SHARD:
            break
    searcher.close()
    game.games.close()
    return shard.arrays()


def episodes(
    network: Clear, rng: np.random.Generator, seed: int, levels: int
) -> Iterator[tuple[list[bytes], list[np.ndarray], bool]]:
    """Yield, for each episode of the network, states and frames of its steps, and whether it completed its level."""
    games = SavedGames(open_games(GAMES, seed + 500_000, num_levels=levels))
    states: list[list[bytes]] = [[] for _ in range(GAMES)]
    frames: list[list[np.ndarray]] = [[] for _ in range(GAMES)]
    try:
        while True:
            observed = games.frames()
            for i in range(GAMES):
                states[i].append(games.state(i))
                frames[i].append(observed[i])
            actions = sampled(outputs(network, observed)[0], rng)
            actions[[len(part) >= STUCK for part in states]] = -1  # ends the episode
            rewards, firsts = games.step(actions)
            for i in np.flatnonzero(firsts).tolist():
                yield states[i], frames[i], bool(rewards[i] > 0)
                states[i], frames[i] = [], []
    finally:
        games.games.close()


def _take_over(shard: Shard, searcher: Searcher, game: SavedGames, rng: np.random.Generator) -> None:
    """Let the searcher play some steps of a game, and add their frames with its actions to the shard.

    Frames have no label if the searcher found no way to survive.
    """
    plan = searcher.plan(game.state(0))
    executed = int(rng.integers(EXECUTED[0], EXECUTED[1] + 1))
    for action, critical in zip(plan.actions[:executed], plan.critical, strict=False):
        label = action if plan.survives else NO_ACTION
        shard.add(frames=game.frames()[0], actions=label, critical=critical, won=False, remaining=NO_END)
        slipped = rng.random() < RANDOM
        _, firsts = game.step(np.array([rng.choice(ACTIONS) if slipped else action]))
        if slipped or firsts[0]:
            break

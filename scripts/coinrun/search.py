"""A searcher that plays CoinRun by trying sequences of actions from the saved state of the game.

It sees the future, since the game is deterministic: a saved state and a sequence of actions always lead to the same
end. So its choices are made robust: the best sequences are tried again with delays and wrong actions, and the one that
survives most often is taken. A network that imitates it makes such mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.environments.procgen import STATE_BYTES, ProcgenOptions, _procgen
from rl_clarity.environments.procgen_state import X, Y, read_state

LEVELS = 100_000
"""Levels from 0 to this are for training, all later ones for evaluation."""
HORIZON = 24
"""Steps of a sequence."""
CANDIDATES, REPEATS = 8, 8
"""Sequences that are tried for each first action, and how often the best of them is tried again."""
LEFT_UP, NOOP, UP, RIGHT, RIGHT_UP = 2, 4, 5, 7, 8
ACTIONS = np.array([1, LEFT_UP, NOOP, UP, RIGHT, RIGHT_UP])
PROBABILITIES = np.array([0.06, 0.06, 0.06, 0.06, 0.38, 0.38])
CHANGE = 0.22
"""Probability that a random sequence changes its action at a step."""
CHANGE_COST, UP_COST = 0.1, 0.03
"""Scores of a change of action, and of a step with `up`, which has an effect on the ground only. Of sequences that are
equally good, the simplest is the easiest to imitate, and jumps have a reason."""
HEIGHT = 0.05
"""Score of a cell of height, if that of a cell to the right is 1."""
SLIP = 0.06
"""Probability that a step of a repetition has a random action."""


def open_games(count: int, seed: int, *, start_level: int = 0, num_levels: int = LEVELS) -> Any:
    """Make games of CoinRun (easy levels) that draw the player's velocity in a corner, as the paper's do.

    A network without memory cannot see otherwise whether a jump has just begun or is about to end.
    """
    options = ProcgenOptions(
        distribution_mode="easy", start_level=start_level, num_levels=num_levels, num_threads=0, paint_vel_info=True
    ).arguments("coinrun")
    return _procgen().ProcgenGym3Env(count, "coinrun", rand_seed=seed, **options)


class SavedGames:
    """Games whose states are saved and restored one by one."""

    def __init__(self, games: Any) -> None:
        self.games = games
        self._buffer = games._ffi.new(f"char[{STATE_BYTES}]")

    def state(self, index: int) -> bytes:
        length = self.games.call_c_func("get_state", index, self._buffer, STATE_BYTES)
        return bytes(self.games._ffi.buffer(self._buffer, length))

    def restore(self, index: int, state: bytes) -> None:
        self.games.call_c_func("set_state", index, state, len(state))

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take a step. Return the rewards (N,) and whether an episode begins (N,)."""
        self.games.act(np.asarray(actions, np.int32))
        rewards, _, firsts = self.games.observe()
        return rewards, firsts

    def frames(self) -> np.ndarray:
        """Return the observations (N, 64, 64, 3) uint8 of the current states."""
        return np.array(self.games.observe()[1]["rgb"])


@dataclass(frozen=True)
class Plan:
    """The sequence that a search chose."""

    actions: np.ndarray  # (HORIZON,)
    score: float
    """Score of the sequence as planned: above 0 if the player survives it."""
    values: np.ndarray  # (6,): for each of `ACTIONS`, the mean score of its best sequence with mistakes


class Searcher:
    """Random shooting (held actions, mostly to the right) from saved states."""

    def __init__(self, seed: int = 0) -> None:
        self._count = len(ACTIONS) * max(CANDIDATES, REPEATS)
        self._games = SavedGames(open_games(self._count, seed))
        self._rng = np.random.default_rng(seed)

    def plan(self, state: bytes) -> Plan:
        """Return the best sequence of the first action that is best in spite of mistakes."""
        candidates = random_sequences(self._rng)  # (6, CANDIDATES, HORIZON)
        costs = CHANGE_COST * (np.diff(candidates) != 0).sum(axis=2)
        costs += UP_COST * np.isin(candidates, (LEFT_UP, UP, RIGHT_UP)).sum(axis=2)
        scores = self.scores(state, candidates.reshape(-1, HORIZON)).reshape(costs.shape)
        best = (scores - costs).argmax(axis=1)
        each = np.arange(len(ACTIONS))
        repeated = with_mistakes(candidates[each, best], self._rng)  # (6, REPEATS, HORIZON)
        robust = self.scores(state, repeated.reshape(-1, HORIZON)).reshape(-1, REPEATS)
        values = (robust.sum(axis=1) + scores[each, best]) / (REPEATS + 1) - costs[each, best]
        chosen = int(values.argmax())
        return Plan(candidates[chosen, best[chosen]], float(scores[chosen, best[chosen]]), values)

    def scores(self, state: bytes, sequences: np.ndarray) -> np.ndarray:
        """Return a score (n,) for each sequence (n, steps) of actions from a state.

        Completing the level is worth 60 less a tenth for every step, surviving the cells of progress to the right plus
        one; dying costs 30, less a tenth for every step before.
        """
        count, steps = sequences.shape
        for i in range(count):
            self._games.restore(i, state)
        start = _position(state)
        scores = np.full(count, np.nan)
        actions = np.full(self._count, NOOP)
        for step in range(steps):
            actions[:count] = sequences[:, step]
            rewards, firsts = self._games.step(actions)
            ended = firsts[:count] & np.isnan(scores)
            scores[ended] = np.where(rewards[:count][ended] > 0, 60 - 0.1 * step, -30 + 0.1 * step)
            if not np.isnan(scores).any():
                break
        for i in np.flatnonzero(np.isnan(scores)).tolist():
            progress = _position(self._games.state(i)) - start
            scores[i] = max(progress[0] + HEIGHT * progress[1], -10) + 11
        return scores

    def close(self) -> None:
        self._games.games.close()


def random_sequences(rng: np.random.Generator) -> np.ndarray:
    """Return sequences (6, CANDIDATES, HORIZON) for each first action, whose actions are held for a random time.

    Those of the first three do the same at once for all first actions: they go to the right, and jump later or hold up.
    """
    shape = len(ACTIONS), CANDIDATES, HORIZON
    drawn = rng.choice(ACTIONS, size=shape, p=PROBABILITIES)
    drawn[:, :3] = RIGHT
    drawn[:, 1, 4:6] = RIGHT_UP
    drawn[:, 2] = RIGHT_UP
    drawn[:, :, 0] = ACTIONS[:, None]
    changes = rng.random(shape) < CHANGE
    changes[:, :3] = True
    changes[:, :, 0] = True
    return _held(drawn, changes)


def with_mistakes(sequences: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return sequences (n, REPEATS, HORIZON) with random actions, and one step too late or too early, as a network
    plays. The first action stays, and the mistakes are the same for all sequences.
    """
    steps = np.arange(HORIZON) + rng.choice([-1, 0, 1], size=(REPEATS, 1))
    shifted = sequences[:, np.clip(steps, 0, HORIZON - 1)]
    slips = rng.random(steps.shape) < SLIP
    mistaken = np.where(slips, rng.choice(ACTIONS, size=steps.shape), shifted)
    mistaken[:, :, 0] = sequences[:, None, 0]
    return mistaken


def _held(drawn: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Return the action drawn at the last change, for each step."""
    last = np.maximum.accumulate(np.where(changes, np.arange(drawn.shape[-1]), 0), axis=-1)
    return np.take_along_axis(drawn, last, axis=-1)


def _position(state: bytes) -> np.ndarray:
    read = read_state(state)
    return np.asarray(read.boxes[read.player][[X, Y]], np.float64)


def plays(searcher: Searcher, games: Sequence[int], executed: int = 6) -> list[bool]:
    """Return whether the searcher completes unseen levels."""
    results = []
    for level in games:
        game = SavedGames(open_games(1, 0, start_level=level, num_levels=1))
        over = False
        while not over:
            for action in searcher.plan(game.state(0)).actions[:executed]:
                rewards, firsts = game.step(np.array([action]))
                if firsts[0]:
                    over = True
                    results.append(bool(rewards[0] > 0))
                    break
        game.games.close()
    return results

"""A searcher that plays CoinRun by trying sequences of actions from the saved state of the game.

It can look ahead, because the game is deterministic: a saved state and a sequence of actions always give the same
result. A network can imitate the searcher only if its actions can be predicted from the frame. So it runs to the right
as long as this succeeds, and jumps a few steps before the last possible moment. If a jump at full speed succeeds from
few steps only, it brakes in the air, with which a jump succeeds from more steps. It tries other actions only if none of
this succeeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.environments.procgen import STATE_BYTES, ProcgenOptions, _procgen
from rl_clarity.environments.procgen_state import VY, X, Y, read_state

LEVELS = 100_000
"""Levels below this number are for training, all others for evaluation."""
HORIZON = 30
"""Number of steps of a sequence: a run of ten steps, a jump of sixteen, and a few steps after the landing."""
JUMPS = 11
"""Number of first steps of a run at one of which its jump begins."""
SLACK = 3
"""Number of steps before the last possible moment at which the searcher jumps. A network may then jump a little late or
early."""
RUN = 4
"""Number of steps of a run without a jump that are taken before the next search."""
AFTER_JUMP = 4
"""Number of steps that are taken after a jump from the ground. The player is in the air for sixteen steps, or fewer if
it lands on higher ground."""
MARGIN = 1.5
"""A sequence is good if its progress is at most this many cells less than that of the best one."""
DELAY = 0.5
"""Progress, in cells, that waiting for the last moment may cost."""
ALIVE = 11
"""Score of a sequence after which the player is alive, without any progress."""
LEFT, LEFT_UP, NOOP, UP, RIGHT, RIGHT_UP = 1, 2, 4, 5, 7, 8
ACTIONS = np.array([LEFT, LEFT_UP, NOOP, UP, RIGHT, RIGHT_UP])
PROBABILITIES = np.array([0.06, 0.06, 0.06, 0.06, 0.38, 0.38])
LONG = 3
"""The searcher prefers to jump in a series of at least this many successive steps, from each of which a jump
succeeds."""
AIR = 15
"""Largest number of steps that the player is in the air."""
AIR_ACTIONS = (RIGHT, NOOP, LEFT)
"""Actions with different effects in the air, where `up` has none. The first of equally good ones is taken."""
BRAKES = [(action, wait) for action in (NOOP, LEFT) for wait in (1, 5, 9)]
"""Ways to brake in a jump: an action (`NOOP`, `LEFT`) instead of moving to the right, and the number of steps after the
jump begins at which it replaces moving to the right."""
RANDOM = 48
"""Number of random sequences that are tried if nothing else succeeds."""
CHANGE = 0.22
"""Probability that a random sequence changes its action at a step."""
CHANGE_COST, UP_COST = 0.1, 0.03
"""Costs of a change of action, and of a step with `up`, which has an effect only on the ground. Of equally good random
sequences, the simplest is the easiest to imitate."""
FEW = 5
"""If a jump at full speed succeeds from fewer steps than this, jumps with brakes are tried, too."""
HEIGHT = 0.05
"""Score of a cell upward, relative to that of a cell to the right."""


def open_games(count: int, seed: int, *, start_level: int = 0, num_levels: int = LEVELS) -> Any:
    """Make games of CoinRun (easy levels) that draw the player's velocity in a corner, as in the paper.

    Otherwise, a network without memory could not see whether a jump has just begun or is about to end.
    """
    options = ProcgenOptions(
        distribution_mode="easy", start_level=start_level, num_levels=num_levels, num_threads=0, paint_vel_info=True
    ).arguments("coinrun")
    return _procgen().ProcgenGym3Env(count, "coinrun", rand_seed=seed, **options)


class SavedGames:
    """Games whose states can be saved and restored individually."""

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
    """The actions that the searcher chose."""

    actions: np.ndarray  # (n,)
    survives: bool
    critical: np.ndarray  # (n,) bool
    """Whether each action is the only one that succeeds: it runs on where a jump would fail, or jumps where running on
    would fail."""


class Searcher:
    """Plans actions by trying sequences from saved states: runs with one jump, then jumps with brakes, and random
    sequences if none of these succeeds.
    """

    def __init__(self, seed: int = 0) -> None:
        self._runs, self._braked, self._falls = runs(), braked_jumps(), falls()
        self._count = max(len(self._runs), RANDOM)
        self._games = SavedGames(open_games(self._count, seed))
        self._rng = np.random.default_rng(seed)

    def plan(self, state: bytes) -> Plan:
        """Return the plan for a state."""
        scores, blocked = self.scores(state, self._runs)
        good = scores >= max(scores.max() - MARGIN, 0)
        if good[0] and not blocked:
            return Plan(self._runs[0, :RUN], True, ~good[1:].reshape(2, JUMPS).any(axis=0)[:RUN])
        in_air = _player(state, VY)[0] != 0
        good_jump = good[1:].reshape(2, JUMPS).any(axis=0)
        if in_air and not good_jump.any():
            return self._fall(state)
        braked = np.zeros((len(BRAKES), JUMPS), bool)
        if not in_air and not blocked and good_jump.sum() < FEW:
            braked = self.scores(state, self._braked.reshape(-1, AIR + JUMPS))[0].reshape(braked.shape) > ALIVE
        possible = good_jump | braked.any(axis=0)
        if not possible.any() or (blocked and not possible[0]):
            return self._random(state)
        first, last = jump_window(possible)
        step = 0 if blocked else last - min(SLACK, (last - first + 1) // 2)
        jumps = scores[1:].reshape(2, JUMPS)
        if good_jump[first] and good_jump[step] and jumps[:, first].max() - jumps[:, step].max() > DELAY:
            step = first
        chosen = self._runs[1 + step] if good_jump[step] else self._braked[braked[:, step].argmax(), step]
        after = 0 if in_air else AFTER_JUMP  # in the air, the jump is one at the landing
        can_wait = bool(good[0] or possible[step + 1 :].any())
        critical = np.concatenate([~possible[:step], [not can_wait], np.full(after, not good_jump[step])])
        return Plan(chosen[: step + 1 + after], True, critical)

    def scores(self, state: bytes, sequences: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return a score (n,) for each sequence (n, steps) of actions from a state, and whether the player is blocked:
        the first step of the first sequence does not move it.

        Completing the level scores 60, minus 0.1 for every step before. Surviving scores `ALIVE` plus the progress in
        cells, and at least 1. Dying scores -30, plus 0.1 for every step before.
        """
        count, steps = sequences.shape
        if count > self._count:
            parts = [self.scores(state, sequences[i : i + self._count]) for i in range(0, count, self._count)]
            return np.concatenate([part for part, _ in parts]), parts[0][1]
        for i in range(count):
            self._games.restore(i, state)
        start, blocked = _player(state, X, Y), False
        scores = np.full(count, np.nan)
        actions = np.full(self._count, NOOP)
        for step in range(steps):
            actions[:count] = sequences[:, step]
            rewards, firsts = self._games.step(actions)
            ended = firsts[:count] & np.isnan(scores)
            scores[ended] = np.where(rewards[:count][ended] > 0, 60 - 0.1 * step, -30 + 0.1 * step)
            if step == 0 and not ended[0]:
                blocked = bool(abs(_player(self._games.state(0), X, Y) - start).max() < 0.02)
            if not np.isnan(scores).any():
                break
        for i in np.flatnonzero(np.isnan(scores)).tolist():
            progress = _player(self._games.state(i), X, Y) - start
            scores[i] = max(progress[0] + HEIGHT * progress[1], 1 - ALIVE) + ALIVE
        return scores, blocked

    def close(self) -> None:
        self._games.games.close()

    def _fall(self, state: bytes) -> Plan:
        """Return a plan for landing if moving to the right fails: the action with which most successful sequences
        begin.
        """
        scores, _ = self.scores(state, self._falls)
        good = scores > 0
        if not good.any():
            return self._random(state)
        action = max(AIR_ACTIONS, key=lambda action: good[self._falls[:, 0] == action].sum())
        return Plan(np.full(2, action), True, np.ones(2, bool))

    def _random(self, state: bytes) -> Plan:
        """Return the best of several random sequences, in which actions are held for random times."""
        drawn = self._rng.choice(ACTIONS, size=(RANDOM, HORIZON), p=PROBABILITIES)
        changes = self._rng.random(drawn.shape) < CHANGE
        changes[:, 0] = True
        last = np.maximum.accumulate(np.where(changes, np.arange(HORIZON), 0), axis=1)
        sequences = np.take_along_axis(drawn, last, axis=1)
        scores, _ = self.scores(state, sequences)
        costs = CHANGE_COST * (np.diff(sequences) != 0).sum(axis=1)
        costs += UP_COST * np.isin(sequences, (LEFT_UP, UP, RIGHT_UP)).sum(axis=1)
        best = int((scores - costs).argmax())
        actions = sequences[best, : RUN + AFTER_JUMP]
        return Plan(actions, bool(scores[best] > 0), np.ones(len(actions), bool))


def runs() -> np.ndarray:
    """Return sequences (1 + 2 * JUMPS, HORIZON): a run without a jump, runs with one jump, and runs that, after a step,
    jump whenever the player is on the ground.
    """
    sequences = np.full((1 + 2 * JUMPS, HORIZON), RIGHT)
    for step in range(JUMPS):
        sequences[1 + step, step] = RIGHT_UP
        sequences[1 + JUMPS + step, step:] = RIGHT_UP
    return sequences


def braked_jumps() -> np.ndarray:
    """Return runs (brakes, JUMPS, steps) with a jump in which the player brakes in the air, and then stands still."""
    sequences = np.full((len(BRAKES), JUMPS, AIR + JUMPS), NOOP)
    for (action, wait), rows in zip(BRAKES, sequences, strict=True):
        for step, row in enumerate(rows):
            row[: step + wait], row[step], row[step + wait : step + AIR] = RIGHT, RIGHT_UP, action
    return sequences


def falls() -> np.ndarray:
    """Return sequences (n, steps) of at most two different actions in the air, after which the player stands still."""
    parts = [(first, wait, second) for first in AIR_ACTIONS for wait in (3, 6, 10) for second in AIR_ACTIONS]
    sequences = np.full((len(parts), AIR + 5), NOOP)
    for (first, wait, second), row in zip(parts, sequences, strict=True):
        row[:wait], row[wait:AIR] = first, second
    return sequences


def jump_window(possible: np.ndarray) -> tuple[int, int]:
    """Return the first and the last step of the first series of at least `LONG` successive possible steps, or of the
    longest series if all are shorter.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], possible, [False]]).astype(int))).reshape(-1, 2)
    lengths = np.minimum(edges[:, 1] - edges[:, 0], LONG)
    first, end = edges[int(lengths.argmax())].tolist()
    return first, end - 1


def _player(state: bytes, *columns: int) -> np.ndarray:
    """Return columns of the player's box, such as `X`, `Y` and `VY`."""
    read = read_state(state)
    return np.asarray(read.boxes[read.player][[*columns]], np.float64)


def plays(searcher: Searcher, levels: Sequence[int], most_searches: int = 200) -> list[bool]:
    """Return whether the searcher completes each level, within a number of searches."""
    return [_completes(searcher, level, most_searches) for level in levels]


def _completes(searcher: Searcher, level: int, most_searches: int) -> bool:
    game = SavedGames(open_games(1, 0, start_level=level, num_levels=1))
    with closing(game.games):
        for _ in range(most_searches):
            for action in searcher.plan(game.state(0)).actions:
                rewards, firsts = game.step(action[None])
                if firsts[0]:
                    return bool(rewards[0] > 0)
    return False

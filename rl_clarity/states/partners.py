"""Choose partners of an episode at a step: other episodes with different states, which replace its state."""

from __future__ import annotations

import numpy as np

from rl_clarity.states.data import StateData

PARTNERS = 4
FAR = 0.5
"""Smallest difference of a partner's state, as a share of the largest difference of any candidate's state."""
CANDIDATES = 256
"""Largest number of episodes among which partners are chosen."""


class Partners:
    """Finds partners: other episodes of a recording that reach the same step, and whose states before it differ.

    Args:
        data: The states of the recording.
        seed: Seed of the choice of 256 candidates, in recordings of more episodes.
    """

    def __init__(self, data: StateData, seed: int = 0) -> None:
        self._data = data
        lengths = data.length[data.starts]
        longer = np.flatnonzero(lengths > 1)
        chosen = np.random.default_rng(seed).choice(longer, min(len(longer), CANDIDATES), replace=False)
        self._starts = data.starts[np.sort(chosen)]
        self.scale = np.maximum(np.ptp(data.states, axis=0), 1e-9)
        """(H,) the range of each unit."""

    def rows(self, row: int, count: int) -> np.ndarray:
        """Return rows of at most `count` other episodes at the same step, or no rows if no other episode reaches this
        step.

        The states at these rows differ strongly from the state at `row`, and from each other.
        """
        data, step = self._data, self._data.time[row]
        possible = self._starts[data.length[self._starts] > step] + step
        possible = possible[data.episode[possible] != data.episode[row]]
        if not len(possible):
            return possible
        return possible[_different((data.states[possible] - data.states[row]) / self.scale, count)]


def _different(differences: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of at most `count` large differences (n, H) that also differ from each other.

    The first is the largest. Each further one is the farthest from those already chosen, among differences that are at
    least half as large as the largest. Thus, partners do not all differ from the state in the same way.
    """
    sizes = np.linalg.norm(differences, axis=1)
    large = np.flatnonzero(sizes >= FAR * sizes.max())
    chosen = [int(large[sizes[large].argmax()])]
    distance = np.full(len(large), np.inf)
    while len(chosen) < min(count, len(large)):
        distance = np.minimum(distance, np.linalg.norm(differences[large] - differences[chosen[-1]], axis=1))
        distance[np.isin(large, chosen)] = -1
        chosen.append(int(large[distance.argmax()]))
    return np.array(chosen)


def over_partners(changes: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and standard deviations over partners, which are along `axis`. They are NaN where there is no
    partner.
    """
    known = np.isfinite(changes)
    with np.errstate(invalid="ignore"):  # 0 / 0 where there is no partner
        count = known.sum(axis=axis)
        mean = changes.sum(axis=axis, where=known, dtype=np.float64) / count
        squares = np.square(changes - np.expand_dims(mean, axis)).sum(axis=axis, where=known)
        return mean, np.sqrt(squares / count)

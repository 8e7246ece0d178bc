"""The moments at which things went much better or much worse than the agent expected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bookmarks:
    """Moments (trajectory, step), strongest first, at most one of each kind an episode."""

    high: np.ndarray  # (n, 2) int64: highest advantages, all positive
    low: np.ndarray  # (m, 2) int64: lowest advantages, all negative


def bookmarks(advantages: np.ndarray, firsts: np.ndarray, count: int = 16) -> Bookmarks:
    """Find the `count` strongest moments of each sign, from advantages (N, T) and firsts (N, T).

    Each episode offers the step of its highest advantage, if that is positive, and of its lowest, if negative; what
    precedes the first episode's beginning, and what the end cuts short, are episodes too.
    """
    advantages = np.asarray(advantages)
    return Bookmarks(_strongest(advantages, firsts, count), _strongest(-advantages, firsts, count))


def _strongest(strengths: np.ndarray, firsts: np.ndarray, count: int) -> np.ndarray:
    found = []
    for trajectory, (row, begins) in enumerate(zip(strengths, np.asarray(firsts, bool), strict=True)):
        starts = np.unique([0, *np.flatnonzero(begins)])
        for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
            step = start + int(np.argmax(row[start:end]))
            if row[step] > 0:
                found.append((trajectory, step))
    moments = np.array(found, np.int64).reshape(-1, 2)
    order = np.argsort(-strengths[moments[:, 0], moments[:, 1]], kind="stable")
    return moments[order[:count]]

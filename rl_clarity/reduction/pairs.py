"""Directions of what an object adds to a layer, from activations with and without it.

The differences D = with - without (N, H) have the second moment S = D^T D / N, and rows that should not change, such as
the differences of other objects, have the second moment R. The directions are the first generalized eigenvectors of

    S v = lambda (R / tr R + RIDGE / H) v,

in which the differences are largest relative to the other rows (Fukunaga 1990, "Introduction to Statistical Pattern
Recognition", chapter 10). Without other rows, they are the first right singular vectors of D.
"""

from __future__ import annotations

import numpy as np

from rl_clarity.base.errors import OptionError

RIDGE = 1.0
"""Weight of the ridge, which treats all dimensions alike, relative to the weight of the other rows."""


def pair_directions(
    differences: np.ndarray, count: int, others: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal directions (D, H), the most specific first, and the shares (D,) of the squared differences
    along them.

    There are `count` directions, or fewer if the differences span fewer dimensions. The mean difference along each
    direction is not negative.

    Args:
        differences: (N, H), with minus without
        count: largest number of directions
        others: (M, H), rows that should not change

    Raises OptionError for differences that are all 0.
    """
    differences = np.asarray(differences, np.float64)
    moment, width = differences.T @ differences / len(differences), differences.shape[1]
    total = float(np.trace(moment))
    if not total > 0:
        raise OptionError("the activations with and without the object are the same: they have no directions")
    values, axes = np.linalg.eigh(moment)
    axes = axes[:, values > 1e-10 * values[-1]]  # (H, rank): what differences consist of
    noise = np.eye(width) * RIDGE / width
    if others is not None:
        rest = np.asarray(others, np.float64)
        rest = rest.T @ rest
        if np.trace(rest) > 0:
            noise = noise + rest / np.trace(rest)
    root = np.linalg.cholesky(axes.T @ noise @ axes)
    whitened = np.linalg.solve(root, np.linalg.solve(root, axes.T @ moment @ axes).T)
    order = np.linalg.eigh((whitened + whitened.T) / 2)[1][:, ::-1][:, :count]
    found = np.linalg.qr(axes @ np.linalg.solve(root.T, order))[0].T  # (D, H)
    found *= np.where(differences.mean(axis=0) @ found.T < 0, -1.0, 1.0)[:, None]
    return found, np.einsum("dh,hk,dk->d", found, moment, found) / total

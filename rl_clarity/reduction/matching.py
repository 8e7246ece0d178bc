"""Identify components, and match those of different fits, so that a feature keeps its number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

SIMILAR = 0.8
"""Smallest cosine similarity at which components of two fits count as the same feature."""
DIGITS = 12
ROUNDED = 3
"""Number of decimals to which a unit vector is rounded for its id."""


@dataclass(frozen=True)
class MatchedFeature:
    """The counterpart of a feature in another fit."""

    number: int
    """Number of the feature in the other fit, counted from 1."""
    similarity: float
    """Cosine similarity of the components, at least 0.8."""


def feature_ids(layer: str, components: np.ndarray) -> list[str]:
    """Return an id (12 hexadecimal digits) of each component (K, c) of a layer, from its rounded direction.

    Equal components have the same id, whatever their number. To compare similar ones, use `match_components`.
    """
    rounded = np.round(unit_rows(components), ROUNDED) + 0.0  # no negative zeros
    seen = [f"{layer}\0".encode() + np.ascontiguousarray(row, "<f8").tobytes() for row in rounded]
    return [hashlib.sha256(data).hexdigest()[:DIGITS] for data in seen]


def match_components(components: np.ndarray, others: np.ndarray) -> list[MatchedFeature | None]:
    """Return the counterpart of each component (K, c) among others (L, c), or None.

    Components are matched one to one so that the sum of their cosine similarities is largest (the Hungarian method).
    Matches with a similarity below 0.8 are discarded.
    """
    from scipy.optimize import linear_sum_assignment

    similarity = unit_rows(components) @ unit_rows(others).T
    found: list[MatchedFeature | None] = [None] * len(components)
    for row, column in zip(*linear_sum_assignment(similarity, maximize=True), strict=True):
        if similarity[row, column] >= SIMILAR:
            found[row] = MatchedFeature(int(column) + 1, min(1.0, float(similarity[row, column])))
    return found


def matched_order(matches: list[MatchedFeature | None]) -> list[int]:
    """Return an order of K components, as indices, in which matched components have the numbers of their matches.

    A matched component gets the number of its match if that is at most K. The others fill the free positions in order.
    """
    count = len(matches)
    places = {match.number - 1: k for k, match in enumerate(matches) if match is not None and match.number <= count}
    left = iter([k for k in range(count) if k not in places.values()])
    return [places[place] if place in places else next(left) for place in range(count)]


def unit_rows(components: np.ndarray) -> np.ndarray:
    """Return the rows (K, c) scaled to a norm of 1. Rows of zeros stay zero."""
    norms = np.linalg.norm(components.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(components / np.where(norms > 0, norms, 1))

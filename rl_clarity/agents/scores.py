"""Convert scores to weights of a network's outputs, and pad batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.actions import Categorical, Factor, greedy_columns
from rl_clarity.agents.protocol import Outputs, Score
from rl_clarity.base.errors import OptionError

SMALLEST_BATCH, SMALLEST_GRADIENT_BATCH = 8, 16
"""Smaller batches are padded, because their results would differ in the last bits (seen for gradients of 8 rows)."""


def select_scores(
    scores: Sequence[Score],
    heads: Mapping[str, int],
    count: int,
    results: Callable[[], np.ndarray],
    actions: Sequence[Factor] = (),
) -> np.ndarray:
    """Return the weights (B, S, n) with which S scores are computed from the n outputs of all heads, side by side, for
    B observations.

    Args:
        scores: see `protocol.Score`
        heads: number of outputs of `policy_logits` and `values`, `policy_logits` alone, or `q_values`, in the network's
            order
        count: B, the number of observations
        results: returns the outputs (B, n) at the observations. "greedy" is the best action there, and stays the same
            at other points of a path
        actions: the factors of an action; by default a single choice among all actions

    Raises OptionError for an unknown score.
    """
    if len(scores) == 0:
        raise OptionError(f"outputs={scores!r} is empty: at least one output is needed")
    weights = np.zeros((count, len(scores), sum(heads.values())), np.float32)
    for i, score in enumerate(scores):
        if isinstance(score, Mapping):
            if not score:
                raise OptionError(f"output {score!r} is empty: at least one weight is needed")
            terms = [(term, weight) for term, weight in score.items()]
        else:
            terms = [(term, 1) for term in ([score] if isinstance(score, str) else _indices(score))]
        for term, weight in terms:
            for column in _columns(term, heads, results, actions):
                weights[np.arange(count), i, column] += np.asarray(weight, np.float32)
    return weights


def action_scores(outputs: Outputs) -> np.ndarray:
    """Return the logits (B, A) of outputs, or the action values of an agent without logits.

    Raises ValueError for outputs with neither.
    """
    scores = outputs.q_values if outputs.policy_logits is None else outputs.policy_logits
    if scores is None:
        raise ValueError("an agent's outputs must have policy_logits or q_values")
    return scores


def rows_of_score(score: Score, rows: slice | np.ndarray, size: int) -> Score:
    """Return the score for the observations `rows`. Arrays of weights are indexed and padded to `size`."""
    if not isinstance(score, Mapping):
        return score
    return {term: w if np.ndim(w) == 0 else pad(np.asarray(w)[rows], size) for term, w in score.items()}


def padded_size(count: int, size: int, least: int) -> int:
    """Return the number of rows to which `count` rows are padded: the next power of two, at least `least` and at most
    `size`. With few sizes, functions are compiled for few shapes.
    """
    return min(size, max(least, 1 << max(count - 1, 0).bit_length()))


def pad(array: np.ndarray, size: int) -> np.ndarray:
    """Return the array padded to `size` rows by repeating it, or with zeros if it is empty."""
    array = np.asarray(array)
    return array if len(array) == size else np.resize(array, (size, *array.shape[1:]))


def _indices(score: Any) -> list[int]:
    """Return the action indices of a score that is an index or a sequence of indices."""
    try:
        array = np.asarray(score)
    except ValueError:  # numpy refuses sequences of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "iu" or array.ndim > 1 or array.size == 0:
        raise OptionError(f"output {score!r} is not 'value', an action's index or a sequence of indices")
    return [int(index) for index in np.atleast_1d(array)]


def _columns(
    term: Any, heads: Mapping[str, int], results: Callable[[], np.ndarray], factors: Sequence[Factor]
) -> list[Any]:
    """Return the columns of a term of a score, each as an index for all observations or an array with one index per
    observation.
    """
    starts = dict(zip(heads, np.cumsum([0, *heads.values()]).tolist(), strict=False))
    actions = "q_values" if "q_values" in heads else "policy_logits"
    start, num_actions = starts[actions], heads[actions]
    if not isinstance(term, str):
        indices = _indices(term)
        if any(not 0 <= index < num_actions for index in indices):
            raise OptionError(f"output {term!r} is not an action: the agent has the actions 0 to {num_actions - 1}")
        return [start + index for index in indices]
    if term == "value" and "values" in heads:
        return [starts["values"]]
    if term == "greedy" and "values" not in heads:
        outputs = results()[:, start : start + num_actions]
        return [start + column for column in greedy_columns(outputs, factors or (Categorical(num_actions),)).T]
    known = "'value'" if "values" in heads else "'greedy'"
    raise OptionError(
        f"unknown output {term!r}; outputs of this agent are {known}, an action's index, or a sequence of indices"
    )

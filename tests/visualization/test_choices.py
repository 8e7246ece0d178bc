import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rl_clarity.visualization.choices import limit_repeats


def spread_slowly(values: np.ndarray, limit: int) -> list[int]:
    """The rule, cell by cell."""
    ranking = np.argsort(-values, axis=1, kind="stable")
    chosen = ranking[:, 0].tolist()
    for rank in range(1, values.shape[1]):
        used = [chosen.count(option) for option in range(values.shape[1])]
        strengths = [values[cell, option] for cell, option in enumerate(chosen)]
        before = list(chosen)
        for cell in sorted(range(len(chosen)), key=lambda cell: strengths[cell]):
            option = before[cell]
            if used[option] > limit:
                used[option] -= 1
                chosen[cell] = int(ranking[cell, rank])
        if chosen == before:
            break
    return chosen


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 12)).flatmap(
        lambda shape: arrays(np.float32, shape, elements=st.integers(-2, 6).map(lambda number: number / 2))
    ),
    st.integers(1, 5),
)
def test_the_rule_for_repeats(values: np.ndarray, limit: int) -> None:
    best = values.argmax(axis=1)
    choices, strengths = limit_repeats(best, values.max(axis=1), values.__getitem__, values.shape[1], limit)
    assert choices.tolist() == spread_slowly(values, limit)
    np.testing.assert_array_equal(strengths, np.take_along_axis(values, choices[:, None], axis=1)[:, 0])


def test_deep_ranks_are_found() -> None:
    rng = np.random.default_rng(1)
    common = np.sort(rng.random(300))  # every cell likes the same options
    values = (common + rng.random((600, 300)) * 1e-4).astype(np.float32)
    choices, _ = limit_repeats(values.argmax(axis=1), values.max(axis=1), values.__getitem__, 300, 2)
    assert choices.tolist() == spread_slowly(values, 2)
    assert np.bincount(choices).max() <= math.ceil(600 / 300)


def test_what_is_given_is_not_changed() -> None:
    values = np.ones((6, 3), np.float32)
    best, strengths = values.argmax(axis=1), values.max(axis=1)
    limit_repeats(best, strengths, values.__getitem__, 3, 1)
    assert (best == 0).all()
    assert (strengths == 1).all()

"""Features keep their identity: ids from their directions, and numbers of an earlier fit."""

from __future__ import annotations

import numpy as np

from rl_clarity.reduction.matching import feature_ids, match_components, matched_order

RNG = np.random.default_rng(0)
COMPONENTS = np.eye(5, 8) + 0.1 * RNG.random((5, 8))


def test_feature_ids_depend_only_on_layer_and_direction() -> None:
    ids = feature_ids("2b", COMPONENTS)
    assert len(set(ids)) == 5
    assert all(len(one) == 12 and int(one, 16) >= 0 for one in ids)
    order = [3, 1, 0, 4, 2]
    assert feature_ids("2b", 7 * COMPONENTS[order].astype(np.float32)) == [ids[k] for k in order]
    assert not set(ids) & set(feature_ids("3a", COMPONENTS))
    assert feature_ids("2b", np.array([[0.0, 1.0]])) == feature_ids("2b", np.array([[-0.0, 1.0]]))


def test_components_are_matched_one_to_one_above_a_similarity_of_0_8() -> None:
    others = np.concatenate([COMPONENTS[[4, 2]] + 0.05 * RNG.random((2, 8)), np.eye(8)[[7]]])
    found = match_components(COMPONENTS, others)
    assert [one and one.number for one in found] == [None, None, 2, None, 1]
    assert all(one is None or 0.8 <= one.similarity <= 1 for one in found)
    threshold = np.array([[1.0, np.sqrt(1 / 0.79**2 - 1)]])  # a cosine of .79
    assert match_components(np.array([[1.0, 0.0]]), threshold) == [None]


def test_matched_components_keep_their_numbers_and_new_ones_fill_the_rest() -> None:
    earlier = np.concatenate([COMPONENTS[[2, 0]], np.eye(8)[[7]], COMPONENTS[[3]]])
    order = matched_order(match_components(COMPONENTS, earlier))
    assert order == [2, 0, 1, 3, 4]
    far = np.concatenate([np.eye(8)[[5, 6, 7]], COMPONENTS[[1]]])  # number 4 of two is out of range
    assert matched_order(match_components(COMPONENTS[:2], far)) == [0, 1]

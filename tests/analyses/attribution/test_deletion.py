"""Deletion and insertion: a map that shows what decides an output beats random orders; others do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.protocol import Outputs
from rl_clarity.analyses.attribution.deletion import (
    center_maps,
    compare_orders,
    deletion_area,
    pixel_ranks,
    random_maps,
)
from rl_clarity.base.errors import SamplesError

SQUARE = (slice(2, 8), slice(20, 26))
OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 1), np.uint8)


class SquareAgent:
    """The value is the mean contrast of the pixels in a square."""

    num_actions = 2

    def activations(self, observations: np.ndarray, site: str, state: Any = None) -> np.ndarray:
        return np.asarray(observations, np.float32) / 255

    def forward(self, observations: np.ndarray, state: Any = None, *, read: Any = (), write: Any = None) -> Outputs:
        images = (write or {}).get("input", np.asarray(observations, np.float32) / 255)
        value = np.square(images[:, *SQUARE, 0] - 0.5).mean(axis=(1, 2))
        return Outputs(policy_logits=np.stack([value, -value], 1), values=value)


AGENT: Any = SquareAgent()


def square_maps() -> np.ndarray:
    maps = np.zeros((6, 32, 32))
    maps[:, *SQUARE] = 1
    return maps


@pytest.mark.parametrize("insertion", [False, True])
@pytest.mark.parametrize("output", ["policy", "value"])
def test_a_correct_saliency_map_beats_random_and_center_pixel_orders(insertion: bool, output: str) -> None:
    intervals = compare_orders(AGENT, OBSERVATIONS, square_maps(), output, insertion=insertion)
    assert intervals["area"].mean > 0.9
    assert intervals["above_random"].above_zero
    assert intervals["above_center"].above_zero


def test_a_wrong_saliency_map_is_worse_than_a_random_pixel_order(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals = compare_orders(AGENT, OBSERVATIONS, -square_maps(), "value")
    assert intervals["above_random"].high < 0


def test_a_random_saliency_map_is_as_good_as_a_random_pixel_order() -> None:
    maps = random_maps((6, 32, 32), np.random.default_rng(5))
    interval = compare_orders(AGENT, OBSERVATIONS, maps, "value")["above_random"]
    assert interval.low < 0 < interval.high
    assert interval == compare_orders(AGENT, OBSERVATIONS, maps, "value")["above_random"]


def test_pixel_ranks_are_a_permutation_in_descending_order_of_saliency() -> None:
    maps = np.array([[[1.0, 3.0], [2.0, 3.0]]])
    assert pixel_ranks(maps).tolist() == [[[3, 0], [2, 1]]]
    assert pixel_ranks(center_maps((1, 3, 3)))[0, 1, 1] == 0


def test_deletion_refuses_saliency_maps_of_the_wrong_shape() -> None:
    with pytest.raises(SamplesError, match="maps have the shape"):
        deletion_area(AGENT, OBSERVATIONS, np.zeros((6, 8, 8)))

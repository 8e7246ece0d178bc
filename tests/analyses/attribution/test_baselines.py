"""Baselines of attribution: zeros at the layer, zeros at the input, means, and activations of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.attribution import attribute, multi_path_attribution
from rl_clarity.analyses.attribution.baselines import layer_baseline
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction import ChannelReduction
from tests.fakes import TinyAgent


@pytest.fixture(params=["policy", "recurrent"])
def agent(request: pytest.FixtureRequest) -> TinyAgent:
    return TinyAgent(kind=request.param, observation_shape=(16, 16, 3))


OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8)


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "mean", "own"])
def test_attribution_adds_up_to_the_difference_from_the_baseline(agent: Any, baseline: Any) -> None:
    activations = agent.activations(OBSERVATIONS, "1a")
    expected = {
        "zero-layer": 0 * activations[:1],
        "zero-input": agent.activations(0 * OBSERVATIONS[:1], "1a"),
        "mean": activations.mean(axis=0, keepdims=True),
        "own": activations[::-1],
    }[baseline]
    given = expected if baseline == "own" else baseline
    result = attribute(agent, OBSERVATIONS, "1a", ["value", 1], steps=100, quadrature="midpoint", baseline=given)
    (tail,) = agent.tails(OBSERVATIONS, "1a", ["value", 1])
    difference = tail.scores() - tail.scores(np.resize(expected, activations.shape))
    np.testing.assert_allclose(result.totals, difference, atol=5e-3 * np.abs(difference).max())
    np.testing.assert_allclose(result.scores - result.scores_at_baseline, difference, atol=1e-6)


def test_paths_begin_at_the_baseline(agent: Any) -> None:
    reduction = ChannelReduction.fit(attribute(agent, OBSERVATIONS, "2a").values[0], 4)
    options: dict[str, Any] = {"steps": 100, "max_paths": 2, "baseline": "mean"}
    values = multi_path_attribution(agent, OBSERVATIONS, "2a", reduction, **options)
    single = attribute(agent, OBSERVATIONS, "2a", baseline="mean", steps=1)
    np.testing.assert_allclose(
        values.sum(axis=(1, 2, 3)), (single.scores - single.scores_at_baseline)[0], rtol=0.05, atol=0.02
    )


def test_an_array_for_each_layer_position_is_the_same_for_all_observations(agent: Any) -> None:
    mean = layer_baseline(agent, "mean", OBSERVATIONS, "1a")
    assert mean is not None
    for baseline in (mean, mean[0]):
        result = attribute(agent, OBSERVATIONS, "1a", baseline=baseline)
        assert np.array_equal(result.values, attribute(agent, OBSERVATIONS, "1a", baseline="mean").values)


@pytest.mark.parametrize(
    ("baseline", "words"), [("zero", "baseline='zero'.*zero-input"), (np.zeros((2, 2)), r"\(2, 2\)")]
)
def test_other_baselines_are_rejected(agent: Any, baseline: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        attribute(agent, OBSERVATIONS, "1a", baseline=baseline)

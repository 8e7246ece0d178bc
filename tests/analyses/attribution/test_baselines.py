"""Baselines of attribution: zeros at the layer, zeros at the input, means, and activations of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.analyses.attribution import attribute, multi_path_attribution
from rl_clarity.analyses.attribution.baselines import BASELINES, ExpectedBaseline, blurred, layer_baseline
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.reduction import ChannelReduction
from tests.fakes import TinyAgent
from tests.golden_data import Golden


@pytest.fixture(params=["policy", "recurrent"])
def agent(request: pytest.FixtureRequest) -> TinyAgent:
    return TinyAgent(kind=request.param, observation_shape=(16, 16, 3))


OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8)


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "mean", "blur", "median", "own"])
def test_attribution_adds_up_to_the_difference_from_the_baseline(agent: Any, baseline: Any) -> None:
    activations = agent.activations(OBSERVATIONS, "1a")
    expected = {
        "zero-layer": 0 * activations[:1],
        "zero-input": agent.activations(0 * OBSERVATIONS[:1], "1a"),
        "mean": activations.mean(axis=0, keepdims=True),
        "blur": agent.activations(blurred(OBSERVATIONS, 6 / 64), "1a"),
        "narrow-blur": agent.activations(blurred(OBSERVATIONS, 2 / 64), "1a"),
        "median": agent.activations(np.median(OBSERVATIONS, axis=0, keepdims=True).astype(np.uint8), "1a"),
        "own": activations[::-1],
    }[baseline]
    given = expected if baseline == "own" else baseline
    result = attribute(agent, OBSERVATIONS, "1a", ["value", 1], steps=100, quadrature="midpoint", baseline=given)
    (tail,) = agent.tails(OBSERVATIONS, "1a", ["value", 1])
    difference = tail.scores() - tail.scores(np.resize(expected, activations.shape))
    np.testing.assert_allclose(result.totals, difference, atol=5e-3 * np.abs(difference).max())
    np.testing.assert_allclose(result.scores - result.scores_at_baseline, difference, atol=1e-6)


def test_multi_path_attribution_adds_up_from_the_baseline(agent: Any) -> None:
    reduction = ChannelReduction.fit(attribute(agent, OBSERVATIONS, "2a").values[0], 4)
    options: dict[str, Any] = {"steps": 100, "max_paths": 2, "baseline": "mean"}
    values = multi_path_attribution(agent, OBSERVATIONS, "2a", reduction, **options)
    single = attribute(agent, OBSERVATIONS, "2a", baseline="mean", steps=1)
    np.testing.assert_allclose(
        values.sum(axis=(1, 2, 3)), (single.scores - single.scores_at_baseline)[0], rtol=0.05, atol=0.02
    )


def test_a_baseline_array_is_shared_by_all_observations(agent: Any) -> None:
    mean = layer_baseline(agent, "mean", OBSERVATIONS, "1a")
    assert isinstance(mean, np.ndarray)
    for baseline in (mean, mean[0]):
        result = attribute(agent, OBSERVATIONS, "1a", baseline=baseline)
        assert np.array_equal(result.values, attribute(agent, OBSERVATIONS, "1a", baseline="mean").values)


@pytest.mark.parametrize(
    ("baseline", "words"), [("zero", "baseline='zero'.*zero-input"), (np.zeros((2, 2)), r"\(2, 2\)")]
)
def test_invalid_baselines_are_rejected(agent: Any, baseline: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        attribute(agent, OBSERVATIONS, "1a", baseline=baseline)


def test_expected_gradients_add_up_to_the_difference_from_the_mean_output(agent: Any) -> None:
    beginnings = ExpectedBaseline(agent.activations(OBSERVATIONS[:2], "1a"))
    result = attribute(agent, OBSERVATIONS, "1a", ["value", 1], steps=200, quadrature="midpoint", baseline=beginnings)
    (tail,) = agent.tails(OBSERVATIONS, "1a", ["value", 1])
    shape = result.activations.shape
    expected = np.mean([tail.scores(np.resize(start, shape)) for start in beginnings.activations], axis=0)
    np.testing.assert_allclose(result.scores_at_baseline, expected, atol=1e-6)
    difference = result.scores - expected
    np.testing.assert_allclose(result.totals, difference, atol=5e-3 * np.abs(difference).max())
    single = [
        attribute(agent, OBSERVATIONS, "1a", ["value", 1], steps=200, baseline=start).values
        for start in beginnings.activations
    ]
    np.testing.assert_allclose(result.values, np.mean(single, axis=0), atol=0.02 * np.abs(result.values).max())


def linear_above_the_first_layer() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 14 * 14, 5)]
    return rl_clarity.TorchAgent(torch.nn.Sequential(*layers), observation_shape=(16, 16, 3), heads=("q_values",))


@pytest.mark.parametrize("rule", ["midpoint", "graded-midpoint"])
@pytest.mark.parametrize("baseline", BASELINES)
def test_attribution_to_linear_inputs_is_complete_with_few_steps(rule: str, baseline: str) -> None:
    result = attribute(
        linear_above_the_first_layer(), OBSERVATIONS, "1", [0, 3], steps=3, quadrature=rule, baseline=baseline
    )
    np.testing.assert_allclose(result.totals, result.scores - result.scores_at_baseline, atol=1e-5)


def test_expected_gradients_depend_on_the_seed_but_not_on_the_batch(agent: Any) -> None:
    others = np.random.default_rng(1).integers(0, 256, (9, 16, 16, 3), np.uint8)

    def values(seed: int, count: int = 5) -> np.ndarray:
        options: dict[str, Any] = {"baseline": "expected", "baseline_observations": others, "seed": seed}
        return attribute(agent, OBSERVATIONS[:count], "1a", steps=3, **options).values

    assert np.array_equal(values(1), values(1))
    assert not np.allclose(values(1), values(2))
    np.testing.assert_allclose(values(1)[:, :2], values(1, count=2), atol=1e-6)


@pytest.mark.parametrize("baseline", ["mean", "median", "expected"])
def test_baselines_are_computed_from_baseline_observations_if_passed(agent: Any, baseline: str) -> None:
    others = np.random.default_rng(1).integers(0, 256, (3, 16, 16, 3), np.uint8)
    steps: dict[str, Any] = {"steps": 3, "baseline": baseline}
    given = attribute(agent, OBSERVATIONS[:1], "1a", baseline_observations=others, **steps)
    activations = agent.activations(others, "1a")
    starts = {
        "mean": activations.mean(axis=0, keepdims=True),
        "median": agent.activations(np.median(others, axis=0, keepdims=True).astype(np.uint8), "1a"),
        "expected": activations[np.random.default_rng(0).permutation(3)],
    }[baseline]
    expected = attribute(
        agent, OBSERVATIONS[:1], "1a", steps=3, baseline=ExpectedBaseline(starts) if baseline == "expected" else starts
    )
    np.testing.assert_allclose(given.values, expected.values, atol=1e-6)
    assert not np.allclose(given.values, attribute(agent, OBSERVATIONS, "1a", **steps).values[:, :1])


def test_the_blur_baseline_keeps_constant_images_and_image_means() -> None:
    constant = np.full((1, 16, 24, 3), 77, np.uint8)
    assert np.array_equal(blurred(constant, 6 / 64), constant)
    dot = np.zeros((2, 16, 16, 2))
    dot[0, 8, 8, 1] = 100
    soft = blurred(dot, 6 / 64)
    assert soft.sum() == pytest.approx(100, rel=1e-3)
    assert soft[0, ..., 1].max() == soft[0, 8, 8, 1] < 10
    assert not soft[1].any()
    assert not soft[..., 0].any()


@pytest.mark.parametrize("golden", ["clear"], indirect=True)
@pytest.mark.parametrize("baseline", ["mean", "expected"])
def test_a_linear_prefix_hardly_changes_attribution(golden: Golden, baseline: str) -> None:
    agent = formats.load_agent(golden.checkpoint)
    observations = golden.expected["observations"][:4]
    plain, faster = (
        attribute(agent, observations, "1a", steps=20, baseline=baseline, linear_prefix=once).values
        for once in (False, True)
    )
    assert np.linalg.norm(plain - faster) < 0.01 * np.linalg.norm(plain)


def test_channels_first_observations_have_the_same_baselines() -> None:
    agent, first = linear_above_the_first_layer(), np.moveaxis(OBSERVATIONS, -1, 1)
    for baseline in BASELINES:
        last = attribute(agent, OBSERVATIONS, "1", [0], baseline=baseline).values
        np.testing.assert_allclose(attribute(agent, first, "1", [0], baseline=baseline).values, last, atol=1e-6)


@pytest.mark.parametrize("others", [np.zeros((0, 16, 16, 3), np.uint8), np.zeros((2, 16, 16, 1), np.uint8)])
def test_baseline_observations_of_the_wrong_shape_are_rejected(agent: Any, others: np.ndarray) -> None:
    with pytest.raises(SamplesError, match="baseline_observations have the shape"):
        attribute(agent, OBSERVATIONS, "1a", baseline="mean", baseline_observations=others)


def test_multi_path_attribution_rejects_several_baselines(agent: Any) -> None:
    reduction = ChannelReduction.fit(attribute(agent, OBSERVATIONS, "2a").values[0], 4)
    with pytest.raises(OptionError, match="'expected' has no single starting point"):
        multi_path_attribution(agent, OBSERVATIONS, "2a", reduction, baseline="expected")

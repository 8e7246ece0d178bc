"""Channel reduction: accuracy compared with the original implementation, and properties of its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_clarity import formats
from rl_clarity.analyses.attribution import integrated_gradients
from rl_clarity.analyses.attribution.integrated_gradients import ORIGINAL_PATH
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction import ChannelReduction
from tests.golden_data import Golden

fit: Any = ChannelReduction.fit
"""Not typed, for arguments that are converted or rejected."""


@pytest.fixture(scope="module")
def attribution(golden: Golden) -> np.ndarray:
    agent = formats.load_agent(golden.checkpoint)
    observations, layer = golden.expected["observations"], str(golden.expected["nmf.layer"])
    return integrated_gradients(agent, observations, layer, **ORIGINAL_PATH)


@pytest.fixture(scope="module")
def reduction(golden: Golden) -> ChannelReduction:
    return ChannelReduction(golden.expected["nmf.components"])


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def test_nmf_transform_is_at_least_as_accurate_as_the_original(
    golden: Golden, attribution: np.ndarray, reduction: ChannelReduction
) -> None:
    for sign, name in ((1, "pos"), (-1, "neg")):
        x = np.maximum(sign * attribution, 0)
        expected = golden.expected[f"nmf.attr_{name}_transformed"]
        actual = reduction.transform(x)
        assert np.all(actual >= 0)
        distance = [np.linalg.norm(x - reduction.inverse_transform(w)) for w in (actual, expected)]
        assert distance[0] <= distance[1] * (1 + 1e-6)
        assert relative_error(actual, expected) < 1e-3


def test_nmf_reconstruction_error_equals_the_original(
    golden: Golden, attribution: np.ndarray, reduction: ChannelReduction
) -> None:
    expected = float(golden.expected["nmf.reconstruction_error"])
    assert reduction.reconstruction_error(attribution) == pytest.approx(expected, rel=1e-5)


def test_signed_transform_preserves_the_sum_of_attribution(
    golden: Golden, attribution: np.ndarray, reduction: ChannelReduction
) -> None:
    channels, residual = reduction.signed_transform(attribution)
    assert relative_error(channels, golden.expected["render.channels"]) < 1e-4
    assert relative_error(residual, golden.expected["render.residual"]) < 1e-4
    assert np.allclose(channels.sum(-1) + residual[..., 0], attribution.sum(-1), atol=1e-5 * np.abs(attribution).max())


def test_nmf_fit_is_as_accurate_as_the_original(golden: Golden, attribution: np.ndarray) -> None:
    fitted = ChannelReduction.fit(attribution, 8)
    assert fitted.reconstruction_error(attribution) <= float(golden.expected["nmf.reconstruction_error"]) * 1.001


def test_nmf_fit_on_sampled_rows_is_within_a_percent_of_a_full_fit(attribution: np.ndarray) -> None:
    sampled = ChannelReduction.fit(attribution, 8, max_rows=1000)
    assert sampled.reconstruction_error(attribution) <= 1.01 * ChannelReduction.fit(
        attribution, 8, max_rows=None
    ).reconstruction_error(attribution)


def test_the_same_seed_gives_the_same_components(attribution: np.ndarray) -> None:
    first, second = (ChannelReduction.fit(attribution, 8, 3, max_rows=500).components for _ in range(2))
    assert np.array_equal(first, second)


def test_components_are_ordered_by_total_attribution(attribution: np.ndarray) -> None:
    reduction = ChannelReduction.fit(attribution, 8)
    totals = sum(
        reduction.transform(np.maximum(sign * attribution, 0)).sum((0, 1, 2)) * reduction.components.sum(1)
        for sign in (1, -1)
    )
    assert np.all(np.diff(totals) <= 0.05 * totals.max())


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 12))
def test_nmf_transform_meets_the_optimality_conditions(seed: int, features: int, channels: int) -> None:
    rng = np.random.default_rng(seed)
    components = rng.random((features, channels)).astype(np.float32) * (rng.random((features, channels)) < 0.6)
    x = rng.random((5, channels)).astype(np.float32) * 10.0 ** rng.integers(-3, 4)
    reduction = ChannelReduction(components)
    weights = reduction.transform(x)
    slope = (weights @ reduction.components - x) @ reduction.components.T
    scale = max(float(np.abs(x @ reduction.components.T).max()), 1e-6)
    assert np.all(weights >= 0)
    assert np.all(slope >= -2e-3 * scale)  # increasing a weight does not help, nor does decreasing a positive one
    assert np.all(np.abs(slope[weights > 1e-3 * weights.max(initial=0)]) <= 2e-3 * scale)


def test_a_layer_without_attribution_has_empty_channels() -> None:
    zeros = np.zeros((2, 3, 3, 5), np.float32)
    reduction = ChannelReduction.fit(zeros, 4)
    channels, residual = reduction.signed_transform(zeros + 1)
    assert reduction.components.shape == (4, 5)
    assert not channels.any()
    assert np.allclose(residual, 5)


def test_the_number_of_features_is_limited_by_the_channels() -> None:
    attribution = np.random.default_rng(0).normal(size=(4, 3, 3, 2)).astype(np.float32)
    reduction = ChannelReduction.fit(attribution, 8)
    assert reduction.components.shape == (2, 2)
    assert reduction.reconstruction_error(attribution) < 1e-2


def test_negative_components_and_zero_features_are_rejected() -> None:
    with pytest.raises(OptionError, match="not negative"):
        ChannelReduction(np.array([[1.0, -1.0]]))
    with pytest.raises(OptionError, match="nmf_features=0"):
        ChannelReduction.fit(np.ones((1, 2)), 0)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (
            lambda r: r.transform(np.ones((2, 3, 3, 5))),
            r"\(2, 3, 3, 5\); expected \(\.\.\., c\) with the c = 4 channels",
        ),
        (lambda r: r.signed_transform(np.ones((2, 3))), "c = 4 channels"),
        (lambda r: r.reconstruction_error(np.ones(3)), "c = 4 channels"),
        (lambda r: r.transform(1.0), r"shape \(\); expected"),
        (lambda r: r.inverse_transform(np.ones((2, 4))), r"\(2, 4\); expected \(\.\.\., K\) with K = 2 features"),
        (lambda r: ChannelReduction.fit(np.full((4, 4), np.nan)), "NaN or infinite"),
        (lambda r: ChannelReduction.fit(np.where(np.eye(4), np.inf, 1)), "NaN or infinite"),
        (lambda r: ChannelReduction.fit(np.ones((4, 4)), 0), "nmf_features=0"),
        (lambda r: fit(np.ones((4, 4)), 2.5), "nmf_features=2.5"),
        (lambda r: ChannelReduction.fit(np.ones((4, 4)), max_rows=0), "max_rows=0"),
        (lambda r: fit(3.0), "must be an array"),
    ],
)
def test_invalid_arguments_are_rejected(use: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        use(ChannelReduction(np.array([[1.0, 0, 0, 1], [0, 1, 1, 0]])))


def test_attribution_may_be_a_list() -> None:
    reduction = fit([[1.0, 0.0], [0.0, 2.0]], 2)
    assert reduction.transform([[1.0, 0.0]]).shape == (1, 2)


def test_reconstruction_errors_are_reported_by_feature() -> None:
    reduction = ChannelReduction(np.eye(3, 4))
    exact, inexact = np.array([2.0, 0, 0, 0]), np.array([0, 3.0, 0, 4.0])
    total, errors = reduction.reconstruction_errors(np.stack([exact, -inexact, exact]))
    np.testing.assert_allclose(errors, [0, 4 / 5, np.nan], atol=1e-6)
    assert total == pytest.approx(np.sqrt(16 / (2 * 4 + 25)))

"""To which observations features are fitted, how many there are, and what they cover."""

from __future__ import annotations

import math
import tracemalloc
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses import feature_fit
from rl_clarity.analyses.attribution.integrated_gradients import Attribution
from rl_clarity.analyses.feature_fit import LayerFeatures, divide_observations, fit_reduction
from rl_clarity.analyses.layers import ReductionOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import find_part
from rl_clarity.base.threads import in_threads
from rl_clarity.pages.options import ORIGINAL
from rl_clarity.reduction import ChannelReduction
from tests.page_options import page_options

BLOCKS = np.kron(np.eye(4), np.ones((1, 3))).astype(np.float32)
"""Four components of three channels each."""


def attribution(rng: np.random.Generator, strengths: tuple[float, ...] = (8, 4, 2, 1)) -> np.ndarray:
    """Attribution (60, 5, 12) in which one component is there at a time."""
    which = rng.integers(0, 4, (60, 5))
    signs = rng.choice([-1, 1], (60, 5))
    return np.asarray(BLOCKS[which] * (signs * np.array(strengths)[which])[..., None], np.float32)


@pytest.mark.parametrize(("count", "fit"), [(3072, 1024), (32, 24), (100, None), (3, None)])
def test_feature_fits_hold_out_a_tenth_of_the_observations(count: int, fit: int | None) -> None:
    chosen, apart = divide_observations(ReductionOptions(fit_observations=fit), count)
    assert len(apart) == max(1, count // 10)
    assert len(chosen) == min(fit or count, count - len(apart))
    assert not set(chosen) & set(apart)
    assert set(chosen) | set(apart) <= set(range(count))


def test_features_can_be_fitted_to_a_single_observation() -> None:
    chosen, apart = divide_observations(ReductionOptions(), 1)
    assert (chosen.tolist(), apart.tolist()) == ([0], [])


def test_settings_of_the_original_fit_features_to_all_observations() -> None:
    options = page_options(
        **{k: v for k, v in ORIGINAL.items() if k not in ("observations_kwargs", "trajectories.discard_first")}
    ).features
    chosen, apart = divide_observations(options, 50)
    assert chosen.tolist() == list(range(50))
    assert len(apart) == 0


def test_coverage_is_one_if_features_explain_all_attribution(rng: np.random.Generator) -> None:
    values = attribution(rng)
    assert ChannelReduction(BLOCKS).coverage(values) == pytest.approx(1, abs=1e-4)
    magnitudes = np.abs(values).sum(axis=(0, 1)).reshape(4, 3).sum(axis=1)
    covered = ChannelReduction(BLOCKS[:2]).coverage(values)
    assert covered == pytest.approx(magnitudes[:2].sum() / magnitudes.sum(), rel=1e-3)
    assert ChannelReduction(BLOCKS).coverage(0 * values) == 0


def test_with_next_component_adds_the_strongest_remaining_component(rng: np.random.Generator) -> None:
    more = ChannelReduction(BLOCKS[:2]).with_next_component(attribution(rng))
    np.testing.assert_array_equal(more.components[:2], BLOCKS[:2])
    np.testing.assert_allclose(more.components[2], BLOCKS[2] / np.sqrt(3), atol=1e-3)


@pytest.mark.parametrize(("share", "features"), [(0.5, 1), (0.75, 2), (0.9, 3), (0.99, 4), (1.0, 6)])
def test_automatic_count_uses_the_fewest_features_with_enough_coverage(
    rng: np.random.Generator, share: float, features: int
) -> None:
    values = attribution(rng)
    options = ReductionOptions(count="auto", coverage=share)
    if share == 1:
        values = values + rng.normal(0, 0.5, values.shape).astype(np.float32)
    none = np.zeros((0, values.shape[-1]), np.float32)
    assert len(fit_reduction(values, options, 6, values, 0, none).components) == features


def test_given_components_come_first_and_count_as_features(rng: np.random.Generator) -> None:
    values, given = attribution(rng), BLOCKS[3:]
    for options, most, count in (
        (ReductionOptions(), 2, 2),
        (ReductionOptions(), 1, 1),
        (ReductionOptions(count="auto"), 6, 4),
    ):
        components = fit_reduction(values, options, most, values, 0, given).components
        np.testing.assert_array_equal(components[:1], given)
        assert len(components) == count
    strongest = ChannelReduction.fit(values, 1).components
    np.testing.assert_array_equal(
        fit_reduction(values, ReductionOptions(), 2, values, 0, given).components[1:], strongest
    )


def test_positive_and_negative_activations_are_weighted_by_attribution() -> None:
    layer = LayerFeatures(ChannelReduction(np.eye(2)), 0, 1, None, {}, side_weights=(0.5, 1.0))
    np.testing.assert_allclose(layer.strengths(np.array([[4.0, -3.0], [0.0, 0.0]])), [[2, 3], [0, 0]], atol=1e-5)
    relu = LayerFeatures(ChannelReduction(np.eye(2)), 0, 1, None, {})
    np.testing.assert_allclose(relu.strengths(np.array([[4.0, -3.0]])), [[4, 0]], atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nmf_features": "all"}, "features.count='all' must be a number or 'auto'"),
        ({"nmf_features": 2.5}, "features.count=2.5 must be an integer"),
        ({"nmf_features": 0}, "features.count=0 must be at least 1"),
        ({"nmf_coverage": 0}, "features.coverage=0.0 must be above 0 and at most 1"),
        ({"nmf_held_out": 1}, "features.held_out=1.0 must be from 0 to below 1"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        page_options(**options)


def test_the_number_of_features_may_be_automatic() -> None:
    assert page_options(nmf_features="auto").features.count == "auto"
    assert page_options(nmf_features=np.int64(3)).features.count == 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_fitting_features_keeps_only_the_attribution_it_needs_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, shape = 256, (16, 16, 8)

    def attribution(subject: Any, layer: Any, chosen: np.ndarray, baseline: Any) -> Attribution:
        values, scores = np.ones((len(chosen), *shape), np.float32), np.zeros((1, len(chosen)))
        return Attribution(values[None], values, scores, scores)

    monkeypatch.setattr(feature_fit, "_attribution", attribution)
    monkeypatch.setattr(feature_fit, "fit_reduction", lambda rows, *rest: ChannelReduction(np.eye(8)))
    monkeypatch.setattr(feature_fit, "stability", lambda *arguments: np.ones(8))
    monkeypatch.setattr(feature_fit, "FIT_POSITIONS", 4 * count)
    monkeypatch.setattr(feature_fit, "ERROR_OBSERVATIONS", 8)
    page = page_options(nmf_held_out=0)
    subject: Any = SimpleNamespace(
        agent=None, options=page, options_of=partial(find_part, page), observations=SimpleNamespace()
    )
    subject.observations.observations = np.zeros((count, 1))
    layer: Any = SimpleNamespace(shape=shape, channels=8)
    in_threads(str, range(2))  # loads libraries
    tracemalloc.start()
    try:
        feature_fit.fit_features(subject, layer, 16, 1, lambda share: None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * count * math.prod(shape) / 2, "half of the attribution of all observations"

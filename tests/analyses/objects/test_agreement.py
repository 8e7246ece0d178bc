"""Agreement of explanations with measured effects: known answers, and controls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.protocol import Outputs
from rl_clarity.analyses.objects.agreement import CONTROLS, Agreement, EffectSample, sobel
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import as_json
from rl_clarity.recordings.object_effects import ObjectEffects
from tests.analyses.squares import CELL, SQUARE, square_effects

SIZE, EPISODES, STEPS = 32, 12, 4


class LinearAgent:
    """An agent whose value and logits are linear in the pixels, so that attribution to pixels is exact."""

    num_actions = 2

    def __init__(self) -> None:
        self.weights = np.random.default_rng(0).normal(size=(3, SIZE, SIZE, 3))

    def maps(self, observations: np.ndarray, output: int) -> np.ndarray:
        """Return the contribution (B, H, W) of each pixel to an output: logit 0, logit 1, or the value (2)."""
        return np.asarray((observations / 255 * self.weights[output]).sum(axis=-1))

    def forward(self, observations: np.ndarray, state: Any = None) -> Outputs:
        scores = np.stack([self.maps(observations, output).sum(axis=(1, 2)) for output in range(3)], axis=1)
        return Outputs(scores[:, :2].astype(np.float32), scores[:, 2].astype(np.float32))


@pytest.fixture(scope="module")
def agent() -> Any:
    return LinearAgent()


@pytest.fixture(scope="module")
def effects(agent: Any) -> ObjectEffects:
    return square_effects(agent, SIZE, EPISODES, STEPS)


@pytest.fixture(scope="module")
def sample(agent: Any, effects: ObjectEffects) -> EffectSample:
    return EffectSample.for_output(agent, effects)


def test_exact_attribution_agrees_perfectly_with_measured_effects(agent: Any, sample: EffectSample) -> None:
    maps = agent.maps(sample.observations, 2)
    coarse = maps.reshape(-1, SIZE // CELL, CELL, SIZE // CELL, CELL).sum(axis=(2, 4))
    for given in (maps, coarse):
        np.testing.assert_allclose(sample.sums(given), sample.change, atol=1e-4)
        agreement = sample.agreement(sample.sums(given))
        for whole in (agreement, agreement.by_type["crate"], agreement.by_type["saw"]):
            for estimate in (whole.correlation, whole.signs, whole.magnitudes):
                assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 1, 1), abs=1e-3)


def test_shuffled_predictions_agree_with_effects_only_by_chance(agent: Any, sample: EffectSample) -> None:
    sums, rng = sample.sums(agent.maps(sample.observations, 2)), np.random.default_rng(0)
    shuffled = [sample.agreement(rng.permutation(sums)) for _ in range(20)]
    positive = (sample.change > 0)[np.abs(sample.change) > sample.threshold].mean()
    same = (sums > 0).mean() * positive + (sums < 0).mean() * (1 - positive)
    for name, chance in (("correlation", 0), ("magnitudes", 0), ("signs", same)):
        estimates = [getattr(agreement, name) for agreement in shuffled]
        assert np.mean([estimate.value for estimate in estimates]) == pytest.approx(chance, abs=0.05)
        assert np.mean([estimate.low < chance < estimate.high for estimate in estimates]) >= 0.75


def test_negated_attribution_has_the_wrong_sign_for_every_effect(agent: Any, sample: EffectSample) -> None:
    agreement = sample.agreement(-sample.sums(agent.maps(sample.observations, 2)))
    assert agreement.correlation.value == pytest.approx(-1, abs=1e-4)
    assert agreement.signs.value == 0
    assert agreement.magnitudes.value == pytest.approx(1, abs=1e-4)


def test_sums_over_a_box_weight_cells_by_their_covered_share(effects: ObjectEffects, sample: EffectSample) -> None:
    box = np.tile([5, 9, 15, 40], (len(effects), 1))  # reaches below the observation; its margin is 1 pixel
    moved = replace(sample, effects=replace(effects, box=box))
    maps = np.zeros((len(sample.observations), SIZE // CELL, SIZE // CELL))
    maps[:, 0, 0], maps[:, 1, 0], maps[:, 3, 1], maps[:, 3, 3] = 1, 10, 100, 1000
    np.testing.assert_allclose(moved.sums(maps), 0.5 * 10 + 100)


def test_attribution_of_logits_agrees_with_effects_on_logits(agent: Any, effects: ObjectEffects) -> None:
    for action in range(2):
        sample = EffectSample.for_output(agent, effects, action)
        np.testing.assert_array_equal(sample.change, effects.logits_change[:, action])
        assert sample.agreement(sample.sums(agent.maps(sample.observations, action))).signs.value == 1
    sample = EffectSample.for_output(agent, effects, "greedy")
    best = agent.forward(effects.with_object).policy_logits.argmax(axis=1)
    assert set(best) == {0, 1}
    np.testing.assert_array_equal(sample.change, effects.logits_change[np.arange(len(effects)), best])
    with pytest.raises(OptionError, match="7"):
        EffectSample.for_output(agent, effects, 7)


def test_signs_are_compared_only_for_effects_above_a_threshold(agent: Any, sample: EffectSample) -> None:
    values = agent.forward(sample.observations).values
    assert sample.threshold == pytest.approx(0.05 * (values.max() - values.min()))
    predictions = np.where(np.abs(sample.change) > sample.threshold, sample.change, -sample.change)
    agreement = sample.agreement(predictions)
    assert agreement.signs.value == 1
    assert 0 < agreement.large < agreement.count == len(sample.change)
    assert agreement.threshold == sample.threshold


def test_intervals_are_clustered_by_episode(effects: ObjectEffects, sample: EffectSample) -> None:
    predictions = sample.change + np.random.default_rng(0).normal(scale=2, size=len(sample.change))
    once = sample.agreement(predictions).correlation
    repeated: dict[str, Any] = {
        name: np.repeat(getattr(effects, name), 2, axis=0) for name in ("type", "episode", "box")
    }
    copies = replace(effects, **repeated)
    doubled = replace(sample, effects=copies, change=np.repeat(sample.change, 2), step=np.repeat(sample.step, 2))
    twice = doubled.agreement(np.repeat(predictions, 2)).correlation
    assert (twice.value, twice.low, twice.high) == pytest.approx((once.value, once.low, once.high))
    alone = replace(sample, effects=replace(effects, episode=np.zeros(len(effects), int)))
    assert np.isnan(alone.agreement(predictions).correlation.low)


def test_control_predictions_take_the_most_frequent_effect_sign(sample: EffectSample) -> None:
    negative = replace(sample, change=-np.abs(sample.change))
    controls = negative.controls()
    assert set(controls) == set(CONTROLS)
    np.testing.assert_array_equal(controls["pixels"], -(SQUARE**2))
    for name in ("edges", "center"):
        assert (controls[name] < 0).all()
        assert negative.agreement(controls[name]).signs.value == 1
        np.testing.assert_array_equal(replace(sample, change=np.abs(sample.change)).controls()[name], -controls[name])
    x = (sample.effects.box[:, 0] + SQUARE / 2) / SIZE
    centered = np.abs(x - 0.5) < 0.2
    assert np.abs(controls["center"])[centered].mean() > np.abs(controls["center"])[~centered].mean()


def test_the_sobel_filter_finds_edges() -> None:
    images = np.zeros((1, 9, 9, 3), np.uint8)
    images[:, :, 4:] = 90
    edges = sobel(images)[0]
    assert (edges[:, 3:5] == 4 * 90).all()
    assert not edges[:, [0, 1, 7, 8]].any()


def test_undefined_agreement_survives_conversion_to_json(agent: Any, effects: ObjectEffects) -> None:
    few = replace(
        effects,
        type=np.where(np.arange(len(effects)) < 2, "coin", effects.type),
    )
    sample = EffectSample.for_output(agent, few)
    agreement = sample.agreement(sample.change)
    assert np.isnan(agreement.by_type["coin"].correlation.value)
    read = Agreement.from_dict(json.loads(as_json(agreement.to_dict())))
    assert np.isnan(read.by_type["coin"].signs.low)
    assert read.correlation.value == pytest.approx(agreement.correlation.value)
    assert (read.count, read.large, read.threshold) == (agreement.count, agreement.large, agreement.threshold)

"""Actions of several factors: choices, switches and numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rl_clarity.agents.actions import (
    Binary,
    Categorical,
    Factor,
    Gaussian,
    checked_factors,
    greedy_columns,
    output_labels,
    policy_change,
    policy_entropy,
    sample_factors,
)
from rl_clarity.agents.scores import select_scores
from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import softmax

FACTORS: tuple[Factor, ...] = (
    Categorical(3, "move", ("left", "stay", "right")),
    Binary("fire"),
    Gaussian(0, 4, squashed=True),
    Gaussian(-5, 5, std=0.5),
)
OUTPUTS = np.array([[0.5, -1, 0.2, -0.7, 0.3, np.log(0.4), 1.2]])
"""Logits of the choice, the logit of the switch, mean and log std of a number, and the mean of another one."""


def test_each_network_output_is_named_after_its_action_factor() -> None:
    assert output_labels(FACTORS) == [
        *("move: left", "move: stay", "move: right", "fire: on"),
        *("action 3: mean", "action 3: log std", "action 4: mean"),
    ]


def test_action_factors_are_sampled_from_their_distributions() -> None:
    count = 40_000
    actions = sample_factors(np.repeat(OUTPUTS, count, axis=0), FACTORS, np.random.default_rng(0))
    assert actions.shape == (count, 4)
    assert actions.dtype == np.float32
    shares = np.bincount(actions[:, 0].astype(int), minlength=3) / count
    np.testing.assert_allclose(shares, softmax(OUTPUTS[0, :3]), atol=0.01)
    np.testing.assert_allclose(actions[:, 1].mean(), 1 / (1 + np.exp(0.7)), atol=0.01)
    before_tanh = np.arctanh(actions[:, 2].astype(np.float64) / 2 - 1)
    np.testing.assert_allclose([before_tanh.mean(), before_tanh.std()], [0.3, 0.4], atol=0.01)
    np.testing.assert_allclose([actions[:, 3].mean(), actions[:, 3].std()], [1.2, 0.5], atol=0.01)
    hot = sample_factors(np.repeat(OUTPUTS, count, axis=0), FACTORS, np.random.default_rng(0), temperature=2)
    np.testing.assert_allclose(hot[:, 3].std(), 1.0, atol=0.02)
    np.testing.assert_allclose(np.mean(hot[:, 0] == 0), softmax(OUTPUTS[0, :3] / 2)[0], atol=0.01)


def test_greedy_actions_are_the_likeliest_categories_and_gaussian_means() -> None:
    greedy = sample_factors(OUTPUTS, FACTORS, np.random.default_rng(0), greedy=True)
    np.testing.assert_allclose(greedy, [[0, 0, 2 + 2 * np.tanh(0.3), 1.2]], rtol=1e-6)
    masks = np.array([[False, True, True, True, True, True, True]])
    assert sample_factors(OUTPUTS, FACTORS, np.random.default_rng(0), greedy=True, masks=masks)[0, 0] == 2


def test_sampled_continuous_actions_stay_within_their_bounds() -> None:
    factors = (Gaussian(-1, 1, std=5), Gaussian(-1, 1, std=5, squashed=True))
    actions = sample_factors(np.zeros((1000, 2)), factors, np.random.default_rng(0))
    assert np.abs(actions).max() <= 1
    assert np.mean(np.abs(actions[:, 0]) == 1) > 0.5


def test_noise_replaces_action_factors_by_uniformly_random_values() -> None:
    actions = sample_factors(
        np.repeat(OUTPUTS, 20_000, axis=0), FACTORS, np.random.default_rng(0), greedy=True, noise=0.3
    )
    np.testing.assert_allclose(np.bincount(actions[:, 0].astype(int)) / len(actions), [0.8, 0.1, 0.1], atol=0.01)
    np.testing.assert_allclose(np.mean(actions[:, 3] != np.float32(1.2)), 0.3, atol=0.01)


@pytest.mark.parametrize(
    ("first", "second"), [((0, 1), (0, 2)), ((0, 1), (1, 1)), ((1, 0.3), (-0.5, 1.4)), ((2, 1), (2, 1))]
)
def test_policy_change_of_a_gaussian_is_the_total_variation_distance(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    x = np.linspace(-30, 30, 200_001)
    expected = np.abs(stats.norm.pdf(x, *first) - stats.norm.pdf(x, *second)).sum() * (x[1] - x[0]) / 2
    rows = [np.array([[mean, np.log(std)]]) for mean, std in (first, second)]
    np.testing.assert_allclose(policy_change(rows[0], rows[1], [Gaussian()]), expected, atol=1e-4)


def test_entropy_is_the_sum_of_the_entropies_of_all_action_factors() -> None:
    choice, switch = stats.entropy(softmax(OUTPUTS[0, :3])), stats.bernoulli(1 / (1 + np.exp(0.7))).entropy()
    numbers = stats.norm(0.3, 0.4).entropy() + stats.norm(1.2, 0.5).entropy()
    assert policy_entropy(OUTPUTS, FACTORS) == pytest.approx([choice + switch + numbers])
    assert policy_entropy(OUTPUTS[:, :3]) == pytest.approx([choice])
    assert policy_entropy(np.array([[0.0, -np.inf, 0.0]])) == pytest.approx([np.log(2)])  # an invalid choice


def test_policy_change_is_the_probability_that_any_action_factor_differs() -> None:
    factors = (Categorical(2), Binary(), Gaussian(0, 4, std=0))
    before, after = np.array([[0, 0, 0, 1.0]]), np.array([[np.log(3), 0, np.log(3), 2.0]])
    np.testing.assert_allclose(policy_change(before, after, factors), 1 - 0.75 * 0.75 * 0.75)
    np.testing.assert_allclose(policy_change(before, before, factors), 0)
    np.testing.assert_allclose(policy_change(before[:, :2], after[:, :2], factors[:1]), 0.25)


def test_the_greedy_score_adds_the_largest_logits_and_gaussian_means() -> None:
    assert greedy_columns(OUTPUTS, FACTORS).tolist() == [[0, 3, 4, 6]]
    heads = {"policy_logits": OUTPUTS.shape[1]}
    weights = select_scores(["greedy"], heads, 1, lambda: OUTPUTS, FACTORS)
    assert weights[0, 0].tolist() == [1, 0, 0, 1, 1, 0, 1]
    assert select_scores(["greedy"], heads, 1, lambda: OUTPUTS)[0, 0].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_action_factors_must_match_the_number_of_network_outputs() -> None:
    with pytest.raises(OptionError, match=r"have 7 outputs \(move: left, .*but the network's policy has 5"):
        checked_factors(FACTORS, 5)
    with pytest.raises(OptionError, match="must be a sequence of Categorical, Binary and Gaussian"):
        checked_factors([3], 3)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categorical(2, choices=("left",)),
        lambda: Gaussian(1, 0),
        lambda: Gaussian(0, np.inf, squashed=True),
        lambda: Gaussian(std=-1),
    ],
)
def test_invalid_action_factors_are_refused(make: object) -> None:
    with pytest.raises(OptionError, match=r"must be|must have"):
        make()  # type: ignore[operator]

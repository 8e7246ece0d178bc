"""Points are added on the paths of integrated gradients where the completeness error is large."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses import Subject
from rl_clarity.analyses.attribution import Attribution, attribute, integrated_gradients
from rl_clarity.analyses.attribution.analysis import explain
from rl_clarity.analyses.attribution.baselines import BASELINES, Baseline, ExpectedBaseline
from rl_clarity.analyses.attribution.outputs import attributed_outputs, completeness_limit
from rl_clarity.analyses.attribution.quadrature import quadrature
from rl_clarity.analyses.attribution.refinement import LIMIT, added_points, is_midpoint_rule, refine
from rl_clarity.analyses.layers import page_layers
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction import ChannelReduction
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent

FRAMES = np.random.default_rng(0).integers(0, 256, (11, 32, 32, 3), np.uint8)
LEVELS = np.array([0, 128, 168, 180, 255], np.uint8)
"""Brightness of constant images."""
BEND = 0.48
SPAN = 0.04
PATH: dict[str, Any] = {"quadrature": "midpoint", "baseline": "zero-layer", "linear_prefix": False}


@pytest.fixture(scope="module")
def bent() -> Any:
    """An agent whose action values are 1 and 2 times what the mean of its layer "1" exceeds `BEND` by."""
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Conv2d(1, 1, 1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 1)]
    layers += [torch.nn.ReLU(), torch.nn.Linear(1, 2)]
    parameters = [(layers[0], 1.0, 0.0), (layers[3], 1 / 16, -BEND), (layers[5], 1.0, 0.0)]
    with torch.no_grad():
        for layer, weight, bias in parameters:
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
        layers[5].weight[1] = 2.0
    return rl_clarity.TorchAgent(torch.nn.Sequential(*layers), observation_shape=(4, 4, 1), heads=("q_values",))


def constant_images() -> np.ndarray:
    return np.broadcast_to(LEVELS[:, None, None, None], (len(LEVELS), 4, 4, 1)).copy()


def test_refinement_finds_a_kink_that_five_path_points_miss(bent: Any) -> None:
    images, mean = constant_images(), LEVELS / 255
    exact = np.maximum(mean - BEND, 0)  # every path rises from the bend on, and all 16 positions have the same part
    limit = LIMIT * exact.max()
    coarse = integrated_gradients(bent, images, "1", 0, **PATH).sum(axis=(1, 2, 3))
    fine = integrated_gradients(bent, images, "1", 0, error_limit=limit, **PATH)
    np.testing.assert_array_equal(
        coarse, integrated_gradients(bent, images, "1", 0, error_limit=limit, refinement=1, **PATH).sum(axis=(1, 2, 3))
    )
    missed = np.abs(coarse - exact) > limit
    assert missed.tolist() == [False, False, True, True, True]
    np.testing.assert_allclose(fine, np.broadcast_to(exact[:, None, None, None] / 16, fine.shape), atol=limit / 16)


def test_only_observations_above_the_error_limit_get_more_path_points(bent: Any) -> None:
    images = constant_images()
    limit = LIMIT * (1 - BEND)
    result = attribute(bent, images, "1", [0, 1], error_limits=[limit, 4 * limit], **PATH)
    assert result.refined is not None
    assert result.refined.tolist() == [[1, 1, 3, 3, 3], [1, 1, 1, 3, 3]], "each output has its own"
    for factor in (1, 3):
        alone = attribute(bent, images, "1", [0, 1], steps=5 * factor, **PATH)
        chosen = result.refined == factor
        np.testing.assert_allclose(result.values[chosen], alone.values[chosen], rtol=1e-6)
    assert attribute(bent, images, "1", [0, 1], **PATH).refined is None, "the range of the outputs is not known"


@dataclasses.dataclass
class Errors:
    """An attribution of one score with given completeness errors."""

    values: np.ndarray
    scores_at_baseline: np.ndarray

    @property
    def completeness_error(self) -> np.ndarray:
        return self.values

    @classmethod
    def falling(cls, errors: np.ndarray) -> Errors:
        return cls(errors[None].copy(), np.zeros((1, len(errors))))


@pytest.mark.parametrize(("most", "expected"), [(9, [1, 3, 3, 9, 9]), (3, [1, 3, 3, 3, 3]), (1, [1] * 5)])
def test_path_points_are_tripled_while_the_error_exceeds_its_limit(most: int, expected: list[int]) -> None:
    first = np.array([0.9, -1.5, 2.9, 7.0, 100.0])
    result, computed = Errors.falling(first), list[int]()

    def compute(scores: np.ndarray, chosen: np.ndarray, factor: int) -> Errors:
        computed.extend(chosen.tolist())
        return Errors.falling(first[chosen] / factor)

    assert refine(result, [1.0], most, compute).tolist() == [expected]
    np.testing.assert_allclose(result.values[0], first / expected)
    assert 0 not in computed


@pytest.mark.parametrize("rule", ["graded-midpoint", "midpoint"])
@pytest.mark.parametrize("factor", [3, 9])
def test_refined_midpoint_sums_reuse_the_points_of_the_coarser_rule(rule: str, factor: int) -> None:
    points, weights = quadrature(rule, 5)
    assert is_midpoint_rule(points, weights)
    ends = np.concatenate([[0], np.cumsum(weights)])
    edges = np.concatenate([np.linspace(a, b, factor, endpoint=False) for a, b in itertools.pairwise(ends)] + [[1]])
    sums = [np.sum(np.diff(edges) * np.exp((edges[1:] + edges[:-1]) / 2))]
    for each in (1, 3, 9):
        if each <= factor:
            more, their = (points, weights) if each == 1 else added_points(points, weights, each)
            sums.append(their @ np.exp(more) + (sums[-1] / 3 if each > 1 else 0))
    assert sums[-1] == pytest.approx(sums[0], rel=1e-12)
    if rule == "midpoint":
        every, _ = quadrature(rule, 5 * factor)
        coarser, _ = quadrature(rule, 5 * factor // 3)
        np.testing.assert_allclose(np.sort(np.concatenate([coarser, added_points(points, weights, factor)[0]])), every)


@pytest.mark.parametrize("rule", ["gauss-legendre", "riemann"])
def test_other_quadrature_rules_are_recomputed_with_more_points(bent: Any, rule: str) -> None:
    assert not is_midpoint_rule(*quadrature(rule, 5))
    images, path = constant_images(), {**PATH, "quadrature": rule}
    result = attribute(bent, images, "1", [0], error_limits=[LIMIT * (1 - BEND)], **path)
    assert result.refined is not None
    assert (result.refined > 1).any()
    for factor in np.unique(result.refined):
        alone = attribute(bent, images, "1", [0], steps=5 * int(factor), **path)
        chosen = result.refined == factor
        np.testing.assert_array_equal(result.values[chosen], alone.values[chosen])


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("kind", ["policy", "recurrent", "q"])
def test_refined_attribution_does_not_depend_on_the_batch(kind: str, baseline: str) -> None:
    agent: Any = TinyAgent(kind, num_actions=4, observation_shape=(32, 32, 3))
    state = agent.initial_state(len(FRAMES))
    state = None if state is None else (np.random.default_rng(1).normal(size=state[0].shape),)
    outputs = ["greedy" if kind == "q" else "value", 2]
    options: dict[str, Any] = {"baseline": baseline, "baseline_observations": FRAMES}
    errors = np.abs(attribute(agent, FRAMES, "1a", outputs, state=state, **options).completeness_error)
    options |= {"refinement": 9, "error_limits": 1.01 * np.median(errors, axis=1)}

    def some(rows: Any) -> Attribution:
        part = None if state is None else tuple(one[rows] for one in state)
        return attribute(agent, FRAMES[rows], "1a", outputs, state=part, **options)

    whole = some(slice(None))
    assert whole.refined is not None
    assert 3 <= (whole.refined > 1).sum() < whole.refined.size
    for rows in (slice(0, 3), slice(3, 11), [10, 4, 0], [5]):
        part = some(rows)
        assert part.refined is not None
        np.testing.assert_array_equal(part.refined, whole.refined[:, rows])
        np.testing.assert_allclose(part.values, whole.values[:, rows], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(part.scores_at_baseline, whole.scores_at_baseline[:, rows], rtol=1e-5, atol=1e-6)


def varied_subject(agent: TinyAgent, **options: Any) -> Subject:
    """A subject whose recorded outputs have a narrow range, so that many errors are above 5 % of it."""
    combos = [("LEFT",), ("LEFT", "UP"), ("RIGHT",), ("A",)]
    subject = make_subject(agent, attr_policy=True, action_combos=combos, **options)
    span: dict[str, Any] = {name: np.array(getattr(subject.trajectories, name)) for name in agent.heads}
    for array in span.values():
        array[0, 1] += SPAN
    return dataclasses.replace(subject, trajectories=dataclasses.replace(subject.trajectories, **span))


def explained(subject: Subject, frames: np.ndarray, baseline: Baseline = "blur", state: Any = None) -> Any:
    layer = page_layers(subject.agent, subject.options)[-1]
    values = attribute(subject.agent, FRAMES, "2a", [subject.output_kind]).values[0]
    return explain(subject, layer, ChannelReduction.fit(values, 4), frames, state, [0, 0, 0], 4, baseline)


def test_pages_set_the_error_limit_from_the_range_of_recorded_outputs() -> None:
    agent = TinyAgent(num_actions=4, observation_shape=(32, 32, 3))
    limits = {
        one.id: completeness_limit(varied_subject(agent), one) for one in attributed_outputs(varied_subject(agent))
    }
    assert limits.pop("group-0") == pytest.approx(LIMIT * 2 * SPAN)
    assert limits == pytest.approx(dict.fromkeys(["value", *(f"action-{i}" for i in range(4))], LIMIT * SPAN))
    subject = make_subject(agent)
    assert completeness_limit(subject, attributed_outputs(subject)[0]) is None, "outputs that do not vary have none"


def test_pages_show_the_attribution_that_attribute_computes() -> None:
    subject = varied_subject(TinyAgent(num_actions=4, observation_shape=(32, 32, 3)))
    shown = explained(subject, FRAMES)
    limits = [LIMIT * SPAN] * 5
    wanted = attribute(subject.agent, FRAMES, "2a", ["value", 0, 1, 2, 3], error_limits=limits)
    assert wanted.refined is not None
    assert (wanted.refined > 1).any()
    assert (wanted.refined == 1).any()
    np.testing.assert_array_equal(shown["value"].refined, wanted.refined[0])
    np.testing.assert_array_equal(shown["group-0"].refined, wanted.refined[1:3].max(axis=0))
    np.testing.assert_allclose(shown["value"].gap[:, 0], wanted.totals[0], atol=1e-6)
    np.testing.assert_allclose(shown["group-0"].gap[:, 0], wanted.totals[1] + wanted.totals[2], atol=1e-6)
    plain = explained(varied_subject(subject.agent, attribution={"refinement": 1}), FRAMES)  # type: ignore[arg-type]
    assert plain["value"].refined is None
    coarse = attribute(subject.agent, FRAMES, "2a", ["value"])
    np.testing.assert_allclose(plain["value"].gap[:, 0], coarse.totals[0], atol=1e-6)


def test_the_memory_term_uses_each_observations_refined_path_points() -> None:
    agent: Any = TinyAgent("recurrent", num_actions=4, observation_shape=(32, 32, 3))
    state = (np.random.default_rng(1).normal(size=(len(FRAMES), 6)).astype(np.float32),)
    beginnings = ExpectedBaseline(agent.activations(FRAMES[:3], "2a"))
    shown = explained(varied_subject(agent), FRAMES, beginnings, state)["value"]
    assert (shown.refined > 1).any()
    for factor in np.unique(shown.refined):
        chosen = shown.refined == factor
        initial = attribute(agent, FRAMES[:1], "2a", ["value"], steps=5 * int(factor), baseline=beginnings)
        at_baseline = shown.gap[chosen, 2] - shown.gap[chosen, 1] - shown.memory[chosen]
        np.testing.assert_allclose(at_baseline, initial.scores_at_baseline[0, 0], atol=1e-5)


@pytest.mark.parametrize("value", [0, 2, 6, 1.5, True, "a"])
def test_refinement_factors_other_than_powers_of_three_are_rejected(bent: Any, value: Any) -> None:
    with pytest.raises(OptionError, match=f"refinement={value!r} must be a power of three"):
        integrated_gradients(bent, constant_images(), "1", 0, refinement=value)
    with pytest.raises(OptionError, match=r"attribution\.refinement=2 must be a power of three"):
        make_subject(attribution={"refinement": 2})


def test_an_error_limit_that_is_not_positive_is_rejected(bent: Any) -> None:
    with pytest.raises(OptionError, match="error_limit=0 must be positive"):
        integrated_gradients(bent, constant_images(), "1", 0, error_limit=0)

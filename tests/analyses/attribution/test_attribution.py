"""Properties of attribution that hold for every network."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.agents.protocol import Score, Site
from rl_clarity.analyses.attribution import (
    attribute,
    default_layer,
    input_gradients,
    integrated_gradients,
    multi_path_attribution,
    multi_path_attributions,
    select_layers,
)
from rl_clarity.analyses.attribution.baselines import AUTO, DEFAULT_BASELINE
from rl_clarity.analyses.attribution.quadrature import RULES, quadrature
from rl_clarity.analyses.checks.analysis import ChecksOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction import ChannelReduction
from tests.fakes import TinyAgent
from tests.golden_data import Golden
from tests.page_options import page_options


@pytest.fixture(scope="module")
def agent(golden: Golden) -> Any:
    return formats.load_agent(golden.checkpoint)


@pytest.fixture(scope="module")
def observations(golden: Golden) -> np.ndarray:
    return golden.expected["observations"][:3]


@pytest.mark.parametrize("output", ["value", 1, (0, 2)])
def test_completeness_error_vanishes_as_integration_steps_increase(
    agent: Any, observations: np.ndarray, output: Any
) -> None:
    layer = select_layers(agent, bottleneck_only=False)[-2]
    gaps = [
        np.abs(
            attribute(agent, observations, layer, (output,), steps=steps, quadrature="riemann").completeness_error
        ).max()
        for steps in (2, 16, 128)
    ]
    scale = np.abs(attribute(agent, observations, layer, (output,), steps=1).scores).max()
    assert gaps[2] < 0.01 * scale
    assert gaps[2] <= gaps[1] <= gaps[0]


def test_attribution_of_an_action_group_is_the_sum_over_its_logits(agent: Any, observations: np.ndarray) -> None:
    layer = select_layers(agent)[-1]
    group = integrated_gradients(agent, observations, layer, (0, 3, 4))
    single = attribute(agent, observations, layer, (0, 3, 4)).values.sum(axis=0)
    assert np.allclose(group, single, atol=1e-5 * np.abs(group).max())


def test_attribution_of_several_outputs_equals_that_of_each_alone(agent: Any, observations: np.ndarray) -> None:
    layer = select_layers(agent)[0]
    together = attribute(agent, observations, layer, ("value", 1), steps=2).values
    outputs: tuple[Score, ...] = ("value", 1)
    for row, output in zip(together, outputs, strict=True):
        alone = integrated_gradients(agent, observations, layer, output, steps=2)
        assert np.allclose(row, alone, atol=1e-5 * np.abs(alone).max())


def test_attribution_does_not_depend_on_the_batch(agent: Any, observations: np.ndarray) -> None:
    layer = select_layers(agent)[-1]
    repeated = integrated_gradients(agent, np.repeat(observations, 30, axis=0), layer, steps=2)
    expected = integrated_gradients(agent, observations, layer, steps=2)
    assert np.allclose(repeated[::30], expected, atol=1e-5 * np.abs(expected).max())


def test_input_gradients_predict_small_changes(agent: Any, observations: np.ndarray) -> None:
    gradients = input_gradients(agent, observations)
    row, column, channel = np.unravel_index(np.abs(gradients[0]).argmax(), gradients[0].shape)
    changed = observations[:1].copy()
    changed[0, row, column, channel] ^= 1  # a step of 1 / 255, up or down
    step = (float(changed[0, row, column, channel]) - float(observations[0, row, column, channel])) / 255
    change = agent.forward(changed).values[0] - agent.forward(observations[:1]).values[0]
    assert change == pytest.approx(gradients[0, row, column, channel] * step, rel=0.2, abs=1e-5)


@pytest.mark.parametrize("golden", ["nature"], indirect=True)
def test_random_integration_paths_depend_on_the_random_generator(agent: Any, observations: np.ndarray) -> None:
    layer = select_layers(agent)[-1]
    reduction = ChannelReduction.fit(integrated_gradients(agent, observations, layer), features=4)

    def draw(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return multi_path_attribution(agent, observations, layer, reduction, steps=3, max_paths=2, rng=rng)

    assert np.array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


@pytest.mark.parametrize("golden", ["nature"], indirect=True)
class TestMultiplePaths:
    @pytest.fixture
    def reduction(self, agent: Any, observations: np.ndarray) -> ChannelReduction:
        return ChannelReduction.fit(integrated_gradients(agent, observations, select_layers(agent)[-1]), features=4)

    def test_attribution_along_shared_paths_adds_up_over_logits(
        self, agent: Any, observations: np.ndarray, reduction: ChannelReduction
    ) -> None:
        layer = select_layers(agent)[-1]
        outputs: list[Score] = ["value", 0, 3, (0, 3)]
        options: dict[str, Any] = {"steps": 3, "max_paths": 2}
        results = multi_path_attributions(agent, observations, layer, reduction, outputs, **options)
        assert np.allclose(results[3], results[1] + results[2], atol=1e-5 * np.abs(results).max())
        alone = multi_path_attribution(agent, observations, layer, reduction, 3, **options)
        assert np.allclose(results[2], alone, atol=1e-5 * np.abs(alone).max())

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"max_paths": 0}, "max_paths=0"),
            ({"max_paths": -1}, "max_paths=-1"),
            ({"max_paths": 1.5}, "max_paths=1.5"),
            ({"steps": 0}, "steps=0"),
            ({"steps": "a"}, "steps='a'"),
            ({"output": []}, "output \\[\\]"),
            ({"output": True}, "output True"),
            ({"layer": "1"}, "reduction has .* channels, but layer '1' has .*fit a"),
        ],
    )
    def test_invalid_arguments_are_rejected(
        self, agent: Any, observations: np.ndarray, reduction: ChannelReduction, options: dict[str, Any], words: str
    ) -> None:
        first, *_, last = select_layers(agent)
        if options.get("layer"):
            options, words = {"layer": first}, words.replace("'1'", f"'{first}'")
        arguments = {"layer": last, "steps": 2, "max_paths": 1, **options}
        with pytest.raises(OptionError, match=words):
            multi_path_attribution(agent, observations, reduction=reduction, **arguments)


@pytest.mark.parametrize("golden", ["clear"], indirect=True)
class TestSelectLayers:
    def test_layers_are_selected_by_a_substring_of_their_name(self, agent: Any) -> None:
        assert select_layers(agent, name_contains_one_of=["2b", "pi/4"]) == ["2b", "4a"]

    def test_the_first_layers_can_be_discarded(self, agent: Any) -> None:
        assert select_layers(agent, discard_first_n=3) == ["3a", "4a"]

    def test_pages_open_with_the_finest_layer(self, agent: Any) -> None:
        assert default_layer(agent) == "1a"

    def test_layers_are_selected_by_operation_type(self, agent: Any) -> None:
        assert select_layers(agent, op_is_one_of=["conv2d"])[:2] == ["1a", "2a"]
        mixed = select_layers(agent, op_is_one_of=["relu", "conv2d"])
        assert mixed[:2] == ["1a/conv2d", "1a/Relu"]
        assert agent.activations(np.zeros((1, 64, 64, 3), np.uint8), mixed[0]).shape == (1, 64, 64, 16)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"name_contains_one_of": ["5a"]}, "name_contains_one_of.*5a.*1a, 2a, 2b, 3a, 4a"),
            ({"op_is_one_of": ["tanh"]}, "tanh.*conv2d"),
            ({"discard_first_n": 9}, "discard_first_n=9.*4a"),
            ({"name_contains_one_of": "2b"}, r"must be a sequence of strings, such as \['2b'\]"),
        ],
    )
    def test_errors_name_the_available_layers(self, agent: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(OptionError, match=f"(?s)layers.*{message}"):
            select_layers(agent, **options)

    def test_unknown_layers_suggest_the_nearest(self, agent: Any, observations: np.ndarray) -> None:
        with pytest.raises(OptionError, match=r"'2c'.*did you mean '2"):
            integrated_gradients(agent, observations, "2c")

    @pytest.mark.parametrize("steps", [0, -1, 2.5, "a", None, True])
    def test_invalid_numbers_of_integration_steps_are_rejected(
        self, agent: Any, observations: np.ndarray, steps: Any
    ) -> None:
        with pytest.raises(OptionError, match=f"steps={steps!r} must be a positive integer"):
            integrated_gradients(agent, observations, "4a", steps=steps)

    def test_errors_for_unknown_outputs_name_the_available_ones(self, agent: Any, observations: np.ndarray) -> None:
        with pytest.raises(OptionError, match="15"):
            integrated_gradients(agent, observations, "4a", 15)
        with pytest.raises(OptionError, match=r"'greedy'.*'value'"):
            integrated_gradients(agent, observations, "4a", "greedy")


def test_select_layers_uses_other_activations_in_networks_without_relus() -> None:
    class Elus(TinyAgent):
        @property
        def sites(self) -> list[Site]:
            return [dataclasses.replace(site, kind=site.kind.replace("relu", "elu")) for site in super().sites]

    assert select_layers(Elus()) == ["1a", "2a"]
    assert select_layers(Elus(), op_is_one_of=["relu", "conv2d"]) == ["1a", "2a"]
    with pytest.raises(OptionError, match="tanh"):
        select_layers(Elus(), op_is_one_of=["tanh"])


@pytest.mark.parametrize("function", [attribute, integrated_gradients])
def test_defaults_of_attribution_functions_equal_those_of_pages(function: Any) -> None:
    parameters, options = inspect.signature(function).parameters, page_options()
    for name in ("steps", "quadrature", "linear_prefix", "refinement"):
        assert parameters[name].default == getattr(options.attribution, name)
    assert parameters["steps"].default == options.features.fit_steps
    assert options.attribution.baseline == AUTO
    assert (
        parameters["baseline"].default == ChecksOptions().baseline == DEFAULT_BASELINE
    )  # what pages have without effects


def constant_rule(factor: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(1), np.full(1, factor)


@pytest.mark.parametrize("rule", RULES.names())
@pytest.mark.parametrize("steps", [1, 5, 32])
def test_quadrature_weights_sum_to_one_and_points_lie_on_the_path(rule: str, steps: Any) -> None:
    points, weights = quadrature(rule, steps)
    assert weights.sum() == pytest.approx(1)
    assert points.min() > 0
    assert points.max() <= 1


def test_custom_quadrature_rules_are_used_and_change_their_cache_key() -> None:
    observations = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
    agent, sources = TinyAgent(), [RULES.source("riemann")]
    expected = integrated_gradients(agent, observations, "1a", steps=1, quadrature="riemann")
    for factor in (1.0, 2.0):
        try:
            RULES.register("riemann", functools.partial(constant_rule, factor))
            found = integrated_gradients(agent, observations, "1a", quadrature="riemann")
            assert np.allclose(found, factor * expected)
            sources.append(RULES.source("riemann"))
        finally:
            RULES.unregister("riemann")
    assert len(set(sources)) == 3


def test_gauss_legendre_quadrature_is_exact_for_polynomials() -> None:
    points, weights = quadrature("gauss-legendre", 3)
    assert (weights * points**5).sum() == pytest.approx(1 / 6)


@pytest.mark.parametrize(("rule", "steps"), [("simpson", 3), ("riemann", 0), ("riemann", 2.5), ("riemann", "a")])
def test_invalid_quadrature_rules_and_steps_are_rejected(rule: str, steps: Any) -> None:
    with pytest.raises(OptionError):
        quadrature(rule, steps)

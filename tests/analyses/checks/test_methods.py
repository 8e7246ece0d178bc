"""Sanity checks: methods that ignore the network are recognized; parameters are restored."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution import perturbation
from rl_clarity.analyses.attribution.integrated_gradients import Attribution
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid
from rl_clarity.analyses.attribution.saliency import SaliencyMethod, results_at
from rl_clarity.analyses.checks.methods import (
    _signed_correlation,
    choose_frames,
    sanity_checks,
    structural_similarity,
)
from rl_clarity.analyses.checks.report import MethodReport, Randomization
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import Interval
from rl_clarity.formats.architectures import build
from rl_clarity.recordings.samples import RaggedArray, Trajectories
from tests.fakes import TinyAgent


def trajectories(shape: tuple[int, int, int], steps: int = 8) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (1, steps, 4, 4, shape[2]))
    observations = np.kron(small, np.ones((1, 1, shape[0] // 4, shape[1] // 4, 1))).astype(np.uint8)
    zeros = np.zeros((1, steps))
    return {"observations": observations, "actions": zeros.astype(int), "rewards": zeros, "dones": zeros.astype(bool)}


@pytest.fixture(scope="module")
def keras_agent() -> Any:
    return rl_clarity.KerasAgent(build("clear", (16, 16, 3), 5, seed=1), batch_size=256, gradient_batch_size=16)


@pytest.fixture(scope="module")
def report(keras_agent: Any) -> Any:
    methods = ["jacobian", "input_integrated_gradients", "integrated_gradients 2a"]
    return sanity_checks(keras_agent, trajectories((16, 16, 3)), methods, frames=4, output="value")


def test_sanity_checks_refuse_agents_that_observe_vectors() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    agent = rl_clarity.TorchAgent(module, (3,), heads=("policy_logits",))
    zeros = np.zeros((1, 8))
    samples = {"observations": np.zeros((1, 8, 3), np.float32), "actions": zeros.astype(int), "rewards": zeros}
    with pytest.raises(OptionError, match=r"maps of images, but the agent observes vectors; rl_clarity\.run"):
        sanity_checks(agent, {**samples, "dones": zeros.astype(bool)})


def test_checked_frames_are_spread_over_trajectories_of_any_length() -> None:
    lengths = (3, 9)
    rows = [np.full((steps, 1, 1, 1), 10 * row, np.uint8) + np.arange(steps, dtype=np.uint8)[:, None, None, None]
            for row, steps in enumerate(lengths)]  # fmt: skip
    zeros = RaggedArray([np.zeros(steps) for steps in lengths])
    played = Trajectories(RaggedArray(rows), zeros, zeros, zeros)  # type: ignore[arg-type]
    frames = choose_frames(played, 12)
    assert frames.trajectories.tolist() == [0] * 3 + [1] * 9
    assert frames.steps.tolist() == [*range(3), *range(9)]
    assert frames.observations.ravel().tolist() == [*range(3), *range(10, 19)]
    few = choose_frames(played, 4)
    assert list(zip(few.trajectories.tolist(), few.steps.tolist(), strict=True)) == [(0, 0), (1, 1), (1, 4), (1, 8)]


@pytest.mark.slow
def test_layers_are_randomized_from_the_outputs_down(report: Any) -> None:
    for method in report.methods:
        layers = [stage.layer for stage in method.randomization]
        assert len(layers) == len(set(layers)) >= 6
        assert layers[0] == "ppo2_model/vf"
        assert layers[-2:] == ["ppo2_model/pi/2a/conv2d", "ppo2_model/pi/1a/conv2d"]
        assert -1 <= method.randomization[-1].rank_correlation < 1


@pytest.mark.slow
def test_sanity_checks_compare_the_signs_of_attribution(report: Any) -> None:
    jacobian, inputs, layer = ([stage.signed_rank_correlation for stage in one.randomization] for one in report.methods)
    assert set(jacobian) == {None}
    for stages in (inputs, layer):
        assert 0 <= stages[-1] < 0.5


def test_the_report_describes_maps_of_which_only_the_signs_change() -> None:
    interval = {"above_random": Interval(0.2, 0.1, 0.3)}
    signs_change, neither = (
        MethodReport("m", [Randomization("1a", 0.8, 0.7, signed)], interval, interval, None) for signed in (0.03, 0.9)
    )
    assert "but their signs do depend on it (rank correlation with signs 0.03)" in signs_change.weights_text
    assert not signs_change.depends_on_parameters
    assert "signs" not in neither.weights_text
    assert MethodReport.from_dict(json.loads(json.dumps(signs_change.to_dict()))) == signs_change


@pytest.mark.parametrize(("sign", "expected"), [(1, 1), (-1, 1), (0, 0)])
def test_signed_correlation_of_attribution_ignores_its_overall_sign(sign: int, expected: float) -> None:
    values = np.random.default_rng(0).normal(size=(1, 4, 6, 6, 2))
    trained, other = (Attribution(array, values[0], *np.zeros((2, 1, 4))) for array in (values, sign * values[:, ::2]))
    assert _signed_correlation(trained, other, slice(0, None, 2)) == pytest.approx(expected)
    assert _signed_correlation(values, values, slice(None)) is None


@pytest.mark.slow
def test_sanity_checks_restore_the_weights_of_the_agent(keras_agent: Any) -> None:
    observations = trajectories((16, 16, 3))["observations"][0]
    before = keras_agent.forward(observations).values
    sanity_checks(keras_agent, trajectories((16, 16, 3)), ["jacobian"], frames=2, output="value")
    np.testing.assert_array_equal(keras_agent.forward(observations).values, before)


@pytest.mark.slow
def test_the_report_of_sanity_checks_is_valid_json(report: Any) -> None:
    values = json.loads(json.dumps(report.to_dict()))
    assert [row["method"] for row in values["methods"]] == [one.method for one in report.methods]
    completeness = [row["completeness"] for row in values["methods"]]
    assert completeness[0] is None
    assert 0 <= completeness[1] < 0.2
    assert 0 <= completeness[2] < 0.2
    assert set(values["methods"][0]["deletion"]) == {"area", "above_random", "above_center"}


@pytest.mark.slow
def test_a_saliency_method_that_ignores_the_network_is_detected(
    monkeypatch: pytest.MonkeyPatch, keras_agent: Any
) -> None:
    def edges(agent: Any, observations: np.ndarray, outputs: list[Any], state: Any) -> np.ndarray:
        return np.stack([np.diff(observations.astype(float), axis=1, append=0)] * len(outputs))

    monkeypatch.setattr(METHODS, "_registered", {"edges": SaliencyMethod("edges", "", edges)})
    report = sanity_checks(keras_agent, trajectories((16, 16, 3)), ["edges", "jacobian"], frames=4, output="value")
    edges_report, jacobian_report = report.methods
    assert not edges_report.depends_on_parameters
    assert edges_report.randomization[-1].rank_correlation == pytest.approx(1)
    assert jacobian_report.randomization[-1].rank_correlation < 0.9


def test_agents_whose_parameters_cannot_be_set_are_not_randomized() -> None:
    agent: Any = TinyAgent("recurrent", observation_shape=(16, 16, 3))
    report = sanity_checks(agent, trajectories((16, 16, 3)), ["perturbation", "integrated_gradients 1a"], frames=3)
    for method in report.methods:
        assert list(method.randomization) == []
        assert not method.depends_on_parameters


def test_structural_similarity_is_one_for_equal_images() -> None:
    image = np.random.default_rng(0).random((24, 24))
    assert structural_similarity(image, image) == pytest.approx(1)
    assert structural_similarity(image, 1 - image) < 0
    assert structural_similarity(np.zeros((8, 8)), np.zeros((8, 8))) == pytest.approx(1)


def test_unknown_saliency_methods_are_refused() -> None:
    agent: Any = TinyAgent(observation_shape=(16, 16, 3))
    with pytest.raises(OptionError, match="methods='lime' is not one of perturbation, signed_perturbation, jacobian"):
        sanity_checks(agent, trajectories((16, 16, 3)), ["lime"])


def test_signed_and_unsigned_perturbation_share_forward_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = TinyAgent(observation_shape=(16, 16, 3), num_actions=3)
    evaluated: list[int] = []

    def counted(agent: Any, observations: np.ndarray, images: np.ndarray, state: Any) -> np.ndarray:
        evaluated.append(len(images))
        return results_at(agent, observations, images, state)

    def check(*methods: str) -> tuple[list[MethodReport], int]:
        evaluated.clear()
        report = sanity_checks(agent, trajectories((16, 16, 3)), methods, frames=4)
        return [*report.methods], sum(evaluated)

    monkeypatch.setattr(perturbation, "results_at", counted)
    (plain,), images = check("perturbation")
    (signed,), _ = check("signed_perturbation")
    both, together = check("signed_perturbation", "integrated_gradients 1a", "perturbation")
    assert images == together == 4 * len(PerturbationGrid.for_shape(16, 16).masks)
    assert [both[0], both[2]] == [signed, plain]
    assert both[1].method == "integrated_gradients 1a"
    assert plain.deletion != signed.deletion

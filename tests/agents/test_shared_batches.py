"""Points of a path share a small batch: its attribution is that of the same observations in a full batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.differentiation import TensorFlowBackend
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.scores import SMALLEST_BATCH
from rl_clarity.analyses.attribution import attribute
from rl_clarity.analyses.attribution.baselines import layer_baseline
from rl_clarity.formats import sb3
from tests import state_dicts
from tests.agents.test_linear_prefix import made_agent

FULL = 64


@pytest.fixture(scope="module")
def agent() -> Any:
    return KerasAgent(sb3.actor_critic(state_dicts.sb3(channels=3, side=36, net_arch=(12,)), (36, 36, 3)))


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (FULL, 36, 36, 3), np.uint8)


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "blur"])
@pytest.mark.parametrize("layer", ["input", "features_extractor.cnn.1"])
def test_attribution_of_small_batches_equals_that_of_full_batches(
    agent: Any, images: np.ndarray, layer: str, baseline: str
) -> None:
    options: dict[str, Any] = {"output": {"value": 1, 1: 0.5}, "steps": 7, "baseline": baseline}
    expected = rl_clarity.integrated_gradients(agent, images, layer, **options)
    largest = np.abs(expected).max()
    for count in (1, 3, 8):
        ours = rl_clarity.integrated_gradients(agent, images[:count], layer, **options)
        np.testing.assert_allclose(ours, expected[:count], rtol=0, atol=1e-6 * largest)


@pytest.mark.parametrize("count", [2, 10, 40])
def test_several_path_points_share_one_small_batch(
    agent: Any, images: np.ndarray, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """8 points of 2 observations are the 16 rows of the smallest batch, and so are 1.6 points of 10 observations."""
    compiled: list[int] = []
    compile_ = TensorFlowBackend.compile

    def counting(self: Any, function: Any) -> Any:
        run = compile_(self, function)

        def call(*arguments: Any) -> Any:
            compiled.append(function.__name__ == "gradients_at")
            return run(*arguments)

        return call

    monkeypatch.setattr(TensorFlowBackend, "compile", counting)
    fresh = KerasAgent(agent.network)
    options: dict[str, Any] = {"steps": 16, "refinement": 1, "baseline": "zero-layer"}
    rl_clarity.integrated_gradients(fresh, images[:count], "features_extractor.cnn.1", **options)
    assert sum(compiled) == 16 * count / (64 if count > 16 else 16)


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "blur", "expected"])
@pytest.mark.parametrize("bypassed", [False, True])
def test_refined_paths_reuse_the_points_computed_before_refinement(
    agent: Any, images: np.ndarray, monkeypatch: pytest.MonkeyPatch, bypassed: bool, baseline: str
) -> None:
    """They equal paths that have as many points from the beginning."""
    agent, images = (made_agent("skip"), images[:, :16, :16]) if bypassed else (agent, images)
    layer = "c1" if bypassed else "features_extractor.cnn.1"
    outputs: list[Any] = [0, {1: 1, 2: -1}]
    options: dict[str, Any] = {"baseline": baseline, "steps": 3, "quadrature": "midpoint"}
    options["baseline_observations"] = images[:5]
    errors = np.abs(attribute(agent, images[:27], layer, outputs, **options).completeness_error)
    calls, tails = list[int](), agent.tails

    def counted(seen: np.ndarray, *rest: Any) -> Any:
        calls.append(len(seen))
        return tails(seen, *rest)

    monkeypatch.setattr(agent, "tails", counted)
    refined = attribute(agent, images[:27], layer, outputs, error_limits=np.median(errors, axis=1), **options)
    assert calls == [27]
    assert refined.refined is not None
    assert len(np.unique(refined.refined)) > 1
    beginnings: Any = baseline
    if baseline == "expected":  # the same observations, however many points
        beginnings = layer_baseline(agent, baseline, images[:27], layer, others=images[:5], count=3)
    for factor in np.unique(refined.refined):
        alone = attribute(
            agent, images[:27], layer, outputs, **{**options, "steps": 3 * factor, "baseline": beginnings}
        )
        for name in ("values", "scores_at_baseline"):
            expected, actual = (getattr(one, name)[refined.refined == factor] for one in (alone, refined))
            np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("prefix", [True, False])
def test_a_baseline_shared_by_all_observations_is_computed_once(
    agent: Any, images: np.ndarray, monkeypatch: pytest.MonkeyPatch, prefix: bool
) -> None:
    """A batch of 64 observations and the smallest batch of the baseline; the result is that of 64 equal baselines."""
    layer, rows = "features_extractor.cnn.1", list[int]()
    start = agent.activations(np.zeros_like(images[:1]), layer)
    expected = attribute(agent, images, layer, baseline=np.repeat(start, FULL, axis=0), linear_prefix=prefix)

    fresh = KerasAgent(agent.network)
    tail_of = fresh._tail

    def counting(given: tuple[str, ...]) -> Any:
        compute, step = tail_of(given)

        def call(*tensors: Any) -> Any:
            rows.append(len(tensors[0]))
            return compute(*tensors)

        return call, step

    monkeypatch.setattr(fresh, "_tail", counting)
    ours = attribute(fresh, images, layer, baseline=start, linear_prefix=prefix)
    assert sorted(rows) == [SMALLEST_BATCH, FULL]
    for name in ("values", "scores", "scores_at_baseline"):
        equal = getattr(expected, name)
        np.testing.assert_allclose(getattr(ours, name), equal, rtol=0, atol=1e-6 * np.abs(equal).max(), err_msg=name)

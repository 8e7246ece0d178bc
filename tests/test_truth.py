"""The benchmark of explanations and measured effects: SARFA, Captum on any agent, and what is chosen and judged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks import truth_page
from benchmarks.truth import RESULTS, sarfa
from rl_clarity.analyses.attribution import attribute
from tests.fakes import TinyAgent


def test_sarfa_is_the_harmonic_mean_of_drop_and_similarity() -> None:
    logits = np.log([[0.5, 0.3, 0.2]])
    only_best = np.log([0.5 / 0.25, 1, 1])  # divides the weight of the best action by 2; others keep their ratio
    others = np.log([1, 0.3 / 0.2, 0.2 / 0.3])  # exchanges the others; the best action keeps its probability
    raised = -only_best
    changes = np.stack([only_best, others, raised])[None, None]  # (1, 1, 3, A)
    specific = sarfa(logits, changes)[0, 0]
    drop = 0.5 - 0.25 / 0.75
    assert specific[0] == pytest.approx(2 * drop / (drop + 1))
    assert specific[1] == pytest.approx(0, abs=1e-9)
    assert specific[2] == 0


def test_sarfa_is_lower_if_other_actions_change_too() -> None:
    logits = np.log([[0.5, 0.3, 0.2]])
    after = np.log([0.25, 0.3, 0.2]), np.log([0.25, 0.1, 0.4])
    changes = np.stack([logits[0] - one for one in after])[None, None]
    same, changed = sarfa(logits, changes)[0, 0]
    drop = 0.5 - 0.25 / 0.75
    rest = np.array([0.1, 0.4]) / 0.5
    divergence = (rest * np.log(rest / np.array([0.6, 0.4]))).sum()
    assert changed == pytest.approx(2 * drop / (1 + divergence) / (drop + 1 / (1 + divergence)))
    assert changed < same


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_captum_methods_can_explain_agents_of_any_framework(kind: str) -> None:
    pytest.importorskip("captum")
    from benchmarks.truth_peers import POINTS, captum_maps

    agent: Any = TinyAgent(kind, observation_shape=(16, 16, 3), num_actions=3)
    observations = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
    state = None if kind == "policy" else (np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32),)
    best: Any = {1: np.array([1, 0, 1], np.float32), 2: np.array([0, 1, 0], np.float32)}
    found = {what["method"]: maps for what, maps in captum_maps(agent, observations, state, ["value", best])}
    expected = attribute(
        agent,
        observations,
        "input",
        ["value", best],
        steps=POINTS,
        quadrature="gauss-legendre",
        baseline="zero-input",
        state=state,
    )
    maps = found["captum_integrated_gradients"]
    np.testing.assert_allclose(maps, expected.values.sum(axis=-1), atol=1e-5)
    assert all(one.shape == maps.shape and np.isfinite(one).all() and one.any() for one in found.values())


def row(method: str, correlation: float, signs: float, **what: str) -> dict[str, Any]:
    numbers = {"count": 90, "large": 30, "episodes": 16, "threshold": 0.5, "by_type": {"saw": [90, 30, 0.5, 0.9]}}
    estimates = {"correlation": correlation, "signs": signs, "magnitudes": 0.25}
    intervals = {name: [value, value - 0.1, value + 0.05] for name, value in estimates.items()}
    return {"method": method, "output": "value", **what, **numbers, **intervals}


def results() -> dict[str, Any]:
    """An agent whose sample for choosing prefers 1a and `mean`, and whose other sample prefers 2a."""

    def entry(first: float, second: float) -> dict[str, Any]:
        layers = [
            row("integrated_gradients", first, 0.9, layer="1a", baseline="mean"),
            row("integrated_gradients", 0.7, 0.85, layer="1a", baseline="blur"),
            row("integrated_gradients", second, 0.8, layer="2a", baseline="mean"),
        ]
        others = [row("captum_occlusion", 0.4, 0.75), row("edges", 0.01, 0.5)]
        return {"groups": {"attributions": layers, "captum": others}, "episodes": 16, "steps": 100, "seed": 1}

    return {"coinrun": {"choice": entry(0.8, 0.5), "judgment": entry(0.6, 0.95)}, "fruitbot": {"choice": entry(0, 0)}}


def test_the_truth_page_selects_on_one_sample_and_reports_the_other() -> None:
    page = truth_page.page(results())
    assert (
        "| [coinrun](#coinrun) | 1a, blur: .70 / .85 | 1a, mean | .60 (.50 to .65) | .90 (.80 to .95) of 30 |" in page
    )
    assert "| Captum, Occlusion: .40 / .75 | edges (Sobel): .01 / .50 |" in page
    assert "| mean | .60 / .90 | 1a: .60 / .90 |" in page
    assert "| mean | .60 / .90 | .95 / .80 |" in page
    assert "| saw | 90 | 30 | .50 | .90 |" in page


def test_a_model_card_reports_sign_agreement_of_the_finest_layer() -> None:
    line = truth_page.card_line(results()["coinrun"])
    assert line.startswith(
        "Attribution at layer `1a` from the baseline `blur`, with which its page opens, has the sign"
    )
    assert "for .85 (.75 to .90) of 30 objects, and a correlation of .70 (.60 to .75) with the effects of 90" in line


def test_model_cards_agree_with_the_benchmark_results() -> None:
    measured = json.loads(RESULTS.read_text())
    cards = [name for name in measured if (truth_page.CARDS / f"{name}.md").exists()]
    assert len(cards) >= 5
    for name in cards:
        found = truth_page.LINE.search((truth_page.CARDS / f"{name}.md").read_text())
        assert found is not None, "run: python -m benchmarks.truth --write"
        assert found.group() == truth_page.card_line(measured[name])


def test_docs_truth_md_agrees_with_the_benchmark_results() -> None:
    assert truth_page.PAGE.read_text() == truth_page.page(json.loads(RESULTS.read_text()))


def test_the_truth_page_leaves_out_agents_without_both_samples() -> None:
    assert "[fruitbot]" not in truth_page.page(results())

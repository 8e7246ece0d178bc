"""Changes of outputs when features are ablated, on frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.ablation import AblatedPlayer, ablation_changes, summarize
from rl_clarity.analyses.attribution.baselines import layer_baseline
from rl_clarity.analyses.attribution.integrated_gradients import attribute
from rl_clarity.pages.options import ORIGINAL
from tests import colors
from tests.fakes import TinyAgent

RNG = np.random.default_rng(0)


def color_observations(count: int) -> np.ndarray:
    return RNG.integers(0, 256, (count, colors.SIZE, colors.SIZE, 3)).astype(np.uint8)


def make_agent(kind: str) -> Any:
    if kind == "keras":
        pytest.importorskip("keras")
        return colors.keras_agent()
    pytest.importorskip("torch")
    return colors.torch_agent(kind)


@pytest.mark.parametrize("kind", ["policy", "recurrent", "q", "keras"])
def test_only_ablating_features_an_output_depends_on_changes_it(kind: str) -> None:
    agent, observations = make_agent(kind), color_observations(70)
    state = agent.initial_state(70)
    (layer,) = agent.layers
    changes = ablation_changes(agent, observations, layer, np.eye(3), [0, 1], state)
    assert changes.shape == (2, 70, 3)
    assert np.abs(changes[..., 0]).min() > 0
    np.testing.assert_array_equal(changes[..., 1:], 0)


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "blur", "mean", "expected"])
@pytest.mark.parametrize("kind", ["policy", "recurrent", "q", "keras"])
def test_ablation_changes_the_output_by_the_attribution_if_the_head_is_linear(kind: str, baseline: str) -> None:
    agent, observations = make_agent(kind), color_observations(10)
    scores, state = [0 if kind == "q" else "value"], agent.initial_state(10)
    (layer,) = agent.layers
    start = layer_baseline(agent, baseline, observations, layer, state, count=4)
    given = "zero-layer" if start is None else start
    path: Any = {"steps": 4, "quadrature": "midpoint"}  # equal weights for each of the observations of "expected"
    result = attribute(agent, observations, layer, scores, state=state, baseline=given, **path)
    attribution = result.values.sum(axis=(2, 3))  # (1, n, 3)
    changes = ablation_changes(agent, observations, layer, np.eye(3), scores, state, baseline=given)
    np.testing.assert_allclose(changes, -attribution, atol=1e-3 * np.abs(attribution).max())


@pytest.mark.parametrize("kind", ["policy", "recurrent", "q"])
def test_ablation_changes_equal_those_of_the_edited_agent(kind: str) -> None:
    agent = TinyAgent(kind)
    observations = RNG.integers(0, 256, (3, 64, 64, 3)).astype(np.uint8)
    state = agent.initial_state(3)
    components = RNG.random((2, 12))
    changes = ablation_changes(agent, observations, "1a", components, [4], state)
    for k, component in enumerate(components):
        edited = rl_clarity.edit(agent, rl_clarity.Ablate("1a", component=component))
        before, after = agent.forward(observations, state), edited.forward(observations, state)
        scores = [np.asarray(one.q_values if kind == "q" else one.policy_logits)[:, 4] for one in (before, after)]
        np.testing.assert_allclose(changes[0, :, k], scores[1] - scores[0], atol=1e-5)


@pytest.mark.parametrize("baseline", ["zero-layer", "blur", "expected"])
@pytest.mark.parametrize("kind", ["policy", "recurrent", "q"])
def test_agents_that_play_without_a_feature_differ_by_ablation_changes(kind: str, baseline: str) -> None:
    agent = TinyAgent(kind)
    observations = RNG.integers(0, 256, (3, 64, 64, 3)).astype(np.uint8)
    state, component = agent.initial_state(3), RNG.random(12).astype(np.float32)
    start: Any = baseline
    if baseline == "expected":
        start = layer_baseline(agent, baseline, observations, "1a", state, count=2)
    changes = ablation_changes(agent, observations, "1a", component[None], [4], state, baseline=start)
    players = agent, AblatedPlayer(agent, "1a", component, start)
    before, after = (player.step(observations, state, np.zeros(3, bool))[0] for player in players)
    scores = [np.asarray(one.q_values if kind == "q" else one.policy_logits)[:, 4] for one in (before, after)]
    np.testing.assert_allclose(scores[1] - scores[0], changes[0, :, 0], atol=1e-5)
    assert np.abs(changes).max() > 1e-4


def test_ablation_changes_are_summarized_over_frames() -> None:
    attribution = RNG.normal(size=(50, 3))
    changes = np.column_stack([-2 * attribution[:, 0], attribution[:, 1], np.zeros(50)])
    summary = summarize(changes, attribution, np.arange(50) // 10)
    np.testing.assert_allclose(summary.correlation, [1, -1, 0], atol=1e-12)
    np.testing.assert_allclose(summary.mean, changes.mean(axis=0))
    np.testing.assert_allclose(summary.mean_abs, np.abs(changes).mean(axis=0))


def test_the_summary_counts_agreement_on_the_most_important_feature() -> None:
    attribution = np.tile([[3.0, -1.0, 0.0]], (40, 1))
    changes = np.where(np.arange(40)[:, None] < 30, [[-9.0, 1.0, 0.0]], [[1.0, 9.0, 0.0]])
    changes[0] = 0  # nothing has an effect: not counted
    episodes = np.repeat(np.arange(8), 5)
    largest = summarize(changes, attribution, episodes).largest
    assert largest is not None
    assert largest.low is not None
    assert largest.high is not None
    assert largest.value == 29 / 39
    assert largest.low < 29 / 39 < largest.high
    single = summarize(changes, attribution, np.zeros(40, int)).largest
    assert single is not None
    assert (single.low, single.high) == (None, None)
    assert summarize(changes[:, :1], attribution[:, :1], episodes).largest is None


def generate(folder: Path, **options: Any) -> Any:
    agent = TinyAgent(num_actions=4)
    played = {
        "observations": RNG.integers(0, 256, (2, 9, 64, 64, 3)).astype(np.uint8),
        **{name: np.zeros((2, 9), int) for name in ("actions", "rewards", "firsts")},
    }
    varied = RNG.integers(0, 256, (12, 64, 64, 3)).astype(np.uint8)
    page = rl_clarity.generate(agent, played, varied, folder, nmf_features=2, **options)
    return agent, played, page.results()


def test_a_page_stores_ablation_changes_on_every_fourth_frame(tmp_path: Path) -> None:
    agent, played, results = generate(tmp_path, layer_kwargs={"name_contains_one_of": ["2a"]}, attr_policy=True)
    section = results.section("ablation")
    entry = section["layers"]["2a"]
    assert section["every"] == 4
    arrays = results.chunk(entry["trajectories"][1])
    assert arrays["frames"].tolist() == [0, 4, 8]
    with np.load(tmp_path / ".rl-clarity" / "features-2a.npz") as features:
        components = features["components"]
    scores: list[str | int] = ["value", 1, 2, 3, 0]
    assert (section["to"], results.baseline) == ("baseline", "blur")
    expected = ablation_changes(agent, played["observations"][1, ::4], "2a", components, scores, baseline="blur")
    np.testing.assert_allclose(arrays["change.value"], expected[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(arrays["change.action-2"], expected[2], rtol=1e-4, atol=1e-6)
    changes = np.concatenate([results.chunk(name)["change.value"] for name in entry["trajectories"]])
    totals = [results.totals("2a", t)["value"].totals[::4, :2].sum(axis=-1) for t in range(2)]
    summary = vars(summarize(changes, np.concatenate(totals), np.repeat([0, 1], 3)))
    largest, shown = summary.pop("largest"), entry["outputs"]["value"]["largest"]
    assert shown == pytest.approx({"value": largest.value, "low": largest.low, "high": largest.high})
    for name, values in summary.items():
        np.testing.assert_allclose(entry["outputs"]["value"][name], values, rtol=1e-4, atol=1e-6)
    assert list(entry["outputs"]) == results.outputs


def test_ablation_can_set_features_to_zero(tmp_path: Path) -> None:
    agent, played, results = generate(tmp_path, layer_kwargs={"name_contains_one_of": ["2a"]}, ablation={"to": "zero"})
    section = results.section("ablation")
    assert section["to"] == "zero"
    components = results.reduction("2a").components
    expected = ablation_changes(agent, played["observations"][0, ::4], "2a", components, ["value"])
    changes = results.chunk(section["layers"]["2a"]["trajectories"][0])["change.value"]
    np.testing.assert_allclose(changes, expected[0], rtol=1e-4, atol=1e-6)


def test_ablation_can_be_turned_off_as_in_the_original(tmp_path: Path) -> None:
    assert ORIGINAL["ablation_every"] is None
    _, _, results = generate(tmp_path, ablation_every=None)
    assert "ablation" not in [section["kind"] for section in results.manifest["sections"]]

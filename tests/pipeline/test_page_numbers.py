"""The numbers of a page equal the results of the public functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution.integrated_gradients import attribute
from rl_clarity.analyses.feature_fit import divide_observations
from rl_clarity.analyses.features import FeatureOptions
from rl_clarity.pages.results import Results
from rl_clarity.recordings.advantages import dones_from_firsts
from rl_clarity.visualization.rendering import attribution_scale
from rl_clarity.visualization.totals import channel_totals
from tests.pipeline.small import COMBOS, GAMMA, LAMBDA, STEPS, SmallRun, completeness
from tests.quantization import quantization_error

LAYERS = ["Relu_1", "Relu_2"]
STEPS_AND_RULE = (5, "graded-midpoint")


@pytest.fixture(scope="session")
def results(small_run: SmallRun) -> Results:
    return small_run.results


@pytest.fixture(scope="session")
def reductions(small_run: SmallRun) -> dict[str, rl_clarity.ChannelReduction]:
    """Reductions of each layer, fitted to the attribution of the value on 24 of the 32 observations."""
    observations = small_run.observations.observations
    chosen = observations[divide_observations(FeatureOptions(fit_observations=24), len(observations))[0]]
    return {
        layer: rl_clarity.ChannelReduction.fit(
            rl_clarity.integrated_gradients(small_run.agent, chosen, layer, "value", *STEPS_AND_RULE), 8, 0
        )
        for layer in LAYERS
    }


def output_indices(output: dict[str, Any]) -> int | str | list[int]:
    """Convert an output of the manifest to an argument of `integrated_gradients`."""
    if output["kind"] == "group":
        return [index for index, combo in enumerate(COMBOS) if GROUPS[output["label"]](combo)]
    return output["action"] if output["kind"] == "action" else output["kind"]


def limits_of(results: Results, scores: int | str | list[int]) -> list[tuple[int | str, float | None]]:
    """Pair the scores that are computed for an output with the page's limits of their completeness errors."""
    single = scores if isinstance(scores, list) else [scores]
    return [(one, results.error_limit(one if isinstance(one, str) else f"action-{one}")) for one in single]


GROUPS: dict[str, Callable[[tuple[str, ...]], bool]] = {
    "any →": lambda combo: "RIGHT" in combo,
    "any ←": lambda combo: "LEFT" in combo,
    "any ↑": lambda combo: "UP" in combo,
    "any ↓": lambda combo: "DOWN" in combo,
    "no direction": lambda combo: not {"RIGHT", "LEFT", "UP", "DOWN"} & set(combo),
}


def test_every_logit_and_group_is_attributed(results: Results) -> None:
    kinds = [output["kind"] for output in results.section("attribution")["outputs"]]
    assert kinds == ["value"] + ["action"] * 15 + ["group"] * 5
    assert {o["label"] for o in results.section("attribution")["outputs"] if o["kind"] == "group"} == set(GROUPS)
    assert results.layers == ["input", *LAYERS]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("which", [0, 3, 15, 16, 20])  # the value, two logits, two groups
def test_stored_attribution_equals_integrated_gradients(
    small_run: SmallRun, results: Results, reductions: dict[str, rl_clarity.ChannelReduction], layer: str, which: int
) -> None:
    output = results.section("attribution")["outputs"][which]
    frames = small_run.trajectories.observations[1]
    scores = output_indices(output)
    parts = [  # a group's features are the sums of its actions'
        rl_clarity.integrated_gradients(small_run.agent, frames, layer, score, *STEPS_AND_RULE, error_limit=limit)
        for score, limit in limits_of(results, scores)
    ]
    attribution = np.sum(parts, axis=0)
    reduced = [np.concatenate(reductions[layer].signed_transform(part), axis=-1) for part in parts]
    values = np.sum(reduced, axis=0)
    channels, residual = values[..., :8], values[..., 8:]
    shown = results.attribution(layer, 1, output["id"])
    shown_values = np.concatenate([shown.channels, shown.residual], axis=-1)
    assert shown_values.shape == (STEPS, *small_run.agent.layers[layer][:2], 9)
    assert (np.abs(shown_values - values) <= np.sum(list(map(quantization_error, reduced)), axis=0)).all()
    assert shown.scale == pytest.approx(attribution_scale(channels), rel=1e-4)
    totals = results.totals(layer, 1)[output["id"]]
    np.testing.assert_allclose(totals.totals, channel_totals(channels, residual), rtol=1e-3, atol=1e-4 * shown.scale)
    gap = completeness(results, layer, 1, output["id"])
    np.testing.assert_allclose(gap[:, 0], attribution.sum(axis=(1, 2, 3)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layer", LAYERS)
def test_stored_feature_activations_are_the_maxima_of_each_step(
    small_run: SmallRun, results: Results, reductions: dict[str, rl_clarity.ChannelReduction], layer: str
) -> None:
    activations = small_run.agent.activations(small_run.trajectories.observations[1], layer)
    entry = next(one for one in results.section("attribution")["layers"] if one["name"] == layer)
    shown = results.chunk(entry["totals"][1])["activation"]
    assert shown.shape == (STEPS, 8)
    assert activations.min() >= 0, "after a ReLU"
    expected = reductions[layer].transform(activations).max(axis=(1, 2))
    np.testing.assert_allclose(shown, expected, rtol=1e-4, atol=1e-5 * expected.max())


@pytest.mark.parametrize("layer", LAYERS)
def test_stored_completeness_errors_are_output_differences_minus_sums(
    small_run: SmallRun, results: Results, layer: str
) -> None:
    frames = small_run.trajectories.observations[0]
    outputs = small_run.agent.forward(frames)
    right = [index for index, combo in enumerate(COMBOS) if "RIGHT" in combo]
    assert outputs.policy_logits is not None
    scores: dict[str, Any] = {
        "value": outputs.values,
        "action-4": outputs.policy_logits[:, 4],
        "group-0": outputs.policy_logits[:, right].sum(axis=1),
    }
    path: dict[str, Any] = {"steps": 5, "quadrature": "graded-midpoint"}
    limits = [results.error_limit("value"), results.error_limit("action-4")]
    expected = attribute(small_run.agent, frames, layer, ["value", 4], error_limits=limits, **path)
    group = attribute(
        small_run.agent, frames, layer, right, error_limits=[results.error_limit(f"action-{i}") for i in right], **path
    )
    gaps = [*expected.completeness_error, group.completeness_error.sum(axis=0)]
    starts = [*expected.scores_at_baseline, group.scores_at_baseline.sum(axis=0)]
    for name, at_zero, gap in zip(scores, starts, gaps, strict=True):
        total, difference, score = completeness(results, layer, 0, name).T
        np.testing.assert_allclose(score, scores[name], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(difference, scores[name] - at_zero, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(total - difference, gap, rtol=1e-3, atol=1e-3)
        assert np.abs(gap).mean() < 0.5 * np.abs(difference).mean()


@pytest.mark.parametrize("output", ["value", "action-2", "group-1"])
def test_stored_input_attribution_equals_input_gradients(small_run: SmallRun, results: Results, output: str) -> None:
    frames = small_run.trajectories.observations[0]
    (entry,) = (entry for entry in results.section("attribution")["outputs"] if entry["id"] == output)
    scores = output_indices(entry)
    parts = [
        rl_clarity.input_gradients(small_run.agent, frames, score)
        for score in (scores if isinstance(scores, list) else [scores])
    ]
    gradients = np.sum(parts, axis=0)
    shown = results.attribution("input", 0, output)
    assert shown.residual is None
    np.testing.assert_array_equal(shown.hues, np.eye(3))
    assert (np.abs(shown.channels - gradients) <= np.sum(list(map(quantization_error, parts)), axis=0)).all()
    assert shown.scale == pytest.approx(attribution_scale(gradients), rel=1e-4)
    np.testing.assert_allclose(
        results.totals("input", 0)[output].totals, channel_totals(gradients), rtol=1e-3, atol=1e-3 * shown.scale
    )


def test_the_page_opens_with_its_finest_layer(results: Results) -> None:
    assert results.section("attribution")["opening"] == LAYERS[0]


def test_stored_mean_effects_equal_those_of_the_totals(results: Results) -> None:
    for layer in results.layers:
        for output, effects in results.layer(layer)["effects"].items():
            totals = np.concatenate([results.totals(layer, t)[output].totals for t in range(2)])
            net = totals.sum(axis=-1)
            np.testing.assert_allclose(effects, net.mean(axis=0), rtol=1e-4, atol=1e-6)
            spread = np.quantile(net, (0.1, 0.9), axis=0).T
            np.testing.assert_allclose(results.layer(layer)["effect_spread"][output], spread, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_stored_reconstruction_errors_equal_those_of_the_reduction(
    small_run: SmallRun, results: Results, reductions: dict[str, rl_clarity.ChannelReduction], layer: str
) -> None:
    observations = small_run.observations.observations
    chosen, others = divide_observations(FeatureOptions(fit_observations=24), len(observations))
    assert len(others) == 3
    errors = [
        reductions[layer].reconstruction_error(
            rl_clarity.integrated_gradients(small_run.agent, observations[part], layer, "value", *STEPS_AND_RULE)
        )
        for part in (chosen, others)
    ]
    nmf = results.layer(layer)["features"]["reduction"]
    assert nmf["fitted_on"] == 24
    assert [nmf["error"], nmf["error_held_out"]] == pytest.approx(errors, rel=1e-3)


@pytest.mark.parametrize("trajectory", [0, 1])
def test_stored_values_and_logits_equal_the_outputs_of_the_agent(
    small_run: SmallRun, results: Results, trajectory: int
) -> None:
    recorded, series = small_run.trajectories, results.series(trajectory)
    outputs = small_run.agent.forward(recorded.observations[trajectory])
    logits = outputs.policy_logits
    assert logits is not None
    assert outputs.values is not None
    for name in ("actions", "rewards", "firsts"):
        np.testing.assert_array_equal(series[name], getattr(recorded, name)[trajectory])
    np.testing.assert_allclose(series["values"], outputs.values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(series["logits"], logits, rtol=1e-4, atol=1e-4)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(series["probabilities"], powers / powers.sum(1, keepdims=True), rtol=1e-3, atol=1e-5)
    groups = np.stack([logits[:, group["actions"]].sum(1) for group in results.agent["action_groups"]])
    np.testing.assert_allclose(series["groups"], groups.T, rtol=1e-4, atol=1e-3)


def test_stored_advantages_and_bookmarks_equal_the_public_functions(small_run: SmallRun, results: Results) -> None:
    recorded = small_run.trajectories
    assert recorded.values is not None
    advantages = rl_clarity.generalized_advantage_estimation(
        recorded.rewards,
        recorded.values,
        dones_from_firsts(recorded.firsts),
        gamma=GAMMA,
        lam=LAMBDA,
        truncated=recorded.truncated,
        final_values=recorded.final_values,
    )
    for trajectory in range(2):
        np.testing.assert_allclose(results.series(trajectory)["advantages"], advantages[trajectory], rtol=1e-5)
    episodes = np.cumsum(recorded.firsts, axis=1)
    for direction, bookmarks in (
        (1, results.section("trajectories")["bookmarks"]["high"]),
        (-1, results.section("trajectories")["bookmarks"]["low"]),
    ):
        best: dict[Any, list[tuple[float, int, int]]] = defaultdict(list)
        for trajectory, frame in np.argwhere(direction * advantages > 0):
            episode = (trajectory, episodes[trajectory, frame])
            best[episode].append((-direction * advantages[trajectory, frame], trajectory, frame))
        expected = sorted(min(frames) for frames in best.values())
        assert [(mark["trajectory"], mark["frame"]) for mark in bookmarks] == [(t, f) for _, t, f in expected]
        advantages_shown = [mark["advantage"] for mark in bookmarks]
        assert advantages_shown == pytest.approx([-direction * a for a, _, _ in expected], rel=1e-5)


def test_stored_frames_and_filmstrips_show_the_observations(small_run: SmallRun, results: Results) -> None:
    for trajectory, frames in enumerate(small_run.trajectories.observations):
        np.testing.assert_array_equal(results.frames(trajectory), frames)
        (strip,) = results.trajectory(trajectory)["scrub"]
        columns = np.concatenate(list(frames[:, :, 42:44]), axis=1)
        np.testing.assert_array_equal(results.image(strip), columns)
        assert results.trajectory(trajectory)["images"] == []


def test_atlas_and_dataset_examples_show_the_strongest_observations(
    small_run: SmallRun, results: Results, reductions: dict[str, rl_clarity.ChannelReduction]
) -> None:
    atlas = results.section("features")["observations"]
    observations = small_run.observations.observations
    images = [results.image(name) for name in atlas["images"]]
    for cell, index in enumerate(atlas["indices"]):
        image, position = divmod(cell, atlas["per_image"])
        row, column = (64 * index for index in divmod(position, atlas["columns"]))
        np.testing.assert_array_equal(images[image][row : row + 64, column : column + 64], observations[index])
    assert atlas["origins"] == [None] * atlas["count"]
    for layer in LAYERS:
        reduced = reductions[layer].transform(small_run.agent.activations(observations, layer))
        features = results.features(layer)
        # With one cell per position, a cell shows the strongest observation there, unless it is used too often.
        shown = np.array(atlas["indices"])[features["index.1"]]
        np.testing.assert_allclose(features["position.1"][0, 0], 0.5, atol=0.1)
        strongest = reduced.argmax(axis=0).transpose(2, 0, 1)  # (K, h, w)
        assert shown.shape == strongest.shape
        peaks = reduced.max(axis=0).transpose(2, 0, 1)
        for channel in range(8):
            peak = np.unravel_index(peaks[channel].argmax(), peaks[channel].shape)
            assert shown[(channel, *peak)] == strongest[(channel, *peak)]
            assert features["opacity.1"][(channel, *peak)] == 255


@pytest.mark.parametrize("layer", LAYERS)
def test_each_feature_has_a_thumbnail_that_is_partly_opaque(results: Results, layer: str) -> None:
    images = [results.image(name) for name in results.layer(layer)["features"]["thumbnails"]]
    assert len(images) == 8
    assert all(image.shape[-1] == 4 and image[..., 3].max() == 255 for image in images)


@pytest.mark.parametrize("layer", LAYERS)
def test_stored_frames_by_effect_are_those_of_largest_effect(small_run: SmallRun, results: Results, layer: str) -> None:
    features = results.features(layer)
    shape = results.layer(layer)["height"], results.layer(layer)["width"]
    net = [results.totals(layer, t)["value"].totals[:, :8].sum(axis=-1) for t in range(2)]  # (T, K)
    episodes = [np.cumsum(results.series(t)["firsts"]) + 1000 * t for t in range(2)]
    count = len({number for one in episodes for number in one})
    for name, sign in (("raises", 1), ("lowers", -1)):
        places, strengths = features[f"{name}.value"], features[f"{name}_strength.value"]
        for channel in range(8):
            shown = [(t, frame) for t, frame, _ in places[channel] if t >= 0]
            if not shown:
                assert max((sign * one[:, channel]).max() for one in net) <= 0
                continue
            trajectory, frame, position = places[channel, 0]
            assert sign * net[trajectory][frame, channel] == max((sign * one[:, channel]).max() for one in net)
            assert strengths[channel, 0] == pytest.approx(net[trajectory][frame, channel])
            assert len({episodes[t][frame] for t, frame in shown[:count]}) <= count
            values = sign * results.attribution(layer, trajectory, steps=[frame]).channels[0, :, :, channel]
            assert values[np.unravel_index(position, shape)] == values.max()


@pytest.mark.parametrize("layer", LAYERS)
def test_feature_statistics_equal_those_of_the_reduced_activations(
    small_run: SmallRun, results: Results, layer: str, reductions: dict[str, rl_clarity.ChannelReduction]
) -> None:
    entry, features = results.layer(layer)["features"], results.features(layer)
    atlas = results.section("features")["observations"]
    reduced = reductions[layer].transform(small_run.agent.activations(small_run.observations.observations, layer))
    flat = reduced.reshape(len(reduced), -1, 8)
    assert small_run.observations.episodes is not None
    for channel, facts in enumerate(entry["statistics"]):
        assert facts["strongest"] == pytest.approx(flat[..., channel].max(), rel=1e-4)
        on = flat[..., channel] > 0.2 * flat[..., channel].max()
        assert facts["positions"] == pytest.approx(on.mean(), abs=1e-4)
        assert facts["frames"] == pytest.approx(on.any(axis=1).mean(), abs=1e-4)
        assert 0 < facts["stability"] <= 1
        cell, position = features["excites"][channel, 0]
        assert flat[atlas["indices"][cell], position, channel] == pytest.approx(facts["strongest"], rel=1e-4)
        assert atlas["episodes"][cell] == small_run.observations.episodes[atlas["indices"][cell]]
    field = entry["receptive_field"]
    assert 8 <= field["effective_height"] <= field["height"] <= 128
    assert np.shape(entry["signs"]["value"]) == (8, 2)

"""Every option that decides what is computed has the effect that docs/options.md describes.

Each case has options and, as the function under it, a check of their effect on a page of part of the small run.
`test_every_view_option_has_a_test_case` finds options without a case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution.baselines import ExpectedBaseline
from rl_clarity.analyses.attribution.integrated_gradients import ORIGINAL_PATH
from rl_clarity.analyses.feature_fit import divide_observations
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.pages.results import Results
from rl_clarity.visualization.dataset_examples import dataset_grid
from rl_clarity.visualization.patches import draw_grid
from rl_clarity.visualization.rendering import Direction, render_attribution
from rl_clarity.visualization.totals import channel_totals
from tests.page_options import page_options
from tests.pipeline.conftest import Explain
from tests.pipeline.small import COMBOS, SmallRun, completeness
from tests.quantization import quantization_error

RULE = "graded-midpoint"
LAYER = "Relu_2"
Check = Callable[[Results, SmallRun], None]
CASES: list[Any] = []


def case(**options: Any) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CASES.append(pytest.param(options, check, id=check.__name__.strip("_")))
        return check

    return register


@pytest.mark.parametrize(("options", "check"), CASES)
def test_each_option_has_its_documented_effect(
    options: dict[str, Any], check: Check, explain: Explain, small_run: SmallRun, default_page: Path, tmp_path: Path
) -> None:
    check(explain(**options), small_run)
    assert_equal_keys_mean_equal_files(default_page, tmp_path / "page")


def assert_equal_keys_mean_equal_files(first: Path, second: Path) -> None:
    """Tasks with equal keys wrote equal files: their keys include everything that decides the result."""
    entries = [
        {path.name: json.loads(path.read_text()) for path in (page / DIRECTORY).glob("*-*.json")}
        for page in (first, second)
    ]
    for name in entries[0].keys() & entries[1].keys():
        if entries[0][name]["key"] == entries[1][name]["key"]:
            assert entries[0][name] == entries[1][name]
            for file in entries[0][name]["files"]:
                assert (first / file).read_bytes() == (second / file).read_bytes(), file


def page_frames(small_run: SmallRun) -> np.ndarray:
    """Frames of the first trajectory that the pages of these tests show."""
    return small_run.trajectories.observations[0, :24]


def fitted_observations(small_run: SmallRun, **options: Any) -> np.ndarray:
    """Those of the 16 observations that are not held out."""
    return small_run.observations.observations[divide_observations(page_options(**options).features, 16)[0]]


def fit_reduction(
    small_run: SmallRun, features: int = 8, path: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> rl_clarity.ChannelReduction:
    """Fit the layer's reduction with these options."""
    chosen = fitted_observations(small_run, **options)
    attribution = rl_clarity.integrated_gradients(small_run.agent, chosen, LAYER, **path)
    return rl_clarity.ChannelReduction.fit(attribution, features, 0)


def assert_shows(
    results: Results, attribution: np.ndarray, reduction: rl_clarity.ChannelReduction, output: str = "value"
) -> None:
    """The page shows this attribution, reduced."""
    channels, residual = reduction.signed_transform(attribution)
    values = np.concatenate([channels, residual], axis=-1)
    shown = results.attribution(LAYER, 0, output)
    shown_values = np.concatenate([shown.channels, shown.residual], axis=-1)
    assert (np.abs(shown_values - values) <= quantization_error(values)).all()
    totals = channel_totals(channels, residual)
    assert_close(results.totals(LAYER, 0)[output].totals, totals)


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


# --- frames --------------------------------------------------------------------------------------------------------


@case(filmstrip={"images": True})
def images_of_frames(results: Results, small_run: SmallRun) -> None:
    (name,) = results.trajectory(0)["images"]
    film, frames = results.image(name), page_frames(small_run)
    assert film.shape == (3 * 64, 8 * 64, 3)
    np.testing.assert_array_equal(film[64:128, 128:192], frames[10])


# --- layers --------------------------------------------------------------------------------------------------------


@case(layer_kwargs={"name_contains_one_of": ["Relu_1", "Relu_2"], "discard_first_n": 1})
def layers_by_name(results: Results, small_run: SmallRun) -> None:
    assert results.layers == ["Relu_2"]


@case(layer_kwargs={"op_is_one_of": ["conv2d"], "discard_first_n": 2}, nmf_features=2)
def layers_by_kind(results: Results, small_run: SmallRun) -> None:
    (layer,) = results.section("attribution")["layers"]
    assert "relu" not in layer["full_name"].lower()
    assert (layer["height"], layer["width"], layer["depth"]) == (4, 4, 64)


@case(input_layer_include=True, input_layer_name="observation")
def input_layer(results: Results, small_run: SmallRun) -> None:
    assert results.layers == ["observation", LAYER]
    layer = results.layer("observation")
    assert layer["kind"] == "input"
    assert layer["colors"] == ["#ff0000", "#00ff00", "#0000ff"]
    gradients = rl_clarity.input_gradients(small_run.agent, page_frames(small_run))
    shown = results.attribution("observation", 0)
    assert (np.abs(shown.channels - gradients) <= quantization_error(gradients)).all()


# --- attribution ---------------------------------------------------------------------------------------------------


@case(attr_integrate_steps=3, attr_quadrature="riemann")
def steps_of_attribution(results: Results, small_run: SmallRun) -> None:
    attribution = rl_clarity.integrated_gradients(
        small_run.agent, page_frames(small_run), LAYER, "value", 3, "riemann", error_limit=results.error_limit()
    )
    assert_shows(results, attribution, fit_reduction(small_run, path={"quadrature": "riemann"}))


@case(attribution={"refinement": 1})
def no_further_points(results: Results, small_run: SmallRun) -> None:
    attribution = rl_clarity.integrated_gradients(small_run.agent, page_frames(small_run), LAYER)
    assert_shows(results, attribution, fit_reduction(small_run))
    assert results.layer(LAYER)["refined"] == {"value": 0.0}


@case(attr_quadrature="midpoint")
def quadrature(results: Results, small_run: SmallRun) -> None:
    attribution = rl_clarity.integrated_gradients(
        small_run.agent, page_frames(small_run), LAYER, "value", 5, "midpoint", error_limit=results.error_limit()
    )
    assert_shows(results, attribution, fit_reduction(small_run, path={"quadrature": "midpoint"}))


@case(attr_linear_prefix=False)
def every_operation_at_each_point(results: Results, small_run: SmallRun) -> None:
    attribution = rl_clarity.integrated_gradients(
        small_run.agent,
        page_frames(small_run),
        LAYER,
        "value",
        5,
        "graded-midpoint",
        linear_prefix=False,
        error_limit=results.error_limit(),
    )
    assert_shows(results, attribution, fit_reduction(small_run, path={"linear_prefix": False}))


@case(attr_baseline="mean")
@case(attr_baseline="median")
@case(attr_baseline="blur")
@case(attr_baseline="expected")
def baseline(results: Results, small_run: SmallRun) -> None:
    agent, fitted, name = small_run.agent, fitted_observations(small_run), results.section("attribution")["baseline"]
    seen = {
        "mean": fitted,
        "median": np.median(fitted, axis=0, keepdims=True).astype(np.uint8),
        "blur": fitted[:1],
        "expected": fitted[np.sort(np.random.default_rng(0).permutation(len(fitted))[:5])],
    }
    start = agent.activations(seen[name], LAYER)
    given = {"blur": name, "expected": ExpectedBaseline(start)}.get(name, start.mean(axis=0))
    rule: dict[str, Any] = {"steps": 5, "quadrature": "graded-midpoint", "baseline": given}
    reduction = rl_clarity.ChannelReduction.fit(rl_clarity.integrated_gradients(agent, fitted, LAYER, **rule), 8, 0)
    assert_shows(
        results,
        rl_clarity.integrated_gradients(
            agent, page_frames(small_run), LAYER, **rule, error_limit=results.error_limit()
        ),
        reduction,
    )


@case(attr_max_paths=4, attr_integrate_steps=3, nmf_features=4)
def paths(results: Results, small_run: SmallRun) -> None:
    reduction = fit_reduction(small_run, features=4)
    attribution = rl_clarity.multi_path_attribution(
        small_run.agent,
        page_frames(small_run),
        LAYER,
        reduction,
        steps=3,
        max_paths=4,
        rng=np.random.default_rng([0, 0, 0]),  # seed, trajectory, segment
    )
    assert_shows(results, attribution, reduction)
    straight = rl_clarity.integrated_gradients(
        small_run.agent, page_frames(small_run), LAYER, "value", 3, error_limit=results.error_limit()
    )
    assert np.abs(attribution - straight).max() > 0.01 * np.abs(straight).max()


@case(attr_policy=True)
def policy(results: Results, small_run: SmallRun) -> None:
    assert results.outputs == ["value", *(f"action-{i}" for i in range(15)), *(f"group-{i}" for i in range(5))]
    reduction = fit_reduction(small_run)
    logit = rl_clarity.integrated_gradients(
        small_run.agent, page_frames(small_run), LAYER, 7, 5, RULE, error_limit=results.error_limit("action-7")
    )
    assert_shows(results, logit, reduction, "action-7")
    # A group is not stored: its reduced attribution is the sum of those of its actions.
    group = results.attribution(LAYER, 0, "group-0")
    actions = [results.attribution(LAYER, 0, f"action-{i}") for i in (6, 7, 8)]
    np.testing.assert_allclose(group.channels, sum(one.channels for one in actions), rtol=1e-5, atol=1e-7)


@case(attr_images=True, input_layer_include=True)
def images_of_attribution(results: Results, small_run: SmallRun) -> None:
    for name, selections in ((LAYER, 33), ("input", 12)):
        layer = results.layer(name)
        films = layer["images"]["value"]
        assert len(films) == selections
        assert films.keys() == layer["scrubs"]["value"].keys()
    attribution = rl_clarity.integrated_gradients(
        small_run.agent, page_frames(small_run), LAYER, "value", 5, RULE, error_limit=results.error_limit()
    )
    channels, residual = fit_reduction(small_run).signed_transform(attribution)
    films = results.layer(LAYER)["images"]["value"]
    strips = results.layer(LAYER)["scrubs"]["value"]
    cases: tuple[tuple[str, Direction, str | int], ...] = (
        ("pos-prin", "pos", "prin"),
        ("abs-all", "abs", "all"),
        ("neg-res", "neg", "res"),
        ("neg-4", "neg", 3),
    )
    for name, direction, channel in cases:
        rendered = np.clip(render_attribution(channels, residual, direction=direction, channel=channel), 0, 1)
        film = results.image(films[name][0][0]) / 255
        side = 4
        for step in range(24):
            row, column = (side * index for index in divmod(step, 8))
            shown = film[row : row + side, column : column + side]
            assert np.abs(shown - rendered[step]).max() <= 1.01 / 255
        strip = results.image(strips[name][0][0]) / 255
        first, last = int(42 / 64 * side), round(44 / 64 * side)
        np.testing.assert_allclose(strip, np.concatenate(list(rendered[:, :, first:last]), axis=1), atol=1.01 / 255)


@case(attr_single_channels=False)
def single_channels(results: Results, small_run: SmallRun) -> None:
    assert results.manifest["view"]["single_channels"] is False


# --- features ------------------------------------------------------------------------------------------------------


@case(nmf_features=3)
def number_of_features(results: Results, small_run: SmallRun) -> None:
    layer = results.layer(LAYER)
    assert layer["channels"] == len(layer["colors"]) == len(layer["features"]["thumbnails"]) == 3
    assert results.attribution(LAYER, 0).channels.shape[-1] == 3


@case(nmf_attr_opts={"integrate_steps": 1})
def steps_of_attribution_that_features_are_fitted_to(results: Results, small_run: SmallRun) -> None:
    attribution = rl_clarity.integrated_gradients(
        small_run.agent, page_frames(small_run), LAYER, "value", 5, RULE, error_limit=results.error_limit()
    )
    assert_shows(results, attribution, fit_reduction(small_run, path={"steps": 1}))


@case(nmf_fit_observations=5)
def observations_that_features_are_fitted_to(results: Results, small_run: SmallRun) -> None:
    nmf = results.layer(LAYER)["features"]["reduction"]
    assert nmf["fitted_on"] == 5
    observations = small_run.observations.observations[[9]]  # of ten, the tenth is held out
    attribution = rl_clarity.integrated_gradients(small_run.agent, observations, LAYER, "value", 5, RULE)
    error = fit_reduction(small_run, nmf_fit_observations=5).reconstruction_error(attribution)
    assert nmf["error_held_out"] == pytest.approx(error, rel=1e-3)


@case(nmf_fit_observations=None, nmf_held_out=0)
def features_fitted_to_all_observations(results: Results, small_run: SmallRun) -> None:
    nmf = results.layer(LAYER)["features"]["reduction"]
    assert nmf["fitted_on"] == 16
    assert nmf.get("error_held_out") is None
    assert results.layer_facts(LAYER)["error_held_out"] is None


@case(nmf_features="auto", nmf_coverage=0.3)
def as_few_features_as_cover_enough(results: Results, small_run: SmallRun) -> None:
    layer, facts = results.layer(LAYER), results.layer_facts(LAYER)
    count = layer["channels"]
    assert 1 <= count < 16
    assert len(layer["hues"]) == len(layer["features"]["thumbnails"]) == count
    assert results.attribution(LAYER, 0).channels.shape[-1] == count
    assert results.decomposition(0, LAYER)["features"].shape[-1] == count
    assert results.features(LAYER)["components"].shape[0] == count
    assert facts["ablation"]["value"].shape == (count,)
    assert facts["next_feature"] >= 0


@case(vis_subdiv_mults=[0.5, 1.5], vis_subdiv_mult_default=1.5, vis_expand_mults=[2, 3], vis_expand_mult_default=3)
def grids(results: Results, small_run: SmallRun) -> None:
    assert results.features_meta(LAYER) == {
        "subdiv_mults": [0.5, 1.5],
        "subdiv_mult_default": 1.5,
        "expand_mults": [2, 3],
        "expand_mult_default": 3,
    }
    features = results.features(LAYER)
    observations = small_run.observations.observations[:16]
    reduced = fit_reduction(small_run).transform(small_run.agent.activations(observations, LAYER))
    for density in (0.5, 1.5):
        grid = dataset_grid(np.ascontiguousarray(reduced[..., 5]), density)
        cells = features[f"index.{density}"][5]
        np.testing.assert_array_equal(
            np.array(results.section("features")["observations"]["indices"])[cells], grid.indices
        )
        np.testing.assert_allclose(features[f"position.{density}"], grid.centers, atol=1e-6)


@case(vis_thumbnail_num_mult=2, vis_thumbnail_expand_mult=1)
def thumbnails(results: Results, small_run: SmallRun) -> None:
    for name in results.layer(LAYER)["features"]["thumbnails"]:
        assert results.image(name).shape == (2 * 16, 2 * 16, 4)  # a position is 16 pixels wide


@case(feature_images=True, vis_expand_mults=[2, 4])
def images_of_features(results: Results, small_run: SmallRun) -> None:
    images = results.layer(LAYER)["features"]["images"]
    assert set(images) == {f"{density} x {zoom}" for density in ("0.125", "0.25", "0.5", "1") for zoom in (2, 4)}
    observations = small_run.observations.observations[:16]
    reduced = fit_reduction(small_run).transform(small_run.agent.activations(observations, LAYER))
    grid = dataset_grid(np.ascontiguousarray(reduced[..., 2]), 1)
    drawn = draw_grid(grid, observations, (4, 4), 2)
    np.testing.assert_allclose(results.image(images["1 x 2"][2]) / 255, drawn, atol=0.51 / 255)


@case(optimized_features=True, nmf_features=2)
def optimized_features(results: Results, small_run: SmallRun) -> None:
    images = np.stack([results.image(name) for name in results.layer(LAYER)["features"]["optimized"]])
    assert images.shape == (2, 64, 64, 3)
    reduction = fit_reduction(small_run, features=2)
    directions = reduction.components / np.linalg.norm(reduction.components, axis=1, keepdims=True)
    optimized = small_run.agent.activations(images, LAYER).mean(axis=(1, 2)) @ directions.T  # (image, direction)
    observed = small_run.agent.activations(small_run.observations.observations, LAYER).mean(axis=(1, 2)) @ directions.T
    assert (np.diag(optimized) > 1.2 * observed.max(axis=0)).all()


# --- along trajectories --------------------------------------------------------------------------------------------


@case(gae_gamma=0.5, gae_lambda=0.0)
def discounts(results: Results, small_run: SmallRun) -> None:
    recorded = small_run.trajectories
    assert recorded.values is not None
    values = recorded.values[0, :24]
    one_step = recorded.rewards[0, :23] + 0.5 * values[1:] * ~recorded.firsts[0, 1:24] - values[:-1]
    np.testing.assert_allclose(results.series(0)["advantages"], [*one_step, 0], atol=1e-5)


@case(state_map=True, state_map_methods=["pca"])
def state_map(results: Results, small_run: SmallRun) -> None:
    one = results.state_map("pca")
    assert one.source.endswith("Relu_3")
    assert len(one.positions) == 48
    assert one.perplexity is None


@case(state_map=True, state_map_methods=["pca"], state_map_layer="Relu_2")
def state_map_layer(results: Results, small_run: SmallRun) -> None:
    assert results.state_map("pca").source == "Relu_2"


@case(state_map=True, state_map_perplexity=4)
def state_map_perplexity(results: Results, small_run: SmallRun) -> None:
    assert results.state_map().perplexity == 4


@case(saliency=["jacobian"])
def saliency(results: Results, small_run: SmallRun) -> None:
    assert results.saliency(0, "jacobian").steps.tolist() == [*range(0, 24, 4)]


@case(saliency=["jacobian"], saliency_every=10)
def saliency_every(results: Results, small_run: SmallRun) -> None:
    maps = results.saliency(0, "jacobian", "value")
    assert maps.steps.tolist() == [0, 10, 20]
    frames = page_frames(small_run)[[0, 10, 20]]
    totals = rl_clarity.jacobian_saliency(small_run.agent, frames, "value").sum(axis=(1, 2, 3))
    np.testing.assert_allclose(maps.totals, totals, rtol=1e-3)


@case(trajectory_bookmarks=1)
def one_bookmark(results: Results, small_run: SmallRun) -> None:
    assert [len(marks) for marks in results.section("trajectories")["bookmarks"].values()] == [1, 1]


@case(trajectory_bookmarks=0)
def no_bookmarks(results: Results, small_run: SmallRun) -> None:
    assert results.section("trajectories")["bookmarks"] == {"high": [], "low": []}


@case(action_combos=[[button] for button in "ABCDEFGHIJKLMN"] + [[]], attr_policy=True)
def combos(results: Results, small_run: SmallRun) -> None:
    assert [action["label"] for action in results.agent["actions"]] == [*"ABCDEFGHIJKLMN", "no-op"]
    # No combo includes LEFT, RIGHT, UP or DOWN: the only group includes all actions.
    assert [group["actions"] for group in results.agent["action_groups"]] == [list(range(15))]


@case(action_combos=None)
def unknown_combos(results: Results, small_run: SmallRun) -> None:
    assert [action["label"] for action in results.agent["actions"]] == [str(index) for index in range(15)]


@case(action_group_fns=(lambda combo: "UP" in combo, lambda combo: "Q" in combo, lambda combo: len(combo) == 1))
def groups(results: Results, small_run: SmallRun) -> None:
    # Only one action presses Q, and a group needs at least two.
    single = [index for index, combo in enumerate(COMBOS) if len(combo) == 1]
    assert [group["actions"] for group in results.agent["action_groups"]] == [[2, 5, 8], single]


@case(action_group_fns=())
def no_groups(results: Results, small_run: SmallRun) -> None:
    assert results.agent["action_groups"] == []
    assert results.series(0)["groups"].shape == (24, 0)


@case(scrub_range=(0.25, 0.5))
def scrub_range(results: Results, small_run: SmallRun) -> None:
    (strip,) = results.trajectory(0)["scrub"]
    columns = np.concatenate(list(page_frames(small_run)[:, :, 16:32]), axis=1)
    np.testing.assert_array_equal(results.image(strip), columns)
    assert results.section("trajectories")["scrub"]["step_width"] == 16


# --- computation ---------------------------------------------------------------------------------------------------


def test_the_batch_size_does_not_change_the_numbers_of_a_page(explain: Explain, tmp_path: Path) -> None:
    pages = [explain(tmp_path / str(size), batch_size=size) for size in (3, 512)]
    features = [page.features(LAYER) for page in pages]
    for name, values in features[0].items():
        np.testing.assert_allclose(values, features[1][name], rtol=1e-4, err_msg=name)
    totals = [page.totals(LAYER, 0)["value"] for page in pages]
    np.testing.assert_allclose(
        totals[0].totals, totals[1].totals, rtol=1e-3, atol=1e-4 * np.abs(totals[0].totals).max()
    )


def test_the_seed_decides_the_random_integration_paths(explain: Explain, tmp_path: Path) -> None:
    pages = {
        name: explain(tmp_path / name, seed=seed, attr_max_paths=2, attr_integrate_steps=2, nmf_features=4)
        for name, seed in (("a", 0), ("repeated", 0), ("b", 1))
    }
    gaps = {name: completeness(page, LAYER, 0, "value") for name, page in pages.items()}
    np.testing.assert_array_equal(gaps["a"], gaps["repeated"])
    assert (gaps["a"] != gaps["b"]).any()
    assert pages["a"].manifest["id"] == pages["repeated"].manifest["id"] != pages["b"].manifest["id"]


def test_settings_of_the_original_give_its_attribution(explain: Explain, small_run: SmallRun) -> None:
    results = explain(**rl_clarity.ORIGINAL)
    attribution = rl_clarity.integrated_gradients(small_run.agent, page_frames(small_run), LAYER, **ORIGINAL_PATH)
    assert_shows(results, attribution, fit_reduction(small_run, path=ORIGINAL_PATH, nmf_held_out=0))
    with pytest.raises(TypeError):
        rl_clarity.ORIGINAL["attr_policy"] = True  # type: ignore[index]

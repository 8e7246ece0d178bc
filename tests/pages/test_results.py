from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.results import Results, open_results
from tests.pages.pages import CHANNELS, DENSITIES, FRAME, LAYER, STEPS, Arrays, random_arrays, write_small_page
from tests.quantization import quantization_error

ARRAYS = random_arrays()
ELEMENT = b'<script type="application/json" id="manifest">'


@pytest.fixture(scope="module", params=["directory", "single file"])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    directory = LocalDirectory(tmp_path_factory.mktemp("page"))
    if request.param == "single file":
        write_small_page(directory, ARRAYS, single_file=True, data=LocalDirectory(tmp_path_factory.mktemp("work")))
        return open_results(directory.path / "interface.html")
    write_small_page(directory, ARRAYS, images=True)
    return open_results(directory.path)


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    return ARRAYS


def test_results_list_layers_outputs_and_title(results: Results) -> None:
    assert results.layers == ["2b", "input"]
    assert results.outputs == ["value"]
    assert results.manifest["title"] == "A page"


@pytest.mark.parametrize("trajectory", [0, 1])
def test_decoded_attribution_is_precise_to_one_quantization_step(
    results: Results, arrays: Arrays, trajectory: int
) -> None:
    found = results.attribution("2b", trajectory)
    assert found.channels.shape == (STEPS[trajectory], *LAYER, CHANNELS)
    exact = np.concatenate([arrays.channels[trajectory], arrays.residual[trajectory]], axis=-1)
    coded = np.concatenate([found.channels, found.residual], axis=-1)
    assert (np.abs(coded - exact) <= quantization_error(exact)).all()
    assert found.scale == pytest.approx(np.median(arrays.channels[trajectory].max(axis=(1, 2, 3))), rel=1e-5)
    assert found.hues.shape == (CHANNELS, 3)


def test_selected_steps_of_a_trajectory_can_be_read(results: Results) -> None:
    every, some = results.attribution("2b", 0), results.attribution("2b", 0, steps=[69, 3, 64])
    np.testing.assert_array_equal(some.channels, every.channels[[69, 3, 64]])
    np.testing.assert_array_equal(results.frames(0, range(62, 66)), ARRAYS.frames[0][62:66])


def test_attribution_of_the_input_has_no_residual(results: Results, arrays: Arrays) -> None:
    found = results.attribution("input", 1)
    assert found.residual is None
    assert found.channels.shape == (STEPS[1], *FRAME, 3)
    assert results.features("input") == {}


def test_frames_and_series_are_exact(results: Results, arrays: Arrays) -> None:
    for trajectory, frames in enumerate(arrays.frames):
        np.testing.assert_array_equal(results.frames(trajectory), frames)
        series, expected = results.series(trajectory), arrays.series[trajectory]
        assert expected.actions is not None
        assert expected.advantages is not None
        assert expected.probabilities is not None
        np.testing.assert_array_equal(series["actions"], expected.actions)
        np.testing.assert_array_equal(series["firsts"], expected.firsts)
        np.testing.assert_allclose(series["advantages"], expected.advantages, rtol=1e-6)
        np.testing.assert_allclose(series["probabilities"], expected.probabilities, rtol=1e-6)


def test_stored_totals_are_sums_of_the_attribution(results: Results, arrays: Arrays) -> None:
    totals = results.totals("2b", 0)["value"]
    assert totals.completeness is not None
    assert totals.completeness.shape == (STEPS[0], 3)
    np.testing.assert_allclose(
        totals.totals[:, :CHANNELS].sum(axis=-1), arrays.channels[0].sum(axis=(1, 2)), rtol=1e-4, atol=1e-4
    )


def test_dataset_examples_refer_to_observations_in_the_atlas(results: Results, arrays: Arrays) -> None:
    features = results.features("2b")
    meta = results.features_meta("2b")
    assert meta["subdiv_mults"] == list(DENSITIES)
    indices = results.section("features")["observations"]["indices"]
    grid = features["index.1"]
    assert grid.shape == (CHANNELS, *LAYER)
    shown = np.array(indices)[grid[0]]
    activations = arrays.activations[..., 0]
    rows, columns = np.meshgrid(np.arange(LAYER[0]), np.arange(LAYER[1]), indexing="ij")
    strongest = activations[shown, rows, columns] == activations.max(axis=0)
    assert strongest.mean() > 0.6  # others would repeat an observation too often
    assert features["opacity.1"].dtype == np.uint8
    np.testing.assert_allclose(features["position.1"][2, 3], [2.5, 3.5])
    cell, position = features["excites"][0, 0]
    peak = arrays.activations[indices[cell], ..., 0]
    assert peak.ravel()[position] == peak.max() == features["excites_strength"][0, 0] == activations.max()


def test_atlas_images_contain_the_observations(results: Results, arrays: Arrays) -> None:
    atlas = results.section("features")["observations"]
    image = results.image(atlas["images"][0])
    cell = 2
    row, column = divmod(cell, atlas["columns"])
    height, width = FRAME
    shown = image[row * height : (row + 1) * height, column * width : (column + 1) * width]
    np.testing.assert_array_equal(shown, arrays.observations[atlas["indices"][cell]])


def test_filmstrips_consist_of_one_column_per_frame(results: Results, arrays: Arrays) -> None:
    scrub = results.section("trajectories")["scrub"]
    (image,) = [results.image(name) for name in results.trajectory(0)["scrub"]]
    assert image.shape[1] == STEPS[0] * scrub["step_width"]
    np.testing.assert_array_equal(image[:, 64:66], arrays.frames[0][32, :, 10:12])
    assert scrub["height"] == FRAME[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda results: results.layer("5a"), "unknown layer '5a'; the page has 2b, input"),
        (lambda results: results.series(2), "trajectory 2 is out of range: the page has 2"),
        (lambda results: results.series(-1), "trajectory -1"),
        (lambda results: results.frames(1, [9]), "step 9 is out of range: the trajectory has 9"),
        (lambda results: results.attribution("2b", 0, "action-7"), "unknown output 'action-7'; the page has value"),
        (lambda results: results.attribution("2b", 9), "trajectory 9 is out of range"),
        (lambda results: results.attribution("2b", -1), "trajectory -1 is out of range"),
        (lambda results: results.totals("2b", 9), "trajectory 9 is out of range"),
        (lambda results: results.frames(1, []), "steps is empty"),
    ],
)
def test_invalid_arguments_of_results_are_refused(
    results: Results, call: Callable[[Results], object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        call(results)


def test_a_missing_data_file_is_named_in_the_error(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    write_small_page(directory)
    directory.remove("trajectories/1/series.js")
    with pytest.raises(ClarityError, match=r"trajectories/1/series\.js is missing"):
        open_results(tmp_path).series(0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html></html>", "not a page"),
        (b'<script type="application/json" id="manifest">{</script>', "damaged"),
        (b'<script type="application/json" id="manifest">[]</script>', "a different format"),
        (
            b'<script type="application/json" id="manifest">{"format":"rl-clarity-page","version":1}</script>',
            "format version 1.*create the page again: rl-clarity run",
        ),
    ],
)
def test_open_results_refuses_invalid_html_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "interface.html").write_bytes(content)
    with pytest.raises(ClarityError, match=message):
        open_results(tmp_path)


def test_open_results_refuses_a_directory_without_a_page(tmp_path: Path) -> None:
    with pytest.raises(ClarityError, match=str(tmp_path)):
        open_results(tmp_path)


def test_a_decomposition_adds_up_to_the_output(results: Results, arrays: Arrays) -> None:
    terms = results.decomposition(1, "2b")
    assert terms["features"].shape == (STEPS[1], CHANNELS)
    np.testing.assert_allclose(terms["features"], arrays.channels[1].sum(axis=(1, 2)), atol=1e-5)
    np.testing.assert_allclose(terms["residual"], arrays.residual[1].sum(axis=(1, 2, 3)), atol=1e-5)
    np.testing.assert_array_equal(terms["memory"], np.zeros(STEPS[1]))
    for name, expected in (("baseline", 0), ("completeness_error", 0), ("output", 1)):  # the chunk contains ones
        np.testing.assert_array_equal(terms[name], np.full(STEPS[1], expected))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, "input"), "the input: its gradients do not add up"),
        ((0, "2b", "action-1"), "unknown output 'action-1'; the page has value"),
        ((2, "2b"), "trajectory 2 is out of range"),
        ((0, "9z"), "unknown layer '9z'"),
    ],
)
def test_decompositions_of_unknown_outputs_are_refused(
    results: Results, arguments: tuple[int, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        results.decomposition(*arguments)


def test_layer_facts_returns_coverage_and_feature_statistics(tmp_path: Path) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        _, features, attribution = manifest["sections"]
        attribution["data"]["layers"][0]["variance_share"] = {"value": 0.75}
        features["data"]["layers"]["2b"]["facts"] = {"coverage": {"value": 0.5}, "next_feature": 0.125}
        features["data"]["layers"]["2b"]["reduction"]["error_held_out"] = 0.375
        outputs = {"value": {"mean": [1, 2, 3], "mean_abs": [1, 2, 3], "correlation": [1, 1, 1]}}
        ablation = {
            "kind": "ablation",
            "title": "",
            "data": {"every": 4, "layers": {"2b": {"trajectories": [], "outputs": outputs}}},
        }
        manifest["sections"].append({**features, **ablation})

    write_small_page(LocalDirectory(tmp_path), ARRAYS, edit=edit)
    results = open_results(tmp_path)
    facts = dict(results.layer_facts("2b"))
    np.testing.assert_array_equal(facts.pop("ablation")["value"], [1, 2, 3])
    assert facts == {
        "variance_share": {"value": 0.75},
        "coverage": {"value": 0.5},
        "error_held_out": 0.375,
        "next_feature": 0.125,
    }
    with pytest.raises(OptionError, match="'input' is the input, which has no features"):
        results.layer_facts("input")


def test_layer_facts_that_an_older_page_lacks_are_none(results: Results) -> None:
    facts = results.layer_facts("2b")
    assert facts["error_held_out"] is None
    assert facts["next_feature"] is None
    assert facts["variance_share"] == facts["coverage"] == facts["ablation"] == {}


def test_deprecated_names_of_version_0_1_give_the_same_arrays(results: Results) -> None:
    terms = results.decomposition(1, "2b")
    with pytest.warns(DeprecationWarning, match="Results.decomposition"):
        account = results.account(1, "2b")
    assert account.keys() == {"baseline", "features", "rest", "memory", "gap", "output"}
    np.testing.assert_array_equal(account["rest"], terms["residual"])
    np.testing.assert_array_equal(account["gap"], terms["completeness_error"])
    totals = results.totals("2b", 1)["value"]
    assert totals.completeness is not None
    with pytest.warns(DeprecationWarning, match=r"Totals\.completeness"):
        np.testing.assert_array_equal(totals.gap, totals.completeness)

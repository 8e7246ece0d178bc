"""Exported images, tables and arrays of a page; tables have the columns of those that the page saves."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rl_clarity.base.errors import OptionError, OutputError
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.export import SUFFIXES, export
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.results import Page, Results, open_results
from rl_clarity.visualization.rendering import over_observations, render_attribution
from tests.pages.pages import CHANNELS, FRAME, STEPS, random_arrays, write_small_page

ARRAYS = random_arrays()
HEADER = [
    *("trajectory", "frame", "new episode", "action", "reward", "advantage", "value function"),
    *("probability of 0", "probability of 1", "probability of 2", "probability of 3"),
    *("2b baseline", "2b memory", "2b completeness error"),
    *("2b feature 1 positive", "2b feature 1 negative", "2b feature 2 positive", "2b feature 2 negative"),
    *("2b feature 3 positive", "2b feature 3 negative", "2b residual positive", "2b residual negative"),
]
"""Columns of the table that the page of these tests saves."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> LocalDirectory:
    directory = LocalDirectory(tmp_path_factory.mktemp("page"))
    write_small_page(directory, ARRAYS)
    return directory


@pytest.fixture(scope="module")
def results(directory: LocalDirectory) -> Results:
    return open_results(directory.path)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_an_exported_image_shows_observation_and_attribution(results: Results, tmp_path: Path) -> None:
    path = export(results, tmp_path / "frame.png", trajectory=0, frames=[5], layer="2b")
    shown = np.asarray(Image.open(path))
    zoom = 256 // max(FRAME)
    height, width = FRAME[0] * zoom, FRAME[1] * zoom
    assert shown.shape == (height, 3 * width, 3)
    np.testing.assert_array_equal(shown[::zoom, :width:zoom], ARRAYS.frames[0][5])
    attribution = results.attribution("2b", 0, steps=[5])
    rendered = render_attribution(attribution.channels, scale=attribution.scale, direction="neg")
    frames = ARRAYS.frames[0][5:6].repeat(zoom, axis=1).repeat(zoom, axis=2)
    np.testing.assert_array_equal(shown[:, 2 * width :], over_observations(rendered, frames)[0])


@pytest.mark.parametrize("suffix", [".gif", ".png", ".apng", ".GIF"])
def test_a_range_of_frames_is_exported_as_an_animation(results: Results, tmp_path: Path, suffix: str) -> None:
    path = export(results, tmp_path / f"range{suffix}", frames=range(60, 68), directions=["abs"], fps=5)
    with Image.open(path) as image:
        assert getattr(image, "n_frames", 1) == 8
        assert image.info["duration"] == 200
        assert image.size[0] == 2 * FRAME[1] * (256 // max(FRAME))


def test_an_exported_table_has_a_row_for_each_frame(results: Results, tmp_path: Path) -> None:
    path = export(results, tmp_path / "frames.csv", trajectory=1, frames=range(2, 6), layer="2b")
    rows = table(path)
    assert list(rows[0]) == HEADER
    assert [row["frame"] for row in rows] == ["3", "4", "5", "6"]
    assert {row["trajectory"] for row in rows} == {"2"}
    series, channel = ARRAYS.series[1], ARRAYS.channels[1][..., 0]
    assert series.actions is not None
    assert series.values is not None
    assert series.probabilities is not None
    terms = results.decomposition(1, "2b")
    for step, row in enumerate(rows, start=2):
        assert row["action"] == str(series.actions[step])
        assert row["new episode"] == str(int(series.firsts[step]))
        assert float(row["reward"]) == pytest.approx(series.rewards[step], rel=1e-5)
        assert float(row["value function"]) == pytest.approx(series.values[step], rel=1e-5)
        assert float(row["probability of 3"]) == pytest.approx(series.probabilities[step, 3], rel=1e-5)
        for name, part in (("positive", channel.clip(0)), ("negative", channel.clip(max=0))):
            assert float(row[f"2b feature 1 {name}"]) == pytest.approx(part[step].sum(), rel=1e-4, abs=1e-5)
        for name, term in (
            ("baseline", "baseline"),
            ("memory", "memory"),
            ("completeness error", "completeness_error"),
        ):
            assert float(row[f"2b {name}"]) == pytest.approx(terms[term][step], rel=1e-5)
    assert path.read_bytes().count(b"\r\n") == 5


def test_columns_of_an_exported_table_are_labeled_by_outputs_and_actions(tmp_path: Path) -> None:
    outputs = [
        {"id": "value", "kind": "value", "label": "value function"},
        {"id": "action-3", "kind": "action", "action": 3, "label": "→, A"},
        {"id": "group-0", "kind": "group", "group": 0, "label": '"→"'},
        {"id": "greedy", "kind": "greedy", "label": "best action"},
    ]
    actions: list[dict[str, Any]] = [
        {"label": label, "combo": [], "color": "#000"} for label in ("no-op", "←", "→", "→, A")
    ]

    def edit(manifest: dict[str, Any]) -> None:
        section_data(manifest, "attribution")["outputs"] = outputs
        manifest["agents"][0]["actions"] = actions

    write_small_page(LocalDirectory(tmp_path), ARRAYS, edit=edit)
    rows = table(export(tmp_path, tmp_path / "t.csv", trajectory=1, layer="input"))
    assert len(rows) == STEPS[1]
    assert list(rows[0])[6:14] == [
        *("value function", "action →, A", 'actions with "→"', "best action", "probability of no-op"),
        *("probability of ←", "probability of →", "probability of →, A"),
    ]
    assert list(rows[0])[14:16] == ["input channel 1 positive", "input channel 1 negative"]
    series = ARRAYS.series[1]
    assert series.actions is not None
    assert series.logits is not None
    assert series.groups is not None
    for step, row in enumerate(rows):
        assert row["action"] == actions[series.actions[step]]["label"]
        assert float(row["action →, A"]) == pytest.approx(series.logits[step, 3], rel=1e-5)
        assert float(row['actions with "→"']) == pytest.approx(series.groups[step, 0], rel=1e-5)
        assert float(row["best action"]) == pytest.approx(series.logits[step].max(), rel=1e-5)


def test_arrays_of_selected_frames_are_exported(results: Results, tmp_path: Path) -> None:
    path = export(results, tmp_path / "frames.npz", frames=range(3), layer="input")
    with np.load(path) as arrays:
        np.testing.assert_array_equal(arrays["frames"], ARRAYS.frames[0][:3])
        assert arrays["channels"].shape == (3, *FRAME, 3)
        assert "residual" not in arrays
        np.testing.assert_array_equal(arrays["steps"], [0, 1, 2])


def test_export_accepts_results_paths_and_page_objects(
    directory: LocalDirectory, results: Results, tmp_path: Path
) -> None:
    file = directory.path / "interface.html"
    pages: list[Page | Results | str | Path] = [results, directory.path, str(directory.path), file, Page(file)]
    contents = [export(page, tmp_path / f"{index}.npz", frames=[0]).read_bytes() for index, page in enumerate(pages)]
    assert len(set(contents)) == 1


def test_images_without_directions_show_only_the_observation(results: Results, tmp_path: Path) -> None:
    with Image.open(export(results, tmp_path / "a.png", frames=[0], directions=())) as image:
        assert image.size == (FRAME[1] * (256 // max(FRAME)), FRAME[0] * (256 // max(FRAME)))


def test_exporting_twice_gives_the_same_bytes(results: Results, tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        first, second = (export(results, tmp_path / f"{name}{suffix}", frames=range(2)) for name in "ab")
        assert first.read_bytes() == second.read_bytes()


def test_export_refuses_an_unknown_suffix(results: Results, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'out\.mp4'; supported: \.png"):
        export(results, tmp_path / "out.mp4")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trajectory": 2}, "trajectory 2 is out of range: the page has 2, counted from 0"),
        ({"trajectory": -1}, "trajectory -1 is out of range"),
        ({"frames": range(68, 71)}, "step 70 is out of range: the trajectory has 70, counted from 0"),
        ({"frames": [-1]}, "step -1 is out of range"),
        ({"frames": []}, "frames=[] is empty"),
        ({"frames": 5}, "frames=5 must be a range or a list"),
        ({"frames": "1:5"}, "frames='1:5' must be a range or a list"),
        ({"layer": "5a"}, "unknown layer '5a'; the page has 2b, input"),
        ({"output": "action-3"}, "unknown output 'action-3'; the page has value"),
        ({"directions": ["up"]}, "directions=['up'] must be a list of some of 'abs', 'pos', 'neg'"),
        ({"directions": "pos"}, "directions='pos' must be a list"),
        ({"channel": CHANNELS}, f"channel={CHANNELS} is out of range: layer 2b has {CHANNELS}, counted from 0"),
        ({"channel": "red"}, "channel='red' must be 'prin', 'all', 'res' or the index"),
        ({"channel": "all", "layer": "input"}, "channel='all': layer input is not reduced"),
        ({"fps": 0}, "fps=0 must be above 0 and at most 100"),
        ({"fps": float("nan")}, "fps=nan must be"),
    ],
)
def test_export_refuses_invalid_options(
    suffix: str, options: dict[str, Any], message: str, results: Results, tmp_path: Path
) -> None:
    with pytest.raises(OptionError) as raised:
        export(results, tmp_path / f"out{suffix}", **options)
    assert message in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_export_refuses_a_target_in_a_missing_directory(results: Results, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        export(results, tmp_path / "nowhere" / "out.csv")


def test_export_replaces_a_different_file_only_with_overwrite(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "frames.csv"
    path.write_text("mine")
    with pytest.raises(OutputError, match=r"frames\.csv exists: choose another name.*\(--force\)"):
        export(results, path)
    assert path.read_text() == "mine"
    export(results, path, overwrite=True)
    assert export(results, path).read_text() != "mine"  # the same content again

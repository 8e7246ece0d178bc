import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rl_clarity.errors import OptionError, OutputError
from rl_clarity.interface.export import Selection, export, pictures
from rl_clarity.interface.files import LocalDirectory
from rl_clarity.interface.results import Results, open_results
from rl_clarity.visualization.rendering import over_observations, render_attribution
from tests.interface.pages import CHANNELS, FRAME, random_arrays, write_small_page

ARRAYS = random_arrays()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    directory = LocalDirectory(tmp_path_factory.mktemp("page"))
    write_small_page(directory, ARRAYS)
    return open_results(directory.path)


def test_a_picture_shows_observation_and_attribution(results: Results, tmp_path: Path) -> None:
    path = export(results, tmp_path / "frame.png", Selection(trajectory=0, frames=range(5, 6), layer="2b"))
    shown = np.asarray(Image.open(path))
    times = 256 // max(FRAME)
    height, width = FRAME[0] * times, FRAME[1] * times
    assert shown.shape == (height, 3 * width, 3)
    np.testing.assert_array_equal(shown[::times, :width:times], ARRAYS.frames[0][5])
    found = results.attribution("2b", 0, steps=[5])
    rendered = render_attribution(found.channels, scale=found.scale, direction="neg")
    frames = ARRAYS.frames[0][5:6].repeat(times, axis=1).repeat(times, axis=2)
    np.testing.assert_array_equal(shown[:, 2 * width :], over_observations(rendered, frames)[0])


@pytest.mark.parametrize("suffix", [".gif", ".png"])
def test_a_range_is_an_animation(results: Results, tmp_path: Path, suffix: str) -> None:
    selection = Selection(frames=range(60, 68), layer="2b", directions=("abs",))
    path = export(results, tmp_path / f"range{suffix}", selection)
    with Image.open(path) as image:
        assert image.n_frames == 8
        assert image.info["duration"] == pytest.approx(1000 / 12, abs=10)


def test_a_table_has_a_row_for_each_frame(results: Results, tmp_path: Path) -> None:
    path = export(results, tmp_path / "frames.csv", Selection(trajectory=1, frames=range(2, 6), layer="2b"))
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["frame"] for row in rows] == ["3", "4", "5", "6"]
    assert {row["trajectory"] for row in rows} == {"2"}
    assert float(rows[0]["values"]) == pytest.approx(ARRAYS.series[1].values[2], rel=1e-5)
    assert float(rows[0]["logits 3"]) == pytest.approx(ARRAYS.series[1].logits[2, 3], rel=1e-5)
    total = ARRAYS.channels[1][2, ..., 0].sum()
    assert float(rows[0]["2b value channel 1"]) == pytest.approx(total, rel=1e-4, abs=1e-5)
    assert "2b value residual" in rows[0]


def test_arrays_hold_everything_about_the_frames(results: Results, tmp_path: Path) -> None:
    path = export(results, tmp_path / "frames.npz", Selection(frames=range(3), layer="input"))
    with np.load(path) as arrays:
        np.testing.assert_array_equal(arrays["frames"], ARRAYS.frames[0][:3])
        assert arrays["channels"].shape == (3, *FRAME, 3)
        assert "residual" not in arrays
        np.testing.assert_array_equal(arrays["steps"], [0, 1, 2])


def test_without_a_layer_there_is_only_the_observation(results: Results) -> None:
    assert pictures(results, Selection(), range(2)).shape[2] == FRAME[1] * (256 // max(FRAME))


def test_the_same_export_has_the_same_bytes(results: Results, tmp_path: Path) -> None:
    selection = Selection(frames=range(2), layer="2b")
    for suffix in (".gif", ".png", ".csv", ".npz"):
        first, second = (export(results, tmp_path / f"{name}{suffix}", selection) for name in "ab")
        assert first.read_bytes() == second.read_bytes()


def test_an_unknown_format_is_named(results: Results, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'out\.mp4' ends in none of \.png"):
        export(results, tmp_path / "out.mp4")


def test_a_channel_that_is_not_there_is_named(results: Results, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"channel={CHANNELS}"):
        export(results, tmp_path / "out.png", Selection(frames=range(1), layer="2b", channel=CHANNELS))


def test_a_place_that_cannot_be_written_is_named(results: Results, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        export(results, tmp_path / "nowhere" / "out.csv")

"""The command export: images, tables and arrays of a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import rl_clarity
from rl_clarity.cli import main
from rl_clarity.pages.export import SUFFIXES
from rl_clarity.pages.results import open_results
from tests.cli.calls import parse_summary


@pytest.mark.parametrize("name", ["frames.png", "frames.GIF", "frames.apng", "numbers.csv", "arrays.npz"])
def test_export_writes_images_tables_and_arrays(
    name: str, page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", str(page), str(tmp_path / name), "--trajectory", "2", "--frames", "3:5", "--json"]
    assert main(command) == 0
    assert parse_summary(capsys.readouterr()) == {"file": str(tmp_path / name)}
    if name.endswith("csv"):
        lines = (tmp_path / name).read_text().splitlines()
        assert [line.split(",")[:2] for line in lines[1:]] == [["2", "3"], ["2", "4"], ["2", "5"]]
    elif name.endswith("npz"):
        with np.load(tmp_path / name) as arrays:
            assert arrays["frames"].shape == (3, 64, 64, 3)
            np.testing.assert_array_equal(
                arrays["channels"], open_results(page).attribution("Relu_2", 1, steps=range(2, 5)).channels
            )
    else:
        with Image.open(tmp_path / name) as image:
            assert getattr(image, "n_frames", 1) == 3
            assert image.size == (3 * 256, 256)


def test_export_options_select_layer_channel_output_and_speed(page: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown.apng"
    options = ["--directions", "abs", "--channel", "2", "--fps", "4", "--output", "value", "--layer", "Relu_2"]
    assert main(["export", str(page), str(shown), "--frames", "1:2", *options]) == 0
    same = rl_clarity.export(page, tmp_path / "same.apng", frames=range(2), directions=["abs"], channel=1, fps=4)
    assert shown.read_bytes() == same.read_bytes()
    with Image.open(shown) as image:
        assert image.size == (2 * 256, 256)
        assert image.info["duration"] == 250


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--frames 5:3", "--frames 5:3 must be a range of frames from 1 to 10, such as 10:20 or 5"),
        ("--frames 0:3", "--frames 0:3 must be a range of frames from 1 to 10, such as 10:20 or 5"),
        ("--frames first", "--frames first must be a range of frames from 1 to 10, such as 10:20 or 5"),
        ("--frames 3:", "--frames 3: must be a range of frames from 1 to 10, such as 10:20 or 5"),
        ("--frames 3:99", "--frames 3:99 must be a range of frames from 1 to 10"),
        ("--trajectory 0", "--trajectory 0 must be from 1 to 2"),
        ("--trajectory 3", "--trajectory 3 must be from 1 to 2"),
        ("--layer 9z", "unknown layer '9z'; the page has Relu_2"),
        ("--output action-3", "unknown output 'action-3'; the page has value"),
        ("--channel 0", "--channel 0 must be a number from 1 to 8, or prin, all or res"),
        ("--channel 9", "--channel 9 must be a number from 1 to 8, or prin, all or res"),
        ("--channel red", "--channel red must be a number from 1 to 8, or prin"),
        ("--fps 0", "fps=0.0 must be above 0 and at most 100"),
    ],
)
def test_invalid_export_options_are_refused_with_a_one_line_error(
    suffix: str, arguments: str, message: str, page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(page), str(tmp_path / f"x{suffix}"), *arguments.split()]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"rl-clarity: {message}")
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["page", "x.bmp"], "unknown suffix of 'x.bmp'; supported: .png, .apng, .gif, .csv, .npz"),
        (["nowhere", "x.png"], "contains no page"),
        (["page", "nowhere/x.csv"], "cannot write"),
    ],
)
def test_export_reports_missing_pages_and_unknown_suffixes(
    arguments: list[str],
    message: str,
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(page) if argument == "page" else argument for argument in arguments]
    assert main(["export", *words]) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

"""Frames whose completeness error is too large are hatched, and not drawn in color."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.pages.results import Results, open_results
from tests.browser.pages import Visitor, read_canvas, screenshot
from tests.fakes import TinyAgent

Open = Callable[..., Visitor]
STEPS = 24


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose attribution has a single point on each path, and nowhere more than two."""
    page, rng = tmp_path_factory.mktemp("coarse"), np.random.default_rng(0)
    dark = rng.integers(0, 60, (1, STEPS, 1, 1, 1)) + rng.integers(0, 60, (1, STEPS, 32, 32, 3))
    trajectories = {
        "observations": dark.astype(np.uint8),
        "actions": rng.integers(0, 4, (1, STEPS)),
        "rewards": np.zeros((1, STEPS)),
        "firsts": np.arange(STEPS)[None] == 0,
    }
    varied = rng.integers(0, 256, (32, 32, 32, 3), np.uint8)
    agent = TinyAgent("policy", (32, 32, 3), 4, patch=2)
    path = {"steps": 1, "refinement": 3, "quadrature": "riemann", "baseline": "zero-input", "policy": True}
    path["images"] = True
    rl_clarity.generate(agent, trajectories, varied, page, attribution=path, features={"count": 3})
    return page


def is_large(results: Results, output: str = "value") -> np.ndarray:
    """Which steps have a completeness error above 5 % of the output's range."""
    values = results.series(0)
    outputs = values["values"] if output == "value" else values["logits"][:, int(output[-1])]
    errors = np.abs(results.decomposition(0, "1a", output)["completeness_error"])
    return np.asarray(errors > 0.05 * np.ptp(outputs))


def is_grey(image: np.ndarray, tolerance: int = 2) -> bool:
    shown = (image[image[..., 3] > 0] if image.shape[-1] == 4 else image)[..., :3].astype(int)
    assert shown.size
    return bool((np.ptp(shown, axis=-1) <= tolerance).all())


@pytest.mark.parametrize("output", ["value", "action-2"])
def test_frames_with_a_large_completeness_error_are_hatched_and_gray(
    coarse: Path, open_page: Open, output: str
) -> None:
    large = is_large(open_results(coarse), output)
    frames = {True: int(np.flatnonzero(large)[0]), False: int(np.flatnonzero(~large)[0])}
    for hatched in (False, True):
        visitor = open_page(coarse, f"?layer=1a&rows={output}&frame={frames[hatched] + 1}")
        bar = visitor.by("decomposition").locator("[data-part=feature-1] .bars")
        bar.wait_for()
        visitor.settle()
        expect(visitor.by("incomplete")).to_have_count(int(hatched))
        expect(visitor.by("incomplete-image")).to_have_count(2 * int(hatched))
        for sign in ("pos", "neg"):
            assert is_grey(visitor.attribution(sign)) == hatched
        for image in visitor.by("multiples-canvas").all():
            assert is_grey(read_canvas(image)) == hatched
        assert ("repeating" in bar.evaluate("e => getComputedStyle(e).backgroundImage")) == hatched
        if hatched:
            assert visitor.by("incomplete-image").first.bounding_box() == visitor.overlay("pos").bounding_box()
            assert "is above 5 % of the output’s range" in visitor.text("incomplete")


@pytest.mark.parametrize("view", ["mixed=1", "combined=1", "scale=frame", "overlay=0"])
def test_frames_with_a_large_completeness_error_are_gray_in_all_views(coarse: Path, open_page: Open, view: str) -> None:
    large = is_large(open_results(coarse))
    for hatched in (False, True):
        frame = int(np.flatnonzero(large == hatched)[0])
        visitor = open_page(coarse, f"?layer=1a&frame={frame + 1}&{view}")
        sign = "abs" if view.startswith("combined") else "pos"
        visitor.by("decomposition").wait_for()
        assert is_grey(visitor.attribution(sign)) == hatched
        expect(visitor.by("incomplete-image")).to_have_count(int(hatched) * (1 if sign == "abs" else 2))


@pytest.mark.parametrize("kind", ["png", "bars"])
def test_frames_with_a_large_completeness_error_are_gray_in_saved_files(
    coarse: Path, open_page: Open, kind: str
) -> None:
    large = is_large(open_results(coarse))
    for hatched in (False, True):
        visitor = open_page(coarse, f"?layer=1a&frame={int(np.flatnonzero(large == hatched)[0]) + 1}")
        visitor.press("e")
        content = visitor.saved(f"export-{kind}").read_bytes()
        if kind == "bars":
            assert (b"hatched: the completeness error is above" in content) == hatched
            continue
        figure = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
        images = figure[: figure.shape[0] * 3 // 4, figure.shape[1] // 3 :]  # beside the observation, above the legend
        assert is_grey(images) == hatched


def test_tracks_have_gaps_at_frames_with_a_large_completeness_error(coarse: Path, open_page: Open) -> None:
    large = is_large(open_results(coarse))
    visitor = open_page(coarse, "?layer=1a&frame=3&box=4.4.28.28")
    visitor.by("totals-over-time").check()
    visitor.by("box-features").check()
    visitor.track("box-3").wait_for()
    assert "Gaps: the completeness error is above 5 % of the output’s range" in visitor.text("box-tracks")
    for name in ("decomposition", "box-1", "box-2", "box-3"):
        colored = np.ptp(screenshot(visitor.well(name)), axis=-1).max(axis=0) > 60  # (w,)
        steps = (np.arange(len(colored)) + 0.5) * STEPS // len(colored)
        widths = np.array([colored[steps == t].sum() for t in range(STEPS)])
        assert widths[large].max() <= 4, (
            "no more than the line at the frame that is shown, and a pixel of the next step"
        )
        assert widths[~large].min() >= (20 if name == "decomposition" else 1)


@pytest.mark.parametrize("suffix", ["png", "gif", "apng"])
def test_images_exported_by_python_are_gray_where_the_error_is_large(coarse: Path, tmp_path: Path, suffix: str) -> None:
    results = open_results(coarse)
    for output in ("value", "action-2"):
        large = is_large(results, output)
        assert np.array_equal(results.incomplete("1a", 0, output), large)
        steps = [int(np.flatnonzero(large)[0]), int(np.flatnonzero(~large)[0])]
        for part in [[step] for step in steps] if suffix == "png" else [steps]:
            path = rl_clarity.export(coarse, tmp_path / f"{output}-{part[0]}.{suffix}", frames=part, output=output)
            with Image.open(path) as file:
                for i, step in enumerate(part):
                    file.seek(i)
                    images = np.asarray(file.convert("RGB"))[:, file.height :]  # beside the observation
                    assert is_grey(images, 16 if suffix == "gif" else 2) == large[step]  # GIF has few colors
                    assert (np.abs(np.diff(images[:, :, 1].astype(int))) > 100).mean() > 0.05 or not large[step]


def test_prerendered_attribution_images_are_gray_where_the_error_is_large(coarse: Path) -> None:
    results = open_results(coarse)
    for output in ("value", "action-2"):
        large, (name,) = is_large(results, output), results.layer("1a")["images"][output]["pos-prin"][0]
        sheet = np.asarray(Image.open(coarse / name))
        height, width = results.layer("1a")["height"], results.layer("1a")["width"]
        for t in range(STEPS):
            top, left = t // 8 * height, t % 8 * width
            assert is_grey(sheet[top : top + height, left : left + width]) == large[t]


def test_track_and_trust_panel_count_frames_with_a_large_error(coarse: Path, open_page: Open) -> None:
    results = open_results(coarse)
    large, entry = is_large(results), results.layer("1a")
    assert 0 < large.sum() < STEPS
    assert entry["incomplete"]["value"] == pytest.approx(large.mean())
    visitor = open_page(coarse, "?layer=1a&frame=3")
    visitor.by("totals-over-time").set_checked(True)
    assert f"{large.sum()} of {STEPS} frames" in visitor.text("incomplete-steps")
    visitor.press("t")
    visitor.by("gaps").wait_for()
    for name, share in (("refined", entry["refined"]["value"]), ("incomplete-share", large.mean())):
        shown = visitor.by(name).first.inner_text()
        assert float(shown.removesuffix("%").strip("\u2009")) == pytest.approx(100 * share, abs=0.51)

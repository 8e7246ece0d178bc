"""Frames whose completeness error is too large are hatched, and not drawn in color."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.pages.results import Results, open_results
from tests.browser.pages import Visitor
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
    rl_clarity.generate(agent, trajectories, varied, page, attribution=path, features={"count": 3})
    return page


def is_large(results: Results, output: str = "value") -> np.ndarray:
    """Which steps have a completeness error above 5 % of the output's range."""
    values = results.series(0)
    outputs = values["values"] if output == "value" else values["logits"][:, int(output[-1])]
    errors = np.abs(results.decomposition(0, "1a", output)["completeness_error"])
    return np.asarray(errors > 0.05 * np.ptp(outputs))


def is_grey(image: np.ndarray) -> bool:
    shown = image[image[..., 3] > 0][:, :3].astype(int)
    assert len(shown)
    return bool((np.ptp(shown, axis=-1) <= 2).all())


@pytest.mark.parametrize("output", ["value", "action-2"])
def test_frames_with_a_large_error_are_hatched_and_grey(coarse: Path, open_page: Open, output: str) -> None:
    large = is_large(open_results(coarse), output)
    frames = {True: int(np.flatnonzero(large)[0]), False: int(np.flatnonzero(~large)[0])}
    for hatched in (False, True):
        visitor = open_page(coarse, f"?layer=1a&rows={output}&frame={frames[hatched] + 1}")
        bar = visitor.by("account").locator("[data-part=feature-1] .bars")
        bar.wait_for()
        visitor.settle()
        expect(visitor.by("incomplete")).to_have_count(int(hatched))
        expect(visitor.by("incomplete-image")).to_have_count(2 * int(hatched))
        assert is_grey(visitor.attribution("pos")) == hatched
        assert ("repeating" in bar.evaluate("e => getComputedStyle(e).backgroundImage")) == hatched
        if hatched:
            assert visitor.by("incomplete-image").first.bounding_box() == visitor.overlay("pos").bounding_box()
            assert "is above 5 % of the output’s range" in visitor.text("incomplete")


def test_the_track_and_trust_count_them(coarse: Path, open_page: Open) -> None:
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

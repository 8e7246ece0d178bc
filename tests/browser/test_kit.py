"""Components that pages of several kinds share: clocks side by side, and the brush on every track."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import Bundle, write_page
from svelte3 import compile_js
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import Size, read_chunk, write_synthetic_page

Open = Callable[..., Visitor]
MARK = (47, 91, 183)
"""The color of marks in the light theme."""


def test_two_playback_clocks_on_a_page_move_independently(tmp_path: Path, open_page: Open) -> None:
    size = Size(trajectories=2, steps=40, observations=16, layers=(("3a", 8, 32),), input_layer=False)
    manifest = write_synthetic_page(tmp_path, size)
    compile_js(Path(__file__).with_name("TwoClocks.svelte"), tmp_path / "two.js", js_name="Interface")
    write_page(LocalDirectory(tmp_path), manifest, bundle=Bundle((tmp_path / "two.js").read_text()))
    visitor = open_page(tmp_path, wait=False, toured=False)
    first, second = visitor.by("first"), visitor.by("second")

    def frames() -> list[tuple[int, int]]:
        return [(now["episode"], now["frame"]) for now in visitor.page.evaluate("rlClarity.now()")]

    assert frames() == [(0, 0), (1, 0)]
    second.get_by_role("button", name="Step forward").click()
    second.get_by_role("button", name="Step forward").click()
    first.get_by_role("button", name="To end").click()
    assert frames() == [(0, 39), (1, 2)]
    film = second.locator('[data-track="film"]')
    assert film.locator(".value").inner_text() == "3 of 40"
    well = film.get_by_test_id("well")
    width = float(well.evaluate("e => e.clientWidth"))
    well.click(position={"x": 12.5 * width / 40, "y": 10})  # a short episode fills the axis
    assert frames() == [(0, 39), (1, 12)]
    assert second.locator('[data-track="Values"] .value').inner_text() == "12.0"
    second.get_by_role("button", name="Show less time").click()
    assert [now["window"] for now in visitor.page.evaluate("rlClarity.now()")] == [64, 20]
    second.get_by_test_id("play").click()
    visitor.page.wait_for_function("() => rlClarity.now()[1].frame === 39")
    assert frames()[0] == (0, 39), "the other player does not move"
    marks = "all => all.map(e => Number(e.dataset.marks))"
    assert first.get_by_test_id("track").evaluate_all(marks) == [0, 0]
    assert second.get_by_test_id("track").evaluate_all(marks) == [1, 1]


def marked_steps(visitor: Visitor, track: str, steps: int) -> list[int]:
    """Steps whose middle has the color of marks at the top of a track that shows a whole trajectory."""
    top = read_canvas(visitor.track(track).locator("canvas"))[3, :, :3]
    marked = np.abs(top - MARK).max(-1) < 8
    step_width = float(visitor.well(track).evaluate("well => well.clientWidth")) / steps
    covered = np.ceil((np.arange(steps) + 0.5) * step_width).astype(int) - 1  # a mark is two pixels wide
    return [int(step) for step in np.flatnonzero(marked[covered])]


def test_search_results_are_marked_on_every_track(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&rows=value,group-0", color_scheme="light", expect_messages=True)
    visitor.press("f")
    visitor.by("find-kind").select_option("action")
    visitor.by("find-action").select_option("7")
    visitor.click("find-go")
    visitor.by("find-count").wait_for()
    for trajectory in (1, 2):
        actions = read_chunk(synthetic, f"trajectories/{trajectory}/series.js")["actions"]
        for track in ("advantage", "value", "group-0"):
            assert marked_steps(visitor, track, 100) == np.flatnonzero(actions == 7).tolist()
        visitor.page.evaluate("rlClarity.select({ trajectory: 1 })")
    visitor.by("panel-timeline").get_by_role("button", name="Clear marks").click()
    assert marked_steps(visitor, "advantage", 100) == []

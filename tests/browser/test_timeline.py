"""Trajectories longer than what the timeline draws ahead: tracks show what stands at the frame, wherever that is."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, read_chunk, write_synthetic_page

Open = Callable[..., Visitor]
STEPS, PAD, HEIGHT = 1100, 4, 48 - 2  # within the border


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("long")
    layers = (("4a", 8, 32),)
    size = Size(trajectories=1, steps=STEPS, observations=16, policy=False, layers=layers, input_layer=False)
    write_synthetic_page(directory, size)
    return directory


# Two columns of pixels of a track's canvas, where the line in the middle stands. Read from a copy, as Chromium warns of
# canvases that are read often.
_AT_THE_LINE = """well => {
  const canvas = well.querySelector('canvas');
  const [outer, inner] = [well, canvas].map((e) => e.getBoundingClientRect());
  const x = Math.round((outer.left + outer.width / 2 - inner.left) * canvas.width / inner.width);
  const copy = Object.assign(document.createElement('canvas'), { width: 2, height: canvas.height });
  const context = copy.getContext('2d', { willReadFrequently: true });
  context.drawImage(canvas, 1 - x, 0);
  return Array.from(context.getImageData(0, 0, 2, canvas.height).data);
}"""


def height_at_the_line(visitor: Visitor, track: str) -> float:
    """How high the graph runs at the frame that is shown, in pixels from the top."""
    pixels = np.array(visitor.well(track).evaluate(_AT_THE_LINE), float).reshape(HEIGHT, 2, 4)
    color = visitor.track(track).locator(".label").evaluate("label => getComputedStyle(label).color")
    wanted = np.array([int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")])
    drawn = (pixels[..., 3] > 60) & (np.abs(pixels[..., :3] - wanted).max(-1) < 40)
    assert drawn.any(), "nothing is drawn at the frame"
    return float(np.argwhere(drawn)[:, 0].mean())


def wanted_height(values: np.ndarray, frame: int) -> float:
    low, high = values.min(), values.max()
    return float(HEIGHT - PAD - (values[frame] - low) / (high - low) * (HEIGHT - 2 * PAD))


def test_timeline_tracks_show_the_values_at_the_current_frame(long_page: Path, open_page: Open) -> None:
    visitor = open_page(long_page, "?frame=2")
    advantages = read_chunk(long_page, "trajectories/1/series.js")["advantages"]

    def check() -> None:
        frame = visitor.state()["frame"]
        around = advantages[max(0, frame - 1) : frame + 2]
        heights = [wanted_height(advantages, step) for step in range(max(0, frame - 1), min(STEPS, frame + 2))]
        slack = 3 + (max(heights) - min(heights) if len(around) else 0)
        assert abs(height_at_the_line(visitor, "advantage") - wanted_height(advantages, frame)) <= slack, frame

    check()
    series = read_chunk(long_page, "trajectories/1/series.js")
    for name, values in {"advantage": advantages, "value": series["values"]}.items():
        numbers = [text.replace("−", "-") for text in visitor.track(name).locator(".limit").all_inner_texts()]
        assert [float(text) for text in numbers] == pytest.approx([values.max(), values.min()], rel=0.051), name
    for frame in (150, 260, 400, 700, 690, 130, STEPS - 1, 0):  # near, at, and beyond the ends of what was drawn ahead
        visitor.page.evaluate("frame => rlClarity.select({ frame })", frame)
        visitor.settle()
        check()
    visitor.page.get_by_role("button", name="Show more time").click()
    visitor.page.evaluate("rlClarity.select({ frame: 800 })")
    check()


def test_search_results_are_marked_on_the_filmstrip(long_page: Path, open_page: Open) -> None:
    visitor = open_page(long_page, "?frame=300")
    visitor.press("f")
    visitor.by("find-kind").select_option("first")
    before = visitor.well("film").screenshot()
    visitor.click("find-go")
    visitor.by("find-results").wait_for()
    assert visitor.well("film").screenshot() != before


def test_start_and_end_labels_of_the_timeline_are_never_cut_off(long_page: Path, open_page: Open) -> None:
    visitor = open_page(long_page, "?frame=1")
    well = visitor.well("film")
    for first, last, side in ((0, 128, -0.5), (STEPS - 1, STEPS - 129, 0.5)):
        lengths = []
        for frame in np.linspace(first, last, 8).round().astype(int).tolist():
            visitor.page.evaluate("frame => rlClarity.select({ frame })", frame)
            visitor.settle()
            pixels = np.array(Image.open(io.BytesIO(well.screenshot())).convert("L"), int)[2:-2, 2:-2]
            edge = round(pixels.shape[1] * (0.5 + (first + side - frame) / 256))
            beyond = pixels[:, : max(0, edge - 3)] if side < 0 else pixels[:, edge + 3 :]
            columns = np.flatnonzero(np.ptp(np.pad(beyond, ((0, 0), (0, 1))), 0) > 60)
            lengths.append(columns[-1] - columns[0] if len(columns) else 0)
        shown = [length for length in lengths if length]
        assert lengths[0] > 15, "there is room for it"
        assert len(shown) < len(lengths), "it is hidden where there is none"
        assert max(shown) - min(shown) <= 2, "it is whole"


# Counts what is drawn on canvases, on those of tracks and others.
_COUNT_DRAWING = """() => {
  window.drawn = {};
  for (const name of ['stroke', 'fillText', 'measureText', 'drawImage']) {
    const draw = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...values) {
      const key = this.canvas.closest('[data-testid=track]') ? `${name} on a track` : name;
      window.drawn[key] = (window.drawn[key] ?? 0) + 1;
      return draw.apply(this, values);
    };
  }
}"""


def step(visitor: Visitor, count: int) -> None:
    for _ in range(count):
        visitor.press("ArrowRight")
        visitor.settle()


def test_moving_one_step_reuses_tracks_drawn_in_advance(long_page: Path, open_page: Open) -> None:
    visitor = open_page(long_page, "?frame=1")  # the word beside the start is in view
    visitor.page.evaluate(_COUNT_DRAWING)
    step(visitor, 6)
    drawn = visitor.page.evaluate("window.drawn")
    assert drawn["drawImage on a track"] >= 6 * visitor.by("track").count()
    assert set(drawn) <= {"drawImage on a track", "drawImage"}, "no graph is drawn and no text is written again"


def whole_layouts(visitor: Visitor) -> tuple[int, list[str]]:
    """Take eight steps: how many change the number of buttons, and the reasons of each layout of the whole page."""
    browser = visitor.page.context.browser
    assert browser

    def counts() -> list[int]:
        return [features.locator("button").count() for features in visitor.by("multiples").all()]

    step(visitor, 2)
    categories = ["devtools.timeline", "disabled-by-default-devtools.timeline.invalidationTracking"]
    browser.start_tracing(page=visitor.page, categories=categories)
    buttons = [counts()]
    for _ in range(8):
        step(visitor, 1)
        buttons.append(counts())
    events = json.loads(browser.stop_tracing())["traceEvents"]
    layouts, whole, reasons = 0, [], Counter[str]()
    for event in sorted(events, key=lambda event: event["ts"]):
        if event["name"] == "LayoutInvalidationTracking":
            data = event["args"]["data"]
            reasons[f"{data.get('nodeName')}: {data.get('reason')}"] += 1
        elif event["name"] == "Layout" and event["ph"] in "BX":
            layouts += 1
            # Others are Chromium's own, without a reason, or of canvases that are drawn in idle time.
            changed_text = any("Text changed" in reason for reason in reasons)
            if changed_text and not event["args"]["beginData"]["partialLayout"]:
                whole.append(str(dict(reasons)))
            reasons.clear()
    assert layouts >= 8, "numbers change"
    return sum(before != after for before, after in pairwise(buttons)), whole


def test_moving_one_step_lays_out_only_changed_elements(synthetic: Path, open_page: Open) -> None:
    changes, whole = whole_layouts(open_page(synthetic, "?frame=30"))
    assert changes < 8
    assert len(whole) <= changes, "only buttons that come or go are laid out with what is around them"


def test_browser_back_and_forward_restore_earlier_views(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.click("layer-3a")
    visitor.page.wait_for_url("**layer=3a**")
    visitor.page.wait_for_timeout(600)  # changes in quick succession are one place
    visitor.click("trajectory-2")
    visitor.page.wait_for_url("**trajectory=2**")
    places = [(3, 0, 29), (4, 0, 29), (4, 1, 0)]

    def place() -> tuple[int, int, int]:
        visitor.settle()
        state = visitor.state()
        return state["layer"], state["trajectory"], state["frame"]

    assert place() == places[2]
    for step, wanted in (("back", places[1]), ("back", places[0]), ("forward", places[1]), ("forward", places[2])):
        visitor.page.evaluate(f"history.{step}()")
        layer, trajectory, _ = wanted
        visitor.page.wait_for_function(
            f"() => rlClarity.state().layer === {layer} && rlClarity.state().trajectory === {trajectory}"
        )
        assert place() == wanted


def test_going_back_right_after_a_change_restores_the_previous_view(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.click("layer-3a")
    visitor.page.wait_for_timeout(600)  # changes in quick succession are one place
    visitor.press("ArrowRight")
    visitor.click("trajectory-2")
    assert "trajectory=2" in visitor.page.url
    visitor.page.evaluate("history.back()")
    visitor.page.wait_for_function("() => rlClarity.state().trajectory === 0")
    state = visitor.state()
    assert (state["layer"], state["trajectory"], state["frame"]) == (4, 0, 30)


def test_nothing_is_animated_if_the_user_prefers_reduced_motion(long_page: Path, open_page: Open) -> None:
    visitor = open_page(long_page, "?frame=300", reduced_motion="reduce", toured=False)
    visitor.by("tour").wait_for()
    moving = visitor.page.evaluate(
        """() => [...document.querySelectorAll('*')].filter((e) => {
          const { transitionDuration, animationName } = getComputedStyle(e);
          return animationName !== 'none' || transitionDuration.split(',').some((time) => parseFloat(time) > 0);
        }).length"""
    )
    assert moving == 0

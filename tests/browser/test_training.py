"""The page of an agent's training: one selection in every panel, and its numbers as NumPy computes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.browser.pages import Visitor, read_canvas
from tests.browser.training_pages import EVERY, LENGTHS, TrainingPage, write_training_page

Open = Callable[..., Visitor]
HALVES = (slice(0, 8), slice(8, 16))
QUADRANTS = [(rows, columns) for rows in HALVES for columns in HALVES]


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> TrainingPage:
    return write_training_page(tmp_path_factory.mktemp("training"))


@pytest.fixture
def open_training(open_page: Open, training: TrainingPage) -> Open:
    """`open_training(query)` opens the page and waits until every checkpoint's episode is loaded."""

    def open_at(query: str = "", **options: object) -> Visitor:
        visitor: Visitor = open_page(training.directory, query, wait=False, **options)
        settle(visitor)
        return visitor

    return open_at


def settle(visitor: Visitor) -> None:
    visitor.page.wait_for_function(
        """() => {
          const count = window.rlClarity?.manifest.checkpoints.length;
          const loaded = count && [...Array(count).keys()].every((k) => rlClarity.shares(k));
          const frames = [...document.querySelectorAll('[data-testid=training-observation]')];
          return loaded && frames.length && frames.every((frame) => frame.dataset.frame);
        }"""
    )


def test_the_page_opens_with_the_first_and_the_last_checkpoint(open_training: Open) -> None:
    visitor = open_training()
    assert visitor.page.title() == "Runner"
    assert visitor.state()["chosen"] == [0, 3]
    assert visitor.by("film-1").count() == visitor.by("film-4").count() == 1
    assert visitor.by("film-2").count() == 0
    assert visitor.text("checkpoint-1") == "start A 20 k steps 1.00"


def test_a_click_on_a_marker_chooses_a_and_with_shift_adds(open_training: Open) -> None:
    visitor = open_training()
    visitor.by("marker-2").locator("circle").click(force=True)
    assert visitor.state()["chosen"] == [1, 3]
    visitor.by("total-3").click(modifiers=["Shift"])
    assert visitor.state()["chosen"] == [1, 3, 2]
    visitor.by("compare-4").uncheck()
    assert visitor.state()["chosen"] == [1, 2]
    visitor.page.wait_for_url("**checkpoints=2.3*")
    visitor.press("z")
    assert visitor.state()["chosen"] == [1, 3, 2], "undo"
    visitor.page.go_back()
    visitor.page.wait_for_function("rlClarity.state().chosen.length === 2")


def test_bars_of_total_saliency_have_the_heights_of_its_numbers(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    for output in ("policy", "value"):
        bars = visitor.by("totals").locator(f"[data-output={output}]")
        heights = np.array(bars.evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().height)"))
        totals = np.array([entry["totals"][output] for entry in training.checkpoints])
        np.testing.assert_allclose(heights / heights.max(), totals / totals.max(), atol=0.03)


def test_pointing_at_a_step_compares_all_returns(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?step=41")
    shown = visitor.text("returns-read-out")
    assert shown.startswith("step 41:")
    for index, name in enumerate(("start", "half a million", "one million", "the end")):
        assert f"{name}: {np.cumsum(training.series[index][0]['rewards'])[40]:.3g}" in shown
    visitor = open_training("?step=100")
    assert "start: 2.00 (ended)" in visitor.text("returns-read-out")


def test_a_click_on_a_line_goes_to_its_checkpoint_and_step(open_training: Open) -> None:
    visitor = open_training("?checkpoints=1.2")
    chart = visitor.by("returns-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box
    visitor.page.mouse.click(box["x"] + box["width"] - 30, box["y"] + 10)  # the best one's end, at the top
    state = visitor.state()
    assert state["chosen"] == [3, 1]
    assert state["step"] > 140


def test_a_drag_over_the_returns_marks_a_range_of_steps_everywhere(open_training: Open) -> None:
    visitor = open_training()
    chart = visitor.by("returns-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box
    visitor.page.mouse.move(box["x"] + 200, box["y"] + 50)
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 300, box["y"] + 60)
    visitor.page.mouse.up()
    low, high = visitor.state()["brushes"]["step"]
    assert 0 < low < high
    assert visitor.track("value-4").get_attribute("data-marks") == "1"
    visitor.click("clear-brushes")
    assert visitor.track("value-4").get_attribute("data-marks") == "0"


def test_episodes_are_aligned_by_step_or_by_progress(open_training: Open) -> None:
    visitor = open_training(f"?step={LENGTHS[3][0]}")
    assert "step 60 of 60 (ended)" in visitor.text("film-1")
    visitor.by("frame-slider").fill("76")
    assert "step 76 of 150" in visitor.text("film-4")
    visitor.by("sync").select_option("progress")
    assert "step 31 of 60" in visitor.text("film-1")
    visitor.press("ArrowLeft")
    assert visitor.state()["step"] == 74


def test_steps_are_taken_by_one_or_from_map_to_map(open_training: Open) -> None:
    visitor = open_training("?step=10")
    visitor.click("map-forward")
    assert visitor.state()["step"] == 9 + EVERY
    visitor.press(",", ",", "ArrowRight")
    assert visitor.state()["step"] == 9 - EVERY + 1
    shown = visitor.by("film-1").get_by_test_id("saliency-canvas")
    assert shown.get_attribute("data-step") == "4"


def test_maps_are_blue_for_the_policy_and_red_for_the_value(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?step=21&scale=frame")
    canvas = visitor.by("film-4").get_by_test_id("saliency-canvas")
    for output, channel in (("policy", 2), ("value", 0)):
        visitor.by("overlay").select_option(output)
        image = read_canvas(canvas)
        codes = training.codes[3][0][output][5]
        row, column = np.unravel_index(codes.argmax(), codes.shape)
        assert image[4 * row + 2, 4 * column + 2, 3] > 230
        assert image[4 * row + 2, 4 * column + 2].argsort()[-2] == channel or output == "value"
        np.testing.assert_allclose(image[2::4, 2::4, 3], codes, atol=40)  # between cells images are linear
    visitor.by("overlay").select_option("none")
    assert read_canvas(canvas).max() == 0
    visitor.press("o")
    assert visitor.state()["overlay"] == "both"


def test_a_constant_map_is_shown_as_none(open_training: Open) -> None:
    visitor = open_training("?step=9")
    canvas = visitor.by("film-4").get_by_test_id("saliency-canvas")
    assert canvas.get_attribute("data-step") == "8"
    assert read_canvas(canvas).max() == 0


def test_stacked_probabilities_are_those_of_the_episode(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4&step=1")
    strip = visitor.track("policy-4").locator("canvas")
    image = read_canvas(strip)
    series = training.series[3][0]
    step = 75
    x = round((step + 0.5) * image.shape[1] / LENGTHS[3][0])
    edges = np.cumsum(series["probabilities"][step])
    colors = np.array([(48, 48, 48), (42, 127, 184), (224, 138, 30), (179, 79, 163)])
    column = image[:, x, :3]
    for action in np.flatnonzero(series["probabilities"][step] > 0.1):
        middle = (edges[action] - 0.8 * series["probabilities"][step, action]) * image.shape[0]
        near = np.abs(column[round(middle)] - colors[action]).max()
        assert near < 30 or np.ptp(column[round(middle)]) == 0, "the line of rewards may be there"


def test_shares_of_regions_are_those_of_numpy(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    for index in range(4):
        shares = visitor.page.evaluate(f"rlClarity.shares({index})")
        for output in ("policy", "value"):
            expected = training.shares(index, 0, output, QUADRANTS)
            np.testing.assert_allclose(shares[output], expected, atol=1e-9)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_selection_in_the_address_is_shown(open_training: Open, scheme: str) -> None:
    query = "?checkpoints=2.4.1&episode=2&step=30&overlay=value&sure=0.5&brush=step%7E11%7E40&path=1"
    visitor = open_training(query, color_scheme=scheme)
    assert visitor.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert visitor.by("overlay").input_value() == "value"
    assert visitor.by("episode").input_value() == "1"
    assert visitor.text("sure-number") == "0.50"
    assert visitor.by("peak-path").count() == 3
    assert visitor.track("film-2").get_attribute("data-marks") == "1"
    letters = [visitor.by(f"film-{k}").locator(".letter").inner_text() for k in (2, 4, 1)]
    assert letters == ["A", "B", "C"]


def test_the_line_of_the_step_is_as_high_as_a_track(open_training: Open) -> None:
    visitor = open_training("?step=30")
    well = visitor.well("value-4")
    heights = well.evaluate("well => [well.querySelector('.head').clientHeight, well.clientHeight]")
    assert heights[0] == heights[1] > 30


def test_an_episode_that_a_checkpoint_lacks_is_said(open_page: Open, tmp_path: Path) -> None:
    write_training_page(tmp_path, ((20, 12), (16,)))
    visitor = open_page(tmp_path, "?episode=2", wait=False)
    assert "half a million has no episode 2." in visitor.text("film-2")

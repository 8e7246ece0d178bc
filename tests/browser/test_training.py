"""The page of an agent's training: one selection in every panel, and its numbers as NumPy computes them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import read_manifest, write_page
from tests.browser.pages import Visitor, read_canvas
from tests.browser.test_accessibility import violations
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
    visitor.page.wait_for_function("() => rlClarity.state().chosen.length === 2")


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
    assert visitor.by("panel-films").get_by_test_id("peak-path").count() == 3
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


def test_regions_are_drawn_named_and_removed(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4&step=21")
    for start, end in (((0.05, 0.05), (0.5, 0.52)), ((0.5, 0.5), (0.95, 0.98))):
        visitor.by("region-area").scroll_into_view_if_needed()
        box = visitor.by("region-area").bounding_box()
        assert box
        visitor.page.mouse.move(box["x"] + start[0] * box["width"], box["y"] + start[1] * box["height"])
        visitor.page.mouse.down()
        visitor.page.mouse.move(box["x"] + end[0] * box["width"], box["y"] + end[1] * box["height"])
        visitor.page.mouse.up()
    visitor.by("region-name").fill("the sky")
    visitor.by("region-name").press("Tab")
    state = visitor.state()
    assert len(state["regions"]["boxes"]) == 2
    assert (state["region"], state["regions"]["names"]) == (1, {"1": "the sky"})
    assert visitor.text("region-2") == "the sky"
    visitor.by("box-bottom").fill("100")
    visitor.by("box-bottom").press("Tab")
    visitor.by("box-right").fill("100")
    visitor.by("box-right").press("Tab")
    expected = training.shares(3, 0, "value", [(HALVES[1], HALVES[1])])
    shown = visitor.page.evaluate("rlClarity.shares(3)")
    np.testing.assert_allclose(shown["value"][1], expected[0], atol=1e-9)
    visitor.page.wait_for_url("**name=2%7Ethe+sky*")
    visitor.click("remove-box")
    assert len(visitor.state()["regions"]["boxes"]) == 1
    visitor.press("z")
    assert visitor.text("region-2") == "the sky", "undo"
    visitor.click("grid")
    assert visitor.by("region-4").count() == 1


def test_the_heat_map_and_the_bars_show_the_shares(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4&step=21&grid=1x2")
    columns = [(slice(0, 16), half) for half in HALVES]
    expected = training.shares(3, 0, "value", columns)
    image = read_canvas(visitor.track("heat-4").locator("canvas"))
    ground, mark = (np.array(color) for color in ((255, 255, 255), (47, 91, 183)))
    for m in (1, 10, 30):
        x = round((m * EVERY + 1.5) * image.shape[1] / LENGTHS[3][0])
        for region in (0, 1):
            pixel = image[round((region + 0.75) * image.shape[0] / 2), x, :3]
            wanted = ground + expected[region, m] * (mark - ground)
            np.testing.assert_allclose(pixel, wanted, atol=2)
    for output in ("policy", "value"):
        bars = visitor.by("histogram-4").locator(f"[data-output={output}]")
        shares = bars.evaluate_all("bars => bars.map((bar) => Number(bar.dataset.share))")
        np.testing.assert_allclose(shares, training.shares(3, 0, output, columns)[:, 5], atol=1e-9)


def test_the_rolling_mean_is_that_of_numpy(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4&window=5&region=2")
    image = read_canvas(visitor.track("rolling-4").locator("canvas"))[..., :3]
    height, width = image.shape[:2]
    for output, color in (("value", (201, 48, 44)), ("policy", (58, 58, 214))):
        shares = training.shares(3, 0, output, QUADRANTS)[1]
        means = np.array([shares[max(0, m - 4) : m + 1].mean() for m in range(len(shares))])
        ys = height - 4 - means * (height - 8)
        distances = np.abs(image - color).max(-1)
        near = [
            distances[int(y) - 1 : int(y) + 2, int((m * EVERY + 0.5) * width / LENGTHS[3][0])].min()
            for m, y in enumerate(ys)
        ]
        assert np.mean(np.array(near) < 60) > 0.85, "the other line covers it in places"


def test_the_heat_map_and_the_rolling_mean_have_one_time_axis(open_training: Open) -> None:
    visitor = open_training("?step=76")
    places = [
        visitor.well(f"{track}-4").locator(".head").evaluate("head => head.getBoundingClientRect().x")
        for track in ("heat", "rolling")
    ]
    assert places[0] == places[1]


def test_a_weak_map_is_said_to_be_weak(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?step=21&overlay=value")
    scales = training.codes[3][0]["scale value"]
    text = visitor.by("film-4").get_by_test_id("peaks").inner_text().replace("\u00a0", " ")
    assert text.startswith("Largest: value ")
    percent = float(text.split("value ")[1].split("%")[0])
    np.testing.assert_allclose(percent, 100 * scales[5] / scales.max(), atol=0.6)
    visitor.by("scale").select_option("frame")
    assert visitor.by("peaks").count() == 0


def test_colors_for_color_blind_readers_are_in_every_panel(open_training: Open) -> None:
    visitor = open_training("?step=21&scale=frame&palette=safe&overlay=value")
    image = read_canvas(visitor.by("film-4").get_by_test_id("saliency-canvas"))
    strong = image[image[..., 3] > 200]
    np.testing.assert_allclose(strong[:, :3], np.broadcast_to((230, 159, 0), (len(strong), 3)), atol=3)
    bar = visitor.by("totals").locator("[data-output=policy]").first
    assert bar.evaluate("bar => getComputedStyle(bar).backgroundColor") == "rgb(0, 103, 168)"
    letter = visitor.by("film-1").locator(".letter")
    assert letter.evaluate("letter => getComputedStyle(letter).backgroundColor") == "rgb(55, 21, 47)"
    visitor.by("palette").select_option("standard")
    assert letter.evaluate("letter => getComputedStyle(letter).backgroundColor") == "rgb(180, 83, 9)"


@pytest.mark.parametrize("width", [1366, 900])
def test_names_and_ranges_of_axes_are_not_cut_off(open_training: Open, width: int) -> None:
    visitor = open_training(viewport={"width": width, "height": 768})
    texts = visitor.by("panel-steps").locator("[data-testid^=axis-name], .ends span")
    assert texts.count() == 3 * 11
    cut = "spans => spans.filter((s) => s.scrollWidth > s.clientWidth || s.scrollHeight > s.clientHeight + 1)"
    assert texts.evaluate_all(f"{cut}.map((s) => s.textContent)") == []


def brush_axis(visitor: Visitor, key: str, low: float, high: float) -> None:
    """Drag along an axis between two shares of its height, from the top."""
    axis = visitor.by(f"axis-{key}")
    axis.scroll_into_view_if_needed()
    box = axis.bounding_box()
    assert box
    x = box["x"] + box["width"] / 2
    visitor.page.mouse.move(x, box["y"] + low * box["height"])
    visitor.page.mouse.down()
    visitor.page.mouse.move(x, box["y"] + high * box["height"])
    visitor.page.mouse.up()


def test_brushes_on_several_axes_hold_together(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4.1")
    canvas = visitor.by("steps-canvas")
    assert canvas.get_attribute("data-lines") == str(LENGTHS[3][0] + LENGTHS[0][0])
    brush_axis(visitor, "value", 0, 0.5)
    brush_axis(visitor, "entropy", 0.3, 1)
    brushes = visitor.state()["brushes"]
    held = 0
    for index in (3, 0):
        series = training.series[index][0]
        probabilities = series["probabilities"].astype(np.float64)
        entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-30))).sum(1)
        low, high = brushes["value"]
        values = series["values"].astype(np.float64)
        inside = (values >= low) & (values <= high)
        inside &= (entropy >= brushes["entropy"][0] - 1e-9) & (entropy <= brushes["entropy"][1] + 1e-9)
        held += int(inside.sum())
        marked = np.flatnonzero(np.diff(np.r_[0, inside.astype(int), 0]) == 1)
        assert visitor.track(f"policy-{index + 1}").get_attribute("data-marks") == str(len(marked))
    assert 0 < held < LENGTHS[3][0]
    assert canvas.get_attribute("data-lines") == str(held)
    visitor.by("axis-value").click()
    assert list(visitor.state()["brushes"]) == ["entropy"], "a click clears the axis"
    visitor.press("z")
    assert len(visitor.state()["brushes"]) == 2


def test_axes_are_brushed_and_moved_without_a_pointer(open_training: Open) -> None:
    visitor = open_training()
    visitor.by("axis").select_option("reward")
    visitor.by("axis-from").fill("1")
    visitor.by("axis-from").press("Tab")
    assert visitor.state()["brushes"] == {"reward": [1, 1]}
    visitor.click("axis-back")
    assert visitor.state()["axes"][-3:] == ["reward", "probability", "return"]
    visitor.click("axis-clear")
    assert visitor.state()["brushes"] == {}


def test_an_axis_is_dragged_to_another_place(open_training: Open) -> None:
    visitor = open_training()
    name = visitor.by("axis-name-value")
    name.scroll_into_view_if_needed()
    start, end = name.bounding_box(), visitor.by("axis-name-step").bounding_box()
    assert start
    assert end
    visitor.page.mouse.move(start["x"] + 5, start["y"] + 8)
    visitor.page.mouse.down()
    visitor.page.mouse.move(end["x"] - 10, end["y"] + 8, steps=3)
    visitor.page.mouse.up()
    assert visitor.state()["axes"][:2] == ["value", "step"]


def test_all_checkpoints_are_shown_the_same_play(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?step=41")
    assert visitor.text("reference-frame") == "41"
    action = training.series[3][0]["actions"][40]
    for index in range(4):
        shown = training.shown[index]
        text = visitor.text(f"eye-{index + 1}")
        assert f"value {shown['values'][40]:.3g}".replace("-", "\u2212") in text
        percent = float(text.split("%")[0].split()[-1])
        np.testing.assert_allclose(percent, 100 * shown["probabilities"][40, action], atol=0.6)
        frame = visitor.by(f"eye-{index + 1}").get_by_test_id("training-observation")
        assert frame.get_attribute("data-frame") == "0/40"
        saliency = visitor.by(f"eye-{index + 1}").get_by_test_id("saliency-canvas")
        assert saliency.get_attribute("data-step") == "40"
    assert visitor.by("shown-value").locator("[data-line]").count() == 4
    visitor.click("disagreement")
    assert visitor.state()["step"] == int(training.divergence.argmax())


def test_numbers_are_sorted_and_saved(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    table = visitor.by("panel-numbers")
    names = table.locator("tbody td:first-child")
    table.get_by_role("button", name="return", exact=True).click()
    table.get_by_role("button", name="return").first.click()
    assert names.all_inner_texts() == ["the end", "one million", "half a million", "start"]
    with visitor.page.expect_download() as download:
        visitor.click("numbers-csv")
    with Path(download.value.path()).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Checkpoint"] for row in rows] == ["start", "half a million", "one million", "the end"]
    shares = training.shares(2, 0, "value", QUADRANTS).mean(1)
    for name, share in zip(("top left", "top right", "bottom left", "bottom right"), shares, strict=True):
        np.testing.assert_allclose(float(rows[2][f"{name}, value"]), share, atol=1e-9)
    assert rows[0]["correlation with last, policy"] == ""


def test_checks_and_provenance_are_in_trust(open_training: Open) -> None:
    visitor = open_training()
    visitor.press("t")
    assert "No checks were made" in visitor.text("drawer")
    assert "half a million.jd" in visitor.text("drawer")


def test_checks_that_were_made_are_in_trust(open_page: Open, tmp_path: Path) -> None:
    write_training_page(tmp_path, ((20, 12), (16,)))
    manifest = read_manifest((tmp_path / "interface.html").read_bytes())
    columns = [{"key": "method", "label": "method"}, {"key": "weights", "label": "with random weights"}]
    data = {"columns": columns, "rows": [{"method": "Jacobian", "weights": "changes"}], "caption": "On 8 frames."}
    manifest["sections"].append(
        {"kind": "checks", "agent": "agent-2", "title": "Checks", "panel": "table", "data": data}
    )
    write_page(LocalDirectory(tmp_path), manifest)
    visitor = open_page(tmp_path, wait=False)
    visitor.press("t")
    for text in ("half a million", "On 8 frames.", "Jacobian", "changes"):
        assert text in visitor.text("drawer")
    assert visitor.by("panel-checks").count() == 0


def test_frames_are_shown_in_grey(open_training: Open) -> None:
    visitor = open_training("?step=21&grey=1")
    canvas = visitor.by("film-4").get_by_test_id("training-observation")
    assert np.ptp(read_canvas(canvas)[..., :3], axis=-1).max() == 0
    visitor.by("grey").uncheck()
    assert np.ptp(read_canvas(canvas)[..., :3], axis=-1).max() > 50


def test_what_is_shown_is_saved(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4.1&step=21&brush=step%7E11%7E40")
    visitor.press("e")

    def saved(name: str) -> Path:
        with visitor.page.expect_download() as download:
            visitor.click(f"export-{name}")
        return Path(download.value.path())

    arrays = np.load(saved("npz"))
    np.testing.assert_array_equal(arrays["A/rewards"], training.series[3][0]["rewards"])
    np.testing.assert_array_equal(arrays["B/maps/codes.value"], training.codes[0][0]["value"])
    shares = training.shares(3, 0, "policy", QUADRANTS)
    np.testing.assert_allclose(arrays["A/shares/policy/top right"], shares[1], atol=1e-9)
    with saved("csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == LENGTHS[3][0] + LENGTHS[0][0]
    assert [row["brushed"] for row in rows[8:12]] == ["0", "0", "1", "1"]
    image = np.asarray(Image.open(saved("png")))
    assert image.shape[1] > 2 * 4 * 64
    for name in ("svg", "tracks", "charts"):
        assert ElementTree.parse(saved(name)).getroot().tag.endswith("svg")
    assert np.asarray(Image.open(saved("lines"))).shape[0] == 250
    visitor.by("export-from").fill("20")
    visitor.by("export-to").fill("22")
    assert getattr(Image.open(saved("apng")), "n_frames", 0) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_training: Open, axe: str, scheme: str) -> None:
    visitor = open_training("?checkpoints=4.1&step=21&boxes=0.1%7E0.1%7E0.5%7E0.5", color_scheme=scheme)
    assert violations(visitor, axe) == []
    visitor.press("e")
    assert violations(visitor, axe) == []


def test_a_narrow_window_is_not_wider_than_itself(open_training: Open, axe: str) -> None:
    visitor = open_training("?step=21", viewport={"width": 390, "height": 844})
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(visitor, axe) == []

"""The page of an agent's training: saliency maps, and their shares of regions as NumPy computes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from playwright.sync_api import expect

from tests.browser.pages import Visitor, read_canvas
from tests.browser.training_pages import EVERY, HALVES, LENGTHS, QUADRANTS, TrainingPage

Open = Callable[..., Visitor]


def test_saliency_is_blue_for_the_policy_and_red_for_the_value(open_training: Open, training: TrainingPage) -> None:
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


def test_a_constant_saliency_map_is_not_drawn(open_training: Open) -> None:
    visitor = open_training("?step=9")
    canvas = visitor.by("film-4").get_by_test_id("saliency-canvas")
    assert canvas.get_attribute("data-step") == "8"
    assert read_canvas(canvas).max() == 0


def test_saliency_shares_of_regions_equal_those_computed_by_numpy(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    for index in range(4):
        shares = visitor.page.evaluate(f"rlClarity.shares({index})")
        for output in ("policy", "value"):
            expected = training.shares(index, 0, output, QUADRANTS)
            np.testing.assert_allclose(shares[output], expected, atol=1e-9)


def test_regions_can_be_drawn_named_and_removed(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4&step=21")
    for start, end in (((0.05, 0.05), (0.5, 0.52)), ((0.5, 0.5), (0.95, 0.98))):
        visitor.drag(visitor.by("region-area"), start, end)
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
    expect(visitor.by("region-4")).to_have_count(1)


def test_heat_map_and_bars_show_the_saliency_shares_of_regions(open_training: Open, training: TrainingPage) -> None:
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


def test_the_rolling_mean_equals_that_computed_by_numpy(open_training: Open, training: TrainingPage) -> None:
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


def test_a_weak_saliency_map_is_labeled_as_weak(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?step=21&overlay=value&scale=trajectory")
    scales = training.codes[3][0]["scale value"]
    text = visitor.by("film-4").get_by_test_id("peaks").inner_text().replace("\u00a0", " ")
    assert text.startswith("largest: value ")
    percent = float(text.split("value ")[1].split("%")[0])
    np.testing.assert_allclose(percent, 100 * scales[5] / scales.max(), atol=0.6)
    visitor.by("scale").select_option("frame")
    expect(visitor.by("peaks")).to_have_count(0)


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


def test_frames_can_be_shown_in_gray(open_training: Open) -> None:
    visitor = open_training("?step=21&grey=1")
    canvas = visitor.by("film-4").get_by_test_id("training-observation")
    assert np.ptp(read_canvas(canvas)[..., :3], axis=-1).max() == 0
    visitor.by("grey").uncheck()
    assert np.ptp(read_canvas(canvas)[..., :3], axis=-1).max() > 50

"""The page of an agent's training: one selection in every panel, and what is saved."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import read_manifest, write_page
from tests.browser.pages import Visitor, read_canvas
from tests.browser.test_accessibility import violations
from tests.browser.training_pages import EVERY, LENGTHS, QUADRANTS, TrainingPage, write_training_page

Open = Callable[..., Visitor]


def test_the_compare_page_opens_with_the_first_and_last_checkpoint(open_training: Open) -> None:
    visitor = open_training()
    assert visitor.page.title() == "Runner"
    assert visitor.state()["chosen"] == [0, 3]
    expect(visitor.by("film-1")).to_have_count(1)
    expect(visitor.by("film-4")).to_have_count(1)
    expect(visitor.by("film-2")).to_have_count(0)
    assert visitor.text("checkpoint-1") == "start A 20 k steps 1.00"


def test_clicking_a_checkpoint_marker_selects_it_and_shift_adds_it(open_training: Open) -> None:
    visitor = open_training()
    visitor.by("marker-2").locator("circle").click()
    assert visitor.state()["chosen"] == [1, 3]
    visitor.by("total-3").click(modifiers=["Shift"])
    assert visitor.state()["chosen"] == [1, 3, 2]
    visitor.by("compare-4").uncheck()
    assert visitor.state()["chosen"] == [1, 2]
    visitor.page.wait_for_url("**checkpoints=2.3*")
    visitor.page.wait_for_timeout(600)  # changes in quick succession are one entry of the browser's history
    visitor.press("z")
    assert visitor.state()["chosen"] == [1, 3, 2], "undo"
    visitor.page.wait_for_url("**checkpoints=2.4.3*")
    visitor.page.go_back()
    visitor.page.wait_for_function("() => rlClarity.state().chosen.length === 2")


def test_heights_of_total_saliency_bars_match_the_numbers(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    for output in ("policy", "value"):
        bars = visitor.by("totals").locator(f"[data-output={output}]")
        heights = np.array(bars.evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().height)"))
        totals = np.array([entry["totals"][output] for entry in training.checkpoints])
        np.testing.assert_allclose(heights / heights.max(), totals / totals.max(), atol=0.03)


def test_hovering_a_step_compares_the_returns_of_all_checkpoints(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?step=41")
    shown = visitor.text("returns-read-out")
    assert shown.startswith("step 41:")
    for index, name in enumerate(("start", "half a million", "one million", "the end")):
        assert f"{name}: {np.cumsum(training.series[index][0]['rewards'])[40]:.3g}" in shown
    visitor = open_training("?step=100")
    assert "start: 2.00 (ended)" in visitor.text("returns-read-out")


def test_clicking_a_returns_line_goes_to_its_checkpoint_and_step(open_training: Open) -> None:
    visitor = open_training("?checkpoints=1.2")
    chart = visitor.by("returns-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box
    visitor.page.mouse.click(box["x"] + box["width"] - 30, box["y"] + 10)  # the best one's end, at the top
    state = visitor.state()
    assert state["chosen"] == [3, 1]
    assert state["step"] > 140


def test_dragging_over_returns_marks_a_range_of_steps_in_all_panels(open_training: Open) -> None:
    visitor = open_training()
    visitor.drag(visitor.by("returns-chart"), (0.3, 0.4), (0.5, 0.5))
    low, high = visitor.state()["brushes"]["step"]
    assert 0 < low < high
    assert visitor.track("value-4").get_attribute("data-marks") == "1"
    visitor.click("clear-brushes")
    assert visitor.track("value-4").get_attribute("data-marks") == "0"


def test_episodes_of_checkpoints_are_aligned_by_step_or_progress(open_training: Open) -> None:
    visitor = open_training(f"?step={LENGTHS[3][0]}")
    assert "step 60 of 60 (ended)" in visitor.text("film-1")
    visitor.by("frame-slider").fill("76")
    assert "step 76 of 150" in visitor.text("film-4")
    visitor.by("sync").select_option("progress")
    assert "step 31 of 60" in visitor.text("film-1")
    visitor.press("ArrowLeft")
    assert visitor.state()["step"] == 74


def test_keys_move_by_one_step_or_to_the_next_saliency_map(open_training: Open) -> None:
    visitor = open_training("?step=10")
    label = visitor.by("film-1").get_by_test_id("map-step")
    expect(label).to_have_text("map of step 9")
    visitor.click("map-forward")
    assert visitor.state()["step"] == 9 + EVERY
    expect(label).to_have_text("map of step 13")
    visitor.press(",", ",", "ArrowRight")
    assert visitor.state()["step"] == 9 - EVERY + 1
    shown = visitor.by("film-1").get_by_test_id("saliency-canvas")
    assert shown.get_attribute("data-step") == "4"
    visitor.press("ArrowLeft", "ArrowLeft")
    expect(shown).to_have_attribute("data-step", "4")
    expect(label).to_have_count(0)


def test_the_probability_band_shows_the_policy_of_the_episode(open_training: Open, training: TrainingPage) -> None:
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_restores_the_selection_from_the_address(open_training: Open, scheme: str) -> None:
    query = "?checkpoints=2.4.1&episode=2&step=30&overlay=value&sure=0.5&brush=step%7E11%7E40&path=1"
    visitor = open_training(query, color_scheme=scheme)
    assert visitor.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert visitor.by("overlay").input_value() == "value"
    assert visitor.by("episode").input_value() == "1"
    assert visitor.text("sure-number") == "0.50"
    expect(visitor.by("panel-films").get_by_test_id("peak-path")).to_have_count(3)
    assert visitor.track("film-2").get_attribute("data-marks") == "1"
    letters = [visitor.by(f"film-{k}").locator(".letter").inner_text() for k in (2, 4, 1)]
    assert letters == ["A", "B", "C"]


def test_the_cursor_line_is_as_high_as_its_track(open_training: Open) -> None:
    visitor = open_training("?step=30")
    well = visitor.well("value-4")
    heights = well.evaluate("well => [well.querySelector('.head').clientHeight, well.clientHeight]")
    assert heights[0] == heights[1] > 30


def test_a_missing_episode_of_a_checkpoint_is_reported(open_page: Open, tmp_path: Path) -> None:
    write_training_page(tmp_path, ((20, 12), (16,)))
    visitor = open_page(tmp_path, "?episode=2", wait=False)
    assert "half a million has no episode 2." in visitor.text("film-2")


def test_an_unfinished_game_shows_its_return_so_far(open_page: Open, tmp_path: Path) -> None:
    page = write_training_page(tmp_path, ((20,), (16,)))
    manifest = read_manifest((tmp_path / "interface.html").read_bytes())
    played = [one["data"]["trajectories"][0] for one in manifest["sections"] if one["kind"] == "trajectories"]
    first, last = ({"frame": frame, "steps": 8, "return": 1.5, "end": "done"} for frame in (0, 8))
    played[1]["episodes"] = [first, {**last, "end": "cut"}]  # one life is over, the recording stops in the next
    write_page(LocalDirectory(tmp_path), manifest)
    visitor = open_page(tmp_path, "?checkpoints=1.2", wait=False)
    pattern = re.compile(r"return (so far|of the game) ([\d.]+)( \(done\))? ·")
    finished, unfinished = (pattern.findall(visitor.text(f"film-{i}")) for i in (1, 2))
    assert finished == [("of the game", f"{page.series[0][0]['rewards'].sum():.2f}", " (done)")]
    assert unfinished == [("so far", "3.00", "")]


def test_all_checkpoints_are_evaluated_on_the_same_reference_episode(
    open_training: Open, training: TrainingPage
) -> None:
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
    expect(visitor.by("shown-value").locator("[data-line]")).to_have_count(4)
    visitor.click("disagreement")
    assert visitor.state()["step"] == int(training.divergence.argmax())


def test_the_table_of_numbers_can_be_sorted_and_saved(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    table = visitor.by("panel-numbers")
    names = table.locator("tbody td:first-child")
    table.get_by_role("button", name="return", exact=True).click()
    table.get_by_role("button", name="return").first.click()
    assert names.all_inner_texts() == ["the end", "one million", "half a million", "start"]
    with visitor.saved("numbers-csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Checkpoint"] for row in rows] == ["start", "half a million", "one million", "the end"]
    shares = training.shares(2, 0, "value", QUADRANTS).mean(1)
    for name, share in zip(("top left", "top right", "bottom left", "bottom right"), shares, strict=True):
        np.testing.assert_allclose(float(rows[2][f"{name}, value"]), share, atol=1e-9)
    assert rows[0]["correlation with last, policy"] == ""


def test_the_trust_panel_shows_provenance_and_missing_checks(open_training: Open) -> None:
    visitor = open_training()
    visitor.press("t")
    assert "No checks were made" in visitor.text("drawer")
    assert "half a million.jd" in visitor.text("drawer")


def test_the_trust_panel_shows_results_of_sanity_checks(open_page: Open, tmp_path: Path) -> None:
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
    expect(visitor.by("panel-checks")).to_have_count(0)


def test_exports_of_the_compare_page_contain_the_selected_data(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4.1&step=21&brush=step%7E11%7E40")
    visitor.press("e")

    arrays = np.load(visitor.saved("export-npz"))
    np.testing.assert_array_equal(arrays["A/rewards"], training.series[3][0]["rewards"])
    np.testing.assert_array_equal(arrays["B/maps/codes.value"], training.codes[0][0]["value"])
    shares = training.shares(3, 0, "policy", QUADRANTS)
    np.testing.assert_allclose(arrays["A/shares/policy/top right"], shares[1], atol=1e-9)
    with visitor.saved("export-csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == LENGTHS[3][0] + LENGTHS[0][0]
    assert [row["brushed"] for row in rows[8:12]] == ["0", "0", "1", "1"]
    image = np.asarray(Image.open(visitor.saved("export-png")))
    assert image.shape[1] > 2 * 4 * 64
    for name in ("svg", "tracks", "charts"):
        assert ElementTree.parse(visitor.saved(f"export-{name}")).getroot().tag.endswith("svg")
    assert np.asarray(Image.open(visitor.saved("export-lines"))).shape[0] == 230
    visitor.by("export-from").fill("20")
    visitor.by("export-to").fill("22")
    assert getattr(Image.open(visitor.saved("export-apng")), "n_frames", 0) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_passes_axe(open_training: Open, axe: str, scheme: str) -> None:
    visitor = open_training("?checkpoints=4.1&step=21&boxes=0.1%7E0.1%7E0.5%7E0.5", color_scheme=scheme)
    assert violations(visitor, axe) == []
    visitor.press("e")
    assert violations(visitor, axe) == []


def test_a_narrow_window_does_not_scroll_sideways(open_training: Open, axe: str) -> None:
    visitor = open_training("?step=21", viewport={"width": 390, "height": 844})
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(visitor, axe) == []

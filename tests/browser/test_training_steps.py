"""The page of an agent's training: the panel Steps, whose axes are brushed and moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages import Visitor, read_canvas
from tests.browser.training_pages import LENGTHS, TrainingPage

Open = Callable[..., Visitor]


def brush_axis(visitor: Visitor, key: str, low: float, high: float) -> None:
    """Drag along an axis between two shares of its height, from the top."""
    visitor.drag(visitor.by(f"axis-{key}"), (0.5, low), (0.5, high))


@pytest.mark.parametrize("width", [1366, 900])
def test_names_and_ranges_of_axes_are_not_cut_off(open_training: Open, width: int) -> None:
    visitor = open_training(viewport={"width": width, "height": 768})
    texts = visitor.by("panel-steps").locator("[data-testid^=axis-name], .ends span")
    expect(texts).to_have_count(3 * 12)
    cut = "spans => spans.filter((s) => s.scrollWidth > s.clientWidth || s.scrollHeight > s.clientHeight + 1)"
    assert texts.evaluate_all(f"{cut}.map((s) => s.textContent)") == []


def test_brushes_on_several_axes_select_their_intersection(open_training: Open, training: TrainingPage) -> None:
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


def test_axes_can_be_brushed_and_moved_without_a_pointer(open_training: Open) -> None:
    visitor = open_training()
    visitor.by("axis").select_option("reward")
    visitor.by("axis-from").fill("1")
    visitor.by("axis-from").press("Tab")
    assert visitor.state()["brushes"] == {"reward": [1, 1]}
    visitor.click("axis-back")
    assert visitor.state()["axes"][-3:] == ["reward", "probability", "return"]
    visitor.click("axis-clear")
    assert visitor.state()["brushes"] == {}


def test_an_axis_can_be_dragged_to_another_position(open_training: Open) -> None:
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


def test_the_current_step_moves_into_the_brushed_range(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4.1&step=1")

    brush_axis(visitor, "value", 0, 0.2)
    low, high = visitor.state()["brushes"]["value"]
    held = [training.series[index][0]["values"] for index in (3, 0)]
    inside = np.unique(np.concatenate([np.flatnonzero((v >= low) & (v <= high)) for v in held]))
    assert visitor.state()["step"] == inside[0]


def test_numbers_totals_and_returns_cover_only_brushed_steps(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4.1&step=1")
    numbers = visitor.by("panel-numbers")
    assert "brushed steps" not in numbers.inner_text()
    brush_axis(visitor, "value", 0, 0.4)
    low, high = visitor.state()["brushes"]["value"]
    expect(numbers.get_by_role("columnheader").filter(has_text="brushed steps")).to_have_count(1)
    cells = numbers.get_by_role("row").filter(has_text="the end").get_by_role("cell").all_inner_texts()
    values = training.series[3][0]["values"].astype(np.float64)
    inside = (values >= low) & (values <= high)
    assert float(cells[5]) == inside.sum()
    assert float(cells[6]) == pytest.approx(values[inside].mean(), rel=0.005)
    maps = training.codes[3][0]
    totals = maps["total value"][inside[maps["steps"]]]
    bars = visitor.by("total-4").locator(".hidden-text").inner_text()
    assert f"value {totals.mean():.3g}" in bars
    assert visitor.by("returns-chart").locator("[data-line='3 held']").count() == 1


def test_a_brush_marks_its_steps_in_the_reference_episode(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=2&step=1")
    marks = visitor.by("shown-value").locator("rect.range")
    assert marks.count() == 0
    brush_axis(visitor, "value", 0, 0.4)
    low, high = visitor.state()["brushes"]["value"]
    values = training.shown[1]["values"].astype(np.float64)
    starts = np.diff(np.r_[0, ((values >= low) & (values <= high)).astype(int), 0]) == 1
    assert starts.any()
    expect(marks).to_have_count(int(starts.sum()))


def test_total_saliency_is_available_as_an_axis_and_a_track(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4.1&step=41")
    shown = visitor.by("tracks-4").inner_text()
    for output in ("policy", "value"):
        assert f"{training.codes[3][0][f'total {output}'][10]:.3g}" in shown
    image = read_canvas(visitor.track("saliency-4").locator("canvas"))
    assert len(np.unique(image.reshape(-1, image.shape[-1]), axis=0)) > 4
    brush_axis(visitor, "total", 0, 0.5)
    low, high = visitor.state()["brushes"]["total"]
    totals = np.repeat(training.codes[3][0]["total value"], 4)[: LENGTHS[3][0]]
    marked = np.flatnonzero(np.diff(np.r_[0, ((totals >= low) & (totals <= high)).astype(int), 0]) == 1)
    assert visitor.track("saliency-4").get_attribute("data-marks") == str(len(marked))


def test_the_position_of_a_region_is_shown_over_time(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training("?checkpoints=4&step=41")
    codes = training.codes[3][0]["value"][10].astype(np.float64)[:8, :8]
    x = 100 * (codes.sum(0) * (np.arange(8) + 0.5) / 16).sum() / codes.sum()
    track = visitor.track("position-4")
    track.scroll_into_view_if_needed()
    assert f"{x:.0f}\u202f% from the left" in visitor.by("region-row-4").inner_text()

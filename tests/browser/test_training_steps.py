"""The page of an agent's training: the panel Steps, whose axes are brushed and moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages import Visitor
from tests.browser.training_pages import LENGTHS, TrainingPage

Open = Callable[..., Visitor]


def brush_axis(visitor: Visitor, key: str, low: float, high: float) -> None:
    """Drag along an axis between two shares of its height, from the top."""
    visitor.drag(visitor.by(f"axis-{key}"), (0.5, low), (0.5, high))


@pytest.mark.parametrize("width", [1366, 900])
def test_names_and_ranges_of_axes_are_not_cut_off(open_training: Open, width: int) -> None:
    visitor = open_training(viewport={"width": width, "height": 768})
    texts = visitor.by("panel-steps").locator("[data-testid^=axis-name], .ends span")
    expect(texts).to_have_count(3 * 11)
    cut = "spans => spans.filter((s) => s.scrollWidth > s.clientWidth || s.scrollHeight > s.clientHeight + 1)"
    assert texts.evaluate_all(f"{cut}.map((s) => s.textContent)") == []


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

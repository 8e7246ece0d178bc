"""Films, steps and the learning curve of a training are on one screen."""

from __future__ import annotations

import pytest

from tests.browser.test_training import Open

WINDOW = {"width": 1440, "height": 900}


@pytest.mark.parametrize("panel", ["curve", "steps", "films"])
def test_filmstrips_steps_and_learning_curve_fit_on_one_screen(open_training: Open, panel: str) -> None:
    visitor = open_training("?step=41")
    visitor.page.set_viewport_size(WINDOW)  # type: ignore[arg-type]
    box = visitor.by(f"panel-{panel}").bounding_box()
    assert box is not None
    assert box["y"] >= 0
    assert box["x"] + box["width"] <= WINDOW["width"]
    if panel != "films":  # they scroll in their own column
        assert box["y"] + box["height"] <= WINDOW["height"]

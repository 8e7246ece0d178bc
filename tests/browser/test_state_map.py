"""The state map: colors, hover, click, lasso, keyboard, what is marked, the episode's path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from rl_clarity.analyses.state_map import NOTE
from rl_clarity.jobs.directory import LocalDirectory
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, read_chunk, write_chunk, write_synthetic_page

Open = Callable[..., Visitor]
STEPS, EVERY = 80, 2
SIZE = Size(trajectories=2, steps=STEPS, observations=16, layers=(("3a", 8, 32),), input_layer=False)
PAD = 10
ORANGE, SKY = (0xE6, 0x9F, 0x00), (0x56, 0xB4, 0xE9)
VIRIDIS_FIRST = (0x44, 0x01, 0x54)


def points() -> dict[str, np.ndarray]:
    """Every second step, from left to right; the second trajectory is below the first."""
    frames = np.tile(np.arange(0, STEPS, EVERY), 2)
    trajectories = np.repeat([0, 1], STEPS // EVERY)
    return {
        "x": frames.astype(np.float32),
        "y": (1 - trajectories + 0.2 * (frames % 6 == 0)).astype(np.float32),
        "trajectory": trajectories.astype(np.int32),
        "frame": frames.astype(np.int32),
        "color.value": np.arange(len(frames), dtype=np.float32),
        "color.action": (frames // 2 % 2).astype(np.int32),
        "color.time": (frames % 40).astype(np.float32),
    }


def section(directory: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    page = LocalDirectory(directory)
    about = {"source": "state", "label": "recurrent state", "fitted_on": 50}
    flipped = {**arrays, "x": -arrays["x"]}
    maps = [
        {**about, "method": "tsne", "perplexity": 30, "chunk": write_chunk(page, "state_map/tsne.js", arrays)},
        {**about, "method": "pca", "perplexity": None, "chunk": write_chunk(page, "state_map/pca.js", flipped)},
    ]
    colors = [
        {"key": "value", "label": "value", "kind": "number"},
        {"key": "action", "label": "action", "kind": "category", "names": ["left", "right"]},
        {"key": "time", "label": "time in the episode", "kind": "number"},
    ]
    place = {"agent": "agent-1", "recording": "recording-1", "version": 1}
    return {
        "kind": "state_map",
        "title": "State map",
        "data": {"maps": maps, "colors": colors},
        "notes": [asdict(NOTE)],
        **place,
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("state_map")
    entry = section(directory, points())
    write_synthetic_page(directory, SIZE, edit=lambda manifest: manifest["sections"].append(entry))
    return directory


def open_map(open_page: Open, page: Path, query: str = "", **options: Any) -> tuple[Visitor, Locator]:
    visitor = open_page(page, query, **options)
    canvas = visitor.by("state-map")
    canvas.scroll_into_view_if_needed()
    return visitor, canvas


def place(canvas: Locator, index: int) -> tuple[float, float]:
    """Pixels of a point on the canvas."""
    arrays, box = points(), canvas.bounding_box()
    assert box
    shares = [(arrays[key][index] - arrays[key].min()) / np.ptp(arrays[key]) for key in ("x", "y")]
    return PAD + shares[0] * (box["width"] - 2 * PAD), box["height"] - PAD - shares[1] * (box["height"] - 2 * PAD)


def move(visitor: Visitor, canvas: Locator, spots: list[tuple[float, float]]) -> None:
    """Drag over spots of the canvas."""
    box = canvas.bounding_box()
    assert box
    for number, (x, y) in enumerate(spots):
        visitor.page.mouse.move(box["x"] + x, box["y"] + y)
        if number == 0:
            visitor.page.mouse.down()
    visitor.page.mouse.up()


def colors_at(visitor: Visitor, canvas: Locator, indices: range) -> list[tuple[int, ...]]:
    """Red, green, blue and opacity of points."""
    read = "(canvas, all) => all.map((at) => [...canvas.getContext('2d').getImageData(...at, 1, 1).data])"
    places = [[round(at) for at in place(canvas, index)] for index in indices]
    return [tuple(color) for color in visitor.by("state-map-points").evaluate(read, places)]


def color_at(visitor: Visitor, canvas: Locator, index: int) -> tuple[int, ...]:
    return colors_at(visitor, canvas, range(index, index + 1))[0]


def marks(visitor: Visitor) -> str | None:
    return visitor.track("film").get_attribute("data-marks")


def test_points_of_the_state_map_are_colored_by_the_selected_quantity(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page)
    assert canvas.get_attribute("data-points") == "80"
    assert color_at(visitor, canvas, 0) == (*VIRIDIS_FIRST, 255)
    assert visitor.text("color-key") == "value 1.00 78.0"
    visitor.by("map-color").select_option("action")
    assert [color_at(visitor, canvas, i)[:3] for i in (0, 1, 41)] == [ORANGE, SKY, SKY]
    assert visitor.text("color-key") == "left right"
    assert visitor.text("map-facts").startswith("t-SNE, recurrent state, perplexity 30; fitted on 50 of 80 points")
    visitor.by("map-choice").select_option(label="principal components, recurrent state")
    visitor.page.wait_for_function("document.querySelector('[data-testid=map-facts]').innerText.includes('components')")
    assert "perplexity" not in visitor.text("map-facts")
    visitor.page.get_by_role("button", name="What State map shows").click()
    help_text = visitor.by("panel-state_map").inner_text()
    assert "the axes have no unit" in help_text
    assert "distill.pub/2016/misread-tsne" in help_text


def test_the_lowest_map_color_stands_out_on_a_dark_page(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page, color_scheme="dark")
    assert sum(color_at(visitor, canvas, 0)[:3]) > sum(VIRIDIS_FIRST)


def test_hovering_a_point_shows_its_frame_and_clicking_goes_there(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page)
    x, y = place(canvas, 45)  # frame 11 of the second trajectory
    canvas.hover(position={"x": x, "y": y})
    assert "frame 11" in visitor.text("hover-read-out")
    preview = visitor.by("frame-preview").locator("canvas")
    visitor.page.wait_for_function("canvas => canvas.dataset.frame === '1/10'", arg=preview.element_handle())
    canvas.click(position={"x": x, "y": y})
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (1, 10)
    assert canvas.get_attribute("data-here") == "45"
    visitor.press("ArrowRight")
    assert visitor.state()["frame"] == 10, "arrow keys move the cross on the map"


def test_the_map_draws_the_path_of_the_current_episode(page: Path, open_page: Open) -> None:
    _, canvas = open_map(open_page, page, "?trajectory=2&frame=50")
    assert canvas.get_attribute("data-path") == "20"
    assert canvas.get_attribute("data-here") == "64", "the last step before that has a point"


def test_a_lasso_marks_steps_and_lists_them_as_search_results(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page)
    (left, top), (right, bottom) = place(canvas, 0), place(canvas, 10)
    around = [(left - 8, top - 8), (right + 3, top - 8), (right + 3, bottom + 8), (left - 8, bottom + 8)]
    move(visitor, canvas, [*around, around[0]])
    assert marks(visitor) == "11", "every second step from 1 to 21"
    assert visitor.text("find-place") == "1 of 11 found"
    assert color_at(visitor, canvas, 0) == (*VIRIDIS_FIRST, 255)
    faint = color_at(visitor, canvas, 30)
    assert faint[3] < 60
    visitor.press("g")
    assert visitor.state()["frame"] == 2
    visitor.press("f")
    assert "11 frames match" in visitor.text("find-count")
    visitor.click("find-clear")
    assert marks(visitor) == "0"
    assert color_at(visitor, canvas, 30)[3] == 255


def test_a_lasso_selects_only_points_inside_its_outline(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page)
    (left, top), (right, _), (_, low) = place(canvas, 0), place(canvas, 39), place(canvas, 40)
    move(visitor, canvas, [(left - 8, top - 8), (right + 8, top - 8), (right + 8, low + 8), (left - 8, top - 8)])
    count = int(visitor.text("find-place").split()[-2])
    assert 20 < count < 60


def test_marked_steps_are_bright_on_the_map(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page, "?find=action~7,in~2")
    actions = read_chunk(page, "trajectories/2/series.js")["actions"]
    visitor.by("find-steps").wait_for()
    bright = [color[3] == 255 for color in colors_at(visitor, canvas, range(40, 80))]
    assert bright == (actions[::EVERY] == 7).tolist()
    assert color_at(visitor, canvas, 3)[3] < 60


def test_points_and_boxes_of_the_map_can_be_selected_by_keyboard(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page)
    canvas.focus()
    presses = int((place(canvas, 3)[0] - place(canvas, 0)[0]) / 12)
    visitor.press(*["ArrowRight"] * presses)
    visitor.press("Enter")
    frame = visitor.state()["frame"]
    assert frame == 6
    visitor.press("ArrowUp", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown", "Shift+ArrowDown", "Enter")
    assert marks(visitor) == "1"
    visitor.press("Escape", "Escape")
    assert visitor.state()["frame"] == frame


def test_the_state_map_passes_accessibility_checks(page: Path, open_page: Open, axe: str) -> None:
    visitor, _ = open_map(open_page, page)
    visitor.page.evaluate(axe)
    found = visitor.page.evaluate("axe.run('[data-testid=panel-state_map]').then(({ violations }) => violations)")
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


def test_moving_the_current_step_does_not_redraw_the_map_points(page: Path, open_page: Open) -> None:
    visitor, _ = open_map(open_page, page)
    drawn = visitor.page.evaluate(
        """() => {
          const drawn = {};
          for (const name of ['arc', 'clearRect', 'drawImage', 'fillRect', 'putImageData', 'stroke']) {
            const draw = CanvasRenderingContext2D.prototype[name];
            CanvasRenderingContext2D.prototype[name] = function (...values) {
              drawn[this.canvas.dataset.testid] = (drawn[this.canvas.dataset.testid] ?? 0) + 1;
              return draw.apply(this, values);
            };
          }
          for (let i = 0; i < 40; i += 1) rlClarity.select({ frame: i });
          return new Promise((resolve) => requestAnimationFrame(() => resolve(drawn)));
        }"""
    )
    assert drawn["state-map"] > 0
    assert "state-map-points" not in drawn


def test_a_collapsed_state_map_is_drawn_once_it_has_a_height(page: Path, open_page: Open) -> None:
    visitor, canvas = open_map(open_page, page)
    set_height = "(canvas, height) => { canvas.parentElement.style.height = height; }"
    canvas.evaluate(set_height, "0")
    visitor.page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    canvas.evaluate(set_height, "")
    visitor.page.wait_for_function("() => document.querySelector('[data-testid=state-map-points]').height > 10")
    assert color_at(visitor, canvas, 0) == (*VIRIDIS_FIRST, 255)
    assert visitor.messages == []

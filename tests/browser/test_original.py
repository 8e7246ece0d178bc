"""Everything that the original's page does, used as a reader would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.visualization.quantization import dequantize
from rl_clarity.visualization.rendering import render_attribution
from tests.browser.drawn import draw_frame
from tests.browser.pages import Visitor, read_canvas, screenshot
from tests.browser.synthetic import SEGMENT, K, read_chunk

Open = Callable[..., Visitor]
TOLERANCE = 3 + 1  # of 255: coding, canvas


def expected(
    visitor: Visitor, direction: str, channel: str | int = "prin", layer: str = "2b", output: str = "value"
) -> np.ndarray:
    """What Python renders of the page's data, premultiplied and clipped, (h, w, 4) in 0..255."""
    state = visitor.state()
    manifest = visitor.page.evaluate("rlClarity.manifest")
    entry = next(entry for entry in manifest["layers"] if entry["name"] == layer)
    segment, at = divmod(state["frame"], SEGMENT)
    arrays = read_chunk(visitor.directory, entry["attribution"][output][state["trajectory"]][segment])
    values = dequantize(arrays["codes"], arrays["scales"])[at : at + 1]
    count = entry["channels"]
    picture = render_attribution(
        values[..., :count],
        values[..., count:] if values.shape[-1] > count else None,
        direction=direction,  # type: ignore[arg-type]
        channel=channel,
        scale=entry["scales"][output][state["trajectory"]],
        hues=np.array(entry["hues"]),
    )[0]
    picture = np.concatenate([np.clip(picture[..., :3], 0, 1) * picture[..., 3:], picture[..., 3:]], -1)
    return 255 * picture


def close(shown: np.ndarray, wanted: np.ndarray) -> bool:
    return shown.shape == wanted.shape and bool(np.abs(shown - wanted).max() <= TOLERANCE)


def test_trajectories_are_chosen(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=40")
    visitor.click("trajectory-2")
    visitor.settle()
    assert (visitor.state()["trajectory"], visitor.frame()) == (1, 1)
    assert visitor.by("trajectory-2").get_attribute("aria-pressed") == "true"
    strips = visitor.page.locator("[data-testid^=trajectory-] img").evaluate_all("all => all.map(i => i.naturalWidth)")
    assert len(strips) == 3
    assert all(width > 100 for width in strips), "each shows its scrubber strip"


def test_bookmarks_lead_to_their_frames(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    for kind in ("high", "low"):
        mark = visitor.page.evaluate(f"rlClarity.manifest.bookmarks.{kind}[1]")
        visitor.by(f"bookmarks-{kind}").get_by_role("button").nth(1).click()
        visitor.settle()
        state = visitor.state()
        assert (state["trajectory"], state["frame"]) == (mark["trajectory"], mark["frame"])


def test_layers_are_chosen(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=30")
    for name, side in (("1a", 64), ("4a", 8)):
        visitor.click(f"layer-{name}")
        assert visitor.attribution("pos").shape == (side, side, 4)
        assert close(visitor.attribution("neg"), expected(visitor, "neg", layer=name))
        assert visitor.page.get_by_role("heading", name=f"Features of layer {name}").is_visible()


@pytest.mark.parametrize("frame", [1, 66, 100])
def test_attribution_is_what_python_renders(synthetic: Path, open_page: Open, frame: int) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={frame}")
    for direction in ("pos", "neg"):
        assert expected(visitor, direction).max() > 100, "a picture that shows something"
        assert close(visitor.attribution(direction), expected(visitor, direction))
    visitor.by("residual").check()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", "all"))
    visitor.by("combined").check()
    assert visitor.picture("pos").count() == 0
    assert close(visitor.attribution("abs"), expected(visitor, "abs", "all"))


def test_attribution_lies_over_the_grey_observation_or_alone(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=30")
    frame = visitor.picture("pos").locator("..")
    assert frame.locator("canvas").count() == 2
    grey = read_canvas(frame.locator("canvas").first)
    assert np.ptp(grey[..., :3], axis=-1).max() == 0
    assert float(visitor.picture("pos").evaluate("c => getComputedStyle(c).opacity")) == pytest.approx(0.9)
    visitor.by("overlay").uncheck()
    assert frame.locator("canvas").count() == 1
    assert visitor.picture("pos").evaluate("c => getComputedStyle(c).opacity") == "1"


def test_the_observation_is_the_frame(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?trajectory=3&frame=70")
    assert np.array_equal(read_canvas(visitor.by("observation-canvas"))[..., :3], draw_frame(2, 69))


def test_buttons_play_step_and_jump(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=50")
    button = visitor.page.get_by_role("group", name="Playback").get_by_role("button", name="Step forward")
    button.click()
    assert visitor.frame() == 51
    visitor.page.get_by_role("button", name="Step back").click()
    assert visitor.frame() == 50
    visitor.page.get_by_role("button", name="To end").click()
    assert visitor.frame() == 100
    visitor.page.get_by_role("button", name="To start").click()
    assert visitor.frame() == 1
    visitor.page.get_by_label("fps").fill("60")
    visitor.page.get_by_label("fps").press("Enter")
    visitor.click("play")
    visitor.page.wait_for_function("() => rlClarity.state().frame === 99")
    visitor.page.wait_for_selector("[data-testid=play][aria-label=Play]")
    visitor.click("play-back")
    visitor.page.wait_for_function("() => rlClarity.state().frame < 60")
    visitor.click("play-back")
    stopped = visitor.frame()
    visitor.page.wait_for_timeout(150)
    assert visitor.frame() == stopped


def test_frames_a_second(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.page.get_by_label("fps").fill("20")
    visitor.page.get_by_label("fps").press("Enter")
    elapsed = visitor.page.evaluate(
        """() => new Promise((resolve) => {
          const start = performance.now();
          document.querySelector('[data-testid=play]').click();
          const watch = () => {
            if (rlClarity.state().frame >= 20) resolve(performance.now() - start);
            else requestAnimationFrame(watch);
          };
          watch();
        })"""
    )
    assert 900 < elapsed < 1600


def test_hotkeys(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=50")
    visitor.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert visitor.frame() == 51
    visitor.press(" ")
    visitor.page.wait_for_function("() => rlClarity.state().frame > 52")
    visitor.press("ArrowLeft")  # while playing: the direction
    visitor.page.wait_for_function("() => rlClarity.state().frame < 50")
    visitor.press(" ")
    stopped = visitor.frame()
    visitor.page.wait_for_timeout(200)
    assert visitor.frame() == stopped


def test_the_film_is_dragged_clicked_and_wheeled(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=50")
    film = visitor.track("film").locator("canvas")
    box = film.bounding_box()
    assert box
    middle, y, step = box["x"] + box["width"] / 2, box["y"] + 20, box["width"] / 256
    visitor.page.mouse.move(middle, y)
    visitor.page.mouse.down()
    visitor.page.mouse.move(middle - 20 * step, y, steps=4)
    visitor.page.mouse.up()
    assert visitor.frame() == 70
    visitor.page.mouse.click(middle - 10 * step, y)
    assert visitor.frame() == 60
    visitor.page.mouse.move(middle, y)
    visitor.page.mouse.wheel(0, 3)
    visitor.page.wait_for_function("() => rlClarity.state().frame === 60")
    assert np.ptp(screenshot(film)) > 100, "the strip is drawn"


def test_status_says_what_happened(synthetic: Path, open_page: Open) -> None:
    series = read_chunk(synthetic, "trajectories/1/series.js")
    start = int(np.flatnonzero(series["firsts"])[1])
    visitor = open_page(synthetic, f"?frame={start + 1}")
    labels = visitor.page.evaluate("rlClarity.manifest.actions.map(a => a.label)")
    assert visitor.text("episode") == "new episode"
    assert visitor.text("last-reward") == "10.0"
    assert visitor.text("next-action") == labels[series["actions"][start]]
    visitor.press("ArrowRight")
    assert visitor.text("episode").startswith("step 2 of ")
    assert visitor.text("last-reward") == "0"


def test_the_policy_is_a_bar_of_probabilities(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=30")
    visitor.page.wait_for_timeout(200)  # the bar's transition
    widths = (
        visitor.by("policy")
        .locator("[data-action]")
        .evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    )
    probabilities = read_chunk(synthetic, "trajectories/1/series.js")["probabilities"][29]
    assert np.abs(np.array(widths) / sum(widths) - probabilities).max() < 0.01
    assert "→" in visitor.text("policy")


def test_graphs_of_advantage_and_chosen_outputs_with_numbers(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=30&rows=value,action-7,group-0")
    series = read_chunk(synthetic, "trajectories/1/series.js")
    wanted = {
        "advantage": series["advantages"], "value": series["values"],
        "action-7": series["logits"][:, 7], "group-0": series["groups"][:, 0],
    }  # fmt: skip
    for name, values in wanted.items():
        shown = visitor.track(name).locator(".value").inner_text().replace("−", "-")
        assert float(shown) == pytest.approx(values[29], rel=6e-3)
        assert len(np.unique(read_canvas(visitor.track(name).locator("canvas"))[..., 3])) > 1, "a line is drawn"


def test_rows_are_added_and_removed_each_with_its_output(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.click("add-row")
    visitor.by("output-1").select_option("group-0")
    visitor.page.mouse.move(5, 700)  # bars isolate, too
    assert close(visitor.attribution("pos", 1), expected(visitor, "pos", output="group-0"))
    assert close(visitor.attribution("pos", 0), expected(visitor, "pos"))
    assert visitor.track("group-0").count() == 1
    visitor.click("remove-row-0")
    visitor.page.mouse.move(5, 700)
    assert [row["output"] for row in visitor.state()["rows"]] == ["group-0"]
    assert visitor.picture("pos", 1).count() == 0
    visitor.by("output-0").select_option("action-7")
    assert close(visitor.attribution("neg"), expected(visitor, "neg", output="action-7"))


def test_bars_show_totals_on_a_fixed_scale(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    totals = read_chunk(synthetic, "attribution/2b/1/totals.js")["totals.value"]
    numbers = visitor.by("totals-chart").locator(".numbers").all_inner_texts()
    shown = np.array([[float(n.replace("−", "-")) for n in text.split()] for text in numbers])
    assert np.allclose(shown, totals[29], rtol=6e-2, atol=1e-6)
    limit = visitor.by("totals-chart").locator(".scale").inner_text()
    visitor.press("End")
    assert visitor.by("totals-chart").locator(".scale").inner_text() == limit
    loudest = int(np.abs(totals).max((1, 2)).argmax())
    visitor.goto(f"?layer=2b&frame={loudest + 1}")
    assert visitor.by("totals-chart").locator(".over").count() > 0, "outliers overflow"


def test_hovering_the_legend_isolates_a_channel_everywhere(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.by("legend-3").locator(".card").hover()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", 2))
    assert close(visitor.attribution("neg"), expected(visitor, "neg", 2))
    visitor.by(f"legend-{K + 1}").locator(".card").hover()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", "res"))
    visitor.page.mouse.move(700, 300)
    assert close(visitor.attribution("pos"), expected(visitor, "pos"))
    visitor.by("legend-5").locator(".card").focus()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", 4))


def test_the_feature_viewer(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.by("legend-3").locator(".card").click()
    grid = visitor.by("feature-grid")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')
    assert (grid.get_attribute("data-rows"), grid.get_attribute("data-expand")) == ("32", "4.00")
    visitor.by("viewer-density").fill("1")
    assert grid.get_attribute("data-rows") == "16"
    visitor.by("viewer-zoom").fill("3")
    assert grid.get_attribute("data-expand") == "1.00"
    grid.hover()
    visitor.page.mouse.wheel(0, 100)
    visitor.page.wait_for_function("() => document.querySelector('[data-testid=feature-grid]').dataset.expand > 1.1")
    # weak patches are faint, but not under the pointer
    box = grid.bounding_box()
    assert box
    visitor.page.mouse.move(700, 300)
    faint = screenshot(grid)
    place = {"x": box["width"] * 7.5 / 16, "y": box["height"] * 7.5 / 16}
    grid.hover(position=place)  # type: ignore[arg-type]
    assert np.abs(screenshot(grid) - faint).max() > 20
    grid.click(position=place)  # type: ignore[arg-type]
    assert visitor.by("whole-observation").is_visible()
    features = read_chunk(synthetic, "features/2b/grids.js")
    cell = int(features["index.0.5"][2, 7, 7])
    assert visitor.text("whole-observation").startswith(f"Observation {5 * cell + 1}")
    visitor.click("viewer-channel-1")
    assert visitor.by("whole-observation").count() == 0


def test_a_patch_leads_to_the_frame_it_came_from(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a")
    visitor.by("legend-1").locator(".card").click()
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')
    index = read_chunk(synthetic, "features/4a/grids.js")["index.1"][0]
    row, column = np.argwhere(index % 2 == 1)[0]
    grid = visitor.by("feature-grid")
    box = grid.bounding_box()
    assert box
    side = index.shape[0]
    grid.click(position={"x": box["width"] * (column + 0.5) / side, "y": box["height"] * (row + 0.5) / side})
    cell = int(index[row, column])
    visitor.by("whole-observation").get_by_role("button", name="trajectory").click()
    state = visitor.state()
    assert (state["trajectory"], state["frame"]) == (cell % 3, cell)


def test_the_input_layer_shows_gradients_in_the_inputs_colours(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=input&frame=30")
    assert close(visitor.attribution("pos"), expected(visitor, "pos", layer="input"))
    assert visitor.page.locator("[data-testid^=legend-]").count() == 3


def test_the_address_leads_back(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=3a&trajectory=3&frame=60")
    state = visitor.state()
    assert (
        visitor.page.evaluate(f"rlClarity.manifest.layers[{state['layer']}].name"),
        state["trajectory"],
        state["frame"],
    ) == ("3a", 2, 59)
    visitor.press("ArrowRight", "ArrowRight")
    visitor.page.wait_for_url("**/interface.html?layer=3a&trajectory=3&frame=62")
    visitor.click("trajectory-1")
    visitor.page.wait_for_url("**/interface.html?layer=3a&trajectory=1&frame=1")
    visitor.page.go_back()
    visitor.page.wait_for_function("() => rlClarity.state().trajectory === 2 && rlClarity.state().frame === 61")
    visitor.page.go_forward()
    visitor.page.wait_for_function("() => rlClarity.state().trajectory === 0")

"""Everything that the original's page does, used as a reader would."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.pages.results import open_results
from rl_clarity.visualization.totals import channel_totals
from tests.browser.generated import COMBOS, STARTS, STEPS, Generated
from tests.browser.pages import CANVAS, CODING, Visitor, close, expected_image, read_canvas, screenshot
from tests.browser.synthetic import read_chunk

Open = Callable[..., Visitor]
Expected = Callable[..., np.ndarray]
FINE, MIDDLE, COARSE = "Relu", "Relu_1", "Relu_2"
K = 8


@pytest.fixture
def page(generated: Generated) -> Path:
    return generated.directory


@pytest.fixture
def expected(generated: Generated) -> Expected:
    """What Python renders of attribution that is computed anew, premultiplied and clipped, (h, w, 4) in 0..255."""

    def rendered(
        visitor: Visitor, direction: str, channel: str | int = "prin", layer: str = MIDDLE, output: str = "value"
    ) -> np.ndarray:
        state = visitor.state()
        attribution = generated.attribution(layer, state["trajectory"], output)
        return expected_image(attribution, state["frame"], direction, channel)

    return rendered


def test_a_trajectory_can_be_selected(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=40")
    visitor.click("trajectory-2")
    visitor.settle()
    assert (visitor.state()["trajectory"], visitor.frame()) == (1, 1)
    assert visitor.by("trajectory-2").get_attribute("aria-pressed") == "true"
    strips = visitor.page.locator("[data-testid^=trajectory-] img").evaluate_all("all => all.map(i => i.naturalWidth)")
    assert len(strips) == 2
    assert all(width > 100 for width in strips), "each shows its scrubber strip"


def test_clicking_a_bookmark_goes_to_its_frame(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    for kind in ("high", "low"):
        mark = visitor.page.evaluate(f"rlClarity.manifest.bookmarks.{kind}[1]")
        visitor.by(f"bookmarks-{kind}").get_by_role("button").nth(1).click()
        visitor.settle()
        state = visitor.state()
        assert (state["trajectory"], state["frame"]) == (mark["trajectory"], mark["frame"])


def test_a_layer_can_be_selected(page: Path, open_page: Open, expected: Expected) -> None:
    visitor = open_page(page, "?frame=30")
    for name, label, side in ((FINE, "conv 1", 15), (COARSE, "conv 3", 4)):
        visitor.click(f"layer-{name}")
        assert visitor.attribution("pos").shape == (side, side, 4)
        assert close(visitor.attribution("neg"), expected(visitor, "neg", layer=name))
        expect(visitor.page.get_by_role("heading", name=f"Features of layer {label}")).to_be_visible()


@pytest.mark.parametrize(("layer", "frame"), [(FINE, 1), (MIDDLE, 66), (COARSE, 30)])
def test_the_page_draws_attribution_as_python_does(
    page: Path, open_page: Open, expected: Expected, layer: str, frame: int
) -> None:
    visitor = open_page(page, f"?layer={layer}&trajectory=2&frame={frame}")
    for direction in ("pos", "neg"):
        assert expected(visitor, direction, layer=layer).max() > 100, "an image that shows something"
        assert close(visitor.attribution(direction), expected(visitor, direction, layer=layer))
    visitor.by("residual").check()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", "all", layer))
    visitor.by("combined").check()
    expect(visitor.overlay("pos")).to_have_count(0)
    errors_of_both_signs = 2 * CODING + CANVAS
    assert close(visitor.attribution("abs"), expected(visitor, "abs", "all", layer), errors_of_both_signs)


@pytest.mark.parametrize("frame", [1, 66, 100])
def test_attribution_of_a_synthetic_page_is_drawn_as_in_python(synthetic: Path, open_page: Open, frame: int) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={frame}&mixed=1&residual=0&scale=trajectory")
    attribution = open_results(synthetic).attribution("2b", 1)
    for direction in ("pos", "neg"):
        assert close(visitor.attribution(direction), expected_image(attribution, frame - 1, direction))


def test_attribution_is_drawn_over_the_gray_observation_or_alone(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=30")
    frame = visitor.overlay("pos").locator("..")
    expect(frame.locator("canvas")).to_have_count(2)
    grey = read_canvas(frame.locator("canvas").first)
    assert np.ptp(grey[..., :3], axis=-1).max() == 0
    assert float(visitor.overlay("pos").evaluate("c => getComputedStyle(c).opacity")) == pytest.approx(0.9)
    visitor.by("overlay").uncheck()
    expect(frame.locator("canvas")).to_have_count(1)
    assert visitor.overlay("pos").evaluate("c => getComputedStyle(c).opacity") == "1"


def test_the_observation_canvas_shows_the_recorded_frame(generated: Generated, page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?trajectory=2&frame=70")
    frame = generated.trajectories["observations"][1, 69]
    assert np.array_equal(read_canvas(visitor.by("observation-canvas"))[..., :3], frame)


def test_playback_buttons_play_step_and_jump(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=50")
    button = visitor.page.get_by_role("group", name="Playback").get_by_role("button", name="Step forward")
    button.click()
    assert visitor.frame() == 51
    visitor.page.get_by_role("button", name="Step back").click()
    assert visitor.frame() == 50
    visitor.page.get_by_role("button", name="To end").click()
    assert visitor.frame() == STEPS
    visitor.page.get_by_role("button", name="To start").click()
    assert visitor.frame() == 1
    visitor.page.get_by_label("fps").fill("60")
    visitor.page.get_by_label("fps").press("Enter")
    visitor.stop_clock()
    visitor.click("play")
    visitor.page.clock.run_for(2000)
    assert visitor.frame() == STEPS
    assert visitor.by("play").get_attribute("aria-label") == "Play"
    visitor.click("play-back")
    visitor.page.clock.run_for(500)
    assert STEPS - 32 <= visitor.frame() <= STEPS - 28
    visitor.click("play-back")
    stopped = visitor.frame()
    visitor.page.clock.run_for(500)
    assert visitor.frame() == stopped


def test_playback_runs_at_the_selected_frames_per_second(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    visitor.page.get_by_label("fps").fill("20")
    visitor.page.get_by_label("fps").press("Enter")
    visitor.stop_clock()
    visitor.click("play")
    visitor.page.clock.run_for(1000)
    assert visitor.frame() in (19, 20, 21)


def test_hotkeys_control_playback(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=50")
    visitor.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert visitor.frame() == 51
    visitor.stop_clock()
    visitor.press(" ")
    visitor.page.clock.run_for(500)
    assert 55 <= visitor.frame() <= 58
    visitor.press("ArrowLeft")  # while playing: the direction
    visitor.page.clock.run_for(1000)
    assert visitor.frame() < 50
    visitor.press(" ")
    stopped = visitor.frame()
    visitor.page.clock.run_for(500)
    assert visitor.frame() == stopped


def test_the_filmstrip_responds_to_drag_click_and_wheel(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=50&visible=32")
    film = visitor.well("film")
    box = film.bounding_box()
    assert box
    middle, y, step = box["x"] + box["width"] / 2, box["y"] + 20, box["width"] / 32
    visitor.page.mouse.move(middle, y)
    visitor.page.mouse.down()
    visitor.page.mouse.move(middle - 10 * step, y, steps=4)
    visitor.page.mouse.up()
    assert visitor.frame() == 60
    visitor.page.mouse.click(middle - 10 * step, y)
    assert visitor.frame() == 50
    visitor.page.mouse.move(middle, y)
    visitor.page.mouse.wheel(0, 3)
    visitor.page.wait_for_function("() => rlClarity.state().frame === 50")
    assert np.ptp(screenshot(film)) > 100, "the strip is drawn"


def test_the_status_shows_episode_reward_and_action(generated: Generated, page: Path, open_page: Open) -> None:
    start = STARTS[0][1]
    visitor = open_page(page, f"?frame={start + 1}")
    labels = visitor.page.evaluate("rlClarity.manifest.actions.map(a => a.label)")
    actions = generated.trajectories["actions"][0]
    assert visitor.text("episode") == f"step 1 of {STARTS[0][2] - start}"
    assert visitor.text("last-reward") == "10.0"
    assert visitor.text("next-action") == labels[actions[start]]
    visitor.press("ArrowRight")
    assert visitor.text("episode").startswith(f"step 2 of {STARTS[0][2] - start}")
    assert visitor.text("last-reward") == "0"


def test_the_policy_is_shown_as_a_bar_of_probabilities(generated: Generated, page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=30")
    widths = (
        visitor.by("policy")
        .locator("[data-action]")
        .evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    )
    powers = np.exp(generated.logits(0, 29))
    assert np.abs(np.array(widths) / sum(widths) - powers / powers.sum()).max() < 0.01
    likely = visitor.page.evaluate(f"rlClarity.manifest.actions[{powers.argmax()}].label")
    assert likely in visitor.text("policy")


def test_tracks_show_the_advantage_and_selected_outputs_with_numbers(
    generated: Generated, page: Path, open_page: Open
) -> None:
    visitor = open_page(page, "?frame=30&rows=value,action-7,group-0")
    logits = generated.logits(0, 29)
    right = sum(logits[k] for k, combo in enumerate(COMBOS) if "RIGHT" in combo)
    wanted = {"value": generated.value(0, 29), "action-7": logits[7], "group-0": right}
    wanted["advantage"] = open_results(page).series(0)["advantages"][29]
    for name, value in wanted.items():
        shown = visitor.track(name).locator(".value").inner_text().replace("−", "-")
        assert float(shown) == pytest.approx(value, rel=6e-3)
        assert len(np.unique(read_canvas(visitor.track(name).locator("canvas"))[..., 3])) > 1, "a line is drawn"


def test_attribution_rows_with_different_outputs_can_be_added_and_removed(
    page: Path, open_page: Open, expected: Expected
) -> None:
    visitor = open_page(page, "?layer=Relu_1&frame=30")
    visitor.click("add-row")
    visitor.by("output-1").select_option("group-0")
    visitor.page.mouse.move(5, 700)  # bars isolate, too
    assert close(visitor.attribution("pos", 1), expected(visitor, "pos", output="group-0"))
    assert close(visitor.attribution("pos", 0), expected(visitor, "pos"))
    expect(visitor.track("group-0")).to_have_count(1)
    visitor.click("remove-row-0")
    visitor.page.mouse.move(5, 700)
    assert [row["output"] for row in visitor.state()["rows"]] == ["group-0"]
    expect(visitor.overlay("pos", 1)).to_have_count(0)
    visitor.by("output-0").select_option("action-7")
    assert close(visitor.attribution("neg"), expected(visitor, "neg", output="action-7"))


def test_bars_show_attribution_totals_on_a_fixed_scale(generated: Generated, page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=Relu_1&frame=30")
    attribution = generated.attribution(MIDDLE, 0)
    totals = channel_totals(attribution.channels, attribution.residual)
    columns = visitor.by("decomposition").locator("[data-channel]")
    net = [float(column.get_attribute("data-value") or "nan") for column in columns.all()]
    assert np.allclose(net, totals[29].sum(-1), rtol=1e-4, atol=1e-6)
    titles = []
    for column in columns.all():
        column.hover()
        titles.append(column.get_attribute("title") or "")
    signs = [re.findall(r"(?:raises the output|lowers it) by ([^\s,;)]+)", title.replace("−", "-")) for title in titles]
    assert np.allclose(np.array(signs, float), totals[29], rtol=6e-3, atol=1e-6)
    limit = visitor.by("decomposition").locator(".scale").inner_text()
    visitor.press("End")
    assert visitor.by("decomposition").locator(".scale").inner_text() == limit


def test_hovering_the_legend_isolates_a_channel_everywhere(page: Path, open_page: Open, expected: Expected) -> None:
    visitor = open_page(page, "?layer=Relu_1&frame=30")
    visitor.by("legend-3").locator(".card").hover()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", 2))
    assert close(visitor.attribution("neg"), expected(visitor, "neg", 2))
    visitor.by(f"legend-{K + 1}").locator(".card").hover()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", "res"))
    visitor.page.mouse.move(700, 300)
    assert close(visitor.attribution("pos"), expected(visitor, "pos"))
    visitor.by("legend-5").locator(".card").focus()
    assert close(visitor.attribution("pos"), expected(visitor, "pos", 4))


def test_the_feature_viewer_shows_patches_of_any_feature(page: Path, open_page: Open) -> None:
    features = open_results(page).features(MIDDLE)
    weak = (features["index.0.5"] >= 0) & (features["opacity.0.5"] < 128)
    feature, row, column = np.argwhere(weak)[0]
    visitor = open_page(page, "?layer=Relu_1&frame=30")
    visitor.by(f"legend-{feature + 1}").locator(".card").click()
    visitor.click("tab-place")
    grid = visitor.by("feature-grid")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')
    assert (grid.get_attribute("data-rows"), grid.get_attribute("data-expand")) == ("6", "4.00")
    visitor.by("viewer-density").fill("2")
    side = features["index.0.5"].shape[1]
    assert grid.get_attribute("data-rows") == str(side) != "6"
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
    place = {"x": box["width"] * (column + 0.5) / side, "y": box["height"] * (row + 0.5) / side}
    grid.hover(position=place)  # type: ignore[arg-type]
    assert np.abs(screenshot(grid) - faint).max() > 20
    grid.click(position=place)  # type: ignore[arg-type]
    expect(visitor.by("whole-observation")).to_be_visible()
    cell = features["index.0.5"][feature, row, column]
    observation = visitor.page.evaluate("rlClarity.manifest.observations.indices")[cell]
    assert visitor.text("whole-observation").startswith(f"Observation {observation + 1}")
    visitor.click(f"viewer-channel-{2 if feature == 0 else 1}")
    expect(visitor.by("whole-observation")).to_have_count(0)


def test_clicking_a_patch_opens_the_frame_it_came_from(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a")
    visitor.by("legend-1").locator(".card").click()
    visitor.click("tab-place")
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


def test_the_input_layer_shows_gradients_in_its_three_color_channels(
    page: Path, open_page: Open, expected: Expected
) -> None:
    visitor = open_page(page, "?layer=input&frame=30")
    assert close(visitor.attribution("pos"), expected(visitor, "pos", layer="input"))
    expect(visitor.page.get_by_test_id(re.compile(r"^legend-\d+$"))).to_have_count(3)


def test_the_address_restores_the_view(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=Relu_2&trajectory=2&frame=60")
    state = visitor.state()
    assert (
        visitor.page.evaluate(f"rlClarity.manifest.layers[{state['layer']}].key"),
        state["trajectory"],
        state["frame"],
    ) == (COARSE, 1, 59)
    visitor.press("ArrowRight", "ArrowRight")
    visitor.page.wait_for_url("**/interface.html?layer=Relu_2&trajectory=2&frame=62")
    visitor.click("trajectory-1")
    visitor.page.wait_for_url("**/interface.html?layer=Relu_2&trajectory=1&frame=1")
    visitor.page.go_back()
    visitor.page.wait_for_function("() => rlClarity.state().trajectory === 1 && rlClarity.state().frame === 61")
    visitor.page.go_forward()
    visitor.page.wait_for_function("() => rlClarity.state().trajectory === 0")

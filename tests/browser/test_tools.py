"""Find, a box on the observation, and single features: by pointer, finger and keyboard, in the address, under undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from rl_clarity.pages.results import open_results
from tests.browser.generated import Generated
from tests.browser.pages import Visitor, close, expected_image
from tests.browser.synthetic import K, read_chunk

Open = Callable[..., Visitor]
LAYER = "Relu_1"
BOX = (16, 8, 40, 36)
"""Left, top, right, bottom, in pixels of the frames, which have 64 by 64."""


def found(directory: Path) -> list[tuple[int, int]]:
    """Frames of the synthetic page with an advantage below -0.5, in order of time."""
    series = [read_chunk(directory, f"trajectories/{i}/series.js")["advantages"] for i in (1, 2, 3)]
    return [(i, int(t)) for i, advantages in enumerate(series) for t in np.flatnonzero(advantages < -0.5)]


def place(visitor: Visitor) -> tuple[int, int]:
    state = visitor.state()
    return state["trajectory"], state["frame"]


def test_a_search_is_kept_in_the_address_and_can_be_undone(synthetic: Path, open_page: Open) -> None:
    count = len(found(synthetic))
    visitor = open_page(synthetic, "?layer=2b")
    visitor.press("f")
    visitor.by("find-kind").select_option("advantage")
    visitor.by("find-compare").select_option("below")
    visitor.by("find-value").fill("-0.5")
    visitor.click("find-go")
    assert visitor.text("find-count").startswith(f"{count} frame")
    visitor.page.wait_for_url("**find=advantage%7Ebelow%7E-0.5**")
    visitor.page.reload()
    visitor.settle()
    visitor.by("find-steps").wait_for()
    assert visitor.text("find-place") == f"{count} found"
    assert int(visitor.track("value").get_attribute("data-marks") or 0) > 0
    visitor.press("f")
    assert visitor.by("find-kind").input_value() == "advantage"
    assert visitor.by("find-value").input_value() == "-0.5"
    visitor.by("find-clear").click()
    expect(visitor.by("find-steps")).to_have_count(0)
    assert visitor.track("value").get_attribute("data-marks") == "0"
    visitor.page.get_by_role("button", name="Undo").click()
    assert visitor.text("find-count").startswith(f"{count} frame")
    visitor.page.get_by_role("button", name="Redo").click()
    expect(visitor.by("find-count")).to_have_count(0)


def test_activations_and_attribution_can_be_searched(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&trajectory=1")
    visitor.press("f")
    labels = visitor.by("find-kind").locator("option").all_inner_texts()
    assert {"Attribution to a feature", "Activation of a feature"} <= set(labels)
    visitor.by("find-kind").select_option("activation")
    visitor.by("find-channel").select_option("2")
    expect(visitor.by("find-output"), "activation is not of an output").to_have_count(0)
    totals = read_chunk(synthetic, "attribution/2b/1/totals.js")["activation"][:, 2].astype(float)
    limit = float(np.median(totals))
    visitor.by("find-value").fill(str(limit))
    visitor.page.get_by_label("in all trajectories").uncheck()
    visitor.click("find-go")
    assert visitor.text("find-count").startswith(f"{np.sum(totals > limit)} frames")
    best = visitor.by("find-results").locator("button").first
    best.click()
    assert visitor.state()["frame"] == int(totals.argmax())


def test_keys_and_buttons_step_through_search_results(synthetic: Path, open_page: Open) -> None:
    matches = found(synthetic)
    visitor = open_page(synthetic, "?layer=2b&find=advantage~below~-0.5")
    visitor.by("find-steps").wait_for()
    start = -1 if (0, 0) not in matches else 0
    visitor.press("g")
    assert place(visitor) == matches[start + 1]
    visitor.press("g", "g")
    assert place(visitor) == matches[start + 3]
    assert visitor.text("find-place") == f"{start + 4} of {len(matches)} found"
    visitor.press("Shift+G")
    assert place(visitor) == matches[start + 2]
    visitor.click("find-next")
    visitor.click("find-previous")
    assert place(visitor) == matches[start + 2]
    for _ in range(start + 3):
        visitor.press("Shift+G")
    assert place(visitor) == matches[-1], "before the first is the last"


def test_a_feature_search_in_the_address_may_name_another_layer(synthetic: Path, open_page: Open) -> None:
    totals = [read_chunk(synthetic, f"attribution/4a/{i}/totals.js")["totals.value"] for i in (1, 2, 3)]
    count = int((totals[1][:, 2].sum(-1) > 0).sum())
    visitor = open_page(synthetic, "?layer=2b&find=feature~above~0~value~4a~3,in~2")
    visitor.by("find-steps").wait_for()
    assert visitor.text("find-place") == f"{count} found"
    visitor.press("f")
    assert visitor.by("find-layer").locator("option:checked").inner_text() == "4a"
    assert visitor.by("find-channel").input_value() == "2"
    assert not visitor.by("drawer").get_by_label("in all trajectories").is_checked()


def drag(visitor: Visitor, target: Locator, box: tuple[int, ...]) -> None:
    """Draw a box with the mouse."""
    bounds = target.bounding_box()
    assert bounds
    unit = bounds["width"] / 64
    left, top, right, bottom = (side * unit for side in box)
    visitor.page.mouse.move(bounds["x"] + left + 0.2, bounds["y"] + top + 0.2)
    visitor.page.mouse.down()
    visitor.page.mouse.move(bounds["x"] + right / 2, bounds["y"] + bottom / 2)
    visitor.page.mouse.move(bounds["x"] + right - 0.2, bounds["y"] + bottom - 0.2)
    visitor.page.mouse.up()


def shown_value(visitor: Visitor, track: str) -> float:
    return float(visitor.track(track).locator(".value").inner_text().replace("\N{MINUS SIGN}", "-"))


def test_attribution_inside_a_box_is_shown_over_time(generated: Generated, open_page: Open) -> None:
    visitor = open_page(generated.directory, f"?layer={LAYER}&trajectory=2&frame=20")
    drag(visitor, visitor.by("observation-canvas"), BOX)
    assert visitor.state()["box"] == dict(zip(("left", "top", "right", "bottom"), BOX, strict=True))
    expect(visitor.by("box"), "on the observation, and on both signs").to_have_count(3)
    attribution = open_results(generated.directory).attribution(LAYER, 1)
    assert attribution.residual is not None
    values = np.concatenate([attribution.channels, attribution.residual], -1)  # (T, h, w, K + 1)
    height, width = values.shape[1:3]
    rows = [y for y in range(height) if BOX[1] <= (y + 0.5) * 64 / height < BOX[3]]
    columns = [x for x in range(width) if BOX[0] <= (x + 0.5) * 64 / width < BOX[2]]
    inside = values[:, rows][:, :, columns].sum((1, 2))
    visitor.page.wait_for_url(f"**box={'.'.join(map(str, BOX))}**")
    for frame in (20, 66):  # in both segments
        visitor.goto(f"?layer={LAYER}&trajectory=2&frame={frame}&box={'.'.join(map(str, BOX))}&name={LAYER}~2~coin")
        visitor.by("box-features").uncheck()
        visitor.track("box").wait_for()
        assert shown_value(visitor, "box") == pytest.approx(inside[frame - 1].sum(), rel=6e-3, abs=1e-6)
        visitor.by("box-features").check()
        assert visitor.track("box-2").locator(".text").inner_text() == "coin (2)"
        expect(visitor.by("decomposition").get_by_text("coin", exact=True)).to_be_visible()
        for k in range(inside.shape[1]):
            assert shown_value(visitor, f"box-{k + 1}") == pytest.approx(inside[frame - 1, k], rel=6e-3, abs=1e-6)
    visitor.click("remove-box")
    expect(visitor.by("box")).to_have_count(0)
    expect(visitor.by("box-tracks")).to_have_count(0)
    visitor.page.get_by_role("button", name="Undo").click()
    expect(visitor.by("box")).to_have_count(3)


def test_a_box_can_be_drawn_with_the_keyboard(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.by("draw-box").focus()
    visitor.press("ArrowRight")
    assert visitor.state()["box"] == {"left": 24, "top": 24, "right": 40, "bottom": 40}
    visitor.press("ArrowRight", "ArrowUp", "Shift+ArrowDown")
    assert visitor.state()["box"] == {"left": 25, "top": 23, "right": 41, "bottom": 40}
    assert visitor.frame() == 30
    visitor.page.wait_for_url("**box=25.23.41.40**")
    visitor.page.reload()
    visitor.settle()
    visitor.track("box").wait_for()
    visitor.by("draw-box").focus()
    visitor.press("Delete")
    assert visitor.state()["box"] is None


def test_touch_draws_a_box_only_while_the_box_tool_is_active(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    session = visitor.page.context.new_cdp_session(visitor.page)

    def swipe() -> None:
        canvas = visitor.by("observation-canvas")
        canvas.scroll_into_view_if_needed()
        bounds = canvas.bounding_box()
        assert bounds
        for kind, x, y in (("Start", 0.26, 0.26), ("Move", 0.4, 0.4), ("Move", 0.74, 0.74), ("End", 0, 0)):
            point = {"x": bounds["x"] + x * bounds["width"], "y": bounds["y"] + y * bounds["height"]}
            points = [] if kind == "End" else [point]
            session.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})

    swipe()
    assert visitor.state()["box"] is None, "it scrolls"
    visitor.by("draw-box").tap()
    swipe()
    assert visitor.state()["box"] == {"left": 16, "top": 16, "right": 48, "bottom": 48}


def solo(visitor: Visitor) -> Iterator[None]:
    """Ways to show the third feature alone."""
    card = visitor.by("legend-3").locator(".card")
    card.click(modifiers=["Alt"])
    yield
    card.hover()
    visitor.page.mouse.down()
    visitor.page.wait_for_function("() => rlClarity.state().solo")
    visitor.page.mouse.up()
    yield
    card.focus()
    visitor.press("s")
    yield


def test_alt_click_long_press_and_key_isolate_a_feature(generated: Generated, open_page: Open) -> None:
    visitor = open_page(generated.directory, f"?layer={LAYER}&trajectory=2&frame=20")
    layer = visitor.state()["layer"]
    wanted = expected_image(open_results(generated.directory).attribution(LAYER, 1), 19, "pos", 2)
    for _ in solo(visitor):
        assert visitor.state()["solo"] == {"layer": layer, "channel": 2}
        expect(visitor.by("drawer")).to_have_count(0)
        visitor.page.evaluate("document.activeElement.blur()")
        visitor.page.mouse.move(5, 700)
        assert visitor.text("solo") == "Only feature 3 is shown."
        assert close(visitor.attribution("pos"), wanted)
        visitor.press("u")
        assert visitor.state()["solo"] is None
    visitor.press("y")
    visitor.page.wait_for_url(f"**solo={LAYER}%7E3**")
    visitor.page.reload()
    assert close(visitor.attribution("pos"), wanted)
    visitor.click("all-channels")
    expect(visitor.by("solo")).to_have_count(0)
    visitor.by("legend-3").locator(".card").click()
    assert visitor.by("drawer").get_attribute("data-panel") == "feature", "a click is still a click"


def test_the_residual_can_be_shown_alone(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.by(f"legend-{K + 1}").locator(".card").click(modifiers=["Alt"])
    assert visitor.text("solo") == "Only the residual is shown."

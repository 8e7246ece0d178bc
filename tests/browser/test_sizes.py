"""Options that make something larger make it larger, as far as the window goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from rl_clarity.pages.manifest import section_data
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, write_synthetic_page

Open = Callable[..., Visitor]
WithView = Callable[..., Path]
REM = 16
WIDE = {"width": 2600, "height": 1000}


def size_of(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box
    return box["width"], box["height"]


@pytest.mark.parametrize(
    ("given", "pixels"), [("5em", 80), ("10vh", 90), ("90px", 90), ("10%", 90), ("5vw", 72), ("6rem", 96)]
)
def test_the_height_of_the_filmstrip_accepts_any_unit(
    with_view: WithView, open_page: Open, given: str, pixels: int
) -> None:
    visitor = open_page(with_view(scrubber_height=given), "?frame=5")
    assert size_of(visitor.well("film"))[1] == pytest.approx(pixels, abs=1)
    visitor.page.wait_for_function(
        "height => document.querySelector('[data-track=film] canvas').height === height", arg=pixels - 2
    )


def test_the_policy_has_the_requested_height(with_view: WithView, open_page: Open) -> None:
    visitor = open_page(with_view(policy_display_height="6%"), "?frame=5")
    assert size_of(visitor.by("policy"))[1] == pytest.approx(54, abs=1)


@pytest.mark.parametrize("window", [1440, 820, 390])
def test_long_names_of_layers_fit_the_window(open_page: Open, tmp_path: Path, window: int) -> None:
    names = [f"ppo2_model/pi/residual_tower_{index}/block_with_a_very_long_name/activation/Relu" for index in (1, 2)]

    def rename(manifest: dict[str, Any]) -> None:
        for layer, name in zip(section_data(manifest, "attribution")["layers"], names, strict=True):
            layer["name"] = layer["full_name"] = name

    size = Size(trajectories=1, steps=20, observations=16, layers=(("2a", 16, 32), ("3a", 8, 32)), input_layer=False)
    write_synthetic_page(tmp_path, size, edit=rename)
    visitor = open_page(tmp_path, viewport={"width": window, "height": 900})
    for tool in ("", "e", "f", "t"):
        if tool:
            visitor.press(tool)
        assert visitor.page.evaluate("() => document.documentElement.scrollWidth") <= window


@pytest.mark.parametrize("window", [1440, 1024, 390])
def test_legend_features_have_the_requested_width_and_height(with_view: WithView, open_page: Open, window: int) -> None:
    directory = with_view(legend_item_width="12em", legend_item_height="9em")
    visitor = open_page(directory, "?frame=5", viewport={"width": window, "height": 900})
    width, height = size_of(visitor.by("legend-1").locator(".card"))
    assert width == pytest.approx(12 * REM, abs=1) if window != 1024 else width > 150
    assert width / height == pytest.approx(12 / 9, rel=0.02)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= window
    assert size_of(visitor.by("panel-attribution"))[0] > 300
    visitor.press("t")
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= window


def test_legend_features_may_have_only_a_requested_height(with_view: WithView, open_page: Open) -> None:
    visitor = open_page(with_view(legend_item_height="12em"), "?frame=5")
    width, height = size_of(visitor.by("legend-1").locator(".card"))
    assert width == pytest.approx(6 * REM, abs=1)
    assert height == pytest.approx(12 * REM, abs=1)


@pytest.mark.parametrize(
    ("option", "ems", "find"),
    [
        ("policy_display_width", 80, lambda visitor: visitor.by("policy")),
        ("scrubber_width", 96, lambda visitor: visitor.well("film")),
        ("navigator_width", 90, lambda visitor: visitor.by("frame-slider")),
        ("video_width", 30, lambda visitor: visitor.overlay("pos").locator("..")),
    ],
)
def test_requested_widths_make_the_page_wider(
    with_view: WithView, open_page: Open, option: str, ems: int, find: Callable[[Visitor], Locator]
) -> None:
    directory = with_view(**{option: f"{ems}em"})
    visitor = open_page(directory, "?frame=5", viewport=WIDE)
    assert size_of(find(visitor))[0] == pytest.approx(ems * REM, abs=2)
    visitor.page.set_viewport_size({"width": 1180, "height": 900})
    assert size_of(find(visitor))[0] < ems * REM
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 1180, "no further than the window"


def test_a_wide_slider_moves_to_its_own_line_in_ordinary_windows(with_view: WithView, open_page: Open) -> None:
    visitor = open_page(with_view(navigator_width="48em"), "?frame=5")
    assert size_of(visitor.by("frame-slider"))[0] == pytest.approx(48 * REM, abs=2)


def test_the_default_layout_limits_the_page_width(with_view: WithView, open_page: Open) -> None:
    visitor = open_page(with_view(), "?frame=5", viewport=WIDE)
    left, right = visitor.by("trajectory-1").bounding_box(), visitor.by("panel-legend").bounding_box()
    assert left
    assert right
    assert right["x"] + right["width"] - left["x"] <= 1560


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1366, 900), (1440, 900)])
@pytest.mark.parametrize("choice", ["mixed=0", "mixed=1", "mixed=0&combined=1"])
def test_attribution_images_use_the_available_width(
    synthetic: Path, open_page: Open, choice: str, width: int, height: int
) -> None:
    visitor = open_page(synthetic, f"?layer=2b&frame=5&{choice}", viewport={"width": width, "height": height})
    visitor.settle()
    row = visitor.by("row").first.bounding_box()
    last = visitor.page.locator(".with-multiples").last.bounding_box()
    assert row
    assert last
    assert row["x"] + row["width"] - last["x"] - last["width"] < 130, "the values under the pointer may stand there"


def test_on_phones_the_legend_is_folded_above_the_images(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=5", viewport={"width": 390, "height": 844})
    fold = visitor.by("legend-fold")
    expect(fold).to_be_visible()
    below = fold.bounding_box(), visitor.by("row").first.bounding_box()
    assert below[0]
    assert below[1]
    assert 0 <= below[1]["y"] - below[0]["y"] - below[0]["height"] < 30
    assert fold.locator("li button").first.is_hidden()
    fold.locator("summary").click()
    fold.locator("li button").nth(1).click()
    assert visitor.state()["feature"] == {"layer": 3, "channel": 1}
    wide = open_page(synthetic, "?layer=2b&frame=5")
    assert wide.by("legend-fold").is_hidden()

"""Panels alone in a page of their own, the sentence that each one has, and the page on paper."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.pages import Visitor

Open = Callable[..., Visitor]
ALONE = "?embed=1&panel={}&layer=2b&frame=30"
TOOLS = {"l": "features", "f": "find", "n": "notes", "t": "trust", "e": "export", "?": "help"}


def shown_panels(visitor: Visitor) -> list[str]:
    names: list[str] = visitor.page.locator("[data-panel]").evaluate_all("all => all.map(e => e.dataset.panel)")
    return names


@pytest.mark.parametrize(
    "name", ["trajectories", "bookmarks", "timeline", "outputs", "attribution", "legend", "find", "notes", "trust"]
)
def test_a_panel_can_be_shown_alone(synthetic: Path, open_page: Open, name: str) -> None:
    visitor = open_page(synthetic, ALONE.format(name), toured=False, wait=False)
    visitor.by(f"panel-{name}").wait_for()
    assert shown_panels(visitor) == [name]
    expect(visitor.page.locator("header h1")).to_have_count(0)
    expect(visitor.by("tour")).to_have_count(0)
    visitor.press("ArrowRight")
    visitor.page.wait_for_url(f"**embed=1&panel={name}&layer=2b&trajectory=1&frame=31")


def test_tool_panels_open_beside_a_panel_shown_alone(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, ALONE.format("attribution"), toured=False)
    for key, name in TOOLS.items():
        visitor.press(key)
        visitor.by("drawer").wait_for()
        assert shown_panels(visitor) == ["attribution", name]
        visitor.press("Escape")
        visitor.by("drawer").wait_for(state="detached")
    visitor.by("decomposition").locator("button[data-channel='2']").click()
    assert visitor.by("viewer-channel-3").get_attribute("aria-pressed") == "true"
    box, attribution = visitor.by("drawer").bounding_box(), visitor.by("panel-attribution").bounding_box()
    assert box
    assert attribution
    assert box["y"] == 0, "there is no header to leave room for"
    assert attribution["x"] + attribution["width"] <= box["x"], "it does not lie on the panel"


def test_a_tool_panel_shown_alone_does_not_open_twice(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, ALONE.format("trust"), toured=False, wait=False)
    visitor.by("gaps").wait_for()
    visitor.press("t")
    assert shown_panels(visitor) == ["trust"]
    visitor.press("n")
    assert shown_panels(visitor) == ["trust", "notes"]


def test_the_trust_panel_begins_with_measured_effects(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, ALONE.format("trust"), toured=False, wait=False)
    visitor.by("gaps").wait_for()
    assert visitor.by("panel-trust").locator("h3").first.inner_text() == "Measured effects"
    assert "is not known for this agent" in visitor.by("agreement").inner_text()


def test_the_feature_viewer_works_as_the_only_panel(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, ALONE.format("feature") + "&feature=4", toured=False, wait=False)
    assert visitor.by("viewer-channel-4").get_attribute("aria-pressed") == "true"
    visitor.click("viewer-channel-6")
    visitor.press("t", "Escape")
    assert visitor.by("viewer-channel-6").get_attribute("aria-pressed") == "true"
    assert shown_panels(visitor) == ["feature"]
    visitor.click("tab-place")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')


@pytest.mark.parametrize("name", ["atribution", "constructor", "<img src=x>"])
def test_an_unknown_panel_in_the_address_is_named_in_an_error(synthetic: Path, open_page: Open, name: str) -> None:
    visitor = open_page(synthetic, f"?embed=1&panel={name}", toured=False)
    message = visitor.page.get_by_role("alert").inner_text()
    assert f"“{name}”" in message
    assert "attribution, outputs, legend" in message
    expect(visitor.by("panel-timeline"), "the rest is shown").to_be_visible()


def test_every_panel_has_an_explanation(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    panels = visitor.page.locator("section[data-panel]")
    expect(panels).to_have_count(6)
    for panel in panels.all():
        panel.locator("button.info").click()
        assert len(panel.locator(".help").inner_text()) > 60
    titles = {"Trajectories", "Bookmarks", "Timeline", "Outputs", "Attribution", "Features"}
    card = visitor.by("legend-1").locator(".card")
    openers: list[Callable[[], object]] = [*(partial(visitor.press, key) for key in TOOLS), card.click]
    for open_panel in openers:
        open_panel()
        assert len(visitor.text("how-to-read")) > 60
        titles.add(visitor.by("drawer").get_by_role("heading").first.inner_text())
    visitor.press("?")
    assert set(visitor.by("panels").locator("dt").all_inner_texts()) == titles - {"Help"}
    assert all(len(text) > 60 for text in visitor.by("panels").locator("dd").all_inner_texts())


def test_the_printed_page_contains_visible_panels_without_controls(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=30&rows=value,value~4a", color_scheme="dark")
    visitor.press("f")
    visitor.page.emulate_media(media="print")
    shown = visitor.page.locator("[data-panel]:visible").evaluate_all("all => all.map(e => e.dataset.panel)")
    assert shown == ["timeline", "attribution", "outputs", "legend"]
    controls = visitor.page.locator("button:visible, input:visible:not(.legend *)")
    names = controls.evaluate_all(
        "all => all.map(e => e.closest('.card, [data-part], [data-feature]') ? '' : e.outerHTML)"
    )
    assert [name for name in names if name] == [], (
        "features, bars and features alone are drawn on buttons; nothing else is"
    )
    expect(visitor.by("row")).to_have_count(2)
    assert visitor.by("attribution-canvas").evaluate_all("all => all.every(c => c.checkVisibility() && c.width > 1)")
    sheet = np.asarray(Image.open(io.BytesIO(visitor.page.screenshot(full_page=True))).convert("L"))
    assert np.median(sheet) == 255, "no ink is spent on a dark page"
    width = visitor.page.evaluate("document.documentElement.clientWidth")
    boxes = [visitor.by(f"panel-{name}").bounding_box() for name in shown]
    tops = [box["y"] for box in boxes if box]
    assert tops == sorted(tops), "one under the other"
    assert all(box and box["width"] > 0.9 * width for box in boxes)

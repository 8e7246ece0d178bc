"""Choosing what the page of an agent's memory shows: windows, keys, the address, and the strip's position."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.memory_pages import LENGTHS, WINDOW, MemoryPage, listed, settle
from tests.browser.pages import Visitor

Open = Callable[..., Visitor]


def test_the_strip_stays_scrolled_to_its_end_when_resized(open_memory: Open) -> None:
    visitor = open_memory("?episode=1&step=31")
    at_end = """() => {
      const list = document.querySelector("[data-testid=strip]");
      return list.scrollLeft > 0 && list.scrollLeft + list.clientWidth > list.scrollWidth - 2;
    }"""
    visitor.click("to-end")
    visitor.page.wait_for_function(at_end)
    visitor.page.set_viewport_size({"width": 900, "height": 700})
    visitor.page.wait_for_function(at_end)


def test_a_window_opens_scrolled_to_its_strongest_cause(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory("?episode=1&step=31&target=action", viewport={"width": 1000, "height": 800})
    sums = np.abs(memory.windows[0]["memory"][1].astype(float)).sum(axis=(1, 2))[:-1]
    strongest = visitor.page.locator(f"[data-testid=strip-step][data-frame='{31 - WINDOW + int(sums.argmax())}']")
    strip = visitor.by("strip")

    def left() -> float:
        return float(strip.evaluate("list => list.scrollLeft"))

    def in_view() -> bool:
        box, around = strongest.bounding_box(), strip.bounding_box()
        return bool(
            box and around and around["x"] <= box["x"] and box["x"] + box["width"] <= around["x"] + around["width"]
        )

    settle(visitor)
    assert in_view()
    visitor.page.get_by_test_id("to-cause").click()
    assert in_view()
    before = left()
    strongest.get_by_role("button").first.click()
    settle(visitor)
    assert left() == before


def test_the_list_of_windows_can_be_filtered(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory()
    assert len(listed(visitor)) == 12
    visitor.by("choice").select_option("direction")
    visitor.by("choice-component").select_option("2")
    assert listed(visitor) == [5], "the second window of the third episode"
    visitor.by("choice-end").select_option("top")
    assert listed(visitor) == []
    visitor.by("choice").select_option("behaviour")
    visitor.by("choice-behaviour").select_option("0")
    assert listed(visitor) == [6, 7]
    visitor.by("choice").select_option("all")
    visitor.by("search").fill("episode 5")
    assert listed(visitor) == [8, 9]
    visitor.by("windows").locator("button").last.click()
    settle(visitor)
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (4, LENGTHS[4] - 4)
    visitor.by("search").fill("")
    visitor.by("when-now").check()
    assert listed(visitor) == [9]
    assert visitor.text("window-count") == "1 of 12 windows"


def test_keys_move_through_windows_targets_paths_and_tabs(open_memory: Open) -> None:
    visitor = open_memory()
    visitor.press(".", ".")
    assert visitor.state()["window"] == 2
    visitor.press(",")
    assert (visitor.state()["window"], visitor.state()["frame"]) == (1, LENGTHS[0] - 4)
    visitor.press("g", "p", "p")
    assert (visitor.state()["target"], visitor.state()["path"]) == ("action", "world")
    visitor.press("3")
    assert visitor.state()["tab"] == "causes"
    visitor.press("]")
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (1, 0)
    visitor.press("?")
    keys = visitor.text("keys")
    assert "previous or next window of the list" in keys
    assert "target whose causes are shown" in keys


SCROLLED = """async () => {
  for (let still = 0, before = null; still < 10; before = scrollY) {
    await new Promise(requestAnimationFrame);
    still = scrollY === before ? still + 1 : 0;
  }
}"""
"""Waits until smooth scrolling has ended."""


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_tab_keys_scroll_the_tabs_into_view(open_memory: Open, motion: str) -> None:
    visitor = open_memory(reduced_motion=motion, viewport={"width": 1366, "height": 768})
    tabs, top = visitor.by("tabs"), "document.querySelector('[data-testid=tabs]').getBoundingClientRect().top"
    assert visitor.page.evaluate(top) > 768 / 2
    visitor.press("5")
    if motion == "no-preference":
        visitor.page.wait_for_function(f"() => {top} < 193")
        visitor.page.evaluate(SCROLLED)
    assert 0 <= visitor.page.evaluate(top) < 193
    assert visitor.page.evaluate("document.activeElement === document.body"), "the focus stays where it was"
    before = visitor.page.evaluate("scrollY")
    tabs.get_by_role("tabpanel").get_by_role("button").first.focus()
    visitor.press("2")
    assert visitor.by("tab-behaviours").evaluate("tab => tab === document.activeElement")
    assert visitor.page.evaluate("scrollY") == before, "tabs in view stay where they are"


def test_the_selection_is_kept_in_the_address_and_undo_history(open_memory: Open) -> None:
    visitor = open_memory("?episode=3&step=20&path=whole&components=2.4&tab=behaviours&search=ica")
    state = visitor.state()
    assert (state["trajectory"], state["frame"], state["path"]) == (2, 19, "whole")
    assert (state["components"], state["tab"], state["search"]) == ([1, 3], "behaviours", "ica")
    visitor.by("path").select_option("world")
    visitor.page.wait_for_url("**path=world*")
    visitor.page.get_by_role("button", name="Undo").click()
    assert visitor.state()["path"] == "whole"


def test_arrow_keys_select_tabs(open_memory: Open) -> None:
    visitor = open_memory()
    visitor.by("tab-components").focus()
    visitor.press("ArrowLeft")
    assert visitor.state()["tab"] == "simulator"
    assert visitor.by("tab-simulator").evaluate("tab => tab === document.activeElement")
    visitor.press("Home", "ArrowRight")
    assert visitor.by("tab-behaviours").get_attribute("aria-selected") == "true"
    expect(visitor.by("panel-behaviours")).to_be_visible()
    assert visitor.state()["frame"] == 30, "arrows move the page's frame elsewhere only"

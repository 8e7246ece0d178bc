"""What readers come for, on the page of a real network: in a usual window, on a phone, by keyboard, in safe colors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.generated import Generated
from tests.browser.pages import Visitor

Open = Callable[..., Visitor]
WAYS = ("window", "phone", "keyboard", "safe")
WINDOW, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}


@dataclass
class Reader:
    """Uses a page in one of the ways."""

    visitor: Visitor
    way: str

    def use(self, control: Locator, shown: Locator | None = None) -> None:
        """Activate a control by pointer, finger or keyboard; another test checks that Tab reaches all of them.

        Pointer and finger aim at `shown`, a part of the control that others do not cover.
        """
        if self.way == "keyboard":
            control.focus()
            self.visitor.press("Enter" if control.evaluate("e => e.type !== 'checkbox'") else "Space")
        elif self.way == "phone":
            (shown or control).tap()
        else:
            (shown or control).click()

    def open_tool(self, name: str, key: str) -> None:
        if self.way == "keyboard":
            self.visitor.press(key)
        else:
            self.use(self.visitor.by(f"open-{name}"))
        self.visitor.by("drawer").wait_for()

    def in_view(self, *locators: Locator) -> bool:
        """Whether all of these are inside the window at the same time."""
        size = self.visitor.page.viewport_size
        assert size
        boxes = [locator.bounding_box() for locator in locators]
        return all(
            box is not None
            and box["x"] >= 0
            and box["y"] >= 0
            and box["x"] + box["width"] <= size["width"]
            and box["y"] + box["height"] <= size["height"]
            for box in boxes
        )

    def number(self, text: str) -> float:
        return float(text.replace("\N{MINUS SIGN}", "-"))


@pytest.fixture(params=WAYS)
def reader(request: pytest.FixtureRequest, generated: Generated, open_page: Open) -> Reader:
    way: str = request.param
    context: dict[str, Any] = {"viewport": PHONE, "has_touch": True} if way == "phone" else {"viewport": WINDOW}
    query = "?trajectory=1&frame=1" + ("&palette=safe" if way == "safe" else "")
    visitor = open_page(generated.directory, query, permissions=["clipboard-read", "clipboard-write"], **context)
    return Reader(visitor, way)


def images(visitor: Visitor) -> list[Locator]:
    return [visitor.by("observation-canvas").first, visitor.overlay("pos"), visitor.overlay("neg")]


def test_filmstrip_images_and_bars_fit_the_window(reader: Reader) -> None:
    visitor = reader.visitor
    play, film = visitor.by("play"), visitor.well("film")
    if reader.way == "phone":
        timeline, observation = visitor.by("panel-timeline"), visitor.by("observation-canvas").first
        observation.evaluate("e => scrollTo(0, scrollY + e.getBoundingClientRect().top - 200)")
        assert reader.in_view(play, film, *images(visitor))
        above, below = timeline.bounding_box(), observation.bounding_box()
        assert above
        assert below
        assert above["y"] + above["height"] <= below["y"], "the timeline hides no image"
    else:
        assert reader.in_view(play, film, *images(visitor), visitor.by("decomposition").locator(".bars").first)
    visitor.page.mouse.wheel(0, 500)
    visitor.page.wait_for_function("() => scrollY > 100")
    assert reader.in_view(play, film), "they stay in view"
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_user_can_find_why_the_agent_was_surprised(reader: Reader) -> None:
    visitor = reader.visitor
    mark = visitor.page.evaluate("rlClarity.manifest.bookmarks.low[0]")
    reader.use(visitor.by("bookmarks-low").get_by_role("button").first)
    visitor.settle()
    state = visitor.state()
    assert (state["trajectory"], state["frame"]) == (mark["trajectory"], mark["frame"])
    assert visitor.frame() == mark["frame"] + 1
    advantage = visitor.track("advantage").locator(".value").inner_text()
    assert reader.number(advantage) == pytest.approx(mark["advantage"], rel=6e-3)
    expect(visitor.track("value")).to_be_visible()
    decomposition = visitor.by("decomposition").first
    parts = decomposition.locator("button[data-value]").evaluate_all(
        "all => all.map((e) => [e.dataset.part, +e.dataset.value])"
    )
    baseline = float(decomposition.locator("[data-part=baseline]").get_attribute("data-value") or "nan")
    value = reader.number(visitor.track("value").locator(".value").inner_text())
    assert baseline + sum(part for _, part in parts) == pytest.approx(value, rel=6e-3), "the waterfall adds up"
    strongest = max((part for part in parts if part[0].startswith("feature")), key=lambda part: abs(part[1]))[0]
    column = decomposition.locator(f"button[data-part='{strongest}']")
    channel = int(column.get_attribute("data-channel") or -1)
    reader.use(column, column.locator(".bars"))  # words of narrow columns cover parts of others
    assert visitor.by(f"viewer-channel-{channel + 1}").get_attribute("aria-pressed") == "true"
    expect(visitor.by("effects")).to_be_visible()


def test_a_user_can_identify_a_feature_and_see_its_ablation(reader: Reader) -> None:
    visitor = reader.visitor
    reader.use(visitor.by("legend-2").locator(".card"))
    assert visitor.by("viewer-channel-2").get_attribute("aria-pressed") == "true"
    visitor.by("example-1").wait_for()
    reader.use(visitor.by("example-1"))
    expect(visitor.by("whole-observation")).to_be_visible()
    reader.use(visitor.by("feature-name"))
    visitor.by("feature-name").fill("coin")
    visitor.press("Enter")
    assert visitor.state()["names"], "it has a name"
    assert "coin" in visitor.by("legend-2").inner_text()
    causal = visitor.by("causal-outputs")
    causal.scroll_into_view_if_needed()
    assert causal.get_by_role("row").count() >= 2, "what attribution predicts, and what ablation does"


def test_a_user_can_isolate_a_feature_and_follow_it_over_time(reader: Reader) -> None:
    visitor = reader.visitor
    card = visitor.by("legend-3").locator(".card")
    if reader.way == "keyboard":
        card.focus()
        visitor.press("s")
    elif reader.way == "phone":
        card.click(delay=700)
    else:
        card.click(modifiers=["Alt"])
    assert visitor.state()["solo"] == {"layer": visitor.state()["layer"], "channel": 2}
    assert visitor.text("solo") == "Only feature 3 is shown."
    over_time = visitor.by("totals-over-time").first
    if not over_time.is_checked():
        reader.use(over_time)
    well = visitor.well("decomposition").first
    well.scroll_into_view_if_needed()
    expect(well).to_be_visible()
    if reader.way == "keyboard":
        visitor.page.get_by_role("slider", name="Frame").focus()
        visitor.press(*["ArrowRight"] * 20)
    else:
        well.click(position=visitor.place("decomposition", 20))
    assert visitor.frame() == 21
    visitor.settle()


def test_a_note_can_be_shared_by_link(reader: Reader, generated: Generated) -> None:
    visitor = reader.visitor
    visitor.page.evaluate("rlClarity.select({ frame: 29 })")
    reader.open_tool("notes", "n")
    visitor.by("note-text").fill("It sees the edge too late")
    reader.use(visitor.by("note-add"))
    assert visitor.by("notes").get_by_role("textbox").first.input_value() == "It sees the edge too late"
    reader.use(visitor.by("close-drawer"))
    reader.open_tool("export", "e")
    with visitor.page.expect_download() as download:
        reader.use(visitor.by("export-png"))
    assert download.value.suggested_filename.endswith(".png")
    reader.use(visitor.by("close-drawer"))
    if reader.way == "keyboard":
        visitor.press("c")
    else:
        reader.use(visitor.page.get_by_role("button", name="Copy link"))
    visitor.page.wait_for_function("() => navigator.clipboard.readText().then((text) => text.includes('frame=30'))")
    visitor.page.goto(visitor.page.evaluate("navigator.clipboard.readText()"))
    visitor.settle()
    assert visitor.frame() == 30
    assert visitor.state()["palette"] == ("safe" if reader.way == "safe" else "standard")

"""The gallery: an index of pages, and two of them side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

import rl_clarity
from tests.fakes import TinyAgent

HOSTILE = '</script><img src=x onerror="document.title=1">'
STEPS = 20


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on the same episodes, one on others, and files that are no pages."""
    root = tmp_path_factory.mktemp("gallery")
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 256, (2, STEPS, 64, 64, 3), np.uint8)
    firsts = np.zeros((2, STEPS), bool)
    firsts[:, [2, 9, 15]] = True
    played = {"observations": observations, "actions": np.zeros((2, STEPS), int), "firsts": firsts}
    for folder, title, seed, reward in (("a b", HOSTILE, 0, 1.0), ("deep/second", "Second", 1, 3.0)):
        rewards = np.full((2, STEPS), reward)
        _write(root / folder, TinyAgent(seed=seed), {**played, "rewards": rewards}, title)
    _write(root / "other", TinyAgent(), {**played, "observations": 255 - observations, "rewards": rewards}, "Other")
    (root / "broken").mkdir()
    (root / "broken/interface.html").write_bytes((root / "other/interface.html").read_bytes()[:5000])
    (root / "older").mkdir()
    document = (root / "other/interface.html").read_text()
    (root / "older/interface.html").write_text(document.replace('"version":2', '"version":1'))
    for index, folder in enumerate(("a b", "deep/second")):
        log = root / folder / "run-log.json"
        runs = json.loads(log.read_text())
        runs["runs"][-1]["ended"] = f"2026-0{index + 1}-03T04:05:06+00:00"
        log.write_text(json.dumps(runs))
    shutil.copy(root / "other/interface.html", root / "not-a-page.html")
    rl_clarity.gallery(root, title="My agents")
    return root


def _write(directory: Path, agent: TinyAgent, played: dict[str, Any], title: str) -> None:
    varied = played["observations"][0]
    rl_clarity.generate(agent, played, varied, directory, title=title, layer_kwargs={"name_contains_one_of": ["2a"]})


@dataclass
class Reader:
    """The gallery in a browser."""

    page: Page
    messages: list[str]

    def side(self, index: int) -> FrameLocator:
        return self.page.frame_locator("[data-testid=side]").nth(index)

    def frames(self) -> list[str]:
        """The number of the frame that each page shows."""
        return [self.side(index).get_by_test_id("frame-number").first.inner_text().split()[0] for index in (0, 1)]

    def press(self, index: int, key: str) -> None:
        """Press a key inside one of the pages."""
        self.side(index).get_by_test_id("frame-number").first.click()
        self.page.keyboard.press(key)

    def wait_for(self, frame: int) -> None:
        for index in (0, 1):
            self.side(index).get_by_test_id("frame-number").filter(has_text=str(frame)).first.wait_for()
        assert self.frames() == [str(frame)] * 2


@pytest.fixture
def read(chromium_browser: Browser, pages: Path) -> Iterator[Callable[..., Reader]]:
    """`read(query, ...)` opens the gallery; nothing may be requested, or written to the console."""
    readers: list[Reader] = []

    def open_gallery(query: str = "", **options: Any) -> Reader:
        context = chromium_browser.new_context(viewport={"width": 1366, "height": 768}, **options)
        page = context.new_page()
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.extend([request.url] * request.url.startswith("http")))
        readers.append(Reader(page, messages))
        page.set_default_timeout(15_000)
        page.goto((pages / "index.html").as_uri() + query)
        return readers[-1]

    yield open_gallery
    for reader in readers:
        reader.page.context.close()
        assert reader.messages == []


def test_the_gallery_lists_pages_with_links_and_facts(read: Callable[..., Reader]) -> None:
    page = read().page
    items = page.get_by_test_id("page")
    assert page.title() == "My agents"
    expect(items).to_have_count(5)
    first = items.nth(0)
    assert first.get_by_role("heading").inner_text() == HOSTILE  # text, not markup
    expect(page.locator("img[src=x]")).to_have_count(0)
    assert first.get_by_test_id("return").inner_text() == "6.50"  # the mean of 7 and 6 steps
    assert "2026-01-03 04:05" in first.inner_text()
    assert "run log" in first.inner_text()
    assert first.locator("img").evaluate("image => image.naturalWidth") == 64
    first.get_by_role("link").click()
    page.get_by_test_id("observation-canvas").first.wait_for()
    assert page.url.endswith("/a%20b/interface.html")


def test_the_gallery_says_why_damaged_or_old_pages_do_not_open(read: Callable[..., Reader]) -> None:
    page = read().page
    problems = dict(zip(("broken", "older"), page.get_by_test_id("problem").all_inner_texts(), strict=True))
    assert "manifest" in problems["broken"]
    assert "version 1" in problems["older"]
    assert "time of the file" in page.get_by_test_id("page").nth(1).inner_text()


def test_the_order_of_pages_can_be_selected_and_is_kept_in_the_address(read: Callable[..., Reader]) -> None:
    page = read().page
    page.get_by_test_id("order").select_option("return")
    headings = page.get_by_test_id("page").get_by_role("heading")
    assert headings.all_inner_texts()[:3] == ["Second", "Other", HOSTILE]
    page.wait_for_url("**?order=return")
    page.reload()
    assert headings.all_inner_texts()[0] == "Second"


def test_two_compared_pages_move_through_time_together(read: Callable[..., Reader]) -> None:
    reader = read()
    page = reader.page
    choices = page.get_by_test_id("compare")
    expect(choices).to_have_count(2)  # only those that explain the same episodes
    choices.first.select_option(index=1)
    reader.wait_for(1)
    for index, frame in ((0, 2), (1, 3), (0, 4)):
        reader.press(index, "ArrowRight")
        reader.wait_for(frame)
    page.get_by_test_id("frame-slider").press("ArrowRight")
    reader.wait_for(5)
    reader.press(1, "]")  # the next trajectory
    reader.wait_for(1)
    assert page.get_by_test_id("trajectory-choice").input_value() == "1"
    page.get_by_test_id("close-compare").click()
    expect(page.get_by_test_id("page")).to_have_count(5)


def test_a_comparison_has_an_address_and_is_moved_by_keys(read: Callable[..., Reader]) -> None:
    reader = read("?left=a+b&right=deep%2Fsecond&trajectory=2&frame=7")
    page = reader.page
    page.get_by_test_id("frame-number").filter(has_text="7 of 20").wait_for()
    reader.wait_for(7)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    reader.wait_for(9)
    page.keyboard.press("End")
    reader.wait_for(20)
    page.get_by_test_id("panel-choice").select_option("timeline")
    reader.side(1).get_by_test_id("track").first.wait_for()
    expect(reader.side(1).get_by_test_id("panel-attribution")).to_have_count(0)


AT = "?left=a+b&right=deep%2Fsecond&trajectory=2&frame=7"


def number(text: str) -> float:
    return float(text.replace("\u2212", "-"))


def test_compared_pages_share_a_scale_and_colors_of_matched_features(read: Callable[..., Reader], pages: Path) -> None:
    reader = read(AT)
    left, right = (rl_clarity.open_results(pages / folder) for folder in ("a b", "deep/second"))
    matches = left.match_features(right, "2a")
    matched = {k: match.number - 1 for k, match in enumerate(matches) if match is not None}
    assert 3 < len(matched) < len(matches)
    expect(reader.page.get_by_test_id("matched")).to_have_text(f"{len(matched)} of {len(matches)} features of A")
    limits = [results.layer("2a")["limits"]["value"][1] for results in (left, right)]
    assert max(limits) > 1.02 * min(limits)
    ranges, colors = [], []
    for side in (reader.side(0), reader.side(1)):
        full = side.locator("figcaption", has_text="full color").first
        expect(full).to_contain_text(f"full color {max(limits):.2g}")
        decomposition = side.get_by_test_id("decomposition")
        ranges.append(decomposition.get_by_text("range").inner_text())
        parts = [decomposition.locator(f"[data-part=feature-{k + 1}]") for k in range(len(matches))]
        colors.append([part.evaluate("part => part.style.getPropertyValue('--color')") for part in parts])
    assert ranges[0] == ranges[1]
    assert {k: colors[1].index(colors[0][k]) for k in matched} == matched
    assert len(set(colors[0]) & set(colors[1])) == len(matched)


def test_displayed_differences_are_computed_from_the_data_of_both_pages(
    read: Callable[..., Reader], pages: Path
) -> None:
    page = read(AT).page
    left, right = (rl_clarity.open_results(pages / folder) for folder in ("a b", "deep/second"))
    a, b = (results.series(1)["values"][6] for results in (left, right))
    page.get_by_test_id("difference-features").wait_for()
    shown = [number(text) for text in page.get_by_test_id("difference-output").all_inner_texts()]
    assert shown == pytest.approx([a, b, b - a], rel=0.01)
    matches = [(k, match.number - 1) for k, match in enumerate(left.match_features(right, "2a")) if match is not None]
    parts = [results.decomposition(1, "2a")["features"][6] for results in (left, right)]
    rows = page.locator("[data-measure=attribution] tr").all()
    lines = [[number(text) for text in row.locator("td").all_inner_texts()] for row in rows]
    expected = [[parts[0][k], parts[1][m], parts[1][m] - parts[0][k]] for k, m in matches]
    np.testing.assert_allclose(lines, np.transpose(expected), rtol=0.01, atol=1e-4)
    assert page.locator("[data-measure=lost]").inner_text().startswith("lost without it, frame 5")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("difference-output").first).not_to_have_text(f"{a:.2f}")
    a = left.series(1)["values"][7]
    assert number(page.get_by_test_id("difference-output").first.inner_text()) == pytest.approx(a, rel=0.01)


def test_the_title_of_a_comparison_names_both_pages(read: Callable[..., Reader]) -> None:
    page = read(AT).page
    page.get_by_test_id("differences").wait_for()
    assert page.title() == f"{HOSTILE} and Second"
    page.get_by_test_id("close-compare").click()
    expect(page).to_have_title("My agents")


def test_playing_one_compared_page_also_plays_the_other(read: Callable[..., Reader]) -> None:
    reader = read("?left=a+b&right=deep%2Fsecond")
    reader.wait_for(1)
    reader.press(1, " ")
    reader.wait_for(STEPS)


@pytest.mark.parametrize(
    "query", ["?left=other&right=a+b", "?left=a+b&right=a+b", "?left=%00&right=<svg>&order=__proto__"]
)
def test_an_address_that_compares_unrelated_pages_shows_the_list(read: Callable[..., Reader], query: str) -> None:
    expect(read(query).page.get_by_test_id("page")).to_have_count(5)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_gallery_follows_the_light_or_dark_color_scheme(read: Callable[..., Reader], scheme: str) -> None:
    page = read(color_scheme=scheme).page
    assert page.evaluate("document.documentElement.dataset.theme") == scheme

"""The tabs of a page of an agent's memory: numbers, canvases, names, keys, exports, and what they say without data."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.memory_pages import LAGS, MemoryPage, write_memory_page
from tests.browser.pages import Visitor, read_canvas
from tests.browser.test_accessibility import violations
from tests.browser.training_pages import LABELS

Open = Callable[..., Visitor]
TABS = ("components", "behaviours", "causes", "remembering", "interventions", "simulator")
SURFACE, POSITIVE, NEGATIVE = (np.array(color) for color in ((255, 255, 255), (0xB8, 0x50, 0x0A), (0x1F, 0x5F, 0xAE)))


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> MemoryPage:
    return write_memory_page(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def opened(chromium_browser: Browser, memory: MemoryPage) -> Iterator[Visitor]:
    """The page, opened once for all tests: they choose what they need."""
    context = chromium_browser.new_context(
        viewport={"width": 1366, "height": 768}, accept_downloads=True, color_scheme="light"
    )
    visitor = Visitor(context.new_page(), memory.directory)
    visitor.goto()
    yield visitor
    context.close()
    assert visitor.messages == []


@pytest.fixture
def show(opened: Visitor) -> Callable[[str], Visitor]:
    """`show(tab)` opens a tab of the page as it was at first, and waits until its numbers are there."""

    def show_tab(tab: str, **changes: Any) -> Visitor:
        first = {"trajectory": 0, "frame": 10, "components": [0], "behaviour": 0, "names": {}}
        opened.page.evaluate("change => rlClarity.select(change)", first | {"tab": "interventions"})
        opened.page.evaluate("change => rlClarity.select(change)", first | {"tab": tab} | changes)
        opened.by(f"panel-{tab}").wait_for()
        opened.page.wait_for_function("() => !document.querySelector('#tabpanel').innerText.includes('Loading')")
        return opened

    return show_tab


def bars(visitor: Visitor, testid: str) -> dict[str, str]:
    """Labels and numbers of bars."""
    rows = visitor.by(testid).first.locator("tr")
    texts = rows.evaluate_all("rows => rows.map(({cells}) => [cells[0].innerText, cells[2].innerText])")
    return {label.strip(): number.strip() for label, number in texts}


def formatted(value: float) -> str:
    """A number as the page writes it, with three digits."""
    text = f"{abs(value):#.3g}"
    return f"−{text}" if value < 0 else text


def test_a_components_card_shows_its_stored_numbers(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("components")
    visitor.click("direction-4")
    assert visitor.state()["components"][0] == 3
    cards = memory.chunks["cards"]
    assert "Low stability: fits with halves of the episodes" in visitor.text("stability")
    readout = bars(visitor, "readout")
    outputs = [*(f"action {label}" for label in LABELS), "value"]
    assert readout == {name: formatted(cards["readout"][3, i]) for i, name in enumerate(outputs)}
    shown = bars(visitor, "correlations")
    assert shown["reward"] == formatted(cards["correlation.reward"][3])
    counts = visitor.by("direction-card").get_by_test_id("histogram").locator("rect title").all_text_contents()
    assert [int(count) for count in counts] == cards["histogram"][3].tolist()


def test_clicking_an_example_frame_of_a_component_goes_to_its_step(
    show: Callable[..., Visitor], memory: MemoryPage
) -> None:
    visitor = show("components")
    trajectory, frame = memory.chunks["cards"]["bottom"][0, 1]
    visitor.by("frames-bottom").get_by_role("button").nth(1).click()
    state = visitor.state()
    assert (state["trajectory"], state["frame"]) == (trajectory, frame)


def test_a_component_can_be_named(show: Callable[..., Visitor]) -> None:
    visitor = show("components")
    visitor.click("direction-2")
    visitor.by("direction-name").fill("coin ahead")
    visitor.press("Enter")
    assert visitor.text("direction-2") == "coin ahead (ICA 2)"
    visitor.page.wait_for_url("**name=component%7E2%7Ecoin+ahead*")
    visitor.page.evaluate("rlClarity.select({tab: 'behaviours'})")
    assert "coin ahead (ICA 2)" in visitor.text("behaviour-components")
    visitor.page.evaluate("document.activeElement.blur()")
    visitor.press("z", "z")
    assert visitor.state()["names"] == {}


def test_behavior_cards_show_sizes_component_means_and_actions(
    show: Callable[..., Visitor], memory: MemoryPage
) -> None:
    visitor = show("behaviours")
    arrays = memory.chunks["behaviours"]
    scales = [one["scale"] for one in memory.manifest["sections"][1]["data"]["directions"]]
    assert f"{arrays['sizes'][0]} steps" in visitor.text("behaviour-1")
    expected = arrays["components"][0] / scales
    assert bars(visitor, "behaviour-components") == {
        f"ICA {k + 1}": f"{formatted(x)} sd" for k, x in enumerate(expected)
    }
    labels = [action["label"] for action in memory.manifest["agents"][0]["actions"]]
    assert bars(visitor, "behaviour-actions") == {
        label: formatted(share) for label, share in zip(labels, arrays["actions"][0], strict=True)
    }


def test_a_behavior_clip_plays_while_it_has_focus(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("behaviours")
    clip = visitor.by("behaviour-2").get_by_test_id("clip").first
    frame = str(memory.chunks["behaviours"]["clips"][1, 0, 1])
    assert clip.get_attribute("data-shown") == frame
    clip.get_by_role("button").focus()
    visitor.page.wait_for_function(
        "frame => document.activeElement.closest('[data-testid=clip]').dataset.shown !== frame", arg=frame
    )
    visitor.page.evaluate("document.activeElement.blur()")
    assert clip.get_attribute("data-shown") == frame


def colored(matrix: np.ndarray, limit: float) -> np.ndarray:
    """The colors (D, D, 3) of a matrix."""
    share = np.clip(matrix / limit, -1, 1)[..., None]
    ends = np.where(share < 0, NEGATIVE, POSITIVE)
    return np.asarray(SURFACE + np.abs(share) * (ends - SURFACE))


def test_matrix_colors_match_the_stored_numbers(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("causes")
    visitor.by("causes-lag").select_option(label="4")
    arrays, lag = memory.chunks["causes"], LAGS.index(4)
    both = [arrays[name][lag] for name in ("correlation", "influence")]
    off = ~np.eye(len(both[0]), dtype=bool)
    for name, matrix in zip(("correlation", "influence"), both, strict=True):
        shown = read_canvas(visitor.by(f"matrix-{name}"))[..., :3]
        np.testing.assert_allclose(shown, colored(matrix, np.abs(matrix[off]).max()), atol=1)
    large = [np.abs(matrix) >= 0.1 * np.abs(matrix).max() for matrix in both]
    agree = np.sign(both[0]) * (large[0] & large[1] & (both[0] * both[1] > 0))
    np.testing.assert_allclose(read_canvas(visitor.by("matrix-agreement"))[..., :3], colored(agree, 1), atol=1)
    visitor.by("causes-cluster").select_option(label="behaviour 2")
    visitor.by("causes-path").wait_for(state="detached")  # the world's influence is not known by cluster
    matrix = arrays["correlation.by"][1, lag]
    shown = read_canvas(visitor.by("matrix-correlation"))[..., :3]
    np.testing.assert_allclose(shown, colored(matrix, np.abs(matrix[off]).max()), atol=1)


def test_arrow_keys_read_matrix_entries_in_words(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("causes")
    visitor.page.get_by_role("group", name="Correlation:").focus()
    frame = visitor.state()["frame"]
    visitor.press("ArrowRight", "ArrowRight", "ArrowRight")
    arrays = memory.chunks["causes"]
    low, high = arrays["correlation.interval"][0, 0, 3]
    text = visitor.text("causes-read")
    assert text.startswith("ICA 1 at t, ICA 4 1 step later: correlation ")
    assert f"{arrays['correlation'][0, 0, 3]:.2f}".replace("-", "−") in text
    assert f"({low:.2f} to {high:.2f})".replace("-", "−") in text
    assert f"influence through memory {arrays['influence'][0, 0, 3]:.2f}".replace("-", "−") in text
    assert visitor.state()["frame"] == frame, "arrows stay in the matrix"
    visitor.press("Enter")
    assert visitor.state()["components"] == [0, 3]


def test_the_share_of_agreement_is_shown_beside_its_null_distribution(show: Callable[..., Visitor]) -> None:
    visitor = show("causes")
    assert "92 % of the entries" in visitor.text("consistency-text").replace("\u202f", " ")
    assert visitor.text("consistency-text").endswith("more than by chance.")
    visitor.by("causes-lag").select_option(label="8")
    assert visitor.text("consistency-text").endswith("no more than by chance.")


def test_the_memory_panel_shows_the_half_life_of_a_change(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("remembering")
    curves = memory.chunks["memory"]["policy"]
    lines = visitor.by("replay").locator("[data-line]")
    expect(lines).to_have_count(3)
    lags = [int(np.argmax(curve < curve[0] / 2)) for curve in curves]
    sentences = visitor.by("replay-sentences").locator("li")
    assert [
        f"below half of it after {lag} steps" in sentences.nth(i).inner_text() for i, lag in enumerate(lags[:3])
    ] == [True] * 3
    visitor.page.get_by_label("without ICA 1").check()
    expect(lines).to_have_count(4)
    visitor.by("replay-measure").select_option("same_action")
    expect(sentences).to_have_count(0)


def test_the_interventions_tab_compares_measures_and_shows_a_clip(show: Callable[..., Visitor]) -> None:
    visitor = show("interventions")
    cells = visitor.by("intervention-table").locator("tbody tr").first.locator("td").all_inner_texts()
    assert [" ".join(cell.split()) for cell in cells] == [
        "return",
        "6.50",
        "3.25",
        "−3.25 (−3.65 to −2.85)",
        "0.0400",
        "−1.63",
        "0.571",
    ]
    film = visitor.by("film")
    expect(film.locator("img")).to_have_count(0)
    film.get_by_role("button").click()
    assert film.locator("img").get_attribute("src")
    film.get_by_role("button").click()
    visitor.click("intervention-2")
    expect(visitor.by("film")).to_have_count(0)


def test_the_simulator_tab_begins_with_its_quality(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("simulator")
    assert "prior beats the copy of the last frame at all 16 horizons" in visitor.text("verdicts")
    assert "0.61" in visitor.text("simulator-facts")
    compass = memory.manifest["sections"][-1]["data"]["compass"]
    arrow = visitor.by("arrow-3")
    assert [float(arrow.get_attribute(f"data-{axis}") or "nan") for axis in "xy"] == compass["displacements"][2]
    expect(visitor.by("errors").locator("[data-line]")).to_have_count(5)
    visitor.by("error-mean_frame").uncheck()
    expect(visitor.by("errors").locator("[data-line]")).to_have_count(4)


def read_table(visitor: Visitor, name: str) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """A table as CSV and as JSON."""
    table, entries = (visitor.saved(f"export-{name}-{kind}").read_text() for kind in ("csv", "json"))
    return list(csv.DictReader(table.splitlines())), json.loads(entries)


def test_tables_of_the_open_tab_are_exported(show: Callable[..., Visitor], memory: MemoryPage) -> None:
    visitor = show("causes")
    visitor.click("open-export")
    rows, entries = read_table(visitor, "causes")
    arrays = memory.chunks["causes"]
    count = arrays["correlation"].size
    assert len(rows) == len(entries) == count + arrays["correlation.by"].size
    np.testing.assert_allclose([float(row["correlation"]) for row in rows[:count]], arrays["correlation"].ravel())
    np.testing.assert_allclose(
        [row["influence through memory"] for row in entries[:count]], arrays["influence"].ravel()
    )
    visitor.page.evaluate("rlClarity.select({tab: 'remembering'})")
    _, entries = read_table(visitor, "memory")
    np.testing.assert_allclose([row["value"] for row in entries], memory.chunks["memory"]["value"].ravel())
    for tab, name, length in (
        ("components", "components", 5),
        ("behaviours", "behaviours", 3),
        ("simulator", "simulator", 240),
    ):
        visitor.page.evaluate("tab => rlClarity.select({tab})", tab)
        rows, entries = read_table(visitor, name)
        assert len(rows) == len(entries) == length
    visitor.click("open-export")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_memory_tabs_pass_accessibility_checks(open_page: Open, memory: MemoryPage, axe: str, scheme: str) -> None:
    visitor = open_page(memory.directory, color_scheme=scheme)
    for tab in TABS:
        visitor.page.evaluate("tab => rlClarity.select({tab})", tab)
        visitor.by(f"panel-{tab}").wait_for()
        assert violations(visitor, axe) == [], tab


def test_memory_tabs_fit_a_narrow_window(open_page: Open, memory: MemoryPage) -> None:
    visitor = open_page(memory.directory, viewport={"width": 390, "height": 844})
    for tab in TABS:
        visitor.page.evaluate("tab => rlClarity.select({tab})", tab)
        visitor.by(f"panel-{tab}").wait_for()
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390, tab


def test_tabs_without_data_show_the_command_that_computes_it(open_page: Open, tmp_path: Path) -> None:
    def without(manifest: dict[str, Any]) -> None:
        states = manifest["sections"][1]["data"]
        states.update(causes=None, memory=None, behaviours=None, skipped={"causes": "the longest episode has 2 steps"})
        del manifest["sections"][4]

    write_memory_page(tmp_path, with_simulator=False, edit=without)
    visitor = open_page(tmp_path)
    for tab, expected in (
        ("behaviours", "rl-clarity memory"), ("causes", "the longest episode has 2 steps"),
        ("remembering", "rl-clarity memory"), ("interventions", "--interventions.swap-from"),
        ("simulator", "rl-clarity simulate"),
    ):  # fmt: skip
        visitor.page.evaluate("tab => rlClarity.select({tab})", tab)
        visitor.by(f"panel-{tab}").wait_for()
        assert expected in visitor.text("missing"), tab
    visitor.page.evaluate("rlClarity.select({tab: 'components'})")
    expect(visitor.by("direction-1")).to_have_count(1)

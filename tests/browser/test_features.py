"""A feature on the page: its name, its examples, its facts; and the table of all features."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.pages.results import open_results
from tests.browser.drawn import SIDE
from tests.browser.generated import Generated
from tests.browser.pages import Visitor
from tests.browser.synthetic import K, read_chunk

Open = Callable[..., Visitor]
LAYER = "2b"
POSITIONS = 32
EFFECTIVE = {"y": 8, "x": 6}
"""The effective receptive field of the synthetic page's layers."""


def name_feature(visitor: Visitor, name: str) -> None:
    field = visitor.by("feature-name").first
    field.fill(name)
    field.press("Enter")


def test_a_feature_name_appears_wherever_the_feature_does(synthetic: Path, open_page: Open, tmp_path: Path) -> None:
    visitor = open_page(synthetic, f"?layer={LAYER}&feature=2")
    name = "<b>coin</b> & co"
    name_feature(visitor, name)
    assert name in visitor.text("legend-2")
    column = visitor.by("decomposition").first.locator('[data-channel="1"]')
    assert name in str(column.text_content())
    column.hover()
    assert str(column.get_attribute("title")).startswith(f"{name} (2): ")
    assert visitor.by("viewer-channel-2").get_attribute("aria-label") == f"{name} (2)"
    visitor.page.wait_for_function("() => location.search.includes('name=')")
    address = visitor.page.url
    assert parse_qs(urlsplit(address).query)["name"] == [f"{LAYER}~2~{name}"]
    visitor.click("all-features")
    assert visitor.by("table").locator("input").nth(1).input_value() == name
    visitor.press("f")
    visitor.by("find-kind").select_option("channel")
    assert f"{name} (2)" in visitor.by("find-channel").inner_text()
    visitor.press("e")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        assert f"{LAYER} {name} (2) positive" in next(csv.reader(file))

    visitor.goto(f"?layer={LAYER}")
    assert name in visitor.text("legend-2"), "kept by the browser"
    other = open_page(synthetic, "?" + urlsplit(address).query)
    assert name in other.text("legend-2"), "in the link"


def test_feature_names_are_exported_with_notes_and_renaming_can_be_undone(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer={LAYER}&feature=2")
    name_feature(visitor, "coin")
    visitor.press("n")
    saved = visitor.saved("notes-export")
    assert json.loads(saved.read_text())["feature_names"] == {LAYER: {"2": "coin"}}
    visitor.press("Escape", "u", "u")
    assert "coin" not in visitor.text("legend-2")
    visitor.press("n")
    visitor.by("notes-import").set_input_files(saved)
    visitor.page.wait_for_function("() => document.querySelector('[data-testid=legend-2]').innerText.includes('coin')")


@pytest.mark.slow
def test_two_tabs_of_a_page_share_notes_settings_and_names(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer={LAYER}&feature=2")
    tabs = [visitor, Visitor(visitor.page.context.new_page(), synthetic)]
    tabs[1].goto(f"?layer={LAYER}&feature=3")
    for number, name in enumerate(["enemy", "saw"]):
        name_feature(tabs[number], name)
        tabs[1 - number].page.wait_for_function(f"() => JSON.stringify(rlClarity.state().names).includes('{name}')")
    assert [visitor.state()["names"] for visitor in tabs] == [{LAYER: {"2": "enemy", "3": "saw"}}] * 2
    for visitor in tabs:
        visitor.press("n")
    for number, visitor in enumerate(tabs):
        visitor.by("note-text").fill(f"Note {number}")
        visitor.click("note-add")
        notes = tabs[1 - number].by("notes").locator("textarea")
        expect(notes).to_have_count(number + 1)
    tabs[0].page.get_by_role("button", name="Theme: system").click()
    tabs[1].page.get_by_role("button", name="Theme: light").wait_for()


@pytest.mark.parametrize("kind", ["excites", "raises", "lowers", "middle", "lowest"])
def test_dataset_examples_have_a_box_at_their_peak_activation(synthetic: Path, open_page: Open, kind: str) -> None:
    visitor = open_page(synthetic, f"?layer={LAYER}&feature=3")
    visitor.click(f"tab-{kind}")
    arrays = read_chunk(synthetic, f"features/{LAYER}/grids.js")
    places = arrays[f"{kind}.value" if kind in ("raises", "lowers") else kind][2]
    visitor.page.wait_for_function("() => document.querySelectorAll('[data-testid=example][data-box]').length === 12")
    shown = visitor.by("example")
    for index, place in enumerate(places):
        row, column = divmod(int(place[-1]), POSITIONS)
        unit = SIDE / POSITIONS
        box = (shown.nth(index).get_attribute("data-box") or "").split()
        left, top, width, height = (float(number) for number in box)
        for low, length, at, extent in ((top, height, row, EFFECTIVE["y"]), (left, width, column, EFFECTIVE["x"])):
            start, end = (at + 0.5) * unit - extent / 2, (at + 0.5) * unit + extent / 2
            assert low == pytest.approx(max(0, start), abs=0.1)
            assert low + length == pytest.approx(min(SIDE, end), abs=0.1)
        crop = [float(number) for number in (shown.nth(index).get_attribute("data-crop") or "").split()]
        assert crop[2:] == [3 * EFFECTIVE["x"], 3 * EFFECTIVE["y"]]
    if kind == "raises":
        visitor.click("example-2")
        visitor.by("whole-observation").get_by_role("button", name="trajectory").click()
        state = visitor.state()
        assert [state["trajectory"], state["frame"]] == places[1, :2].tolist()


def test_effect_histograms_color_frames_where_a_feature_raises_the_output(
    generated: Generated, open_page: Open
) -> None:
    layer, results = "Relu_1", open_results(generated.directory)
    totals = [results.totals(layer, trajectory)["value"].totals[:, :K].sum(axis=-1) for trajectory in (0, 1)]
    net = np.concatenate(totals)
    limit = np.median(np.abs(net), axis=0) / 5
    visitor = open_page(generated.directory, f"?layer={layer}&feature=1")
    for k in range(K):
        visitor.click(f"viewer-channel-{k + 1}")
        visitor.page.wait_for_function(f"rlClarity.state().feature.channel === {k}")
        sentence = re.search(r"raises it in (\S+) % of frames, lowers it in (\S+) %", visitor.text("feature-facts"))
        assert sentence
        shown = [float(number) for number in sentence.groups()]
        shares = [100 * (net[:, k] > limit[k]).mean(), 100 * (net[:, k] < -limit[k]).mean()]
        assert shown == pytest.approx(shares, abs=0.51)
        bars = str(visitor.by("histogram").last.locator("svg").get_attribute("aria-label"))
        counts = [int(count) for count in bars.split(": ")[1].split(" in ")[0].split(", ")]
        for number, half in zip(shown, (counts[len(counts) // 2 :], counts[: len(counts) // 2]), strict=True):
            assert number > 5 or sum(half) < sum(counts) / 3, "bars that are common are not 0 % of frames"


def test_the_feature_table_can_be_sorted(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer={LAYER}")
    visitor.press("l")
    table = visitor.by("table")
    table.wait_for()
    stability = np.array([round(0.6 + (k * 3 % K) / 20, 2) for k in range(K)])
    table.get_by_role("button", name="Stability").click()
    buttons = table.locator("[data-testid^=table-feature]")
    order = buttons.evaluate_all("all => all.map(e => Number(e.dataset.testid.slice(14)))")
    assert order == (np.argsort(stability, kind="stable") + 1).tolist()
    assert table.evaluate("e => e.scrollHeight <= e.clientHeight"), "it is as tall as its rows"
    assert "feature 3" in table.locator("tbody tr", has=visitor.by("table-feature-1")).inner_text(), "its twin"
    visitor.by("table-feature-6").click(modifiers=["Alt"])
    assert visitor.state()["solo"] == {"layer": 3, "channel": 5}
    expect(visitor.by("table"), "no feature is opened").to_be_visible()
    visitor.click("table-feature-4")
    assert visitor.by("viewer-channel-4").get_attribute("aria-pressed") == "true"
    assert visitor.state()["feature"] == {"layer": 3, "channel": 3}


def test_a_feature_can_be_shown_on_a_separate_page(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?panel=feature&layer={LAYER}&feature=5", wait=False)
    visitor.by("example").first.wait_for()
    assert visitor.page.locator("[data-panel]").evaluate_all("all => all.map(e => e.dataset.panel)") == ["feature"]
    visitor.by("viewer-channel-5").focus()
    visitor.press("ArrowRight")
    assert visitor.by("viewer-channel-6").get_attribute("aria-pressed") == "true"
    visitor.page.wait_for_function("() => location.search.includes('feature=6')")
    assert "panel=feature" in visitor.page.url
    visitor.by("tab-excites").focus()
    visitor.press("ArrowRight")
    assert visitor.by("examples").get_attribute("data-kind") == "raises"
    visitor.page.emulate_media(media="print")
    expect(visitor.by("feature-facts")).to_be_visible()
    expect(visitor.by("example").first).to_be_visible()
    expect(visitor.by("tab-excites")).to_be_hidden()


def test_opening_a_feature_changes_the_address_and_can_be_undone(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer={LAYER}")
    visitor.by("legend-2").locator(".card").click()
    visitor.page.wait_for_function("() => location.search.includes('feature=2')")
    visitor.press("Escape")
    visitor.page.wait_for_function("() => !location.search.includes('feature=')")
    visitor.press("u")
    assert visitor.by("viewer-channel-2").get_attribute("aria-pressed") == "true"

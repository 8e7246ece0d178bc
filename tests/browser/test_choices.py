"""What is chosen is what is shown: colors, rows of their own layer and trajectory, conditions, speed, keys."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageColor
from playwright.sync_api import expect

from tests.browser.pages import Visitor, first_image, read_canvas
from tests.browser.synthetic import K, Size, read_chunk, write_synthetic_page

Open = Callable[..., Visitor]


@pytest.mark.parametrize(
    ("color", "scheme", "wanted", "ink"),
    [
        ("blue", "light", "#2563c9", "white"),
        ("blue", "dark", "#7fb0ff", "black"),
        ("purple", "light", "purple", "white"),
        ("#ffd700", "dark", "#ffd700", "black"),
        ("no color", "light", "#2f5bb7", "white"),
    ],
)
def test_the_selected_trajectory_has_the_color_set_by_the_option(
    with_view: Callable[..., Path], open_page: Open, color: str, scheme: str, wanted: str, ink: str
) -> None:
    visitor = open_page(with_view(trajectory_color=color), "?trajectory=2", color_scheme=scheme)
    computed = "(e, name) => getComputedStyle(e)[name].match(/\\d+/g).slice(0, 3).map(Number)"
    chosen, other = visitor.by("trajectory-2"), visitor.by("trajectory-1")
    rgb = list(ImageColor.getrgb(wanted))
    assert chosen.evaluate(computed, "borderTopColor") == rgb
    assert chosen.locator(".number").evaluate(computed, "backgroundColor") == rgb
    assert chosen.locator(".number").evaluate(computed, "color") == list(ImageColor.getrgb(ink))
    assert other.evaluate(computed, "borderTopColor") != rgb


def test_the_first_row_is_exported_with_its_own_layer_and_trajectory(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30&rows=value~4a~2")
    visitor.press("e")
    files: dict[str, bytes] = {}
    for testid in ("export-png", "export-csv"):
        with visitor.page.expect_download() as download:
            visitor.click(testid)
        files[download.value.suggested_filename] = download.value.path().read_bytes()
    assert list(files) == ["trajectory-2-frame-30-4a.png", "trajectory-2.csv"]
    image = np.asarray(Image.open(io.BytesIO(files["trajectory-2-frame-30-4a.png"])).convert("RGB"))
    assert np.array_equal(first_image(image), read_canvas(visitor.by("observation-canvas"))[..., :3])
    header, *rows = csv.reader(io.StringIO(files["trajectory-2.csv"].decode()))
    assert not any(name.startswith("2b ") for name in header)
    row = dict(zip(header, rows[29], strict=True))
    totals = read_chunk(synthetic, "attribution/4a/2/totals.js")["totals.value"][29]
    shown = [float(row[f"4a feature {k + 1} {sign}"]) for k in range(K) for sign in ("positive", "negative")]
    assert row["trajectory"] == "2"
    assert shown == pytest.approx(totals[:K].ravel().tolist(), rel=1e-5, abs=1e-7)
    advantages = read_chunk(synthetic, "trajectories/2/series.js")["advantages"]
    assert float(row["advantage"]) == pytest.approx(float(advantages[29]))


def test_the_search_offers_only_features_of_the_selected_layer(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b")
    visitor.press("f")
    visitor.by("find-kind").select_option("channel")
    visitor.by("find-channel").select_option("7")
    visitor.by("find-layer").select_option(label="input")
    expect(visitor.by("find-channel").locator("option")).to_have_count(3)
    assert visitor.by("find-channel").input_value() == "0"
    visitor.click("find-go")
    totals = [read_chunk(synthetic, f"attribution/input/{i}/totals.js")["totals.value"] for i in (1, 2, 3)]
    count = sum(int((total[:, 0].sum(-1) > 0).sum()) for total in totals)
    visitor.by("find-count").wait_for()
    assert visitor.text("find-count").startswith(f"{count} frame")


def test_the_search_asks_for_a_number_if_the_field_is_empty(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.press("f")
    visitor.by("find-value").fill("")
    visitor.click("find-go")
    assert "Enter a number" in visitor.by("drawer").get_by_role("alert").inner_text()
    assert visitor.by("find-value").get_attribute("aria-invalid") == "true"
    expect(visitor.by("find-count")).to_have_count(0)
    visitor.by("find-value").fill("0")
    visitor.click("find-go")
    visitor.by("find-count").wait_for()
    expect(visitor.by("drawer").get_by_role("alert")).to_have_count(0)


def test_hovering_a_bar_highlights_only_features_of_its_layer(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30&rows=value,value~4a")
    active = visitor.page.locator("[data-testid^=legend-].active")
    charts = visitor.by("decomposition")
    charts.nth(0).locator("[data-channel='2']").hover()
    assert active.evaluate_all("all => all.map(e => e.dataset.testid)") == ["legend-3"]
    charts.nth(1).locator("[data-channel='2']").hover()
    expect(charts.nth(1).locator(".faint"), "other features, residual and completeness error").to_have_count(K + 1)
    expect(active, "feature 3 of another layer").to_have_count(0)
    charts.nth(1).locator("[data-channel='2']").click()
    expect(visitor.page.locator(".card.opened")).to_have_count(0)


def test_the_frames_per_second_field_limits_its_value(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    field = visitor.page.get_by_label("fps")
    for typed, kept in (("500", "60"), ("500", "60"), ("-3", "1"), ("", "1"), ("24", "24")):
        field.fill(typed)
        field.press("Enter")
        assert field.input_value() == kept


def test_single_letter_keys_can_be_switched_off(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?trajectory=2")
    visitor.press("]")
    assert visitor.state()["trajectory"] == 2
    visitor.press("?")
    visitor.page.get_by_label("use single letters as shortcuts").uncheck()
    visitor.page.evaluate("document.activeElement.blur()")
    visitor.press("[", "[", ".", "f")
    assert (visitor.state()["trajectory"], visitor.by("drawer").get_attribute("data-panel")) == (2, "help")
    visitor.press("ArrowRight")
    assert visitor.frame() == 2


def test_selected_channels_are_kept_separately_for_each_layer(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a&frame=30&rows=value,value~2b")
    whole = [visitor.attribution("pos", row) for row in (0, 1)]
    for channel in "23456":
        visitor.press(channel)
    visitor.settle()
    assert np.abs(visitor.attribution("pos", 0) - whole[0]).max() > 20
    assert np.array_equal(visitor.attribution("pos", 1), whole[1]), "another layer's row shows all of its own"
    chosen = visitor.attribution("pos", 0)
    visitor.click("layer-2b")
    visitor.press(*"123456")
    visitor.by("row-layer-0").select_option(label="layer 4a")
    assert np.array_equal(visitor.attribution("pos", 0), chosen), "the choice stays with its layer"
    assert np.abs(visitor.attribution("pos", 1) - whole[1]).max() > 20
    assert visitor.text("row-channels-0") == f"{K - 5} of {K} features show all"
    visitor.page.wait_for_url("**channels=7.8%2C4a%7E1.7.8**")
    visitor.page.reload()
    assert np.array_equal(visitor.attribution("pos", 0), chosen)
    visitor.by("row-channels-0").get_by_role("button").click()
    assert np.array_equal(visitor.attribution("pos", 0), whole[0])
    expect(visitor.by("row-channels-0")).to_have_count(0)


def test_timeline_zoom_can_be_undone_and_is_restored_from_the_address(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.well("film").hover(position=visitor.place("film", 0))
    visitor.page.keyboard.down("Control")
    for _ in range(6):
        visitor.page.mouse.wheel(0, -10)
    visitor.page.keyboard.up("Control")
    visitor.page.wait_for_function("() => rlClarity.state().visible < 80")
    visible = visitor.state()["visible"]
    visitor.page.wait_for_url(f"**visible={visible}")
    visitor.page.reload()
    visitor.settle()
    assert visitor.state()["visible"] == visible
    well = visitor.well("advantage")
    well.click(position=visitor.place("advantage", 10, visible))
    assert visitor.frame() == 40
    visitor.stop_clock()
    visitor.page.get_by_role("button", name="Show more time").click()
    assert visitor.state()["visible"] == 2 * visible
    visitor.page.clock.run_for(1100)
    for _ in range(6):
        visitor.page.get_by_role("button", name="Show more time").click()
    assert visitor.state()["visible"] == 200, "no more than to show the whole trajectory"
    visitor.press("u")
    assert visitor.state()["visible"] == 2 * visible, "what was turned at a stretch is one step"
    visitor.press("u")
    assert visitor.state()["visible"] == visible
    visitor.press("y")
    assert visitor.state()["visible"] == 2 * visible


def test_the_palette_can_be_undone_and_is_restored_from_the_address(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    usual = visitor.attribution("pos")
    visitor.click("more-options")
    visitor.by("palette").select_option("safe")
    safe = visitor.attribution("pos")
    assert np.abs(safe - usual).max() > 20
    visitor.page.wait_for_url("**palette=safe")
    visitor.press("Escape")
    visitor.page.get_by_role("button", name="Undo").click()
    assert np.array_equal(visitor.attribution("pos"), usual)
    visitor.page.get_by_role("button", name="Redo").click()
    assert np.array_equal(visitor.attribution("pos"), safe)
    revisit(visitor, "?layer=2b&frame=30", palette="safe")
    assert np.array_equal(visitor.attribution("pos"), safe)
    visitor.goto("?layer=2b&frame=30&palette=standard")
    assert visitor.state()["palette"] == "standard", "a link shows what it says"
    assert np.array_equal(visitor.attribution("pos"), usual)
    revisit(visitor, "?layer=2b&frame=30", palette="safe")


def revisit(visitor: Visitor, query: str, *, palette: str) -> None:
    """Open the page anew until it has a palette, since a busy Chromium shows a new document an old state of storage.

    In such a state, the tour opens: the end of the tour would store the old settings again.
    """
    for _ in range(3):
        visitor.toured = False
        visitor.goto(query)
        visitor.toured = True
        if visitor.state()["palette"] == palette:
            return
    stored = visitor.page.evaluate("JSON.stringify({...localStorage})")
    pytest.fail(f"the palette is not {palette}; the browser stores {stored}")


def test_equivalent_actions_are_merged_until_the_user_separates_them(
    tmp_path: Path, small_size: Size, open_page: Open
) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["agents"][0]["equivalent_actions"] = [[4, 9, 10]]

    write_synthetic_page(tmp_path, small_size, edit=edit)
    arrays = read_chunk(tmp_path, "trajectories/1/series.js")
    frame = int(np.flatnonzero(np.isin(arrays["actions"], (4, 9, 10)))[0])
    visitor = open_page(tmp_path, f"?frame={frame + 1}")
    shares = arrays["probabilities"][frame]
    taken = visitor.page.locator("div:has(> dd > [data-testid=next-action])").locator(".after")
    assert percent(taken.inner_text()) == pytest.approx(100 * shares[[4, 9, 10]].sum(), abs=0.5)
    segments = visitor.by("policy").locator("[data-action]")
    together = visitor.by("policy").get_by_title("no-op, D, A")
    assert (segments.count(), together.count()) == (9, 1)
    share = float(together.evaluate("e => e.style.flexGrow"))
    visitor.click("separate-actions")
    expect(segments).to_have_count(11)
    grown = [float(segments.nth(k).evaluate("e => e.style.flexGrow")) for k in (4, 9, 10)]
    assert sum(grown) == pytest.approx(share, rel=1e-4)
    assert percent(taken.inner_text()) == pytest.approx(100 * shares[arrays["actions"][frame]], abs=0.5)


def percent(text: str) -> float:
    return float(text.replace("%", "").strip())


def test_the_cause_of_an_episode_end_is_shown_and_searchable(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        (entry,) = manifest["sections"][0]["data"]["trajectories"]
        entry["episodes"] = [
            {"frame": 0, "steps": 8, "return": 0.0, "end": "done", "cause": "saw"},
            {"frame": 8, "steps": 12, "return": 10.0, "end": "done", "cause": "level completed"},
        ]
        manifest["sections"][0]["data"]["bookmarks"] = {
            "high": [], "low": [{"trajectory": 0, "frame": frame, "advantage": -2.0} for frame in (5, 15)],
        }  # fmt: skip

    write_synthetic_page(tmp_path, small_size, edit=edit)
    visitor = open_page(tmp_path)
    assert [line.split()[-1] for line in visitor.by("episodes").locator("li").all_inner_texts()] == ["saw", "completed"]
    for cause, last in (("level completed", 20), ("saw", 8)):  # a click on the end of an episode goes to it
        visitor.by("episodes").get_by_role("button", name=cause, exact=True).click()
        assert visitor.frame() == last
    visitor.by("episodes").get_by_role("button").first.click()
    assert visitor.frame() == 1
    causes = visitor.by("bookmarks-low").locator(".ellipsis")
    assert causes.all_inner_texts() == ["trajectory 1, saw", "trajectory 1, level completed"]
    assert visitor.text("bookmarks-low").startswith("frame 6 ")
    assert causes.evaluate_all("all => all.every(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)")
    visitor.press("f")
    visitor.by("find-kind").select_option("ended")
    visitor.by("find-which").select_option("level-completed")
    visitor.click("find-go")
    visitor.by("find-count").wait_for()
    assert visitor.state()["find"]["conditions"][0]["which"] == "level-completed"
    visitor.press("Escape", "g")
    visitor.settle()
    assert visitor.frame() == 20
    assert "level completed" in visitor.by("episode").locator("xpath=..").inner_text()
    visitor.press("ArrowLeft")
    assert "level completed" not in visitor.by("episode").locator("xpath=..").inner_text()

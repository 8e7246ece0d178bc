"""Interaction beyond the original page: undo, channels, find, notes, exports, themes and help."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.pages import FIGURE_MARGIN, Visitor, first_image, read_canvas, screenshot
from tests.browser.synthetic import K, read_chunk

Open = Callable[..., Visitor]


def test_changes_of_the_view_can_be_undone_and_redone(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.click("layer-3a")
    visitor.by("residual").uncheck()
    visitor.page.get_by_role("button", name="Undo").click()
    assert visitor.state()["residual"]
    visitor.press("u")
    expect(visitor.page.get_by_role("heading", name="Features of layer 2b")).to_be_visible()
    visitor.press("Control+Shift+Z")
    expect(visitor.page.get_by_role("heading", name="Features of layer 3a")).to_be_visible()


def test_any_subset_of_channels_can_be_shown(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    together = visitor.attribution("pos")
    strongest = int(read_chunk(synthetic, "attribution/2b/1/totals.js")["totals.value"][29, :K, 0].argmax())
    visitor.by(f"legend-{strongest + 1}").get_by_role("checkbox").uncheck()
    other = (strongest + 1) % K
    visitor.press(str(other + 1))
    left = [k for k in range(K) if k not in (strongest, other)]
    assert visitor.state()["channels"] == {"3": left}
    visitor.page.mouse.move(5, 700)
    assert np.abs(visitor.attribution("pos") - together).max() > 50
    visitor.page.wait_for_url(f"**channels={'.'.join(str(k + 1) for k in left)}**")
    visitor.click("all-channels")
    assert visitor.state()["channels"] == {}


def test_threshold_opacity_smoothing_and_scale_change_the_overlay(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.click("more-options")
    plain = visitor.attribution("pos")[..., 3]
    visitor.by("threshold").fill("0.5")
    strong = visitor.attribution("pos")[..., 3]
    assert ((strong == 0) | (strong >= 126)).all()
    assert 0 < (strong > 0).sum() < (plain > 0).sum()
    visitor.by("threshold").fill("0")
    visitor.by("smooth").uncheck()
    rough = visitor.attribution("pos")[..., 3]
    assert ((rough > 0) == (plain > 0)).all(), "smoothing leaves empty positions empty"
    assert np.abs(rough - plain).max() > 5, "only what is within 2 pixels of the observation is averaged"
    visitor.by("scale").select_option("frame")
    assert visitor.attribution("pos")[..., 3].max() >= 254
    visitor.by("opacity").fill("0.4")
    assert float(visitor.overlay("pos").evaluate("c => getComputedStyle(c).opacity")) == pytest.approx(0.4)


def test_the_color_blind_palette_changes_hues_but_not_opacity(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    before = visitor.attribution("pos")
    visitor.click("more-options")
    visitor.by("palette").select_option("safe")
    assert np.abs(visitor.attribution("pos")[..., :3] - before[..., :3]).max() > 20
    assert np.abs(visitor.attribution("pos")[..., 3] - before[..., 3]).mean() < 20


def test_the_page_shows_the_attribution_under_the_pointer(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    chunk = read_chunk(synthetic, "attribution/2b/1/value-1.js")
    codes = chunk["codes"][29].astype(float) / 127
    values = codes * np.abs(codes) * chunk["scales"][29]
    row, column = np.unravel_index(np.abs(values).max(-1).argmax(), values.shape[:2])
    box = visitor.overlay("pos").bounding_box()
    assert box
    visitor.page.mouse.move(box["x"] + box["width"] * (column + 0.5) / 32, box["y"] + box["height"] * (row + 0.5) / 32)
    shown = visitor.text("read-out").replace("−", "-")
    assert f"row {row + 1}, column {column + 1}" in shown
    strongest = int(np.abs(values[row, column]).argmax())
    number, value = shown.split("sum ")[1].split()[1:3]
    assert number == str(strongest + 1)
    assert float(value) == pytest.approx(values[row, column, strongest], rel=6e-3)


def test_tracks_show_totals_and_probabilities_over_time(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    totals = read_chunk(synthetic, "attribution/2b/1/totals.js")
    track = visitor.track("decomposition")

    def shown() -> float:
        return float(track.locator(".value").inner_text().replace("−", "-"))

    assert shown() == pytest.approx(totals["gap.value"][29, 2], rel=6e-3)
    colors = {tuple(color) for color in read_canvas(track.locator("canvas"))[..., :3].reshape(-1, 3)}
    assert len(colors) > K, "a part has its color"
    visitor.by("decomposition").locator("[data-channel='0']").hover()
    assert shown() == pytest.approx(totals["totals.value"][29, 0].sum(), rel=6e-3, abs=1e-6), "one feature alone"
    peak = int(totals["gap.value"][:60, 2].argmax())
    visitor.well("decomposition").click(position=visitor.place("decomposition", peak - 29))
    assert visitor.frame() == peak + 1, "a click on a peak leads there"
    visitor.by("totals-over-time").uncheck()
    expect(track).to_have_count(0)
    visitor.page.get_by_label("probabilities over time").check()
    assert len(np.unique(read_canvas(visitor.track("band").locator("canvas"))[..., 0])) > 4


def test_the_timeline_can_be_zoomed_and_shows_frames_on_hover(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=50")
    well = visitor.well("advantage")
    visitor.page.get_by_role("button", name="Show less time").click()
    well.hover(position=visitor.place("advantage", 10, 50))
    assert visitor.text("hover-read-out").startswith("frame 60 ")
    assert visitor.by("frame-preview").locator("canvas").get_attribute("data-frame") == "0/59"
    well.click(position=visitor.place("advantage", 10, 50))
    assert visitor.frame() == 60


def left(firsts: np.ndarray) -> np.ndarray:
    """The steps until the last one of each step's episode; -1 where its end is not known."""
    ends = np.flatnonzero(firsts) - 1
    return np.array([min(ends[ends >= t], default=t - 1) - t for t in range(len(firsts))])


@pytest.mark.parametrize("kind", ["reward", "action", "first", "left", "channel", "jump"])
def test_the_search_finds_frames_for_each_kind_of_condition(synthetic: Path, open_page: Open, kind: str) -> None:
    visitor = open_page(synthetic, "?layer=2b")
    visitor.press("f")
    visitor.by("find-kind").select_option(kind)
    if kind == "action":
        visitor.by("find-action").select_option("7")
    visitor.click("find-go")
    series = [read_chunk(synthetic, f"trajectories/{i}/series.js") for i in (1, 2, 3)]
    totals = [read_chunk(synthetic, f"attribution/2b/{i}/totals.js")["totals.value"] for i in (1, 2, 3)]
    conditions: dict[str, Callable[[int], np.ndarray]] = {
        "reward": lambda i: series[i]["rewards"] > 0,
        "action": lambda i: series[i]["actions"] == 7,
        "first": lambda i: series[i]["firsts"] > 0,
        "left": lambda i: left(series[i]["firsts"]) > 0,
        "channel": lambda i: totals[i][:, 0].sum(-1) > 0,
        "jump": lambda i: (np.diff(series[i]["values"], prepend=np.inf) > 0) & (series[i]["firsts"] == 0),
    }
    matches = conditions[kind]
    count = sum(int(np.count_nonzero(matches(i))) for i in range(3))
    assert visitor.text("find-count").startswith(f"{count} frame")
    visitor.by("find-results").get_by_role("button").nth(2).click()
    visitor.settle()
    state = visitor.state()
    assert matches(state["trajectory"])[state["frame"]]
    visitor.page.wait_for_function("() => document.querySelector('[data-testid=find-results] canvas')?.dataset.frame")


def test_attribution_of_several_layers_is_shown_side_by_side(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30&rows=value,value~4a,value~~2")
    assert visitor.attribution("pos", 0).shape[0] == 32
    assert visitor.attribution("pos", 1).shape[0] == 8
    charts = visitor.by("decomposition")
    assert [charts.nth(row).locator("img").count() for row in range(3)] == [0, K, 0], "features that the legend lacks"
    visitor.press("ArrowRight")
    visitor.settle()
    frames = visitor.by("observation-canvas").evaluate_all("all => all.map(c => c.dataset.frame)")
    assert frames == ["0/30", "1/30"], "they scrub together, and rows of one trajectory share its observation"
    visitor.click("more-options")
    visitor.by("columns").check()
    tops = visitor.by("row").evaluate_all("all => all.map(r => r.getBoundingClientRect().left)")
    assert tops[0] < tops[1]
    visitor.by("row-layer-1").select_option(label="layer 1a")
    assert visitor.attribution("pos", 1).shape[0] == 64


def test_the_trust_panel_shows_errors_and_provenance(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?frame=30")
    visitor.press("t")
    rows = visitor.by("gaps").locator("tbody tr")
    visitor.page.wait_for_function("() => document.querySelectorAll('[data-testid=gaps] svg').length === 5")
    gap = read_chunk(synthetic, "attribution/1a/1/totals.js")["gap.value"].astype(float)
    relative = np.abs(gap[:, 0] - gap[:, 1]) / np.abs(gap[:, 1]).mean()
    shown = [float(text.split("\u202f")[0]) for text in rows.first.locator("td").all_inner_texts()[1:3]]
    assert shown[1] == pytest.approx(100 * relative[29], rel=0.02, abs=0.6)
    missing = dict(row.split("\t")[:2] for row in visitor.by("missing").locator("tbody").inner_text().splitlines())
    assert missing["reconstruction error"] == "31\u202f%"
    assert {"residual", "together"} <= missing.keys()
    text = visitor.by("drawer").inner_text()
    assert "coinrun.jd" in text
    assert "bottleneck_only\ntrue\nops\nrelu" in text, "dictionaries are rows, not JSON"


def test_notes_are_kept_exported_and_imported(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=3a&trajectory=2&frame=30")
    visitor.press("n")
    visitor.by("note-text").fill("The agent <b>hesitates</b>")
    visitor.click("note-add")
    saved = visitor.saved("notes-export")
    note = json.loads(saved.read_text())["notes"][0]
    assert note["query"] == "?layer=3a&trajectory=2&frame=30"
    visitor.goto("?frame=5")
    visitor.press("n")
    assert visitor.by("notes").locator("textarea").input_value() == "The agent <b>hesitates</b>", (
        "the browser keeps them"
    )
    visitor.by("notes").get_by_role("button", name="trajectory 2, frame 30").first.click()
    assert visitor.state()["frame"] == 29
    visitor.page.get_by_role("button", name="Delete the note").click()
    expect(visitor.by("notes").locator("textarea")).to_have_count(0)
    visitor.by("notes-import").set_input_files(saved)
    visitor.by("notes").locator("textarea").wait_for()


def test_a_note_on_a_feature_links_back_to_it(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=3a&frame=30&feature=4")
    assert visitor.by("viewer-channel-4").get_attribute("aria-pressed") == "true"
    visitor.press("n")
    visitor.by("note-feature").check()
    visitor.by("note-text").fill("Edges of platforms")
    visitor.click("note-add")
    visitor.click("layer-4a")
    visitor.by("notes").get_by_role("button", name="feature 4 of layer 3a").first.click()
    assert visitor.by("viewer-channel-4").get_attribute("aria-pressed") == "true"
    expect(visitor.page.get_by_role("heading", name="Features of layer 3a")).to_be_visible()


def test_the_page_exports_images_and_tables(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.press("e")

    image = np.asarray(Image.open(visitor.saved("export-png")).convert("RGB"))
    assert image.shape[1] >= 3 * 256 + 2 * 4 + 2 * FIGURE_MARGIN, "beside the images are the strongest features alone"
    observation = read_canvas(visitor.by("observation-canvas"))[..., :3]
    assert np.array_equal(first_image(image), observation)
    visitor.by("export-from").fill("10")
    visitor.by("export-to").fill("14")
    animation = Image.open(visitor.saved("export-apng"))
    assert getattr(animation, "n_frames", 1) == 5
    rows = list(csv.reader(io.StringIO(visitor.saved("export-csv").read_text("utf-8"))))
    assert len(rows) == 101
    series = read_chunk(synthetic, "trajectories/1/series.js")
    assert float(rows[30][rows[0].index("advantage")]) == pytest.approx(series["advantages"][29])
    assert "2b feature 8 negative" in rows[0]


def test_a_link_to_the_current_view_can_be_copied(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=3a&frame=7", permissions=["clipboard-read", "clipboard-write"])
    visitor.press("c")
    visitor.page.wait_for_function("() => document.querySelector('[role=status]').textContent !== ''")
    link = visitor.page.evaluate("navigator.clipboard.readText()")
    assert link == (synthetic / "interface.html").resolve().as_uri() + "?layer=3a&trajectory=1&frame=7"


_IN_VIEW = """element => {
  const { left, top, width, height } = element.getBoundingClientRect();
  return [1, height / 2, height - 1].every((down) => {
    const above = document.elementFromPoint(left + width / 4, top + down);
    return above && element.parentElement.contains(above);
  });
}"""


def test_the_introductory_tour_is_offered_once(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, toured=False)
    assert "Timeline" in visitor.text("tour")
    visitor.click("tour-next")
    assert "Attribution" in visitor.text("tour")
    visitor.click("tour-skip")
    visitor.goto()
    expect(visitor.by("tour")).to_have_count(0)
    visitor.press("?")
    visitor.click("start-tour")
    expect(visitor.by("tour")).to_be_visible()
    visitor.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    last = visitor.page.locator("main [data-panel]").last.bounding_box()
    tour = visitor.by("tour").bounding_box()
    assert last
    assert tour
    assert last["y"] + last["height"] <= tour["y"]  # the page's end can be scrolled to where the tour does not cover it
    visitor.press("Escape")
    expect(visitor.by("tour")).to_have_count(0)
    assert visitor.page.evaluate("document.body.style.paddingBottom") == ""


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1440, 900)])
def test_the_tour_does_not_cover_the_panel_it_explains(
    synthetic: Path, open_page: Open, width: int, height: int
) -> None:
    visitor = open_page(synthetic, toured=False, viewport={"width": width, "height": height})
    while True:
        panel, tour = visitor.page.locator(".toured").bounding_box(), visitor.by("tour").bounding_box()
        assert panel
        assert tour
        assert tour["x"] >= 0
        assert tour["x"] + tour["width"] <= width
        assert tour["y"] + tour["height"] <= height
        across = min(panel["x"] + panel["width"], tour["x"] + tour["width"]) - max(panel["x"], tour["x"])
        down = min(panel["y"] + panel["height"], tour["y"] + tour["height"]) - max(panel["y"], tour["y"])
        assert min(across, down) <= 0, visitor.text("tour")
        if not visitor.by("tour-next").count():
            break
        visitor.click("tour-next")


def test_on_phones_the_tour_keeps_titles_and_first_images_in_view(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, toured=False, viewport={"width": 390, "height": 844})
    while visitor.by("tour-next").count():
        visitor.click("tour-next")
        shown = [visitor.page.locator(".toured h2")]
        if "Attribution" in visitor.text("tour"):
            shown += [visitor.by("observation-canvas"), visitor.by("attribution-canvas").first]
        for locator in shown:
            assert locator.evaluate(_IN_VIEW), visitor.text("tour")


def test_the_outline_of_a_panel_in_the_tour_is_not_cut_off(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.by("panel-legend").evaluate("panel => panel.classList.add('toured')")
    room = visitor.page.locator(".toured").evaluate(
        """panel => {
          const [inner, outer] = [panel, panel.parentElement].map((element) => element.getBoundingClientRect());
          return [inner.left - outer.left, inner.top - outer.top, outer.right - inner.right];
        }"""
    )
    assert min(room) >= 7, "its width and distance"


def test_help_shows_keys_and_every_panel_explains_itself(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.press("?")
    assert "play or pause" in visitor.text("keys")
    visitor.press("Escape")
    expect(visitor.by("drawer")).to_have_count(0)
    for name in ("Trajectories", "Bookmarks", "Timeline", "Outputs", "Attribution"):
        button = visitor.page.get_by_role("button", name=f"What {name} shows", exact=True)
        button.click()
        assert button.get_attribute("aria-expanded") == "true"
    visitor.press("Escape")
    expect(visitor.page.locator(".help")).to_have_count(0)


def test_opening_a_side_panel_does_not_scroll_the_page(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, viewport={"width": 1366, "height": 768})
    title = visitor.page.locator("#title-outputs")
    title.evaluate("title => scrollBy(0, title.getBoundingClientRect().top - innerHeight / 2)")
    before = title.bounding_box()
    for _ in range(2):
        visitor.press("t")
        after = title.bounding_box()
        assert before
        assert after
        assert abs(after["y"] - before["y"]) < 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_chosen(synthetic: Path, open_page: Open, scheme: str) -> None:
    visitor = open_page(synthetic, color_scheme=scheme)
    brightness = screenshot(visitor.page.locator("header").first).mean()
    assert (brightness > 128) == (scheme == "light")
    visitor.click("theme")
    visitor.click("theme")
    assert visitor.page.evaluate("document.documentElement.dataset.theme") == "dark"
    visitor.page.reload()
    visitor.settle()
    assert visitor.page.evaluate("document.documentElement.dataset.theme") == "dark", "it is kept"


@pytest.mark.parametrize("width", [1024, 390])
def test_the_page_works_in_narrow_windows(synthetic: Path, open_page: Open, width: int) -> None:
    visitor = open_page(synthetic, "?frame=30", viewport={"width": width, "height": 800})
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    visitor.click("open-find")
    expect(visitor.by("find-go")).to_be_visible()
    visitor.click("close-drawer")
    visitor.click("layer-4a")
    assert visitor.attribution("pos").shape[0] == 8


def test_key_presses_update_the_image_before_the_next_repaint(synthetic: Path, open_page: Open) -> None:
    """No timer, worker or unpacking delays the image; benchmarks/page measures its milliseconds."""
    visitor = open_page(synthetic, "?layer=1a&frame=10")
    shown = visitor.page.evaluate(
        """async () => {
          const canvas = document.querySelector('[data-testid=attribution-canvas]');
          const shown = [];
          for (let i = 0; i < 20; i += 1) {
            window.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
            for (let microtasks = 0; microtasks < 100; microtasks += 1) await Promise.resolve();
            shown.push(canvas.dataset.frame.split('/').at(-1));
            await new Promise(requestAnimationFrame);
          }
          return shown;
        }"""
    )
    assert shown == [str(frame) for frame in range(10, 30)]  # the address counts from 1

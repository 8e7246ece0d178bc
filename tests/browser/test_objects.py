"""The panel Objects: boxes over the observation, effects in a frame beside attribution, types, frames and tracks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from rl_clarity.analyses.objects.section import EndingObject
from tests.browser.object_pages import CELL, FINDINGS, TYPES, ObjectPage, write_object_page
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, read_chunk, write_synthetic_page

Open = Callable[..., Visitor]
FRAME = 8  # counted from 0: measured, with a coin
MARGIN = 1 / 32


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ObjectPage:
    return write_object_page(tmp_path_factory.mktemp("objects"))


def number(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-"))


def rows_here(visitor: Visitor) -> list[list[str]]:
    """The first line of each cell of the frame's list."""
    rows = visitor.by("objects-here").locator("tbody tr")
    rows.first.wait_for()
    return [[cell.strip().split("\n")[0] for cell in row.locator("th, td").all_inner_texts()] for row in rows.all()]


def boxes(visitor: Visitor) -> Locator:
    return visitor.page.locator("[data-testid=row] [data-testid=object-box]")


def test_boxes_surround_the_objects_of_the_frame(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory, f"?frame={FRAME + 1}")
    expect(boxes(visitor)).to_have_count(0)
    visitor.press("x")
    boxes(visitor).first.wait_for()
    here = page.here(0, FRAME)
    chunk = page.chunks[0]
    image = visitor.by("observation-canvas").bounding_box()
    assert image
    expect(boxes(visitor)).to_have_count(len(here))
    for i in here:
        box = visitor.page.locator(f"[data-testid=row] [data-testid=object-box][data-track='{chunk['track'][i]}']")
        assert box.inner_text() == f"{TYPES[chunk['type'][i]]} {chunk['track'][i] + 1}"
        shown = box.bounding_box()
        assert shown
        left, top, right, bottom = np.clip(chunk["box"][i], 0, 64) / 64
        assert shown["x"] - image["x"] == pytest.approx(left * image["width"], abs=1)
        assert shown["y"] - image["y"] == pytest.approx(top * image["height"], abs=1)
        assert shown["width"] == pytest.approx((right - left) * image["width"], abs=1)
        assert shown["height"] == pytest.approx((bottom - top) * image["height"], abs=1)


def test_boxes_are_positioned_within_the_observed_region(tmp_path: Path, open_page: Open) -> None:
    page = write_object_page(tmp_path, region=[0.5, 0, 1, 0.5])
    visitor = open_page(tmp_path, f"?frame={FRAME + 1}&objects=1")
    boxes(visitor).first.wait_for()
    image, chunk = visitor.by("observation-canvas").bounding_box(), page.chunks[0]
    track = chunk["track"][page.here(0, FRAME)[1]]
    shown = visitor.page.locator(f"[data-testid=row] [data-testid=object-box][data-track='{track}']").bounding_box()
    assert image
    assert shown
    left, top = chunk["box"][page.here(0, FRAME)[1], :2] / 64
    assert (shown["x"] - image["x"]) / image["width"] == pytest.approx(left / 2, abs=0.01)
    assert (shown["y"] - image["y"]) / image["height"] == pytest.approx(0.5 + top / 2, abs=0.01)
    assert shown["width"] == pytest.approx(CELL / 128 * image["width"], abs=1)


def test_the_list_shows_effects_on_the_selected_output_and_attribution(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory, f"?frame={FRAME + 1}")
    chunk = page.chunks[0]
    values = attribution(page.directory, FRAME)
    here = sorted(page.here(0, FRAME), key=lambda i: -abs(chunk["effect.value"][i]))
    shown = rows_here(visitor)
    assert [row[0].split()[0] for row in shown[: len(here)]] == [TYPES[chunk["type"][i]] for i in here]
    for row, i in zip(shown, here, strict=False):
        assert number(row[1]) == pytest.approx(chunk["effect.value"][i], rel=0.06)
        assert number(row[2]) == pytest.approx(chunk["policy"][i], rel=0.06)
        assert number(row[3]) == pytest.approx(place_sum(values, chunk["box"][i]), rel=0.06, abs=2e-3)
    assert {row[0] for row in shown[len(here) :]} == {"saw, all 2", "crate, all 4"}
    visitor.page.evaluate("rlClarity.select({ rows: [{ output: 'action-7', layer: null, trajectory: null }] })")
    visitor.page.wait_for_function(
        "() => document.querySelector('[data-testid=panel-objects]').innerText.includes('logits')"
    )
    ordered = sorted(here, key=lambda i: -abs(chunk["effect.action-7"][i]))
    assert [number(row[1]) for row in rows_here(visitor)[: len(here)]] == pytest.approx(
        [float(chunk["effect.action-7"][i]) for i in ordered], rel=0.06, abs=1e-4
    )


def attribution(directory: Path, frame: int) -> np.ndarray:
    """The attribution of the value at layer 2a, summed over channels (16, 16)."""
    arrays = read_chunk(directory, "attribution/2a/1/value-1.js")
    codes = arrays["codes"][frame].astype(float)
    return np.asarray((np.sign(codes) * (codes / 127) ** 2 * arrays["scales"][frame]).sum(-1))


def place_sum(values: np.ndarray, box: np.ndarray) -> float:
    left, top, right, bottom = box / 64
    edges = np.arange(17) / 16

    def share(low: float, high: float) -> np.ndarray:
        overlap = np.minimum(high + MARGIN, edges[1:]) - np.maximum(low - MARGIN, edges[:-1])
        return np.asarray(16 * np.clip(overlap, 0, None))

    return float(share(top, bottom) @ values @ share(left, right))


def test_a_frame_without_measurements_links_to_the_nearest_one_with(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory, "?frame=12")  # 11 counted from 0
    visitor.by("objects-nearest").get_by_role("button").click()
    assert visitor.frame() == 13
    assert len(rows_here(visitor)) > 5
    visitor.page.evaluate("rlClarity.select({ trajectory: 2 })")
    panel = visitor.by("panel-objects")
    panel.get_by_text("No frame of trajectory 3 was measured.").wait_for()


def test_pages_without_object_effects_have_no_objects_panel_or_key(
    tmp_path: Path, open_page: Open, small_size: Size
) -> None:
    write_synthetic_page(tmp_path, small_size)
    visitor = open_page(tmp_path)
    expect(visitor.by("panel-objects")).to_have_count(0)
    expect(visitor.by("panel-findings")).to_have_count(0)
    visitor.press("?")
    assert "boxes around objects" not in visitor.text("keys")


def test_a_finding_opens_its_frame_with_the_effects_measured_there(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory)
    panels = visitor.page.locator("main [data-testid^=panel-]").evaluate_all("all => all.map((p) => p.dataset.testid)")
    assert panels[:3] == ["panel-timeline", "panel-findings", "panel-attribution"]
    assert panels.index("panel-not_found") > panels.index("panel-objects")
    rows = visitor.by("panel-findings").locator("tbody tr")
    expect(rows).to_have_count(len(FINDINGS))
    for row, finding in zip(rows.all(), FINDINGS, strict=True):
        button = row.get_by_role("button")
        assert button.inner_text() == finding["statement"]
        button.click()
        place = visitor.state()
        assert (place["trajectory"], place["frame"]) == (finding["trajectory"], finding["frame"])
        assert "here" in (row.get_attribute("class") or "")
        assert finding["subject"] in {cells[0].split()[0] for cells in rows_here(visitor)}
        expect(visitor.by("objects-nearest")).to_have_count(0)


def test_the_objects_panel_says_which_frames_were_measured(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory)
    assert "every 4 steps, and the last 30 before each end" in visitor.text("objects-facts")


def test_object_types_have_effect_bars_and_plots_by_distance(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory)
    table = visitor.by("objects-types").locator("tbody tr")
    assert [row.locator("th").inner_text() for row in table.all()] == [one.name for one in page.section.types]
    for row, one in zip(table.all(), page.section.types, strict=True):
        assert row.locator("td").nth(0).inner_text() == str(one.count)
        assert one.value
        assert number(row.locator("td").nth(1).inner_text().split()[0]) == pytest.approx(one.value.mean, rel=0.06)
        expect(row.locator(".interval")).to_have_count(2)
    distances = visitor.by("objects-distances")
    assert distances.locator("svg").evaluate_all("all => all.map((one) => one.dataset.testid)") == [
        "distance-crate",
        "distance-saw",
    ], "too few coins to divide them"
    dots = distances.get_by_test_id("distance-saw").locator("circle")
    before = [float(dot.get_attribute("cy") or 0) for dot in dots.all()]
    assert len(before) == 3
    visitor.by("distance-measure").select_option("policy")
    assert [float(dot.get_attribute("cy") or 0) for dot in dots.all()] != before


def test_clicking_an_object_type_lists_its_frames_by_effect(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory)
    visitor.by("objects-types").get_by_role("button", name="saw").click()
    frames = visitor.by("objects-frames")
    best: dict[tuple[int, int], float] = {}
    for trajectory, frame, effect in page.effects("saw"):
        best[trajectory, frame] = max(best.get((trajectory, frame), 0), effect, key=abs)
    ordered = sorted(best, key=lambda place: -abs(best[place]))
    visitor.page.wait_for_function("() => location.search.includes('type=saw')")
    counted = f"{len(page.effects('saw'))} objects in {len(best)} frames"
    frames.get_by_text(counted).wait_for()
    buttons = frames.locator("ol button")
    places = [" ".join(text.split()) for text in buttons.all_inner_texts()]
    assert [place.split(" −")[0] for place in places] == [
        f"trajectory {t + 1} / , frame {f + 1}" for t, f in ordered[: len(places)]
    ]
    trajectory, frame = next(place for place in ordered if place[0] == 1)
    visitor.page.wait_for_timeout(600)  # changes in quick succession are one place
    buttons.nth(ordered.index((trajectory, frame))).click()
    state = visitor.state()
    assert (state["trajectory"], state["frame"]) == (trajectory, frame)
    shown = [one.inner_text() for one in boxes(visitor).all()]
    assert sorted(shown) == ["saw 1", "saw 2"], "boxes of the type alone"
    visitor.click("objects-mark")
    assert visitor.track("film").get_attribute("data-marks") == str(sum(t == 1 for t, _ in best))
    visitor.page.wait_for_function("() => location.search.includes('trajectory=2')")
    visitor.page.go_back()
    visitor.page.wait_for_function("() => rlClarity.state().trajectory === 0")
    expect(visitor.by("objects-frames")).to_have_count(1)
    visitor.page.go_back()
    visitor.page.wait_for_function("() => rlClarity.state().type === null")
    expect(visitor.by("objects-frames")).to_have_count(0)


def test_the_object_that_ended_the_episode_is_marked(tmp_path: Path, open_page: Open) -> None:
    page = write_object_page(tmp_path, ended=[EndingObject(1, FRAME + 4)])
    visitor = open_page(page.directory, f"?frame={FRAME + 1}&objects=1")
    names = visitor.by("objects-here").locator("tbody tr button")
    names.first.wait_for()
    assert {"saw 1", "saw 2, ended the episode", "coin 7"} <= set(names.all_inner_texts())
    boxes(visitor).first.wait_for()
    assert "saw 2, ended the episode" in boxes(visitor).all_inner_texts()


def test_effects_of_a_selected_object_are_shown_over_time(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory, f"?frame={FRAME + 1}")
    coin = visitor.by("objects-here").get_by_role("button", name="coin")
    coin.click()
    assert coin.get_attribute("aria-pressed") == "true"
    assert boxes(visitor).all_inner_texts() == ["coin 7"]
    chunk = page.chunks[0]
    effects = {int(chunk["frame"][i]): float(chunk["value"][i]) for i in np.flatnonzero(chunk["track"] == 6)}

    def shown(name: str) -> str:
        return visitor.track(name).locator(".value").inner_text()

    assert number(shown("object-effect")) == pytest.approx(effects[FRAME], rel=0.01)
    visitor.page.evaluate(f"rlClarity.select({{ frame: {FRAME + 2} }})")
    assert number(shown("object-effect")) == pytest.approx(effects[FRAME], rel=0.01), "until the next measured frame"
    visitor.page.evaluate(f"rlClarity.select({{ frame: {FRAME + 5} }})")
    assert shown("object-effect") == "–", "there is no coin"
    visitor.click("remove-object")
    expect(visitor.by("objects-track")).to_have_count(0)


def test_the_address_restores_boxes_object_type_and_object(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory, f"?frame={FRAME + 1}&objects=1&type=saw&object=1~7")
    visitor.by("objects-track").wait_for()
    state = visitor.state()
    assert (state["objects"], state["type"], state["object"]) == (True, 1, {"trajectory": 0, "track": 6})
    visitor.press("ArrowRight")
    visitor.page.wait_for_function("() => location.search.includes('frame=10')")
    query = visitor.page.evaluate("location.search")
    for part in ("objects=1", "type=saw", "object=1%7E7"):
        assert part in query
    expect(visitor.by("objects-frames")).to_have_count(1)
    visitor.goto("?type=dragon&object=9~1", wait=True)
    state = visitor.state()
    assert (state["type"], state["object"]) == (None, None)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_objects_panel_is_accessible_and_fits_its_window(
    page: ObjectPage, open_page: Open, axe: str, scheme: str, width: int
) -> None:
    query = f"?frame={FRAME + 1}&objects=1&type=saw&object=1~1"
    visitor = open_page(page.directory, query, color_scheme=scheme, viewport={"width": width, "height": 900})
    visitor.by("objects-track").wait_for()
    visitor.page.evaluate(axe)
    found = visitor.page.evaluate("axe.run('[data-testid=panel-objects]').then(({ violations }) => violations)")
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    wide = visitor.by("panel-objects").evaluate(
        "panel => [...panel.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)"
    )
    assert max(wide) <= 0, "no table scrolls"
    small = visitor.by("panel-objects").evaluate(
        """panel => [...panel.querySelectorAll('button, select')]
          .filter((one) => one.offsetParent && Math.min(one.clientWidth, one.clientHeight) < 23.9)
          .map((one) => one.outerHTML)"""
    )
    assert small == []


def test_effects_of_objects_can_be_exported(page: ObjectPage, open_page: Open) -> None:
    visitor = open_page(page.directory, f"?frame={FRAME + 1}")
    visitor.press("e")
    text = exported(visitor, "objects")
    header, *lines = text.strip().split("\r\n")
    chunk = page.chunks[0]
    assert header.split(",")[-3:] == ["effect on value function", "effect on action →", "effect on actions with RIGHT"]
    assert len(lines) == len(chunk["frame"]) + len(chunk["together.frame"])
    cells = lines[page.here(0, FRAME)[0]].split(",")
    assert cells[:5] == ["1", str(FRAME + 1), "saw", "1", "1"]
    assert float(cells[-3]) == pytest.approx(float(chunk["value"][page.here(0, FRAME)[0]]), rel=1e-5)
    types = exported(visitor, "object-types").strip().split("\r\n")
    assert [line.split(",")[0] for line in types] == ["type", "crate", "saw", "coin"]
    assert exported(visitor, "charts").count("<circle") == 6


def exported(visitor: Visitor, name: str) -> str:
    return visitor.saved(f"export-{name}").read_bytes().decode()

"""The page of an agent's memory: chooser, player, causes through time, state map, bars, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.jobs.directory import LocalDirectory
from tests.browser.memory_pages import COLUMNS, LENGTHS, ROWS, WINDOW, MemoryPage, settle, write_memory_page
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import write_chunk
from tests.browser.test_accessibility import violations
from tests.browser.training_pages import LABELS

Open = Callable[..., Visitor]
COLORS = {
    ("value", "standard"): ((240, 68, 68), (15, 187, 187)),
    ("policy", "standard"): ((68, 68, 230), (187, 187, 25)),
    ("value", "safe"): ((230, 159, 0), (204, 121, 167)),
}
"""Colors of what raises and what lowers a target."""


def values(page: MemoryPage, window: int, target: int, path: str) -> np.ndarray:
    """What a window's chunk says, decoded (n, h, w)."""
    arrays = page.windows[window]
    if path == "world":
        return values(page, window, target, "whole") - values(page, window, target, "memory")
    return np.asarray(arrays[path][target] * (arrays[f"{path}.scale"][target] / 127))


def strip_image(visitor: Visitor, frame: int) -> np.ndarray:
    """The grid over a frame of the strip (64, 64, 4), not premultiplied."""
    step = visitor.page.locator(f"[data-testid=strip-step][data-frame='{frame}']")
    step.scroll_into_view_if_needed()
    canvas = step.get_by_test_id("strip-canvas")
    visitor.page.wait_for_function(
        f"""() => document.querySelector("[data-testid=strip-step][data-frame='{frame}'] "
            + "[data-testid=strip-canvas]")?.dataset.frame?.endsWith("/{frame}")"""
    )
    return read_canvas(canvas)


def at_cells(image: np.ndarray) -> np.ndarray:
    """The pixels beside the middles of the grid's cells (h, w, 4)."""
    size = image.shape[0] // ROWS
    middle = image.reshape(ROWS, size, COLUMNS, size, 4)
    return np.asarray(middle[:, size // 2 - 1 : size // 2 + 1, :, size // 2 - 1 : size // 2 + 1].mean((1, 3)))


def bars(visitor: Visitor, testid: str) -> list[float]:
    rows = visitor.by(testid).locator("tr")
    numbers: list[float] = rows.evaluate_all("rows => rows.map((row) => Number(row.dataset.value))")
    return numbers


def test_the_memory_page_opens_with_the_first_window(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory()
    assert (visitor.state()["window"], visitor.state()["frame"]) == (0, LENGTHS[0] // 2)
    t = LENGTHS[0] // 2
    series, facts = memory.series[0], visitor.text("facts")
    assert visitor.text("step-number") == str(t + 1)
    taken = series["actions"][t]
    assert f"{100 * series['probabilities'][t, taken]:.0f}" in facts
    shown = float(facts.split("value ")[1].split()[0].replace("\u2212", "-"))
    assert shown == pytest.approx(series["values"][t], rel=0.01)
    assert f"behavior {memory.coordinates[0]['behaviour'][t] + 1}" in facts


def test_the_page_shows_what_ended_episodes(open_memory: Open, tmp_path: Path) -> None:
    def with_cause(manifest: dict[str, Any]) -> None:
        trajectories, windows = (
            next(one["data"][one["kind"]] for one in manifest["sections"] if one["kind"] == kind)
            for kind in ("trajectories", "windows")
        )
        trajectories[0]["episodes"][0]["cause"] = "saw"
        trajectories[2]["episodes"][0]["end"] = "cut"
        last = LENGTHS[0] - 1
        windows[1] |= {"frame": last, "first": last - WINDOW + 1, "why": [{"kind": "end"}]}

    page = write_memory_page(tmp_path, edit=with_cause)
    visitor = open_memory(f"?episode=1&step={LENGTHS[0]}", page)
    options = visitor.by("episode").locator("option").all_inner_texts()
    assert options[:3] == [
        f"episode {k + 1} · {LENGTHS[k]} steps{end}" for k, end in enumerate((" · saw", " · done", ""))
    ]
    assert f"end saw step {LENGTHS[0]}" in visitor.text("facts")
    assert "last step (saw)" in visitor.by("windows").locator("[data-window='1']").inner_text()
    tiles = visitor.by("strip-step").all_inner_texts()
    assert ["saw" in tile for tile in tiles] == [False] * (WINDOW - 1) + [True]
    visitor.by("search").fill("saw")
    expect(visitor.by("window-count")).to_contain_text("1 of")
    visitor.by("episode").select_option("2")
    expect(visitor.by("facts")).not_to_contain_text("end")


@pytest.mark.parametrize(
    ("target", "path", "palette"),
    [("value", "memory", "standard"), ("direction-3", "world", "standard"), ("value", "whole", "safe")],
)
def test_colors_of_the_strip_match_the_stored_attribution(
    open_memory: Open, memory: MemoryPage, target: str, path: str, palette: str
) -> None:
    visitor = open_memory(f"?episode=1&step=31&target={target}&path={path}&palette={palette}")
    grids = values(memory, 0, {"value": 0, "direction-3": 2}[target], path)
    raising, lowering = COLORS["value" if target == "value" else "policy", palette]
    for back in (0, 3):
        grid = np.clip(grids[WINDOW - 1 - back] / np.abs(grids[:-1]).max(), -1, 1)
        pixels = at_cells(strip_image(visitor, 30 - back))
        assert np.abs(pixels[..., 3] / 255 - np.abs(grid)).max() < 0.12
        for sign, color in ((1, raising), (-1, lowering)):
            clear = sign * grid > 0.3
            assert clear.any()
            assert np.abs(pixels[clear][:, :3] - color).max() < 6
    steps = visitor.by("strip-step").evaluate_all("all => all.map((one) => [+one.dataset.raises, +one.dataset.lowers])")
    wanted = np.stack([np.maximum(grids, 0).sum((1, 2)), np.maximum(-grids, 0).sum((1, 2))], 1)
    np.testing.assert_allclose(steps, wanted, rtol=1e-4, atol=1e-6)


def test_strip_bars_are_scaled_without_the_explained_step(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory("?episode=1&step=31&target=value")
    sums = np.abs(values(memory, 0, 0, "memory")).sum((1, 2))
    assert sums[-1] > sums[:-1].max()
    highest = visitor.by("strip-step").nth(int(np.argmax(sums[:-1])))
    for step in (highest, visitor.by("strip-step").last):
        bars_of = step.locator(".bars span").evaluate_all("all => all.map((one) => parseFloat(one.style.height))")
        assert sum(bars_of) == pytest.approx(100, abs=0.1)
    expect(visitor.by("cut-bar")).to_have_count(1)
    assert "is cut off" in visitor.text("strip-scale")


def test_an_illustrated_example_explains_the_strip(open_memory: Open) -> None:
    visitor = open_memory("?episode=1&step=31&target=value")
    example = visitor.by("strip-example")
    assert not example.locator("svg").is_visible()
    example.locator("summary").click()
    assert example.locator("svg").is_visible()
    assert [item.split(",")[0].split(":")[0] for item in example.locator("li").all_inner_texts()] == [
        "\N{MINUS SIGN}2", "\N{MINUS SIGN}1", "explained",
    ]  # fmt: skip
    assert "raises \u201cvalue function\u201d" in example.inner_text()


def test_the_state_map_does_not_cover_the_tabs(open_memory: Open) -> None:
    visitor = open_memory("?episode=1&step=31")
    visitor.page.set_viewport_size({"width": 1366, "height": 768})
    visitor.page.evaluate("scrollTo(0, 800)")
    tabs = visitor.page.get_by_role("tablist").bounding_box()
    side = visitor.page.locator(".legend").bounding_box()
    assert tabs
    assert side
    assert side["y"] + side["height"] <= tabs["y"]


def test_bars_show_component_coordinates_and_their_causes(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory("?episode=1&step=31&target=action&path=whole")
    scales = np.concatenate([one["coordinates"] for one in memory.coordinates]).std(0)
    np.testing.assert_allclose(bars(visitor, "bars-now"), memory.coordinates[0]["coordinates"][30] / scales, rtol=1e-4)
    components = memory.windows[0]["whole.components"][1]
    np.testing.assert_allclose(bars(visitor, "bars-caused"), components.sum(0), rtol=1e-4, atol=1e-5)
    visitor.page.locator("[data-testid=strip-step][data-frame='28']").hover()
    np.testing.assert_allclose(bars(visitor, "bars-caused"), components[WINDOW - 3], rtol=1e-4)
    assert "at step 29" in visitor.text("bars-caused")


def test_bars_of_the_world_path_are_the_total_minus_the_memory_path(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory("?episode=1&step=31&target=value&path=world")
    arrays = memory.windows[0]
    components = arrays["whole.components"][0] - arrays["memory.components"][0]
    np.testing.assert_allclose(bars(visitor, "bars-caused"), components.sum(0), rtol=1e-4, atol=1e-5)
    visitor.page.locator("[data-testid=strip-step][data-frame='28']").hover()
    np.testing.assert_allclose(bars(visitor, "bars-caused"), components[WINDOW - 3], rtol=1e-4, atol=1e-5)


def test_clicking_a_bar_name_selects_its_component_and_track(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory()
    names = visitor.by("bars-now").get_by_role("button")
    names.nth(2).click()
    names.nth(4).click(modifiers=["Shift"])
    assert visitor.state()["components"] == [2, 4]
    scales = np.concatenate([one["coordinates"] for one in memory.coordinates]).std(0)
    for k in (2, 4):
        shown = visitor.track(f"component-{k + 1}").locator(".value").inner_text()
        wanted = memory.coordinates[0]["coordinates"][30, k] / scales[k]
        assert float(shown.replace("\u2212", "-")) == pytest.approx(wanted, rel=0.01)


def test_the_color_band_shows_the_behavior_cluster_of_each_step(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory()
    image = read_canvas(visitor.track("band").locator("canvas"))
    steps = np.arange(LENGTHS[0])
    columns = ((steps + 0.5) * image.shape[1] / LENGTHS[0]).astype(int)
    pixels = image[image.shape[0] // 2, columns]
    hues = np.array([(230, 159, 0), (86, 180, 233), (0, 158, 115)])
    labels = memory.coordinates[0]["behaviour"]
    assert (pixels[labels < 0, 3] == 0).all()
    assert np.abs(pixels[labels >= 0, :3] - hues[labels[labels >= 0]]).max() <= 3
    visitor.by("band").select_option("cluster")
    assert visitor.state()["band"] == "cluster"
    cluster = memory.coordinates[0]["cluster"][LENGTHS[0] // 2] + 1
    assert visitor.track("band").locator(".value").inner_text() == str(cluster)


def test_actions_have_one_color_and_one_name_everywhere(
    open_page: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def make_gray(manifest: dict[str, Any]) -> None:
        labels = [*LABELS, *(f"button {k}" for k in range(11))]
        manifest["agents"][0]["actions"] = [
            {"label": label, "combo": [label], "color": f"#{16 * (k + 1) - 1:02x}" + f"{16 * (k + 1) - 1:02x}" * 2}
            for k, label in enumerate(labels)
        ]
        simulator = next(one["data"] for one in manifest["sections"] if one["kind"] == "simulator")
        simulator["compass"]["actions"] = ["none", "LEFT", "RIGHT", "A"]

    page = write_memory_page(tmp_path_factory.mktemp("gray"), edit=make_gray)
    visitor = open_page(page.directory, "?tab=simulator", wait=False)
    settle(visitor)
    swatches = visitor.by("action-key").locator("i")
    colors = swatches.evaluate_all("all => all.map((one) => getComputedStyle(one).backgroundColor)")
    assert len(set(colors)) == 15
    rgb = np.array([[int(level) for level in color[4:-1].split(",")] for color in colors])
    image = read_canvas(visitor.track("policy").locator("canvas"))
    t = 3
    column = int((t + 0.5) * image.shape[1] / LENGTHS[0])
    edges = np.concatenate([[0], page.series[0]["probabilities"][t].cumsum()])
    for k in np.flatnonzero(np.diff(edges) > 0.2):
        row = int((edges[k] + 0.03) * image.shape[0])
        assert np.abs(image[row, column, :3] - rgb[k]).max() <= 3
    arrow = visitor.by("arrow-3")
    assert arrow.evaluate("one => getComputedStyle(one).stroke") == colors[2]
    assert str(arrow.locator("title").text_content()).startswith("\u2192:")
    visitor.press("2")
    names = visitor.by("behaviour-actions").first.locator("th").all_inner_texts()
    assert {*names} <= {*LABELS}


def test_clicking_a_frame_of_the_strip_goes_to_its_step(open_memory: Open) -> None:
    visitor = open_memory("?episode=1&step=31")
    visitor.page.locator("[data-testid=strip-step][data-frame='28'] button").first.click()
    state = visitor.state()
    assert (state["frame"], state["window"]) == (28, 0)
    expect(visitor.by("strip-step")).to_have_count(WINDOW)


def test_the_strip_shows_frames_of_the_comparison_episode_below(open_memory: Open) -> None:
    visitor = open_memory("?episode=1&step=31")
    assert "Compared with the frames of episode 2 at the same steps" in visitor.text("caption")
    button = visitor.page.locator("[data-testid=strip-step][data-frame='28'] button").last
    expect(button).to_contain_text("ep. 2")
    button.click()
    state = visitor.state()
    assert (state["trajectory"], state["frame"]) == (1, 28)


def test_steps_without_a_window_link_to_the_nearest_window(open_memory: Open) -> None:
    visitor = open_memory("?episode=1&step=5")
    assert "Step 5 of episode 1 is in no window" in visitor.text("no-window")
    assert "--windows.at 1:5," in visitor.text("no-window")
    assert "no window" in visitor.text("bars-caused")
    visitor.click("to-nearest")
    assert (visitor.state()["window"], visitor.state()["frame"]) == (0, 30)
    visitor.page.get_by_role("button", name="Undo").click()
    assert visitor.state()["frame"] == 4


def test_a_window_that_lacks_the_target_offers_other_targets(open_memory: Open) -> None:
    visitor = open_memory("?episode=2&step=46&target=direction-3")
    assert "does not explain \u201cICA 4\u201d" in visitor.text("no-target")
    visitor.by("no-target").get_by_role("button", name="action taken").click()
    assert visitor.state()["target"] == "action"
    expect(visitor.by("strip-step")).to_have_count(WINDOW)


def test_outliers_are_drawn_at_the_border_of_the_state_map(
    open_page: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The first step of each episode is far from all others, as the initial state of an agent is."""
    page = write_memory_page(tmp_path_factory.mktemp("distant"))
    points = {key: array.copy() for key, array in page.points.items()}
    points["x"][points["frame"] == 0] = 1000
    write_chunk(LocalDirectory(page.directory), "state_map/tsne.js", points)
    visitor = open_page(page.directory, wait=False)
    settle(visitor)
    expect(visitor.by("map-everything"), "the other map has none").to_have_count(0)
    visitor.by("map-choice").select_option("1")
    visitor.by("map-everything").wait_for()
    assert f"{len(LENGTHS)} points are far from the others and drawn at the border" in visitor.text("map-facts")
    low, high = np.percentile(points["x"], [5, 95])
    assert drawn_share(visitor, points, (points["x"].min(), 2 * high - low)) > 0.99
    visitor.click("map-everything")
    assert "at the border" not in visitor.text("map-facts")
    assert drawn_share(visitor, points, (points["x"].min(), 1000)) > 0.99


def drawn_share(visitor: Visitor, points: dict[str, np.ndarray], extent: tuple[float, float]) -> float:
    """The share of the points that are where a map of this extent along x shows them; y has no distant points."""
    image = read_canvas(visitor.by("state-map-points"))
    height, width = image.shape[:2]
    (left, right), x, y = extent, np.clip(points["x"], *extent), points["y"]
    columns = 10 + (x - left) / (right - left) * (width - 20)
    rows = height - 10 - (y - y.min()) / (y.max() - y.min()) * (height - 20)
    return float((image[rows.round().astype(int), columns.round().astype(int), 3] == 255).mean())


def test_pages_without_a_simulator_offer_only_the_memory_path(
    open_page: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = write_memory_page(tmp_path_factory.mktemp("alone"), with_simulator=False)
    visitor = open_page(page.directory, "?path=whole", wait=False)
    settle(visitor)
    assert visitor.state()["path"] == "memory"
    expect(visitor.by("path")).to_have_count(0)


def test_a_memory_page_without_optional_sections_opens(
    open_page: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def only_play(manifest: dict[str, Any]) -> None:
        manifest["sections"] = manifest["sections"][:1]

    page = write_memory_page(tmp_path_factory.mktemp("play"), edit=only_play)
    visitor = open_page(page.directory, wait=False)
    visitor.page.wait_for_selector("[data-testid=observation-canvas][data-frame='0/0']")
    assert "This page has no windows." in visitor.text("panel-through_time")
    assert "no state map" in visitor.text("panel-map")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_memory_page_passes_accessibility_checks(open_memory: Open, axe: str, scheme: str) -> None:
    visitor = open_memory(color_scheme=scheme)
    assert violations(visitor, axe) == []


def test_narrow_windows_do_not_scroll_sideways(open_page: Open, memory: MemoryPage) -> None:
    visitor = open_page(memory.directory, viewport={"width": 390, "height": 844}, wait=False)
    visitor.page.wait_for_selector("[data-track=component-1]")
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_page_begins_with_how_far_back_decisions_reach(open_memory: Open, memory: MemoryPage) -> None:
    visitor = open_memory("?episode=1&step=31")
    assert visitor.text("verdict-1").startswith(
        "The decision at step 22 of episode 3 depends on step 14, 8 steps earlier"
    )
    assert "0.25 nats on average, in 2 of 2 episodes" in visitor.text("verdict-2")
    first = visitor.page.locator("main [data-panel]").first
    assert first.get_attribute("data-panel") == "memory_matrix"
    image = read_canvas(visitor.by("dependence"))
    policy = memory.matrices[0]
    assert image.shape[:2] == policy.shape
    np.testing.assert_array_equal(image[..., 3] > 0, np.isfinite(policy))
    strongest = np.nanargmax(policy, axis=1)
    assert (image[np.arange(len(policy)), strongest, :3] == image[0, strongest[0], :3]).all()
    visitor.by("dependence").locator("..").focus()
    visitor.page.keyboard.press("ArrowDown")
    visitor.page.keyboard.press("ArrowRight")
    assert "Step 2 is before the exchange at step 6" in visitor.text("dependence-read")
    for _ in range(5):
        visitor.page.keyboard.press("ArrowRight")
    assert "If what was seen before step 6 is exchanged for what 3 other episodes saw, the policy at step 7" in (
        visitor.text("dependence-read")
    )
    visitor.page.keyboard.press("Enter")
    assert visitor.state()["frame"] == 6


def test_a_click_opens_the_decision_that_depends_most_on_memory(open_memory: Open) -> None:
    visitor = open_memory("?episode=2&step=31")
    assert "Those of episodes 1, 3 were" in visitor.text("dependence-read")
    visitor.click("to-strongest")
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (2, 21)
    expect(visitor.by("strip")).to_be_in_viewport()  # its causes are below the first screen
    visitor.by("dependence").wait_for()
    expect(visitor.by("dependence-marked")).to_have_count(1)


def test_pages_without_a_memory_matrix_say_so(open_page: Open, tmp_path: Path) -> None:
    complete = True

    def without(manifest: dict[str, Any]) -> None:
        manifest["sections"] = [one for one in manifest["sections"] if one["kind"] != "memory_matrix"]
        manifest.update(complete=complete, missing=[])

    for complete, text in ((True, "This page has no memory matrix."), (False, "Not computed yet: memory matrix.")):
        write_memory_page(tmp_path / str(complete), edit=without)
        visitor = open_page(tmp_path / str(complete), wait=False)
        settle(visitor)
        assert text in visitor.text("panel-memory_matrix")


def test_windows_that_begin_after_the_cause_are_marked_as_cut(open_page: Open, tmp_path: Path) -> None:
    def cut(manifest: dict[str, Any]) -> None:
        section = next(one for one in manifest["sections"] if one["kind"] == "windows")
        section["data"]["windows"][0]["begins"] = 2

    write_memory_page(tmp_path, edit=cut)
    visitor = open_page(tmp_path, wait=False)
    settle(visitor)
    assert "cut here: the decision depends on steps from 3 on" in visitor.text("cut-here")
    visitor.click("window-forward")
    expect(visitor.by("cut-here")).to_have_count(0)

"""Stacked observations, conditions that hold together, optimised features, sizes, numbers read by keys."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.chunks import encode_chunk
from rl_clarity.pages.document import write_page
from rl_clarity.pages.images import frames_side_by_side, newest_frames
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.results import open_results
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import Size, read_chunk, write_synthetic_page

Open = Callable[..., Visitor]
HEIGHT, WIDTH, STACK = 42, 30, 4


def write_stacked_page(directory: Path, size: Size, colors: int) -> np.ndarray:
    """A page of stacks of frames that are higher than wide; returns the observations (T, H, W, 4 * colors)."""
    observation = {
        "height": HEIGHT, "width": WIDTH, "channels": STACK * colors, "frame_height": HEIGHT, "frame_width": WIDTH,
        "stack": STACK,
    }  # fmt: skip
    manifest = write_synthetic_page(
        directory, size, edit=lambda page: page["agents"][0].update(observation=observation)
    )
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 256, (size.steps, HEIGHT, WIDTH, STACK * colors), np.uint8)
    arrays: dict[str, Any] = {}
    for prefix, frames in (
        ("", newest_frames(observations, STACK)),
        ("stack_", frames_side_by_side(observations, STACK)),
    ):
        encoded = [_png(frame) for frame in frames]
        arrays[f"{prefix}offsets"] = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
        arrays[f"{prefix}png"] = b"".join(encoded)
    (name,) = section_data(manifest, "trajectories")["trajectories"][0]["frames"]
    (directory / name).write_bytes(encode_chunk(name, arrays).script())
    return observations


def _png(frame: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("colors", [1, 3], ids=["grey", "color"])
def test_all_frames_of_a_stacked_observation_can_be_shown(
    tmp_path: Path, small_size: Size, open_page: Open, colors: int
) -> None:
    observations = write_stacked_page(tmp_path, small_size, colors)
    visitor = open_page(tmp_path, "?frame=5")
    newest = observations[4, ..., -colors:]
    assert np.array_equal(read_canvas(visitor.by("observation-canvas"))[..., :3], np.broadcast_to(newest, (42, 30, 3)))
    box = visitor.by("observation-canvas").bounding_box()
    assert box
    assert box["width"] / box["height"] == pytest.approx(WIDTH / HEIGHT, rel=0.02)
    expect(visitor.by("stack")).to_have_count(0)
    visitor.click("show-stack")
    for frame in (4, 5):
        visitor.page.wait_for_selector(f'[data-testid=stack-canvas][data-frame="0/{frame}"]')
        wanted = frames_side_by_side(observations[frame : frame + 1], STACK)[0]
        shown = read_canvas(visitor.by("stack-canvas"))[..., :3]
        assert np.array_equal(shown, np.broadcast_to(wanted, (HEIGHT, STACK * WIDTH, 3)))
        visitor.press("ArrowRight")
    visitor.click("show-stack")
    expect(visitor.by("stack")).to_have_count(0)


def test_combined_search_conditions_must_all_hold(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.press("f")
    visitor.by("find-kind").select_option("advantage")
    visitor.click("find-add")
    visitor.by("find-kind").nth(1).select_option("action")
    visitor.by("find-action").select_option("7")
    visitor.click("find-go")
    series = [read_chunk(synthetic, f"trajectories/{i}/series.js") for i in (1, 2, 3)]
    both = [(one["advantages"] > 0) & (one["actions"] == 7) for one in series]
    assert visitor.text("find-count").startswith(f"{sum(int(found.sum()) for found in both)} frame")
    strongest = max(one["advantages"][found].max() for one, found in zip(series, both, strict=True) if found.any())
    visitor.by("find-results").get_by_role("button").first.click()
    visitor.settle()
    state = visitor.state()
    assert both[state["trajectory"]][state["frame"]]
    assert series[state["trajectory"]]["advantages"][state["frame"]] == strongest, "ordered by the number"
    visitor.page.get_by_role("button", name="Remove condition 1").click()
    visitor.click("find-go")
    count = sum(int((one["actions"] == 7).sum()) for one in series)
    assert visitor.text("find-count").startswith(f"{count} frame")


def test_bookmarks_can_be_listed_as_search_results(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.click("find-bookmarks-low")
    marks = visitor.page.evaluate("rlClarity.manifest.bookmarks.low")
    results = visitor.by("find-results").get_by_role("button")
    results.first.wait_for()
    expect(results).to_have_count(len(marks))
    results.nth(1).click()
    visitor.settle()
    state = visitor.state()
    assert (state["trajectory"], state["frame"]) == (marks[1]["trajectory"], marks[1]["frame"])
    visitor.by("find-which").select_option("high")
    visitor.click("find-add")
    visitor.by("find-kind").nth(1).select_option("first")
    visitor.click("find-go")
    firsts = [read_chunk(synthetic, f"trajectories/{i}/series.js")["firsts"] for i in (1, 2, 3)]
    high = visitor.page.evaluate("rlClarity.manifest.bookmarks.high")
    both = sum(bool(firsts[mark["trajectory"]][mark["frame"]]) for mark in high)
    assert visitor.text("find-count").startswith(f"{both} frame" if both else "No frame")


def test_optimized_feature_visualizations_are_shown(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    manifest = write_synthetic_page(tmp_path, small_size)
    names = [f"optimized/2a/optimized-{k + 1}.png" for k in range(8)]
    for k, name in enumerate(names):
        LocalDirectory(tmp_path).write(name, _png(np.full((16, 8 + k, 3), 9 * k, np.uint8)))
    section_data(manifest, "features")["layers"]["2a"]["optimized"] = names
    write_page(LocalDirectory(tmp_path), manifest)
    visitor = open_page(tmp_path, "?layer=2a&feature=3")
    visitor.page.wait_for_function("() => document.querySelector('[data-testid=optimized]')?.naturalWidth === 10")
    visitor.click("viewer-channel-5")
    visitor.page.wait_for_function("() => document.querySelector('[data-testid=optimized]')?.naturalWidth === 12")
    visitor.click("layer-3a")
    visitor.by("legend-1").locator(".card").click()
    visitor.by("effects").wait_for()
    expect(visitor.by("optimized")).to_have_count(0)
    zeros = []
    for feature in (1, 2):
        visitor.click(f"viewer-channel-{feature}")
        zeros.append(visitor.by("effects").locator(".zero").first.get_attribute("style"))
        assert visitor.by("effects").locator(".interval").count() > 0
    assert zeros[0] == zeros[1], "all features of a layer share a scale"


def test_the_feature_viewer_has_the_requested_size(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    manifest = write_synthetic_page(tmp_path, small_size)
    view = manifest["view"] | {"feature_viewer_height": "15em", "feature_viewer_width": "50em"}
    write_page(LocalDirectory(tmp_path), manifest | {"view": view})
    visitor = open_page(tmp_path, "?layer=2a&feature=1")
    visitor.click("tab-place")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')
    grid, drawer = visitor.by("feature-grid").bounding_box(), visitor.by("drawer").bounding_box()
    assert grid
    assert drawer
    assert grid["height"] == pytest.approx(15 * 16, abs=3)
    assert grid["width"] == pytest.approx(grid["height"], abs=3), "an observation's shape"
    assert drawer["width"] == pytest.approx(50 * 16, abs=1)


def test_arrow_keys_read_attribution_values_at_positions(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.by("read-by-keys").focus()
    assert "row 17, column 17" in visitor.text("read-out")
    visitor.press("ArrowRight", "ArrowUp", "ArrowUp")
    assert "row 15, column 18" in visitor.text("read-out")
    assert visitor.frame() == 30, "arrows do not lead through time meanwhile"
    assert visitor.by("read-out").get_attribute("aria-live") == "polite"
    chunk = read_chunk(synthetic, "attribution/2b/1/value-1.js")
    codes = chunk["codes"][29, 14, 17].astype(float) / 127
    total = float((codes * np.abs(codes) * chunk["scales"][29]).sum())
    shown = visitor.text("read-out").replace("−", "-").split("sum ")[1].split()[0]
    assert float(shown) == pytest.approx(total, rel=6e-3, abs=1e-9)
    for _ in range(40):
        visitor.press("ArrowLeft")
    assert "column 1 " in visitor.text("read-out") + " "
    visitor.press("Tab")
    assert "row" not in visitor.text("read-out")
    visitor.press("Tab", "Tab")  # past the button whose arrows draw a box, and a choice
    visitor.press("ArrowRight")
    assert visitor.frame() == 31


def test_a_panel_closed_while_its_images_load_leaves_no_error(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    visitor.press("f")
    visitor.by("find-value").fill("-100")
    visitor.page.evaluate(
        """() => {
          document.querySelector('[data-testid=find-go]').click();
          const watch = new MutationObserver(() => {
            if (!document.querySelector('[data-testid=find-results] canvas')) return;
            watch.disconnect();
            document.querySelector('[data-testid=close-drawer]').click();
          });
          watch.observe(document.body, { subtree: true, childList: true });
        }"""
    )
    visitor.by("drawer").wait_for(state="detached")
    visitor.page.wait_for_load_state("networkidle")


def test_the_list_of_action_probabilities_is_updated_after_the_images(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    listed = visitor.by("policy-list")
    before = listed.inner_text()
    now, shown = visitor.page.evaluate(
        """async () => {
          window.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
          await Promise.resolve().then(() => {});
          const list = document.querySelector('[data-testid=policy-list]').innerText;
          return [list, document.querySelector('[data-testid=attribution-canvas]').dataset.frame];
        }"""
    )
    assert (now, shown) == (before, "0/30"), "images first"
    probabilities = open_results(synthetic).series(0)["probabilities"][30]
    largest = [round(100 * number) for number in sorted(probabilities, reverse=True)[:3]]
    visitor.page.wait_for_function(
        """(largest) => {
          const shares = [...document.querySelectorAll('[data-testid=policy-list] .percent')].map((e) => e.innerText);
          return largest.every((percent, i) => parseInt(shares[i]) === percent);
        }""",
        arg=largest,
    )

"""Saliency maps beside the layers: drawn as Python computes them from what is stored; search, export, address."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.results import open_results
from tests.browser.drawn import SIDE
from tests.browser.pages import Visitor, close, premultiplied, read_canvas
from tests.browser.synthetic import SEGMENT, Size, write_chunk, write_synthetic_page

Open = Callable[..., Visitor]
STEPS, EVERY, GRID = 70, 4, (5, 4)
REGION = (0.25, 0.0, 1.0, 0.75)
"""Top, left, bottom, right of the frames, which observations show."""
CONSTANT = 8
"""A frame whose maps are constant."""
COLORS = {"policy": (68, 68, 230), "value": (240, 68, 68)}


def write_maps(page: LocalDirectory, rng: np.random.Generator, trajectory: int) -> tuple[list[str], dict[str, float]]:
    names, largest = [], dict.fromkeys(COLORS, 0.0)
    for segment, start in enumerate(range(0, STEPS, SEGMENT)):
        frames = np.arange(start, min(STEPS, start + SEGMENT), EVERY)
        arrays: dict[str, np.ndarray] = {"steps": frames.astype(np.int32)}
        for output in COLORS:
            scales = rng.uniform(0.5, 4, len(frames)).astype(np.float32) * (frames != CONSTANT)
            codes = rng.integers(0, 256, (len(frames), *GRID)).astype(np.uint8)
            codes[:, 0, 0] = 255
            arrays |= {f"codes.{output}": codes, f"scales.{output}": scales}
            arrays[f"totals.{output}"] = (codes.sum(axis=(1, 2)) / 255 * scales).astype(np.float32)
            largest[output] = max(largest[output], float(scales.max()))
        names.append(write_chunk(page, f"saliency/perturbation/{trajectory + 1}/maps-{segment + 1}.js", arrays))
    return names, largest


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("saliency"))


def write_page(directory: Path, *, signed: bool = False, checks: dict[str, Any] | None = None) -> Path:
    rng = np.random.default_rng(5)
    files, largest = zip(
        *(write_maps(LocalDirectory(directory), rng, trajectory) for trajectory in (0, 1)), strict=True
    )
    top, left, bottom, right = REGION
    method = {
        "name": "perturbation",
        "label": "perturbation",
        "parameters": {"stride": 5},
        "signed": signed,
        "outputs": [{"id": output, "label": output} for output in COLORS],
        "rows": GRID[0],
        "columns": GRID[1],
        "centers": {
            "rows": (top + (bottom - top) * np.arange(0.05, 1, 0.2)).tolist(),
            "columns": (left + (right - left) * np.arange(0.05, 1, 0.25)).tolist(),
        },
        "maps": list(files),
        "scales": {output: [one[output] for one in largest] for output in COLORS},
        "percentile": dict.fromkeys(COLORS, 2.5),
    }
    section = {
        **{"kind": "saliency", "version": 1, "title": "Saliency", "agent": "agent-1", "recording": "recording-1"},
        "notes": [{"title": "Saliency: perturbation", "text": "By blurring. Parameters: stride 5."}],
        "data": {"every": EVERY, "methods": [method]},
    }

    def add(manifest: dict[str, Any]) -> None:
        manifest["sections"].append(section)
        manifest["sections"] += [one for one in [checks] if one is not None]
        manifest["agents"][0]["observation"]["region"] = list(REGION)

    size = Size(trajectories=2, steps=STEPS, observations=16, layers=(("2a", 16, 32),), input_layer=False)
    write_synthetic_page(directory, size, edit=add)
    return directory


def expected(page: Path, trajectory: int, frame: int, scales: dict[str, float]) -> np.ndarray:
    """The image of the maps of some outputs, premultiplied, (H, W, 4) from 0 to 255."""
    at = (np.arange(SIDE) + 0.5) / SIDE
    top, left, bottom, right = REGION
    inside = ((at > top) & (at < bottom))[:, None] & ((at > left) & (at < right))
    unseen, colors, total = np.ones((SIDE, SIDE)), np.zeros((SIDE, SIDE, 3)), np.zeros((SIDE, SIDE))
    for output, scale in scales.items():
        maps = open_results(page).saliency(trajectory, output=output)
        values = maps.values[maps.steps <= frame][-1]
        across = np.stack([np.interp(at, maps.columns, row) for row in values])
        image = np.stack([np.interp(at, maps.rows, column) for column in across.T], axis=1)
        alpha = np.minimum(1, image / scale) * inside
        unseen, total = unseen * (1 - alpha), total + alpha
        colors += alpha[..., None] * COLORS[output]
    mean = colors / np.where(total > 0, total, 1)[..., None]
    opacity = 1 - unseen[..., None]
    return np.concatenate([mean * opacity, 255 * opacity], axis=-1)


def peaks(page: Path, trajectory: int, outputs: Sequence[str] = tuple(COLORS)) -> dict[str, float]:
    results = open_results(page)
    return {output: float(results.saliency(trajectory, output=output).values.max()) for output in outputs}


def shown(visitor: Visitor, row: int = 0) -> np.ndarray:
    visitor.settle()
    return premultiplied(read_canvas(visitor.overlay("saliency", row)))


def test_the_page_draws_maps_over_the_frame_as_python_does(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation&frame=61")
    assert close(shown(visitor), expected(page, 0, 60, peaks(page, 0)), 2)
    visitor.page.get_by_role("checkbox", name="Show policy").uncheck()
    assert close(shown(visitor), expected(page, 0, 60, peaks(page, 0, ["value"])), 2)
    visitor.page.wait_for_url("**channels=2**")
    visitor.page.get_by_role("button", name="Undo").click()
    assert close(shown(visitor), expected(page, 0, 60, peaks(page, 0)), 2)
    visitor.click("more-options")
    visitor.by("scale").select_option("all")
    assert close(shown(visitor), expected(page, 0, 60, dict.fromkeys(COLORS, 2.5)), 2)
    visitor.by("scale").select_option("frame")
    own = {output: open_results(page).saliency(0, output=output).values[15].max() for output in COLORS}
    assert close(shown(visitor), expected(page, 0, 60, own), 2)


def test_signed_maps_have_readable_legend_and_track_colors(open_page: Open, tmp_path: Path) -> None:
    visitor = open_page(write_page(tmp_path, signed=True), "?layer=perturbation", color_scheme="dark")
    parts = visitor.by("legend-1").locator(".signs > span")
    assert parts.all_inner_texts() == ["raises", "lowers"]
    backgrounds = parts.evaluate_all("parts => parts.map((part) => part.style.background)")
    assert backgrounds == ["rgb(68, 68, 230)", "rgb(187, 187, 25)"]
    line = read_canvas(visitor.track("saliency-policy").locator("canvas").first)
    assert (line == [0x9A, 0x9A, 0xFF, 255]).all(-1).any(), "blue of 4.5:1 on dark ground"


def test_a_frame_without_a_map_shows_the_previous_map(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation&frame=68")
    assert close(shown(visitor), expected(page, 0, 64, peaks(page, 0)), 2)
    assert visitor.text("map-frame") == "One in 4 frames has a map; this is the map of frame 65."
    visitor.press("Home")
    visitor.page.wait_for_function("rlClarity.state().frame === 0")
    expect(visitor.by("map-frame")).to_have_count(0)


def test_a_constant_saliency_map_is_not_drawn(page: Path, open_page: Open) -> None:
    visitor = open_page(page, f"?layer=perturbation&frame={CONSTANT + 1}")
    assert shown(visitor).max() == 0


def test_rows_compare_saliency_of_trajectories_and_layers(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation&frame=41&rows=value,value~perturbation~2,value~2a")
    largest = {output: max(peaks(page, t)[output] for t in (0, 1)) for output in COLORS}
    assert close(shown(visitor, 0), expected(page, 0, 40, largest), 2)
    assert close(shown(visitor, 1), expected(page, 1, 40, largest), 2)
    assert visitor.attribution("pos", 2).shape == (16, 16, 4)
    assert visitor.by("row-layer-1").input_value() == "1"


def test_attribution_covers_the_cropped_region_that_the_agent_observes(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=2a")
    observation, overlay = (
        one.bounding_box() for one in (visitor.by("observation-canvas").first, visitor.overlay("pos"))
    )
    frame = visitor.page.locator(".well.frame").nth(1).bounding_box()
    assert observation
    assert overlay
    assert frame
    top, left, bottom, right = REGION
    actual = [
        (overlay["y"] - frame["y"]) / frame["height"],
        (overlay["x"] - frame["x"]) / frame["width"],
        overlay["height"] / frame["height"],
        overlay["width"] / frame["width"],
    ]
    assert actual == pytest.approx([top, left, bottom - top, right - left], abs=0.02)


def test_boxes_and_examples_stay_within_the_observed_region(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=2a&frame=6&box=6.22.18.34&feature=2")
    values = open_results(page).attribution("2a", 0, "value", [5])
    assert values.residual is not None
    inside = [values.channels[0, 2:6, 2:6].sum(), values.residual[0, 2:6, 2:6].sum()]  # positions of 3 x 3 pixels
    assert "rows 3 to 6, columns 3 to 6" in visitor.text("box-tracks")
    box = visitor.track("box").locator(".value")
    box.wait_for()
    assert float(box.inner_text().replace("\N{MINUS SIGN}", "-")) == pytest.approx(sum(inside), rel=6e-3, abs=1e-6)
    visitor.page.evaluate("rlClarity.select({box: {left: 50, top: 0, right: 64, bottom: 64}})")
    assert "does not observe" in visitor.text("box-tracks")
    expect(visitor.track("box")).to_have_count(0)
    visitor.click("tab-raises")
    visitor.page.wait_for_function(
        """() => {
          const examples = [...document.querySelectorAll("[data-testid=example]")];
          return examples.some(({ dataset }) => dataset.box) && examples.every(({ dataset }) => dataset.crop);
        }"""
    )
    for example in visitor.by("example").all():
        left, top, width, height = map(float, (example.get_attribute("data-crop") or "").split())
        assert min(left, top) >= 0
        assert max(left + width, top + height) <= 48, "inside of what the agent sees"


def test_rows_of_a_trajectory_show_its_observation_once(page: Path, open_page: Open) -> None:
    for columns in (0, 1):
        visitor = open_page(page, f"?layer=2a&frame=6&rows=value,value&columns={columns}")
        first, second = visitor.by("row").all()
        expect(first.get_by_test_id("observation-canvas")).to_have_count(1)
        expect(second.get_by_test_id("observation-canvas")).to_have_count(0)
        positive, other = visitor.overlay("pos", 0).bounding_box(), visitor.overlay("pos", 1).bounding_box()
        left = second.bounding_box()
        assert positive
        assert other
        assert left
        assert other["x"] - left["x"] < 40, "no room is empty"
        assert other["width"] >= positive["width"] - 1


def test_the_page_shows_saliency_values_at_a_position(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation&frame=5")
    canvas = visitor.overlay("saliency")
    box = canvas.bounding_box()
    assert box
    maps = {output: open_results(page).saliency(0, output=output) for output in COLORS}
    center = maps["value"].columns[2] * box["width"], maps["value"].rows[3] * box["height"]
    canvas.hover(position={"x": float(center[0]), "y": float(center[1])}, force=True)
    text = visitor.text("read-out")
    assert "row 4, column 3" in text
    assert f"value {maps['value'].values[1, 3, 2]:.3g}"[:9] in text


def test_a_box_sums_the_saliency_inside_it(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation&frame=5&box=0.16.24.40")
    maps = open_results(page).saliency(0, output="value")
    inside = (maps.rows >= 0.25) & (maps.rows < 0.625), maps.columns < 0.375
    wanted = maps.values[1][np.ix_(*inside)].sum()
    visitor.page.wait_for_function(
        """(wanted) => {
          const track = document.querySelector('[data-track="saliency-value"] canvas');
          return Math.abs(Number(track?.ariaLabel.split(": ")[1]) - wanted) < 0.01;
        }""",
        arg=float(wanted),
    )
    visitor.click("remove-box")
    visitor.page.wait_for_url("**layer=perturbation&trajectory=1&frame=5")


def test_the_search_finds_frames_of_strong_saliency(page: Path, open_page: Open) -> None:
    maps = open_results(page).saliency(1, output="value")
    limit = round(float(np.median(maps.totals)), 2)
    held = np.repeat(maps.totals, EVERY)[:STEPS]
    visitor = open_page(page, f"?layer=perturbation&find=saliency~above~{limit}~perturbation~value,in~2")
    visitor.press("f")
    assert visitor.by("find-kind").input_value() == "saliency"
    assert visitor.text("find-count").startswith(f"{int((held > limit).sum())} frames match")
    visitor.by("find-channel").select_option(label="policy")
    visitor.click("find-go")
    visitor.page.wait_for_url(f"**find=saliency%7Eabove%7E{limit}%7Eperturbation%7Epolicy**")


def test_exports_contain_the_saliency_maps(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation&frame=5")
    visitor.press("e")
    with visitor.saved("export-csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    totals = open_results(page).saliency(0, output="policy").totals
    column = [float(row["saliency by perturbation, policy"]) for row in rows]
    np.testing.assert_allclose(column, np.repeat(totals, EVERY)[:STEPS], rtol=1e-5)
    text = visitor.saved("export-svg").read_text("utf-8")
    assert "saliency by perturbation" in text
    assert text.count("<image") == 2


def test_the_saliency_method_is_explained_on_the_page(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation")
    visitor.click("open-trust")
    assert "Parameters: stride 5." in visitor.page.locator("body").inner_text()


def test_saliency_maps_show_the_results_of_their_sanity_checks(page: Path, tmp_path: Path, open_page: Open) -> None:
    visitor = open_page(page, "?layer=perturbation")
    assert "were not checked" in visitor.text("method-check")
    report = {
        "methods": [
            {
                "method": "perturbation",
                "randomization": [{"layer": "2a", "rank_correlation": 0.81, "ssim": 0.7}],
                "deletion": {"above_random": {"mean": 0.2, "low": 0.1, "high": 0.3}},
                "depends_on_parameters": False,
                "beats_random": True,
            }
        ]
    }
    section = {
        **{"kind": "checks", "version": 1, "title": "Checks", "agent": "agent-1", "recording": "recording-1"},
        "data": {"columns": [{"key": "method"}], "rows": [], "report": report},
    }
    checked = open_page(write_page(tmp_path, checks=section), "?layer=perturbation")
    assert "stay similar when all weights are random (rank correlation 0.81)" in checked.text("method-check")

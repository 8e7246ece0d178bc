"""Sections of other analyses: generic panels, custom panels, and what happens where there is no panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import write_page
from rl_clarity.pages.files import ImageName
from tests.browser.drawn import to_codes
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import SEGMENT, Size, read_chunk, write_chunk, write_synthetic_page

Open = Callable[..., Visitor]
STEPS = 80
SIZE = Size(trajectories=2, steps=STEPS, observations=16, layers=(("2a", 16, 32), ("3a", 8, 32)), input_layer=False)
CUSTOM = """
const mount = (element, { section, chunk, image, clock, select, theme }) => {
  const text = document.createElement("button");
  element.append(text);
  const stops = [clock.subscribe(({ frame }) => (text.dataset.at = frame)),
                 theme.subscribe((name) => (text.dataset.theme = name))];
  chunk(section.data.chunk).then(({ x }) => (text.textContent = `${x.shape} ${x[2]}`));
  image(section.data.image).then(({ naturalWidth }) => (text.dataset.width = naturalWidth));
  text.onclick = () => select({ trajectory: 1, frame: 7 });
  return () => stops.forEach((stop) => stop());
};
rlClarity.panel("custom", mount);
"""


class Sections:
    """Sections of every generic panel, and the arrays behind them."""

    def __init__(self, directory: Path) -> None:
        page, rng = LocalDirectory(directory), np.random.default_rng(3)
        self.lines = rng.normal(size=(2, STEPS)).astype(np.float32)
        self.maps = rng.normal(size=(2, STEPS, 4, 6, 1)).astype(np.float32)
        self.points = rng.normal(size=(2 * STEPS, 2)).astype(np.float32)
        lines = [write_chunk(page, f"novelty/{i + 1}.js", {"novelty": row}) for i, row in enumerate(self.lines)]
        trajectories = []
        for i, values in enumerate(self.maps):
            segments = []
            for start in range(0, STEPS, SEGMENT):
                codes, scales = to_codes(values[start : start + SEGMENT])
                name = f"noise/{i + 1}/{start}.js"
                segments.append(write_chunk(page, name, {"codes": codes, "scales": scales}, delta="codes"))
            trajectories.append({"scale": float(np.abs(values).max()), "segments": segments})
        scatter = {
            "x": self.points[:, 0],
            "y": self.points[:, 1],
            "trajectory": np.repeat([0, 1], STEPS).astype(np.int32),
            "frame": np.tile(np.arange(STEPS), 2).astype(np.int32),
        }
        thumbnail = ImageName("thumbnails/2a/thumbnail-1.png")
        rows = [{"name": f"row {i}", "score": score} for i, score in enumerate((2.5, -1.0, 11.0))]
        rows[1] |= {"trajectory": 1, "frame": 30}
        self.entries: list[dict[str, Any]] = [
            self._section("novelty", "lines", trajectories=lines, series=[{"key": "novelty", "label": "Novelty"}]),
            self._section(
                "noise",
                "maps",
                grid={"height": 4, "width": 6},
                sign="both",
                trajectories=trajectories,
                label="Value",
            ),
            self._section(
                "gallery",
                "images",
                images=[
                    {"image": thumbnail, "label": "first", "trajectory": 1, "frame": 12},
                    {"image": thumbnail, "label": "second"},
                ],
            ),
            self._section(
                "scores",
                "table",
                columns=[{"key": "name", "label": "Name"}, {"key": "score", "label": "Score"}],
                rows=rows,
            ),
            self._section(
                "effects",
                "bars",
                unit="points",
                bars=[
                    {"label": "enemy: not visible in time", "value": 2, "low": 0.0099, "high": 4},
                    {"label": "b", "value": -1},
                ],
            ),
            self._section(
                "embedding", "scatter", chunk=write_chunk(page, "embedding.js", scatter), x="first", y="second"
            ),
        ]

    def _section(self, kind: str, panel: str, **data: Any) -> dict[str, Any]:
        caption = f"About {kind}."
        place = {"agent": "agent-1", "recording": "recording-1"}
        return {
            "kind": kind,
            "version": 1,
            "title": kind.title(),
            "panel": panel,
            **place,
            "data": data | {"caption": caption},
        }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sections]:
    directory = tmp_path_factory.mktemp("sections")
    sections = Sections(directory)
    unknown = {"kind": "holograms", "version": 1, "title": "Holograms", "data": {}}
    damaged = {"kind": "damaged", "version": 1, "title": "Damaged", "panel": "table", "data": {"rows": 3}}
    entries = [*sections.entries, unknown, damaged]
    write_synthetic_page(directory, SIZE, edit=lambda manifest: manifest["sections"].extend(entries))
    return directory, sections


def test_every_section_has_a_panel(page: tuple[Path, Sections], open_page: Open) -> None:
    directory, sections = page
    visitor = open_page(directory, "?frame=10")
    for entry in sections.entries:
        panel = visitor.by(f"panel-{entry['kind']}")
        assert panel.get_by_role("heading").first.inner_text() == entry["title"]
        assert f"About {entry['kind']}." in panel.inner_text()
    unknown = visitor.by("panel-holograms").get_by_role("alert").inner_text()
    assert unknown == "This page has a section “holograms” that this version cannot show."
    assert "no list “columns”" in visitor.by("panel-damaged").get_by_role("alert").inner_text()
    assert visitor.attribution("pos").shape[0] > 0


def test_the_generic_lines_panel_draws_its_data(page: tuple[Path, Sections], open_page: Open) -> None:
    directory, sections = page
    visitor = open_page(directory, "?trajectory=2&frame=10")
    value = visitor.track("novelty").locator(".value")
    value.wait_for()
    assert float(value.inner_text().replace("−", "-")) == pytest.approx(sections.lines[1, 9], rel=6e-3, abs=1e-4)
    visitor.press("ArrowRight")
    assert float(value.inner_text().replace("−", "-")) == pytest.approx(sections.lines[1, 10], rel=6e-3, abs=1e-4)
    visitor.well("novelty").click(position=visitor.place("novelty", 20))
    assert visitor.frame() == 31


def test_the_generic_panel_maps_draws_its_data(page: tuple[Path, Sections], open_page: Open) -> None:
    directory, sections = page
    visitor = open_page(directory, "?frame=70")
    canvas = visitor.page.locator('[data-testid=map-canvas][data-frame="0/69"]')
    canvas.wait_for()
    rgba = read_canvas(canvas)
    values = sections.maps[0, 69, ..., 0] / np.abs(sections.maps[0]).max()
    assert rgba.shape == (4, 6, 4)
    assert np.abs(rgba[..., 3] / 255 - np.abs(values)).max() < 0.03, "opacity is the magnitude"
    red_less_blue = rgba[..., 0] - rgba[..., 2]
    strong = np.abs(values) > 0.05
    assert (np.sign(red_less_blue) == np.sign(values))[strong].all(), "color is the sign"


def test_the_generic_panel_images_draws_its_data(page: tuple[Path, Sections], open_page: Open) -> None:
    visitor = open_page(page[0])
    images = visitor.by("images")
    assert images.locator("img").evaluate_all("all => all.map(e => e.complete && e.naturalWidth > 0)") == [True, True]
    expect(images.get_by_role("button")).to_have_count(1)
    images.get_by_role("button").click()
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (1, 12)


def test_the_generic_panel_table_draws_its_data(page: tuple[Path, Sections], open_page: Open) -> None:
    visitor = open_page(page[0])
    table = visitor.by("panel-scores")
    names = table.locator("tbody tr td:first-child")
    assert names.all_inner_texts() == ["row 0", "row 1", "row 2"]
    score = visitor.by("table").get_by_role("button", name="Score")
    score.click()
    assert names.all_inner_texts() == ["row 1", "row 0", "row 2"]
    assert table.locator("th").nth(1).get_attribute("aria-sort") == "ascending"
    score.press("Enter")
    assert names.all_inner_texts() == ["row 2", "row 0", "row 1"]
    table.get_by_role("button", name="row 1").click()
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (1, 30)


def test_the_generic_panel_bars_draws_its_data(page: tuple[Path, Sections], open_page: Open) -> None:
    visitor = open_page(page[0])
    bars = visitor.by("bars")
    assert [" ".join(text.split()) for text in bars.locator(".number").all_inner_texts()] == [
        "2.00 points 0.0099 to 4.0",
        "−1.00 points",
    ]
    boxes = [bars.locator(".bar").nth(i).bounding_box() for i in (0, 1)]
    zero = bars.locator(".zero").first.bounding_box()
    assert boxes[0]
    assert boxes[1]
    assert zero
    assert boxes[0]["width"] == pytest.approx(2 * boxes[1]["width"], rel=0.05)
    assert boxes[0]["x"] == pytest.approx(zero["x"], abs=1.5)
    assert boxes[1]["x"] + boxes[1]["width"] == pytest.approx(zero["x"], abs=1.5)


def test_the_generic_panel_scatter_draws_its_data(page: tuple[Path, Sections], open_page: Open) -> None:
    directory, sections = page
    visitor = open_page(directory, "?trajectory=2&frame=5")
    canvas = visitor.page.locator(f'[data-testid=scatter][data-points="{2 * STEPS}"]')
    canvas.scroll_into_view_if_needed()
    x, y = sections.points[STEPS + 4]
    numbers = [float(word) for word in visitor.text("scatter-read-out").replace("−", "-").split() if "." in word]
    assert visitor.text("scatter-read-out").startswith("trajectory 2, frame 5 ")
    assert numbers == pytest.approx([x, y], rel=6e-3, abs=1e-4)
    box = canvas.bounding_box()
    assert box
    low, high = sections.points.min(0), sections.points.max(0)
    target = int(np.argmax(sections.points[:, 0]))
    right = 10 + (sections.points[target, 0] - low[0]) / (high[0] - low[0]) * (box["width"] - 20)
    down = box["height"] - 10 - (sections.points[target, 1] - low[1]) / (high[1] - low[1]) * (box["height"] - 20)
    canvas.click(position={"x": float(right), "y": float(down)})
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == divmod(target, STEPS)
    visitor.page.mouse.move(box["x"] + 2, box["y"] + 2)
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2)
    visitor.page.mouse.up()
    assert visitor.track("film").get_attribute("data-marks") == "1", "all frames are one range"


@pytest.mark.parametrize("kind", ["novelty", "noise", "gallery", "scores", "effects", "embedding", "holograms"])
def test_a_section_can_be_shown_alone(page: tuple[Path, Sections], open_page: Open, kind: str) -> None:
    visitor = open_page(page[0], f"?embed=1&panel={kind}&frame=3", toured=False, wait=False)
    visitor.by(f"panel-{kind}").wait_for()
    assert visitor.page.locator("[data-panel]").evaluate_all("all => all.map(e => e.dataset.panel)") == [kind]


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sections_of_analyses_fit_the_window(
    page: tuple[Path, Sections], open_page: Open, width: int, scheme: str
) -> None:
    visitor = open_page(page[0], viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("broken", [False, True])
def test_a_custom_panel_draws_a_section(tmp_path: Path, open_page: Open, broken: bool) -> None:
    chunk = write_chunk(LocalDirectory(tmp_path), "custom.js", {"x": np.arange(3, dtype=np.float32)})
    data = {"chunk": chunk, "image": "thumbnails/2a/thumbnail-1.png"}
    section = {"kind": "custom", "version": 1, "title": "Custom", "data": data}
    manifest = write_synthetic_page(tmp_path, SIZE, edit=lambda manifest: manifest["sections"].append(section))
    module = 'rlClarity.panel("custom", () => { throw Error("no!"); });' if broken else CUSTOM
    write_page(LocalDirectory(tmp_path), manifest, modules={"custom": module})
    visitor = open_page(tmp_path, "?frame=5", color_scheme="dark")
    if broken:
        assert "failed: no!" in visitor.by("panel-custom").get_by_role("alert").inner_text()
        return
    button = visitor.by("custom-panel").get_by_role("button", name="3 2")
    button.click()
    assert (visitor.state()["trajectory"], visitor.state()["frame"]) == (1, 7)
    assert (button.get_attribute("data-at"), button.get_attribute("data-theme")) == ("7", "dark")
    assert int(button.get_attribute("data-width") or 0) > 0


def without(*kinds: str) -> Callable[[dict[str, Any]], None]:
    """An edit of a manifest that removes sections."""

    def edit(manifest: dict[str, Any]) -> None:
        manifest["sections"] = [section for section in manifest["sections"] if section["kind"] not in kinds]

    return edit


def test_the_error_for_another_page_version_names_the_command_to_rewrite(tmp_path: Path, open_page: Open) -> None:
    write_synthetic_page(tmp_path, SIZE, version=1)
    visitor = open_page(tmp_path, wait=False)
    message = visitor.page.get_by_role("alert").inner_text()
    assert "version 1" in message
    assert "rl-clarity run" in message


def test_notes_of_a_section_explain_its_method(tmp_path: Path, open_page: Open) -> None:
    notes = [{"title": "How it is computed", "text": "By a method of its own."}]
    write_synthetic_page(tmp_path, SIZE, edit=lambda manifest: manifest["sections"][2].update(notes=notes))
    visitor = open_page(tmp_path)
    for key in "t?":
        visitor.press(key)
        text = visitor.by("drawer").inner_text()
        assert "By a method of its own." in text
        assert "integrated gradients" not in text
        assert "attribution.steps" not in text


def test_a_page_without_layers_opens(tmp_path: Path, open_page: Open) -> None:
    write_synthetic_page(tmp_path, SIZE, edit=without("features", "attribution"))
    visitor = open_page(tmp_path, "?trajectory=2&frame=5&layer=2a", wait=False)
    values = read_chunk(tmp_path, "trajectories/2/series.js")["values"]
    shown = visitor.track("value").locator(".value")
    shown.wait_for()
    assert float(shown.inner_text()) == pytest.approx(values[4], rel=6e-3)
    expect(visitor.by("policy")).to_be_visible()
    panels = visitor.page.locator("[data-panel]").evaluate_all("all => all.map(e => e.dataset.panel)")
    assert panels == ["trajectories", "bookmarks", "timeline", "outputs"]
    for key in ("ArrowRight", ".", "1", "0", "r", "e", "f", "n", "t", "?"):
        visitor.press(key)
    visitor.page.wait_for_url("**?trajectory=2&frame=6*")
    assert visitor.by("drawer").get_attribute("data-panel") == "help"
    visitor.press("f")
    visitor.click("find-go")
    visitor.by("find-count").wait_for()


def test_a_page_without_features_opens(tmp_path: Path, open_page: Open) -> None:
    write_synthetic_page(tmp_path, SIZE, edit=without("features"))
    visitor = open_page(tmp_path, "?frame=5&feature=2")
    assert visitor.attribution("pos").max() > 0
    expect(visitor.by("drawer")).to_have_count(0)
    visitor.press("t")
    expect(visitor.by("gaps")).to_be_visible()
    assert "reconstruction error" not in visitor.text("missing")


def test_the_selection_is_restored_from_the_address(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic)
    patch = {
        "layer": 2, "trajectory": 1, "frame": 40, "visible": 64, "residual": True, "combined": True, "overlay": False,
        "opacity": 0.5, "threshold": 0.25, "smooth": False, "scale": "frame", "columns": True, "palette": "safe",
        "rows": [
            {"output": "group-0", "layer": 4, "trajectory": 2}, {"output": "value", "layer": None, "trajectory": None},
        ],
        "channels": {"2": [0, 7], "4": [3]},
    }  # fmt: skip
    visitor.page.evaluate("patch => rlClarity.select(patch)", patch)
    visitor.page.wait_for_url("**palette=safe*")
    before = visitor.state()
    assert {key: before[key] for key in patch} == patch
    visitor.page.reload()
    visitor.page.wait_for_function("() => window.rlClarity")
    assert visitor.state() == before

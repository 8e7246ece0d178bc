"""Ablation on the page: bars and order of the legend, a feature's tables and scatter plot, behavior, Trust."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from playwright.sync_api import Locator, expect

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.files import ChunkName, ImageName
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, write_chunk, write_synthetic_page

Open = Callable[..., Visitor]
SIZE = Size(trajectories=1, steps=20, observations=16, layers=(("2a", 16, 32),), input_layer=False, policy=False)
CHANGES = [-0.5, -4.0, 2.0]
ATTRIBUTIONS = [0.6, 0.9, 1.9]
CORRELATIONS = [0.9, 0.5, -0.25]


def measure(before: float, after: float, p: float) -> dict[str, Any]:
    difference = after - before
    interval = [difference - 0.4, difference + 0.4]
    corrected = [difference - 0.5, difference + 0.5]
    return {
        **{"unedited": before, "ablated": after, "difference": difference, "p": p, "adjusted_p": p},
        **{"interval": interval, "corrected_interval": corrected},
    }


def row(feature: int, difference: float, p: float) -> dict[str, Any]:
    change = measure(8, 8 + difference, p)
    return {
        **{"layer": "2a", "feature": feature, "attribution": 0.5, "ablation": CHANGES[feature - 1]},
        **{"return_difference": difference, "interval": change["interval"], "adjusted_p": p},
        **{"return": change, "length": measure(70, 80, 1), "actions": {"→": measure(0.6, 0.5, 1)}},
        "causes": {"goal": measure(0.8, 0.8 + difference / 10, p), "saw": measure(0.2, 0.2, 1)},
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("causal")
    files = LocalDirectory(directory)
    frames = np.arange(0, SIZE.steps, 4, dtype=np.int32)
    changes = np.arange(len(frames) * 3, dtype=np.float32).reshape(-1, 3)
    chunk = write_chunk(files, "ablation/2a/1/ablation.js", {"frames": frames, "change.value": changes})
    for name in ("clip.png", "still.png"):
        PIL.Image.new("RGB", (36, 16)).save(directory / name)

    def edit(manifest: dict[str, Any]) -> None:
        (layer,) = next(s for s in manifest["sections"] if s["kind"] == "attribution")["data"]["layers"]
        count = layer["channels"]
        layer["effects"]["value"] = ATTRIBUTIONS + [0.0] * (len(layer["effects"]["value"]) - len(ATTRIBUTIONS))
        summary = {
            "mean": (CHANGES + [0.0] * count)[:count],
            "mean_abs": [1.0] * count,
            "correlation": (CORRELATIONS + [0.5] * count)[:count],
            "largest": {"value": 0.421, "low": 0.35, "high": 0.5},
        }
        entry = {"trajectories": [ChunkName(chunk)], "outputs": {"value": summary}}
        place = {"agent": "agent-1", "recording": "recording-1", "version": 1}
        clip = {"layer": "2a", "episode": 3, "step": 9, "lost": 10.0}
        behavior = {
            **{"episodes": 400, "tests": 12, "output": "value", "causes": ["goal", "saw"]},
            "rows": [
                row(1, -0.2, 1.0),
                {**row(1, -3.1, 0.002), "twins": [2], "episodes": 50},
                row(2, -3.0, 0.001),
            ],
            "clips": [
                {**clip, "feature": feature, "image": ImageName("clip.png"), "still": ImageName("still.png")}
                for feature in (1, 2)
            ],
        }
        manifest["sections"] += [
            {
                "kind": "ablation",
                "title": "Ablation",
                "data": {"every": 4, "to": "baseline", "layers": {"2a": entry}},
                **place,
            },
            {"kind": "behavior", "title": "Without a feature", "data": behavior, **place},
        ]

    write_synthetic_page(directory, SIZE, edit=edit)
    return directory


def test_the_legend_has_ablation_bars_and_can_be_sorted_by_them(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    bars = visitor.by("causal-2").locator("[data-measure]")
    assert bars.evaluate_all("all => all.map(e => e.dataset.measure)") == ["attribution", "lost", "achieved"]
    assert bars.nth(1).get_attribute("title") == "lost without it: 4.00"
    assert bars.nth(2).get_attribute("title") == "change of return: −3.00 (−3.50 to −2.50)"
    items = visitor.page.locator("[data-testid=panel-legend] li[data-testid^=legend-]")
    first = "all => all.map(e => e.dataset.testid)"
    assert items.evaluate_all(first)[:3] == ["legend-1", "legend-2", "legend-3"]
    visitor.by("legend-order").select_option("lost")
    assert items.evaluate_all(first)[:3] == ["legend-2", "legend-3", "legend-1"]
    visitor.by("legend-order").select_option("achieved")
    assert items.evaluate_all(first)[0] == "legend-2"


def width(bar: Locator) -> float:
    return float(bar.evaluate("bar => bar.getBoundingClientRect().width"))


def test_attribution_and_ablation_bars_share_a_scale_and_mark_conflicts(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    attribution, lost = (visitor.by("causal-2").locator(f".bar.{name}") for name in ("attribution", "lost"))
    assert width(lost) == pytest.approx(width(attribution) * 4 / 0.9, abs=1.5)
    left = "bar => bar.getBoundingClientRect().left"
    assert lost.evaluate(left) == pytest.approx(attribution.evaluate(left), abs=1), "both to the right of zero"
    assert visitor.by("causal-2").locator("[aria-hidden] span").all_inner_texts() == ["−4.0", "4.0", "−3.5", "3.5"]
    assert visitor.by("causal-3").locator("[aria-hidden] span").all_inner_texts() == ["−4.0", "4.0"], "of two bars"
    assert [visitor.text(f"bar-of-{name}") for name in ("attribution", "lost", "achieved")] == [
        "mean attribution",
        "lost without it",
        "change of return",
    ]
    assert "what is lost is more than three times as large" in visitor.text("contradiction-2")
    assert "opposite signs" in visitor.text("contradiction-3")
    assert "Both start from the same baseline" in visitor.text("contradiction-3")
    expect(visitor.by("contradiction-1")).to_have_count(0)


def test_the_feature_table_has_ablation_columns_and_fits_its_panel(
    page: Path, synthetic: Path, open_page: Open
) -> None:
    visitor = open_page(page)
    visitor.page.set_viewport_size({"width": 1366, "height": 768})
    visitor.press("l")
    drawer = visitor.by("drawer")
    head = [text.strip(" ▾▴") for text in drawer.locator("thead th").all_inner_texts()]
    places = [head.index(title) for title in ("Lost without it", "Change of return")]
    rows = drawer.locator("tbody tr")
    assert [rows.nth(1).locator("td").nth(place).inner_text() for place in places] == ["≠ 4.00", "−3.00"]
    assert "clear" in str(rows.nth(1).locator("td").nth(places[1]).locator("span").first.get_attribute("class"))
    assert drawer.locator(".scroll").evaluate("node => node.scrollWidth <= node.clientWidth")
    untested = open_page(synthetic, "?layer=2b")
    untested.press("l")
    assert "Lost without it" in untested.text("drawer")
    assert "was not tested" in untested.text("drawer")


def test_the_feature_viewer_plots_attribution_against_ablation(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?feature=2")
    table = visitor.by("causal-outputs").locator("tbody tr")
    cells = table.first.locator("td").all_inner_texts()
    assert cells[1:] == ["≠ 4.00", "1.00", "0.50"]
    scatter = visitor.by("causal-outputs").get_by_test_id("scatter")
    scatter.wait_for()
    assert scatter.get_attribute("data-points") == "5"
    plot = visitor.by("scatter-plot")
    assert len(plot.locator(".across span").all_inner_texts()) >= 2
    ups = [text.replace("−", "-") for text in plot.locator(".up span:not(.hidden-width)").all_inner_texts()]
    assert [float(text) for text in ups] == [-10, -5], "what is lost"
    causes = visitor.by("causal-behavior").get_by_test_id("behavior-causes").first.locator("tbody tr")
    assert causes.first.locator("td").first.inner_text() == "80\u202f%"
    assert "−3.00 (−3.50 to −2.50)" in visitor.text("causal-behavior")
    expect(visitor.by("causal-behavior").get_by_test_id("clip"), "where the two part").to_have_count(1)
    visitor.click("viewer-channel-1")
    expect(visitor.by("causal-behavior").get_by_test_id("clip")).to_have_count(0)


def test_the_behavior_panel_lists_ablations_with_clips(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    table = visitor.by("behavior")
    rows = table.locator("tbody th button > span:last-child")
    assert rows.all_inner_texts() == ["2a, 2", "2a, 1 and 2", "2a, 1"], "the clearest first"
    expect(table.locator("tbody th img")).to_have_count(3)
    assert table.locator("tbody tr").nth(1).locator("td").nth(4).inner_text() == "50"
    cells = table.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[:4] == ["+0.50", "+4.0", "−3.0 (−3.5 to −2.5)", "±0.67"]
    table.get_by_role("button", name="Change of return").click()
    table.get_by_role("button", name="Change of return").click()
    assert rows.all_inner_texts() == ["2a, 1", "2a, 2", "2a, 1 and 2"]
    expect(visitor.by("clip"), "none of a feature whose return does not differ beyond chance").to_have_count(1)
    image = visitor.by("clip").locator("img")
    assert str(image.get_attribute("src")).endswith("still.png")
    visitor.by("clip").get_by_role("button", name="Play").click()
    assert str(image.get_attribute("src")).endswith("clip.png")
    table.get_by_role("button", name="2a, 2").click()
    visitor.by("causal-behavior").wait_for()


def test_feature_names_persist_in_the_ablation_table_and_the_address(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?feature=2")
    visitor.by("feature-name").first.fill("saw ahead")
    visitor.by("feature-name").first.press("Enter")
    rows = visitor.by("behavior").locator("tbody th button > span:last-child")
    named = ["2a, saw ahead", "2a, 1 and saw ahead", "2a, 1"]
    expect(rows).to_have_text(named)
    visitor.page.wait_for_function("() => location.search.includes('name=')")
    address = visitor.page.url
    visitor.goto()
    expect(rows, "kept by the browser").to_have_text(named)
    other = open_page(page, "?" + address.partition("?")[2])
    expect(other.by("behavior").locator("tbody th button > span:last-child")).to_have_text(named)
    visitor.press("l")
    expect(visitor.by("table").locator("input").nth(1)).to_have_value("saw ahead")


def test_the_trust_panel_shows_ablation_correlations_of_every_layer(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?embed=1&panel=trust", wait=False)
    visitor.by("ablation").wait_for()
    assert visitor.by("ablation").locator("tbody td").all_inner_texts() == ["0.50", "−0.25", "0.90", "42 % (35 to 50)"]

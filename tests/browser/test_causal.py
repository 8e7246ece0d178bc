"""Ablation on the page: bars and order of the legend, a feature's tables and scatter plot, behavior, Trust."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.files import ChunkName, ImageName
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, write_chunk, write_synthetic_page

Open = Callable[..., Visitor]
SIZE = Size(trajectories=1, steps=20, observations=16, layers=(("2a", 16, 32),), input_layer=False, policy=False)
CHANGES = [0.1, -4.0, 2.0]
CORRELATIONS = [0.9, 0.5, -0.25]


def measure(before: float, after: float, p: float) -> dict[str, Any]:
    difference = after - before
    interval = [difference - 0.5, difference + 0.5]
    return {
        **{"unedited": before, "ablated": after, "difference": difference, "p": p, "adjusted_p": p},
        **{"interval": interval, "corrected_interval": interval},
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
        summary = {
            "mean": (CHANGES + [0.0] * count)[:count],
            "mean_abs": [1.0] * count,
            "correlation": (CORRELATIONS + [0.5] * count)[:count],
        }
        entry = {"trajectories": [ChunkName(chunk)], "outputs": {"value": summary}}
        place = {"agent": "agent-1", "recording": "recording-1", "version": 1}
        clip = {"layer": "2a", "feature": 2, "episode": 3, "step": 9, "lost": 10.0}
        behavior = {
            **{"episodes": 400, "tests": 12, "output": "value", "causes": ["goal", "saw"]},
            "rows": [row(1, -0.2, 1.0), row(2, -3.0, 0.001)],
            "clips": [{**clip, "image": ImageName("clip.png"), "still": ImageName("still.png")}],
        }
        manifest["sections"] += [
            {"kind": "ablation", "title": "Ablation", "data": {"every": 4, "layers": {"2a": entry}}, **place},
            {"kind": "behavior", "title": "Without a feature", "data": behavior, **place},
        ]

    write_synthetic_page(directory, SIZE, edit=edit)
    return directory


def test_the_legend_has_bars_and_can_be_sorted_by_them(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    bars = visitor.by("causal-2").locator("li")
    assert bars.evaluate_all("all => all.map(e => e.dataset.measure)") == ["attribution", "change", "achieved"]
    assert bars.nth(1).get_attribute("title") == "change when ablated: −4.00"
    assert bars.nth(2).get_attribute("title") == "change of return: −3.00 (−3.50 to −2.50)"
    items = visitor.page.locator("[data-testid=panel-legend] li[data-testid^=legend-]")
    first = "all => all.map(e => e.dataset.testid)"
    assert items.evaluate_all(first)[:3] == ["legend-1", "legend-2", "legend-3"]
    visitor.by("legend-order").select_option("change")
    assert items.evaluate_all(first)[:3] == ["legend-2", "legend-3", "legend-1"]
    visitor.by("legend-order").select_option("achieved")
    assert items.evaluate_all(first)[0] == "legend-2"


def test_a_feature_shows_attribution_against_ablation_and_behavior(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?feature=2")
    table = visitor.by("causal-outputs").locator("tbody tr")
    cells = table.first.locator("td").all_inner_texts()
    assert cells[1:] == ["−4.00", "1.00", "0.50"]
    scatter = visitor.by("causal-outputs").get_by_test_id("scatter")
    scatter.wait_for()
    assert scatter.get_attribute("data-points") == "5"
    causes = visitor.by("causal-behavior").get_by_test_id("behavior-causes").first.locator("tbody tr")
    assert causes.first.locator("td").first.inner_text() == "80\u2009%"
    assert "−3.00 (−3.50 to −2.50)" in visitor.text("causal-behavior")
    assert visitor.by("causal-behavior").get_by_test_id("clip").count() == 1, "where the two part"
    visitor.click("viewer-channel-1")
    assert visitor.by("causal-behavior").get_by_test_id("clip").count() == 0


def test_behavior_has_a_panel_with_clips(page: Path, open_page: Open) -> None:
    visitor = open_page(page)
    table = visitor.by("behavior")
    assert table.locator("tbody th").all_inner_texts() == ["2a, 1", "2a, 2"]
    table.get_by_role("button", name="Change of return").click()
    assert table.locator("tbody th").all_inner_texts() == ["2a, 2", "2a, 1"]
    image = visitor.by("clip").locator("img")
    assert str(image.get_attribute("src")).endswith("still.png")
    visitor.by("clip").get_by_role("button", name="Play").click()
    assert str(image.get_attribute("src")).endswith("clip.png")
    table.get_by_role("button", name="2a, 2").click()
    visitor.by("causal-behavior").wait_for()


def test_trust_has_the_correlations_of_every_layer(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?embed=1&panel=trust", wait=False)
    visitor.by("ablation").wait_for()
    assert visitor.by("ablation").locator("tbody td").all_inner_texts() == ["0.50", "−0.25", "0.90"]

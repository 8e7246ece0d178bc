"""A position has the color of its strongest feature; what the scale does not show is marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import ImageColor
from playwright.sync_api import expect

from rl_clarity.pages.results import open_results
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import K, read_chunk

Open = Callable[..., Visitor]


def parts(page: Path, layer: str, trajectory: int, frame: int, direction: str) -> tuple[np.ndarray, np.ndarray]:
    """What a sign shows of each feature (h, w, K), and of the residual (h, w)."""
    attribution = open_results(page).attribution(layer, trajectory, steps=[frame])
    assert attribution.residual is not None
    values = np.concatenate([attribution.channels, attribution.residual], -1)[0]
    shown = {"pos": np.maximum(values, 0), "neg": np.maximum(-values, 0), "abs": np.abs(values)}[direction]
    return shown[..., :-1], shown[..., -1]


@pytest.mark.parametrize("palette", ["standard", "safe"])
@pytest.mark.parametrize(("layer", "frame"), [("2b", 30), ("4a", 66), ("1a", 12)])
def test_every_position_has_the_hue_of_its_strongest_feature(
    synthetic: Path, open_page: Open, layer: str, frame: int, palette: str
) -> None:
    visitor = open_page(synthetic, f"?layer={layer}&frame={frame}&palette={palette}")
    style = "getComputedStyle(document.querySelector(`[data-testid=legend-${k}] .edge`)).backgroundColor"
    hexes = [visitor.page.evaluate(f"(k => {style})({k + 1})") for k in range(K)]
    colors = np.array([ImageColor.getrgb(color) for color in hexes], float)
    for direction in ("pos", "neg"):
        features, _ = parts(synthetic, layer, 0, frame - 1, direction)
        rgba = read_canvas(visitor.overlay(direction))
        visible = rgba[..., 3] > 2
        assert visible.sum() > 10
        wrong = np.abs(rgba[..., :3] - colors[features.argmax(-1)]).max(-1)[visible] > 255 / rgba[..., 3][visible] + 1
        assert wrong.sum() == 0, "of its hue at no visible position"
        if layer == "4a":  # too coarse to be smoothed
            scale = visitor.page.evaluate(f"rlClarity.compose(0, '{direction}').scale")
            assert np.abs(rgba[..., 3] - 255 * np.minimum(1, features.max(-1) / scale)).max() < 1


def test_positions_where_the_residual_is_strongest_are_hatched(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a&frame=30&overlay=0&channels=1")
    features, residual = parts(synthetic, "4a", 0, 29, "pos")
    image = visitor.page.evaluate("rlClarity.compose(0, 'pos')")
    wanted = np.where(residual > features[..., 0], np.minimum(1, residual / image["scale"]), 0)
    assert wanted.max() > 0
    assert np.allclose(np.reshape(image["residual"], wanted.shape), wanted, atol=1e-5)
    marks = visitor.overlay("pos").locator("xpath=following-sibling::canvas")
    hatched = read_canvas(marks)
    size = len(hatched) // len(wanted)
    alphas = hatched[..., 3].reshape(len(wanted), size, len(wanted), size).max((1, 3))
    assert np.abs(alphas - 255 * wanted).max() <= 1
    visitor.by("residual").uncheck()
    assert max(visitor.page.evaluate("rlClarity.compose(0, 'pos').residual")) == 0
    expect(marks).to_be_hidden()


@pytest.mark.slow
def test_few_positions_are_clipped_and_clipped_ones_are_marked(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a")
    visible = clipped = 0
    marked = None
    for frame in range(64):
        visitor.page.evaluate(f"rlClarity.select({{frame: {frame}}})")
        for direction in ("pos", "neg"):
            image = visitor.page.evaluate(f"rlClarity.compose(0, '{direction}')")
            visible += sum(alpha > 0 for alpha in image["data"][3::4])
            clipped += len(image["clipped"])
            marked = (frame, direction, image["clipped"][0]) if image["clipped"] and marked is None else marked
    assert 0 < clipped < 0.01 * visible
    assert marked is not None
    frame, direction, position = marked
    visitor.page.evaluate(f"rlClarity.select({{frame: {frame}}})")
    visitor.settle()
    assert int(visitor.overlay(direction).get_attribute("data-clipped") or 0) > 0
    marks = read_canvas(visitor.overlay(direction).locator("xpath=following-sibling::canvas"))
    size = len(marks) // 8
    row, column = divmod(position, 8)
    assert marks[row * size + size // 2, column * size + size // 2].tolist() == [255, 255, 255, 255]


def test_the_three_strongest_features_are_also_shown_separately(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a&frame=30&overlay=0")
    for place, direction in enumerate(("pos", "neg")):
        features, _ = parts(synthetic, "4a", 0, 29, direction)
        strongest = np.argsort(-features.sum((0, 1)))[:3]
        shown = visitor.by("multiples").nth(place).locator("button")
        assert [int(one.get_attribute("data-feature") or 0) - 1 for one in shown.all()] == strongest.tolist()
        scale = visitor.page.evaluate("rlClarity.compose(0).scale")
        alone = read_canvas(visitor.by("multiples-canvas").nth(place))[..., 3]
        unit = alone.shape[0] / 3.1
        centers = [
            ((np.arange(8) + 0.5) / 8 * unit).astype(int),
            ((np.arange(8) + 0.5) / 8 * alone.shape[1]).astype(int),
        ]
        for index, feature in enumerate(strongest):
            image = alone[np.ix_(centers[0] + round(1.05 * index * unit), centers[1])]
            assert np.abs(image - 255 * np.minimum(1, features[..., feature] / scale)).max() < 1
    shown.nth(1).hover()
    visitor.page.wait_for_function("() => document.querySelector('[data-testid^=legend-].active')")
    expect(shown, "they stay while one is isolated").to_have_count(3)
    shown.first.click(modifiers=["Alt"])
    assert visitor.state()["solo"]["channel"] == strongest[0]
    visitor.press("u")
    shown.first.click()
    assert visitor.by("drawer").get_attribute("data-panel") == "feature"


def test_mixed_hues_are_an_option_restored_from_the_address(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    strongest = visitor.attribution("pos")
    visitor.press("m")
    mixed = visitor.attribution("pos")
    assert np.abs(mixed - strongest).max() > 20
    expect(visitor.by("multiples")).to_have_count(0)
    visitor.page.wait_for_url("**mixed=1**")
    visitor.page.reload()
    assert np.array_equal(visitor.attribution("pos"), mixed)
    composed = visitor.page.evaluate("rlClarity.compose(0, 'pos', false).data")
    assert np.abs(255 * np.reshape(composed, strongest.shape) - strongest).max() < 2, "the other one, by script"
    visitor.by("mixed").uncheck()
    assert np.array_equal(visitor.attribution("pos"), strongest)
    visitor.press("u")
    assert visitor.state()["mixed"]


def test_compared_rows_of_a_layer_share_a_scale(synthetic: Path, open_page: Open) -> None:
    def scales(query: str) -> list[float]:
        visitor = open_page(synthetic, f"?layer=4a&frame=30&mixed=1&rows=value,value~~2,value~3a{query}")
        return [visitor.page.evaluate(f"rlClarity.compose({row}).scale") for row in range(3)]

    own = scales("&scale=trajectory")
    assert own[0] != own[1]
    assert scales("") == [max(own[:2]), max(own[:2]), own[2]]


def test_attribution_is_decoded_as_the_chunk_format_defines(synthetic: Path, open_page: Open) -> None:
    """`parts` above reads with the program's own reader: here is the formula."""
    features, residual = parts(synthetic, "2b", 0, 29, "abs")
    chunk = read_chunk(synthetic, "attribution/2b/1/value-1.js")
    codes = chunk["codes"][29].astype(float) / 127
    assert np.allclose(np.concatenate([features, residual[..., None]], -1), codes**2 * chunk["scales"][29], rtol=1e-5)
    assert open_page(synthetic, "?layer=2b&frame=30").attribution("pos").max() > 100

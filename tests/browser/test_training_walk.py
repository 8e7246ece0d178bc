"""Pages of real checkpoints, panel by panel: what they show is what NumPy computes from recordings and stored maps."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ImageColor
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.base.statistics import softmax
from rl_clarity.formats.included import path_of
from rl_clarity.pages.builder import RECORDINGS
from rl_clarity.pages.results import Results
from tests.browser.pages import Visitor, read_canvas
from tests.browser.test_training_steps import brush_axis
from tests.browser.training_pages import settle

pytestmark = pytest.mark.slow

Open = Callable[..., Visitor]
EVERY, MAX_STEPS = 8, 72
"""Maps take most of the time; 72 steps are two segments."""
COLORS = {"policy": (68, 68, 230), "value": (240, 68, 68)}
ACTIONS = [ImageColor.getrgb(color) for color in ("#8a8f96", "#1f6f9f", "#e69f00", "#7fd9bb")]
THEMES = {
    "light": {"surface": "#ffffff", "mark": "#2f5bb7", "policy": "#3a3ad6", "value": "#c9302c", "A": "#b45309"},
    "dark": {"surface": "#1b1e22", "mark": "#8fb4ff", "policy": "#9a9aff", "value": "#ff8f87", "A": "#fdba5c"},
}
REGIONS = ("top left", "top right", "bottom left", "bottom right")


@dataclass
class Real:
    """A page of three checkpoints, with numbers that do not come from the page's script."""

    directory: Path

    @cached_property
    def results(self) -> list[Results]:
        return list(rl_clarity.open_results(self.directory).each_agent())

    @cached_property
    def section(self) -> dict[str, Any]:
        return rl_clarity.open_results(self.directory).section("training")

    def recorded(self, checkpoint: int, name: str) -> np.ndarray:
        """A field (T, ...) of the game that a checkpoint played, from its recording."""
        recording = rl_clarity.open_recording(self.directory / RECORDINGS / f"agent-{checkpoint + 1}")
        return np.concatenate([np.asarray(getattr(episode, name)) for episode in recording])

    def probabilities(self, checkpoint: int) -> np.ndarray:
        return softmax(self.recorded(checkpoint, "policy_logits").astype(np.float64))

    def maps(self, checkpoint: int, output: str) -> np.ndarray:
        return self.results[checkpoint].saliency(0, output=output).values.astype(np.float64)

    def shares(self, checkpoint: int, output: str) -> np.ndarray:
        """Shares (4, m) of the quadrants."""
        return quadrants(self.maps(checkpoint, output))

    @property
    def longest(self) -> int:
        return max(len(self.recorded(checkpoint, "rewards")) for checkpoint in range(3))

    def axes(self, checkpoint: int) -> dict[str, np.ndarray]:
        """Numbers (T,) of each axis of the panel Steps."""
        rewards, probabilities = self.recorded(checkpoint, "rewards"), self.probabilities(checkpoint)
        firsts = self.results[checkpoint].series(0)["firsts"]
        to_come, total = np.zeros(len(rewards)), 0.0
        for t in reversed(range(len(rewards))):
            total = rewards[t] + (0 if t + 1 < len(rewards) and firsts[t + 1] else total)
            to_come[t] = total
        held = np.arange(len(rewards)) // EVERY
        return {
            "step": np.arange(len(rewards)), "value": self.recorded(checkpoint, "values"),
            "advantage": self.results[checkpoint].series(0)["advantages"],
            "entropy": entropy(probabilities), "probability": probabilities.max(-1), "reward": rewards,
            "return": to_come,
            **{f"region-{k + 1}": share[held] for k, share in enumerate(self.shares(checkpoint, "value"))},
        }  # fmt: skip

    def opacity(self, checkpoint: int, maps: np.ndarray, scale: float) -> np.ndarray:
        """Opacity (h, w) in 0..255 of a map over a frame: linear between the centers of cells."""
        entry = self.results[checkpoint].section("saliency")["methods"][0]
        observation = self.results[checkpoint].agent["observation"]
        size = observation["frame_height"], observation["frame_width"]
        rows, columns = ((np.arange(count) + 0.5) / count for count in size)
        across = np.stack([np.interp(columns, entry["centers"]["columns"], row) for row in maps])
        image = np.stack([np.interp(rows, entry["centers"]["rows"], column) for column in across.T], axis=1)
        top, left, bottom, right = observation.get("region") or (0, 0, 1, 1)
        inside = ((rows >= top) & (rows <= bottom))[:, None] & ((columns >= left) & (columns <= right))
        return np.where(inside, 255 * np.minimum(1, image / scale), 0)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    terms = np.where(probabilities > 0, -probabilities * np.log(np.maximum(probabilities, 1e-300)), 0)
    return np.asarray(terms.sum(-1))


def quadrants(maps: np.ndarray) -> np.ndarray:
    """Shares (4, m) of the sums of maps (m, gh, gw) in each quadrant, from the top left."""
    row, column = ((count + 1) // 2 for count in maps.shape[1:])
    parts = (maps[:, :row, :column], maps[:, :row, column:], maps[:, row:, :column], maps[:, row:, column:])
    sums, total = np.stack([part.sum((1, 2)) for part in parts]), maps.sum((1, 2))
    return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    pytest.importorskip("ale_py", reason="the checkpoints play an Atari game")
    folder = path_of("breakout-series")
    checkpoints = [folder / f"checkpoint-{number}.jd" for number in (1, 30, 60)]
    directory = tmp_path_factory.mktemp("series")
    sizes: dict[str, Any] = {
        "max_steps": MAX_STEPS,
        "saliency_every": EVERY,
        "return_episodes": 1,
        "play.candidates": 1,
    }
    rl_clarity.compare(checkpoints, directory, **sizes)
    return Real(directory)


@pytest.fixture
def open_real(open_page: Open, real: Real) -> Iterator[Open]:
    """`open_real(query)` opens the page; every request it makes is for a file of its directory."""

    def open_at(query: str = "", **options: object) -> Visitor:
        visitor: Visitor = open_page(real.directory, query, wait=False, **options)
        visitor.page.on("request", lambda request: requests.append(request.url))
        settle(visitor)
        return visitor

    requests: list[str] = []
    yield open_at
    own = (real.directory.resolve().as_uri(), "data:", "blob:")
    assert [url for url in requests if not url.startswith(own)] == []


def canvas_of(visitor: Visitor, track: str) -> np.ndarray:
    return read_canvas(visitor.track(track).locator("canvas"))[..., :3]


@pytest.mark.parametrize("output", ["policy", "value"])
def test_displayed_saliency_maps_equal_the_stored_maps(open_real: Open, real: Real, output: str) -> None:
    visitor = open_real(f"?checkpoints=3.1&step=43&overlay={output}&scale=trajectory")
    for checkpoint in (2, 0):
        maps = real.maps(checkpoint, output)
        shown = read_canvas(visitor.by(f"film-{checkpoint + 1}").get_by_test_id("saliency-canvas"))
        wanted = real.opacity(checkpoint, maps[42 // EVERY], maps.max())
        np.testing.assert_allclose(shown[..., 3], wanted, atol=1.5)
        strong = shown[..., 3] > 100
        np.testing.assert_allclose(shown[strong][:, :3], np.broadcast_to(COLORS[output], (strong.sum(), 3)), atol=3)
        peak = maps[42 // EVERY].max() / maps.max()
        assert (
            f"{output} {100 * peak:.{1 if peak < 0.1 else 0}f}"[:9]
            in visitor.by(f"film-{checkpoint + 1}").get_by_test_id("peaks").inner_text().replace("\u00a0", " ")
            or peak > 0.99
        )
    visitor.by("scale").select_option("frame")
    shown = read_canvas(visitor.by("film-3").get_by_test_id("saliency-canvas"))
    own = real.maps(2, output)[42 // EVERY]
    np.testing.assert_allclose(shown[..., 3], real.opacity(2, own, own.max()), atol=1.5)


def test_displayed_policy_bands_equal_the_recorded_probabilities(open_real: Open, real: Real) -> None:
    visitor = open_real("?checkpoints=3.1&step=1")
    for checkpoint in (2, 0):
        image = canvas_of(visitor, f"policy-{checkpoint + 1}")
        probabilities = real.probabilities(checkpoint)
        colors = np.array(ACTIONS[: probabilities.shape[1]], float)
        xs = np.floor((np.arange(1, len(probabilities)) + 0.5) * image.shape[1] / real.longest).astype(int)
        # A mark of the action and the line of rewards cover a part of each column.
        nearest = np.abs(image[:, xs, None] - colors).sum(-1).argmin(-1)  # (h, T - 1)
        shown = np.stack([(nearest == k).mean(0) for k in range(len(colors))], axis=1)
        differences = np.abs(shown - probabilities[1:])
        assert differences.mean() < 0.08
        assert differences.max() < 0.35


@pytest.mark.parametrize("theme", THEMES)
def test_displayed_region_shares_equal_those_of_the_stored_maps(open_real: Open, real: Real, theme: str) -> None:
    visitor = open_real("?checkpoints=3.1&step=43&window=5&region=4", color_scheme=theme)
    colors = {name: np.array(ImageColor.getrgb(color)) for name, color in THEMES[theme].items()}
    for checkpoint in (2, 0):
        stored = visitor.page.evaluate(f"rlClarity.shares({checkpoint})")
        all_shares = {output: real.shares(checkpoint, output) for output in COLORS}
        for output, shares in all_shares.items():
            np.testing.assert_allclose(stored[output], shares, atol=1e-6)
        heat = canvas_of(visitor, f"heat-{checkpoint + 1}")
        middles = np.arange(all_shares["value"].shape[1] - 1) * EVERY + EVERY / 2
        xs = np.floor(middles * heat.shape[1] / real.longest).astype(int)
        for region, share in enumerate(all_shares["value"]):
            row = heat[round((region + 0.75) * heat.shape[0] / 4), xs]
            wanted = colors["surface"] + share[: len(xs), None] * (colors["mark"] - colors["surface"])
            np.testing.assert_allclose(row, wanted, atol=2)
        rolling = canvas_of(visitor, f"rolling-{checkpoint + 1}")
        height, width = rolling.shape[:2]
        means = {
            output: np.array([shares[3, max(0, m - 4) : m + 1].mean() for m in range(shares.shape[1])])
            for output, shares in all_shares.items()
        }
        ys = {output: height - 4 - mean * (height - 8) for output, mean in means.items()}
        for output in ("value", "policy"):
            for m in range(1, len(means[output]) - 1):
                y, x = ys[output][m], int((m * EVERY + 0.5) * width / real.longest)
                if output == "policy" and abs(y - ys["value"][m]) < 4:
                    continue  # the value's line covers it
                around = rolling[max(0, int(y) - 1) : int(y) + 2, x - 1 : x + 2].reshape(-1, 3)
                assert np.abs(around - colors[output]).max(-1).min() < 60, (checkpoint, output, m)
        for output, shares in all_shares.items():
            bars = visitor.by(f"histogram-{checkpoint + 1}").locator(f"[data-output={output}]")
            shown = bars.evaluate_all("bars => bars.map((bar) => Number(bar.dataset.share))")
            np.testing.assert_allclose(shown, shares[:, 42 // EVERY], atol=1e-6)


def test_brushing_any_axis_selects_the_same_steps_in_all_panels(open_real: Open, real: Real) -> None:
    visitor = open_real("?checkpoints=3.1")
    axes = {checkpoint: real.axes(checkpoint) for checkpoint in (2, 0)}
    canvas = visitor.by("steps-canvas")
    for key in axes[2]:
        if np.ptp(np.concatenate([axes[2][key], axes[0][key]])) == 0:
            continue
        brush_axis(visitor, key, 0.03, 0.6)
        low, high = visitor.state()["brushes"][key]
        held = 0
        for checkpoint, columns in axes.items():
            inside = (columns[key] >= low - 1e-6) & (columns[key] <= high + 1e-6)
            held += int(inside.sum())
            runs = int((np.diff(np.r_[0, inside.astype(int)]) == 1).sum())
            for track in ("film", "policy", "value", "moments", "heat", "rolling"):
                marks = visitor.track(f"{track}-{checkpoint + 1}").get_attribute("data-marks")
                assert marks == str(runs), (key, track)
        assert canvas.get_attribute("data-lines") == str(held), key
        visitor.press("z")
        assert visitor.state()["brushes"] == {}, "undo"


@pytest.mark.parametrize("theme", THEMES)
def test_the_line_of_a_step_passes_through_its_values_on_all_axes(open_real: Open, real: Real, theme: str) -> None:
    visitor = open_real("?checkpoints=3&brush=step~31~31", color_scheme=theme)
    image = read_canvas(visitor.by("steps-canvas"))
    height = len(image)
    color = np.array(ImageColor.getrgb(THEMES[theme]["A"]))
    for key, values in real.axes(2).items():
        box, area = (visitor.by(name).bounding_box() for name in (f"axis-{key}", "steps-canvas"))
        assert box
        assert area
        x = round(box["x"] + box["width"] / 2 - area["x"])
        share = (values[30] - values.min()) / (np.ptp(values) or 1)
        y = 6 + (1 - share) * (height - 13)
        around = image[max(0, int(y) - 1) : int(y) + 3, max(0, x - 2) : x + 2].reshape(-1, 4)
        assert around[:, 3].max() > 150, key
        assert np.abs(around[around[:, 3].argmax(), :3] - color).max() < 40, key


def test_all_checkpoints_are_evaluated_on_the_last_ones_episode(open_real: Open, real: Real) -> None:
    visitor = open_real("?step=41&overlay=value")
    actions, reference = real.recorded(2, "actions"), real.section["reference"]
    shown = [real.results[0].chunk(name) for name in reference["shown"]]
    np.testing.assert_allclose(shown[2]["values"], real.recorded(2, "values"), atol=1e-4)
    np.testing.assert_allclose(shown[2]["probabilities"], real.probabilities(2), atol=1e-4)
    common = np.percentile(np.concatenate([arrays["scales.value"] for arrays in shown]), 99)
    for checkpoint, arrays in enumerate(shown):
        text = visitor.text(f"eye-{checkpoint + 1}")
        percent = float(text.split("%")[0].split()[-1])
        np.testing.assert_allclose(percent, 100 * arrays["probabilities"][40, actions[40]], atol=0.6)
        number = float(text.split("value ")[1].split(",")[0].replace("\u2212", "-"))
        np.testing.assert_allclose(number, arrays["values"][40], rtol=6e-3, atol=1e-3)
        canvas = read_canvas(visitor.by(f"eye-{checkpoint + 1}").get_by_test_id("saliency-canvas"))
        codes, scale = arrays["codes.value"][40 // EVERY], arrays["scales.value"][40 // EVERY]
        wanted = real.opacity(2, codes / 255 * scale, common)
        np.testing.assert_allclose(canvas[..., 3], wanted, atol=1.5)
    policies = np.stack([arrays["probabilities"] for arrays in shown]).astype(np.float64)
    divergence = entropy(policies.mean(0)) - entropy(policies).mean(0)
    visitor.click("disagreement")
    assert visitor.state()["step"] == int(divergence.argmax())


def test_the_exported_table_has_the_numbers_of_the_recordings(open_real: Open, real: Real) -> None:
    visitor = open_real()
    with visitor.saved("numbers-csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for checkpoint, row in enumerate(rows):
        wanted = {"mean entropy": entropy(real.probabilities(checkpoint)).mean()}
        for output in COLORS:
            totals = real.results[checkpoint].saliency(0, output=output).totals
            wanted[f"total saliency, {output}"] = totals.astype(np.float64).mean()
            for name, share in zip(REGIONS, real.shares(checkpoint, output), strict=True):
                wanted[f"{name}, {output}"] = share.mean()
        np.testing.assert_allclose([float(row[key]) for key in wanted], list(wanted.values()), rtol=1e-4, atol=1e-6)
    text = visitor.text("returns-read-out")
    for checkpoint in range(3):
        assert f"{real.recorded(checkpoint, 'rewards')[0]:.3g}" in text


def test_the_selection_is_shared_by_all_panels_address_and_undo(open_real: Open) -> None:
    visitor = open_real("?checkpoints=3.1&step=43")
    visitor.press(".", "ArrowRight", "o", "p", "d", "s")
    state = visitor.state()
    assert (state["overlay"], state["path"], state["sync"]) == ("policy", True, "progress")
    assert visitor.by("overlay").input_value() == "policy"
    expect(visitor.by("panel-films").get_by_test_id("peak-path")).to_have_count(2)
    visitor.press("z")
    assert visitor.state()["sync"] == "step", "undo"
    visitor.by("checkpoint-2").focus()
    visitor.press("Enter")
    assert visitor.state()["chosen"] == [1, 0]
    visitor.by("marker-3").locator("circle").click(modifiers=["Shift"], force=True)
    assert visitor.state()["chosen"] == [1, 0, 2]
    for panel in ("film", "region-row"):
        for number in (1, 2, 3):
            expect(visitor.by(f"{panel}-{number}")).to_have_count(1)
    visitor.by("axis").select_option("value")
    visitor.by("axis-from").fill("0.5")
    visitor.press("Tab")
    visitor.by("palette").select_option("safe")
    visitor.page.wait_for_url("**palette=safe*")
    state = visitor.state()
    other = open_real("?" + visitor.page.url.partition("?")[2])
    brushes = other.state().pop("brushes"), state.pop("brushes")
    np.testing.assert_allclose(brushes[0]["value"], brushes[1]["value"], rtol=1e-4)
    assert {**other.state(), "brushes": {}} == {**state, "brushes": {}}, "the address has all of it"


@pytest.mark.parametrize("theme", THEMES)
def test_a_narrow_window_shows_every_panel(open_real: Open, theme: str) -> None:
    visitor = open_real("?step=43", viewport={"width": 390, "height": 844}, color_scheme=theme)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390
    for panel in ("play", "curve", "returns", "films", "regions", "steps", "reference", "numbers"):
        visitor.by(f"panel-{panel}").scroll_into_view_if_needed()
        expect(visitor.by(f"panel-{panel}")).to_be_visible()

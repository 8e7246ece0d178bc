"""Measure whether the terms of an output add up, and colors are right: `python -m benchmarks --only decomposition`.

For small pages of the included agents:

- the largest deviation of baseline + features + residual + memory + completeness error from the output, in units of the
  output's range, over all frames, layers and outputs: in Python, and as the page computes it on some frames;
- the share of an output's variance over frames that features and residual of a layer explain;
- the share of the attribution that the features cover, and their error on held-out observations;
- the share of visible positions whose hue is nearest to that of a feature which is not the strongest there, in the
  default view, with mixed hues, and with mixed hues in the palette for color-blind readers; and the share of visible
  positions that exceed the scale.

`python -m benchmarks.decomposition PAGE_DIRECTORY ...` measures existing pages.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.page import READY
from rl_clarity.pages.results import Results, open_results
from scripts.chromium import FLAGS, find_chromium

AGENTS = {"coinrun": False, "fruitbot": True, "starpilot-lstm": False}
"""Included agents, and whether their actions are explained, too."""
SIZES: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 2, "num_steps": 64},
    "observations_kwargs": {"num_envs": 16, "num_obs": 16},
}
FRAMES = range(1, 64, 9)
"""Frames of the first trajectory on which the page is measured in the browser."""
VISIBLE = 0.1
"""Smallest opacity of a position that counts as visible."""
VIEWS = {"default": (False, "standard"), "mixed": (True, "standard"), "mixed, color-blind": (True, "safe")}
"""For each view, whether hues are mixed, and the palette."""
TERMS = ("baseline", "residual", "memory", "completeness_error")


def measure() -> dict[str, Any]:
    """Make a small page of each agent and measure it."""
    import rl_clarity

    results = {}
    for name, policy in AGENTS.items():
        with tempfile.TemporaryDirectory() as folder:
            rl_clarity.run(f"models:{name}", folder, attr_policy=policy, **SIZES)
            results[name] = measure_page(Path(folder))
    return results


def measure_page(folder: Path) -> dict[str, Any]:
    """Return all measurements of a page; those in the browser only if Chromium is found."""
    results = open_results(folder)
    layers = [layer for layer in results.layers if results.layer(layer)["kind"] != "input"]
    figures: dict[str, Any] = {"deviation": deviation(results, layers), "layers": {}}
    for layer in layers:
        facts = results.layer_facts(layer)
        shares = {output: share for output, share in facts["variance_share"].items() if share is not None}
        first = results.outputs[0]
        figures["layers"][layer] = {
            "variance_share": shares[first],
            "lowest_share": min(shares.values()),
            "coverage": facts["coverage"][first],
            "error_held_out": facts["error_held_out"],
        }
    if find_chromium() is not None:
        figures |= in_browser(results, layers, folder)
    return figures


def deviation(results: Results, layers: list[str]) -> float:
    """Return the largest deviation of the sum from the output over all layers and outputs, in units of the output's
    range.
    """
    count = len(results.section("trajectories")["trajectories"])
    return max(
        float(np.abs(_sum(terms, TERMS) - terms["output"]).max() / max(np.ptp(terms["output"]), 1e-9))
        for layer in layers
        for output in results.outputs
        for terms in (results.decomposition(trajectory, layer, output) for trajectory in range(count))
    )


def _sum(terms: dict[str, Any], names: tuple[str, ...]) -> np.ndarray:
    return np.asarray(sum(np.asarray(terms[name]) for name in names) + np.sum(terms["features"], axis=-1))


def in_browser(results: Results, layers: list[str], folder: Path) -> dict[str, Any]:
    """Return measurements of the decomposition and the colors that the page computes."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_chromium()), args=FLAGS)
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.goto((folder / "interface.html").resolve().as_uri())
        page.wait_for_function(READY)
        figures: dict[str, Any] = {"deviation_on_page": deviation_on_page(page, results, layers), "colors": {}}
        for view, (mixed, palette) in VIEWS.items():
            figures["colors"][view] = {layer: colors(page, results, layer, mixed, palette) for layer in layers}
        browser.close()
    return figures


def _select(page: Page, layer: int, frame: int, output: str, palette: str = "standard") -> None:
    rows = [{"output": output, "layer": None, "trajectory": None}]
    changes = {"layer": layer, "trajectory": 0, "frame": frame, "palette": palette, "rows": rows}
    page.evaluate("(changes) => rlClarity.select(changes)", changes)
    page.wait_for_function("() => rlClarity.compose() && rlClarity.decomposition()")


def _hues(results: Results, layer: str, palette: str) -> np.ndarray:
    """Return the hues (K, 3) of a layer's features, with unit L2 norm."""
    if palette == "standard":
        return np.array(results.layer(layer)["hues"])
    source = (Path(__file__).parents[1] / "svelte_src/kit/image/colors.js").read_text(encoding="utf-8")
    (listed,) = re.findall(r"const SAFE = \[(.*?)\];", source, re.DOTALL)
    codes = np.array([[int(code[i : i + 2], 16) for i in (0, 2, 4)] for code in re.findall("#([0-9a-f]{6})", listed)])
    hues = codes / np.linalg.norm(codes, axis=1, keepdims=True)
    return np.asarray(hues[np.arange(results.layer(layer)["channels"]) % len(hues)])


def deviation_on_page(page: Page, results: Results, layers: list[str]) -> float:
    """Return the largest deviation as the page computes it, on some frames, for the first and the last output."""
    largest = 0.0
    for layer in layers:
        for output in {results.outputs[0], results.outputs[-1]}:
            known = results.decomposition(0, layer, output)["output"]
            for frame in FRAMES:
                _select(page, results.layers.index(layer), frame, output)
                shown = page.evaluate("rlClarity.decomposition()")
                off = max(abs(float(_sum(shown, TERMS)) - shown["output"]), abs(shown["output"] - known[frame]))
                largest = max(largest, off / max(float(np.ptp(known)), 1e-9))
    return largest


def colors(page: Page, results: Results, layer: str, mixed: bool, palette: str) -> dict[str, float]:
    """Return the share of visible positions with the hue of a feature that is not the strongest, and the share of those
    that exceed the scale.
    """
    wrong = visible = clipped = 0
    hues = _hues(results, layer, palette)
    for frame in FRAMES:
        values = results.attribution(layer, 0, results.outputs[0], [frame]).channels[0]
        _select(page, results.layers.index(layer), frame, results.outputs[0], palette)
        for sign, part in (("pos", np.maximum(values, 0)), ("neg", np.maximum(-values, 0))):
            image = page.evaluate("([sign, mixed]) => rlClarity.compose(0, sign, mixed)", [sign, mixed])
            shown = np.array(image["data"]).reshape(image["height"], image["width"], 4)
            seen = (shown[..., 3] >= VISIBLE) & (part.max(axis=-1) > 0)
            named = (shown[seen][:, :3] @ hues.T).argmax(axis=-1)
            wrong += int((named != part[seen].argmax(axis=-1)).sum())
            visible += int(seen.sum())
            clipped += (
                len(image["clipped"]) if image["clipped"] else int((shown[seen][:, 3] >= 1).sum()) if mixed else 0
            )
    return {"wrong": wrong / max(visible, 1), "clipped": clipped / max(visible, 1)}


def lines(result: dict[str, Any]) -> list[str]:
    """Return the measurements as lines of text."""
    text = []
    for name, page in result.items():
        on_page = page.get("deviation_on_page")
        beside = "" if on_page is None else f"; on the page {on_page:.0e}"
        text.append(f"{name}: the sum deviates from the output by {page['deviation']:.0e} of its range{beside}")
        for layer, facts in page["layers"].items():
            shares = (
                f"{facts['variance_share']:6.1%} of the variance (of all outputs at least {facts['lowest_share']:.1%})"
            )
            features = f"features cover {facts['coverage']:.0%}, held-out error {facts['error_held_out']:.1%}"
            text.append(f"  {layer:8} {shares}; {features}")
        for view, by_layer in page.get("colors", {}).items():
            hues = ", ".join(f"{layer} {one['wrong']:.1%}" for layer, one in by_layer.items())
            over = ", ".join(f"{layer} {one['clipped']:.1%}" for layer, one in by_layer.items())
            text.append(f"  {view} view: hue of another feature at {hues}; above the scale {over}")
    return text


if __name__ == "__main__":
    print("\n".join(lines({argument: measure_page(Path(argument)) for argument in sys.argv[1:]})))

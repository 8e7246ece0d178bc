"""How fast a page is: `python -m benchmarks.page PAGE_DIRECTORY` opens it in Chromium and prints

- milliseconds from opening to the first picture of attribution,
- milliseconds from a key to the new picture (median and 95th percentile), all work of the page until then,
- frames that the screen missed while playing at 60 frames a second, and the page's own processor time a frame,
- the same on the view that costs most: all tracks over as much time as can be shown, and while playing at 12,
- megabytes of JavaScript heap after playing all of one trajectory on every layer.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import CDPSession, Page, sync_playwright

from scripts.chromium import FLAGS, find_chromium

KEY_PRESSES = 200
"""Enough that a 95th percentile is of the page at work, not of the first few keys, which still compile its code."""
READY = """() => {
  const names = '[data-testid=attribution-canvas], [data-testid=observation-canvas]';
  const pictures = [...document.querySelectorAll(names)];
  const frame = window.rlClarity?.state().frame;
  return pictures.length > 0 && pictures.every((canvas) => canvas.dataset.frame?.endsWith(`/${frame}`));
}"""

# From the key to the moment at which every canvas shows the new frame and the browser has laid out the page. What looks
# is cheap, as its time counts too.
KEYS = """async (count) => {
  const names = '[data-testid=attribution-canvas], [data-testid=observation-canvas]';
  const pictures = [...document.querySelectorAll(names)];
  const times = [];
  let frame = rlClarity.state().frame;
  for (let i = 0; i < count; i += 1) {
    await new Promise(requestAnimationFrame);
    const start = performance.now();
    window.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    const wanted = `/${frame += 1}`;
    while (!pictures.every(({ dataset }) => dataset.frame.endsWith(wanted))) {
      await new Promise((resolve) => setTimeout(resolve));
    }
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
}"""

PLAY = """async ({ fps, frames }) => {
  const field = document.querySelector('.speed input');
  field.value = fps;
  field.dispatchEvent(new Event('change'));
  const shown = new Set();
  const ticks = [];
  document.querySelector('[data-testid=play]').click();
  const first = rlClarity.state().frame;
  await new Promise((resolve) => {
    const watch = (time) => {
      ticks.push(time);
      shown.add(rlClarity.state().frame);
      if (rlClarity.state().frame - first < frames) requestAnimationFrame(watch);
      else resolve();
    };
    requestAnimationFrame(watch);
  });
  document.querySelector('[data-testid=play]').click();
  return { shown: shown.size, passed: rlClarity.state().frame - first, ticks };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.page", description=__doc__)
    parser.add_argument("page", type=Path, help="directory of a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result")
    arguments = parser.parse_args()
    result = measure(arguments.page)
    print("\n".join(lines(result)))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1, sort_keys=True))


def measure(directory: Path) -> dict[str, Any]:
    """The numbers of the page in a directory, on this machine."""
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium: RL_CLARITY_CHROMIUM names one")
    with sync_playwright() as playwright:
        arguments = [flag for flag in FLAGS if not flag.startswith("--headless")]
        browser = playwright.chromium.launch(executable_path=str(program), args=arguments)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        profiler = page.context.new_cdp_session(page)
        profiler.send("Performance.enable", {"timeDomain": "threadTicks"})
        address = (directory / "interface.html").resolve().as_uri()
        page.goto(address)  # the browser itself is warm after this
        page.wait_for_function(READY)
        if page.get_by_test_id("tour-skip").count():
            page.get_by_test_id("tour-skip").click()
        layers = page.evaluate("rlClarity.manifest.layers.map(layer => layer.slug)")
        result: dict[str, Any] = {"first_picture_ms": _first_picture(page, address)}
        result["layers"] = {slug: _pace(page, profiler, f"{address}?layer={slug}") for slug in layers}
        heaviest = max(result["layers"], key=lambda slug: result["layers"][slug]["key_cpu_ms"])
        result["layers"]["all tracks"] = _pace(page, profiler, f"{address}?layer={heaviest}", all_tracks=True)
        result["layers"]["all, 12 fps"] = _pace(page, profiler, f"{address}?layer={heaviest}", all_tracks=True, fps=12)
        result["heap_mb"] = _heap_after_all(page, profiler, address, len(layers))
        browser.close()
    return result


def _first_picture(page: Page, address: str) -> float:
    times = []
    for _ in range(3):
        page.goto("about:blank")
        start = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_function(READY)
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def _pace(
    page: Page, profiler: CDPSession, address: str, *, all_tracks: bool = False, fps: int = 60
) -> dict[str, float]:
    """A key, and playing, on one layer."""
    page.goto(address)
    page.wait_for_function(READY)
    if all_tracks:
        _open_all_tracks(page)
    steps = page.evaluate("rlClarity.manifest.trajectories[0].steps")
    count = min(KEY_PRESSES, steps // 2)
    busy, keys = _busy(profiler), page.evaluate(KEYS, count)
    key_cpu = (_busy(profiler) - busy) / count
    busy = _busy(profiler)
    played = page.evaluate(PLAY, {"fps": fps, "frames": min(3 * fps, steps - count - 2)})
    gaps = np.diff(played["ticks"])
    return {
        "key_ms_median": float(np.median(keys)),
        "key_ms_p95": float(np.percentile(keys, 95)),
        "key_cpu_ms": 1000 * key_cpu,
        "play_missed": played["passed"] - played["shown"] + 1,
        "play_frames": played["passed"],
        "play_gap_ms_p95": float(np.percentile(gaps, 95)),
        "play_cpu_ms": 1000 * (_busy(profiler) - busy) / max(1, played["passed"]),
    }


def _open_all_tracks(page: Page) -> None:
    for name in ("probabilities over time", "over time"):
        boxes = page.get_by_label(name, exact=True)
        if boxes.count():
            boxes.first.check()
    for _ in range(8):
        page.get_by_role("button", name="Show more time").click()


def _busy(profiler: CDPSession) -> float:
    """Seconds of processor time that the page's main thread has used."""
    metrics = profiler.send("Performance.getMetrics")["metrics"]
    return float(next(entry["value"] for entry in metrics if entry["name"] == "TaskDuration"))


def _heap_after_all(page: Page, profiler: CDPSession, address: str, layers: int) -> float:
    page.goto(address)
    page.wait_for_function(READY)
    steps = page.evaluate("rlClarity.manifest.trajectories[0].steps")
    for layer in range(layers):
        for frame in range(0, steps, 8):
            page.evaluate("(patch) => rlClarity.select(patch)", {"layer": layer, "frame": frame})
            page.wait_for_function(READY)
    profiler.send("HeapProfiler.collectGarbage")
    held = page.evaluate("performance.memory.usedJSHeapSize + rlClarity.chunkBytes()")
    return float(held) / 2**20


def lines(result: dict[str, Any]) -> list[str]:
    """The result as a table."""
    rows = [f"first picture {result['first_picture_ms']:.0f} ms"]
    rows.append(f"{'layer':12} {'key ms':>8} {'p95':>6} {'cpu':>6}   {'missed':>12} {'cpu':>6}")
    for slug, pace in result["layers"].items():
        missed = f"{pace['play_missed']:.0f} of {pace['play_frames']:.0f}"
        rows.append(
            f"{slug:12} {pace['key_ms_median']:8.1f} {pace['key_ms_p95']:6.1f} {pace['key_cpu_ms']:6.1f}   "
            f"{missed:>12} {pace['play_cpu_ms']:6.1f}"
        )
    return [*rows, f"heap and unpacked chunks after a trajectory on all layers {result['heap_mb']:.0f} MB"]


if __name__ == "__main__":
    main()

"""Measure the speed of a page: `python -m benchmarks.page PAGE_DIRECTORY` opens it in Chromium and prints

- milliseconds until the first image of attribution,
- milliseconds from a key press to the new image, and the processor time of the page's main thread (median or mean, and
  95th percentile),
- dropped frames during playback at 60 frames per second, and the page's processor time per frame,
- the same on the most expensive view: all tracks over the longest time span, and at 12 frames per second,
- megabytes of JavaScript heap after a whole trajectory on every layer.
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
"""Number of key presses. The first few, during which the browser compiles the page's code, do not change the 95th
percentile of so many."""
READY = """() => {
  const names = '[data-testid=attribution-canvas], [data-testid=observation-canvas]';
  const canvases = [...document.querySelectorAll(names)];
  const frame = window.rlClarity?.state().frame;
  return canvases.length > 0 && canvases.every((canvas) => canvas.dataset.frame?.endsWith(`/${frame}`));
}"""

# From the key press until every canvas shows the new frame and the page is laid out; timers would be up to 4 ms late.
KEYS = """async (count) => {
  const names = '[data-testid=attribution-canvas], [data-testid=observation-canvas]';
  const canvases = [...document.querySelectorAll(names)];
  const times = [];
  let frame = rlClarity.state().frame;
  for (let i = 0; i < count; i += 1) {
    await new Promise(requestAnimationFrame);
    const wanted = `/${frame += 1}`;
    const shown = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (!canvases.every(({ dataset }) => dataset.frame.endsWith(wanted))) return;
        observer.disconnect();
        resolve();
      });
      for (const canvas of canvases) observer.observe(canvas, { attributeFilter: ['data-frame'] });
    });
    const start = performance.now();
    window.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    await shown;
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
}"""

PLAY = """async ({ fps, frames }) => {
  const field = document.querySelector('.transport input[type=number]');
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the result")
    arguments = parser.parse_args()
    result = {arguments.page.name: measure(arguments.page)}
    print("\n".join(lines(result)))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1, sort_keys=True))


def measure(directory: Path) -> dict[str, Any]:
    """Measure the page in a directory."""
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium was found: set RL_CLARITY_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        profiler = page.context.new_cdp_session(page)
        profiler.send("Performance.enable", {"timeDomain": "threadTicks"})
        address = (directory / "interface.html").resolve().as_uri()
        page.goto(address)  # warm up the browser
        page.wait_for_function(READY)
        if page.get_by_test_id("tour-skip").count():
            page.get_by_test_id("tour-skip").click()
        layers = page.evaluate("rlClarity.manifest.layers.map(layer => layer.slug)")
        result: dict[str, Any] = {"first_image_ms": _first_image(page, address)}
        result["layers"] = {slug: _pace(page, profiler, f"{address}?layer={slug}") for slug in layers}
        heaviest = max(result["layers"], key=lambda slug: result["layers"][slug]["key_cpu_ms"])
        result["layers"]["all tracks"] = _pace(page, profiler, f"{address}?layer={heaviest}", all_tracks=True)
        result["layers"]["all, 12 fps"] = _pace(page, profiler, f"{address}?layer={heaviest}", all_tracks=True, fps=12)
        result["heap_mb"] = _heap_after_all(page, profiler, address, len(layers))
        browser.close()
    return result


def _first_image(page: Page, address: str) -> float:
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
    """Measure key presses and playback on one layer."""
    page.goto(address)
    page.wait_for_function(READY)
    if all_tracks:
        _open_all_tracks(page)
    steps = page.evaluate("rlClarity.manifest.trajectories[0].steps")
    count = min(KEY_PRESSES, steps // 2)
    start, keys = task_seconds(profiler), page.evaluate(KEYS, count // 2)
    key_cpu = (task_seconds(profiler) - start) / (count // 2)
    singly = [_key_cpu(page, profiler) for _ in range(count // 2)]
    start = task_seconds(profiler)
    played = page.evaluate(PLAY, {"fps": fps, "frames": min(3 * fps, steps - count - 2)})
    gaps = np.diff(played["ticks"])
    return {
        "key_ms_median": float(np.median(keys)),
        "key_ms_p95": float(np.percentile(keys, 95)),
        "key_cpu_ms": 1000 * key_cpu,
        "key_cpu_ms_p95": 1000 * float(np.percentile(singly, 95)),
        "dropped": played["passed"] - played["shown"] + 1,
        "play_frames": played["passed"],
        "play_gap_ms_p95": float(np.percentile(gaps, 95)),
        "play_cpu_ms": 1000 * (task_seconds(profiler) - start) / max(1, played["passed"]),
    }


def _key_cpu(page: Page, profiler: CDPSession) -> float:
    """Return the processor seconds of the page's main thread for one key, which other load hardly changes."""
    start = task_seconds(profiler)
    page.evaluate(KEYS, 1)
    return task_seconds(profiler) - start


def _open_all_tracks(page: Page) -> None:
    for name in ("probabilities over time", "over time"):
        boxes = page.get_by_label(name, exact=True)
        if boxes.count():
            boxes.first.check()
    for _ in range(8):
        page.get_by_role("button", name="Show more time").click()


def task_seconds(profiler: CDPSession) -> float:
    """Return the processor seconds that the page's main thread has taken so far."""
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
    size = page.evaluate("performance.memory.usedJSHeapSize + rlClarity.chunkBytes()")
    return float(size) / 2**20


def lines(results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the results of pages as tables."""
    return [line for name, result in results.items() for line in (f"-- {name}", *_table(result))]


def _table(result: dict[str, Any]) -> list[str]:
    rows = [f"first image {result['first_image_ms']:.0f} ms"]
    rows.append(f"{'layer':12} {'key ms':>8} {'p95':>6} {'cpu':>6} {'p95':>6}   {'dropped':>12} {'cpu':>6}")
    for slug, pace in result["layers"].items():
        dropped = f"{pace['dropped']:.0f} of {pace['play_frames']:.0f}"
        rows.append(
            f"{slug:12} {pace['key_ms_median']:8.1f} {pace['key_ms_p95']:6.1f} "
            f"{pace['key_cpu_ms']:6.1f} {pace['key_cpu_ms_p95']:6.1f}   {dropped:>12} {pace['play_cpu_ms']:6.1f}"
        )
    return [*rows, f"heap and unpacked chunks after a trajectory on all layers {result['heap_mb']:.0f} MB"]


if __name__ == "__main__":
    main()

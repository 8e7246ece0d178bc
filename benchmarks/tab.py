"""Measure the speed of the page of recordings, with `rl-clarity serve` in Chromium: `python -m benchmarks.tab`.

The page lists 50 episodes of 1,000 steps, shows the first frame of an episode, and draws a state map of 20,000 points
while an episode plays and the pointer moves over the map. Other measurements are the first frame of an episode among 50
runs of 40 episodes each, on the page and in TensorBoard, and the memory of the page's script for an episode of 100,000
steps.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

import rl_clarity
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory
from scripts.chromium import FLAGS, find_chromium

EPISODES, STEPS, MAPPED = 50, 1000, 20
RUNS, RUN_EPISODES, RUN_STEPS = 50, 40, 50
LONG_STEPS = 100_000
ROUNDS = 5
GOALS = {
    "list 50 episodes (ms)": "at most 100",
    "first frame (ms)": "at most 300",
    "first frame, 50 runs, 2,000 episodes (ms)": "at most 300",
    "first frame in TensorBoard, 2,000 episodes (ms)": "at most 300",
    "one more of 2,000 episodes (ms)": "",
    "memory at 100,000 steps (MB)": "at most 150",
    "state map of 20,000 points (frames a second)": "60",
}
SHOWN = """() => {
  const canvas = document.querySelector('[data-testid=training-observation]');
  return Boolean(canvas?.dataset.frame?.endsWith('/0'));
}"""
MOVE = """async (seconds) => {
  const map = document.querySelector('[data-testid=state-map]');
  const box = map.getBoundingClientRect();
  const ticks = [];
  document.querySelector('[data-testid=play]').click();
  await new Promise((resolve) => {
    const tick = (time) => {
      ticks.push(time);
      const angle = ticks.length / 20;
      const clientX = box.left + box.width * (0.5 + 0.4 * Math.cos(angle));
      const clientY = box.top + box.height * (0.5 + 0.4 * Math.sin(angle));
      map.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY, bubbles: true }));
      if (time - ticks[0] < 1000 * seconds) requestAnimationFrame(tick);
      else resolve();
    };
    requestAnimationFrame(tick);
  });
  document.querySelector('[data-testid=play]').click();
  return ticks;
}"""


def measure() -> dict[str, float]:
    """Return milliseconds, frames per second and megabytes; without Chromium, only the times of listing."""
    with tempfile.TemporaryDirectory() as name:
        logdir = Path(name)
        _record(logdir / "long", EPISODES)
        result = {"list 50 episodes (ms)": _list(logdir), "list again, unchanged (ms)": _list_again(logdir)}
        program = find_chromium()
        if program is None:
            return result
        _record(logdir / "mapped", MAPPED)
        place = logdir / "mapped"
        rl_clarity.explain_recording(place, methods=(), embeddings=("pca",), every=1)
        with served(logdir) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=str(program), args=FLAGS)
            page = browser.new_page(viewport={"width": 1366, "height": 768})
            result["first frame (ms)"] = _first_frame(page, address)
            result |= _pace(page, address)
            browser.close()
    return result | _measure_many(str(program))


def _measure_many(program: str) -> dict[str, float]:
    """Return the times of a log directory with many runs, and the memory of a long episode."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        many, long = Path(name) / "many", Path(name) / "long"
        for run in range(RUNS):
            _record(many / f"run-{run}", RUN_EPISODES, RUN_STEPS)
        _record(long / "long", 1, LONG_STEPS)
        viewer = _page(many)
        etag = viewer.manifest().etag
        _record(many / "run-0", 1, RUN_STEPS)
        start = time.perf_counter()
        viewer.manifest(etag)
        result = {"one more of 2,000 episodes (ms)": 1000 * (time.perf_counter() - start)}
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        with served(many) as address:
            result["first frame, 50 runs, 2,000 episodes (ms)"] = _first_frame(page, address, "run-7")
        with _tensorboard(many) as address:
            place = f"{address}data/plugin/rl_clarity/index.html"
            result["first frame in TensorBoard, 2,000 episodes (ms)"] = _first_frame(page, place, "run-7")
        with served(long) as address:
            page.goto(f"{address}#episode=long~0")
            page.wait_for_function(SHOWN)
            page.wait_for_timeout(10_000)
            session = page.context.new_cdp_session(page)
            session.send("HeapProfiler.collectGarbage")
            result["memory at 100,000 steps (MB)"] = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            buffers = session.send("Runtime.getHeapUsage").get("backingStorageSize", 0)
            result["memory of arrays at 100,000 steps (MB)"] = buffers / 1e6
        browser.close()
    return result


@contextmanager
def _tensorboard(logdir: Path) -> Iterator[str]:
    """Run TensorBoard on a log directory. Yield its address, which ends in a slash."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--port", "0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert running.stdout is not None
    try:
        found = next(match for line in running.stdout if (match := re.search(r"http://[^\s/]+:\d+/", line)))
        yield found[0]
    finally:
        running.kill()
        running.wait()


def lines(result: dict[str, float]) -> list[str]:
    """Return the result as a table."""
    goals = {name: f"   (goal: {goal})" for name, goal in GOALS.items()}
    return [f"{name:50} {value:8.1f}{goals.get(name, '')}" for name, value in result.items()]


def _record(directory: Path, episodes: int, steps: int = STEPS) -> None:
    rng = np.random.default_rng(0)
    frames = np.repeat(np.repeat(rng.integers(0, 256, (16, 21, 21, 3), np.uint8), 4, 1), 4, 2)  # (16, 84, 84, 3)
    with Recorder(directory, on_error="raise") as recorder:
        for episode in range(episodes):
            states = rng.standard_normal((steps, 32)).cumsum(axis=0).astype(np.float32)
            for step in range(steps):
                recorder.add(
                    observation=frames[(episode + step) % len(frames)],
                    action=step % 4,
                    reward=float(step % 100 == 0),
                    terminated=step == steps - 1,
                    logits=states[step, :4] / 10,
                    value=states[step, 4],
                    state=states[step],
                )


def _list(logdir: Path) -> float:
    """Return the milliseconds until a viewer that was just started knows all episodes."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _page(logdir).manifest()
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def _list_again(logdir: Path) -> float:
    page = _page(logdir)
    page.manifest()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        page.manifest()
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def _page(logdir: Path) -> RecordingsPage:
    return RecordingsPage([LogDirectory.at(str(logdir))], "benchmark")


@contextmanager
def served(logdir: Path) -> Iterator[str]:
    """Serve a log directory. Yield the address."""
    from rl_clarity.viewer.server import make_server

    addresses: list[str] = []
    server: Any = make_server([str(logdir)], "127.0.0.1", 0, addresses.append)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield addresses[0]
    server.close()


def _first_frame(page: Page, address: str, run: str = "long") -> float:
    """Return the milliseconds from opening the page until it shows a frame of an episode that the server has not read
    before.
    """
    times = []
    for episode in range(ROUNDS + 1):
        page.goto("about:blank")
        start = time.perf_counter()
        page.goto(f"{address}#episode={run}~{episode}", wait_until="commit")
        page.wait_for_function(SHOWN)
        times.append(1000 * (time.perf_counter() - start))
    return min(times[1:])  # the first one warms up the browser


def _pace(page: Page, address: str) -> dict[str, float]:
    """Return the frames per second that the browser draws while an episode plays and the pointer moves over its map."""
    page.goto(f"{address}#episode=mapped~0")
    page.wait_for_function(SHOWN)
    if page.get_by_test_id("tour-skip").count():
        page.get_by_test_id("tour-skip").click()
    if not page.get_by_test_id("state-map").count():
        return {}
    page.get_by_test_id("state-map").scroll_into_view_if_needed()
    gaps = np.diff(page.evaluate(MOVE, 3))
    return {
        "state map of 20,000 points (frames a second)": 1000 / float(np.mean(gaps)),
        "state map, 95th percentile (ms a frame)": float(np.percentile(gaps, 95)),
    }


if __name__ == "__main__":
    print("\n".join(lines(measure())))

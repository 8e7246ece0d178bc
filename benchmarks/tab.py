"""Speed of the page of recordings: `python -m benchmarks.tab`, with `rl-clarity serve` in Chromium.

It lists 50 episodes of 1,000 steps, shows the first frame of one, and draws a state map of 20,000 points while an
episode plays and the pointer moves over the map.
"""

from __future__ import annotations

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
ROUNDS = 5
GOALS = {
    "list 50 episodes (ms)": "at most 100",
    "first frame (ms)": "at most 300",
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
    """Milliseconds, and frames a second; without Chromium, only what needs none."""
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
            arguments = [flag for flag in FLAGS if not flag.startswith("--headless")]
            browser = playwright.chromium.launch(executable_path=str(program), args=arguments)
            page = browser.new_page(viewport={"width": 1366, "height": 768})
            result["first frame (ms)"] = _first_frame(page, address)
            result |= _pace(page, address)
            browser.close()
        return result


def lines(result: dict[str, float]) -> list[str]:
    """The result as a table."""
    goals = {name: f"   (goal: {goal})" for name, goal in GOALS.items()}
    return [f"{name:50} {value:8.1f}{goals.get(name, '')}" for name, value in result.items()]


def _record(directory: Path, episodes: int) -> None:
    rng = np.random.default_rng(0)
    frames = np.repeat(np.repeat(rng.integers(0, 256, (16, 21, 21, 3), np.uint8), 4, 1), 4, 2)  # (16, 84, 84, 3)
    with Recorder(directory, on_error="raise") as recorder:
        for episode in range(episodes):
            states = rng.standard_normal((STEPS, 32)).cumsum(axis=0).astype(np.float32)
            for step in range(STEPS):
                recorder.add(
                    observation=frames[(episode + step) % len(frames)],
                    action=step % 4,
                    reward=float(step % 100 == 0),
                    terminated=step == STEPS - 1,
                    logits=states[step, :4] / 10,
                    value=states[step, 4],
                    state=states[step],
                )


def _list(logdir: Path) -> float:
    """Milliseconds until a viewer that was just started knows all episodes."""
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
    """Serve a log directory; yields the address."""
    from rl_clarity.viewer.server import make_server

    addresses: list[str] = []
    server: Any = make_server([str(logdir)], "127.0.0.1", 0, addresses.append)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield addresses[0]
    server.close()


def _first_frame(page: Page, address: str) -> float:
    """Milliseconds from opening the page until it shows a frame. The server has not read this episode before."""
    times = []
    for episode in range(ROUNDS + 1):
        page.goto("about:blank")
        start = time.perf_counter()
        page.goto(f"{address}?episode=long~{episode}", wait_until="commit")
        page.wait_for_function(SHOWN)
        times.append(1000 * (time.perf_counter() - start))
    return min(times[1:])  # the first one warms up the browser


def _pace(page: Page, address: str) -> dict[str, float]:
    """Frames a second that the browser draws while an episode plays and the pointer moves over its map."""
    page.goto(f"{address}?episode=mapped~0")
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

"""Measure the time from a move of the pointer, which brushes an axis of the panel Steps, until lines are painted."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from scripts.chromium import FLAGS, find_chromium

CHECKPOINTS, STEPS = 4, 1250
MOVES = 100
WARM_UP = 5
"""Number of first moves that are not counted, because the browser compiles the page's code during them."""

# The frame after the event is painted when a message that was sent while it was drawn arrives.
WATCH = """() => {
  window.times = [];
  const channel = new MessageChannel();
  const starts = [];
  channel.port1.onmessage = () => {
    const now = performance.now();
    times.push(...starts.splice(0).map((start) => now - start));
  };
  const note = ({ timeStamp }) => requestAnimationFrame(() => {
    starts.push(timeStamp);
    channel.port2.postMessage(null);
  });
  window.addEventListener("pointermove", note, true);
}"""


def measure(checkpoints: int = CHECKPOINTS, steps: int = STEPS, moves: int = MOVES) -> dict[str, Any]:
    """Return the median and the 95th percentile over moves, on a page of made-up numbers."""
    from benchmarks.parts import SkippedError
    from tests.browser.training_pages import write_training_page

    program = find_chromium()
    if program is None:
        raise SkippedError("no Chromium: set RL_CLARITY_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        write_training_page(Path(folder), ((steps,),) * checkpoints)
        browser = playwright.chromium.launch(executable_path=str(program), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        chosen = ".".join(str(number) for number in range(1, checkpoints + 1))
        page.goto(f"{(Path(folder) / 'interface.html').resolve().as_uri()}?checkpoints={chosen}")
        page.wait_for_function(f"() => document.querySelector('[data-lines=\"{checkpoints * steps}\"]')")
        if page.get_by_test_id("tour-skip").count():
            page.get_by_test_id("tour-skip").click()
        axis = page.get_by_test_id("axis-value")
        axis.scroll_into_view_if_needed()
        box = axis.bounding_box()
        assert box is not None
        x, top, height = box["x"] + box["width"] / 2, box["y"] + 10, box["height"] - 20
        page.mouse.move(x, top)
        page.mouse.down()
        page.evaluate(WATCH)
        for y in np.linspace(top + 6, top + height, moves + WARM_UP):
            page.mouse.move(x, float(y))
        page.wait_for_function(f"() => times.length >= {moves + WARM_UP}")
        times = page.evaluate("times")[WARM_UP:]
        page.mouse.up()
        browser.close()
    return {
        "lines": checkpoints * steps,
        "moves": moves,
        "milliseconds": float(np.median(times)),
        "p95": float(np.percentile(times, 95)),
    }


def lines(result: dict[str, Any]) -> list[str]:
    return [
        f"{result['lines']} lines: {result['milliseconds']:.0f} ms until painted (median of {result['moves']} moves), "
        f"{result['p95']:.0f} ms (95th percentile)"
    ]

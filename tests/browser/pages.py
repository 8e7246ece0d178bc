"""What tests do with an open page, in a reader's words."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, Position, expect

from rl_clarity.pages.result_arrays import ReducedAttribution
from rl_clarity.visualization.rendering import render_attribution

CODING, CANVAS = 3, 1  # of 255
TOLERANCE = CODING + CANVAS

expect.set_options(timeout=30_000)  # as patient as the steps of a visitor on a loaded machine

_READ = """canvas => {
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  for (let at = 0; at < data.length; at += 4096) text += String.fromCharCode(...data.subarray(at, at + 4096));
  return { data: btoa(text), width, height };
}"""


class Visitor:
    """A reader with a page open."""

    def __init__(self, page: Page, directory: Path, *, expect_messages: bool = False, toured: bool = True) -> None:
        self.page, self.directory = page, directory
        self.expect_messages, self.toured = expect_messages, toured
        self.messages: list[str] = []
        self.stopped_clock = False
        page.set_default_timeout(60_000)
        page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))

    def goto(self, query: str = "", *, wait: bool = True) -> None:
        self.page.goto((self.directory / "interface.html").resolve().as_uri() + query)
        self._skip_tour()
        if wait:
            self.settle()
            self._skip_tour()  # of a page that was not drawn yet

    def _skip_tour(self) -> None:
        """The tour opens on the first visit; most tests come later."""
        if self.toured:
            self.page.evaluate("document.querySelector('[data-testid=tour-skip]')?.click()")

    def by(self, testid: str) -> Locator:
        return self.page.get_by_test_id(testid)

    def text(self, testid: str) -> str:
        return " ".join(self.by(testid).first.inner_text().split())

    def click(self, testid: str) -> None:
        self.by(testid).first.click()

    def saved(self, testid: str) -> Path:
        """Click, and return the file that is downloaded."""
        with self.page.expect_download() as download:
            self.click(testid)
        return download.value.path()

    def drag(self, target: Locator, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag between two places of an element, which are shares of its width and height."""
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        assert box
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
        self.page.mouse.move(*places[0])
        self.page.mouse.down()
        self.page.mouse.move(*places[1])
        self.page.mouse.up()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def stop_clock(self) -> None:
        """Let the page's time pass only in `page.clock.run_for`."""
        self.stopped_clock = True
        self.page.clock.install(time=0)
        self.page.clock.pause_at(1000)

    def state(self) -> dict[str, Any]:
        """The selection, counted from 0."""
        state: dict[str, Any] = self.page.evaluate("rlClarity.state()")
        return state

    def frame(self) -> int:
        """The frame that is shown, counted from 1."""
        return int(self.text("frame-number"))

    def settle(self) -> None:
        """Wait until every image shows the selected frame."""
        self.page.wait_for_function(
            """() => {
              const names = '[data-testid=attribution-canvas], [data-testid=observation-canvas]';
              const canvases = [...document.querySelectorAll(names)];
              const frame = window.rlClarity?.state().frame;
              return canvases.length > 0 && canvases.every((canvas) => canvas.dataset.frame?.endsWith(`/${frame}`));
            }"""
        )

    def overlay(self, direction: str = "pos", row: int = 0) -> Locator:
        return self.page.locator(f'[data-testid=attribution-canvas][data-direction="{direction}"][data-row="{row}"]')

    def attribution(self, direction: str = "pos", row: int = 0) -> np.ndarray:
        """What an attribution canvas shows, premultiplied, (h, w, 4) in 0..255."""
        self.settle()
        return premultiplied(read_canvas(self.overlay(direction, row)))

    def track(self, name: str) -> Locator:
        return self.page.locator(f'[data-testid=track][data-track="{name}"]')

    def well(self, name: str) -> Locator:
        """What of a track is seen."""
        return self.track(name).get_by_test_id("well")

    def place(self, name: str, ahead: int, visible: int = 256) -> Position:
        """Where on a track a step stands, so many steps after the frame that is shown."""
        width = float(self.well(name).evaluate("well => well.clientWidth"))
        state = self.state()
        steps = int(self.page.evaluate(f"rlClarity.manifest.trajectories[{state['trajectory']}].steps"))
        center, shown = ((steps - 1) / 2, steps) if steps <= visible else (state["frame"], visible)
        return {"x": width / 2 + (state["frame"] + ahead - center) * width / shown, "y": 10}


def read_canvas(canvas: Locator) -> np.ndarray:
    """The pixels of a canvas (h, w, 4), not premultiplied."""
    read = canvas.evaluate(_READ)
    levels = np.frombuffer(base64.b64decode(read["data"]), np.uint8)
    return levels.reshape(read["height"], read["width"], 4).astype(np.float64)


FIGURE_MARGIN = 8
"""Pixels around an exported figure (`MARGIN` in figure.js)."""


def first_image(figure: np.ndarray, scale: int = 4) -> np.ndarray:
    """The first image (64, 64, 3) of an exported figure, under the caption, and the row's caption and names."""
    line, space = 19, 14  # LINE and SPACE in figure.js
    top = FIGURE_MARGIN + line + space + 2 * line
    image = figure[top : top + 64 * scale, FIGURE_MARGIN : FIGURE_MARGIN + 64 * scale]
    return image[scale // 2 :: scale, scale // 2 :: scale]


def premultiplied(rgba: np.ndarray) -> np.ndarray:
    """Colors times opacity, 0..255."""
    return np.concatenate([rgba[..., :3] * rgba[..., 3:] / 255, rgba[..., 3:]], -1)


def screenshot(locator: Locator) -> np.ndarray:
    """What is on the screen (h, w, 3)."""
    return np.asarray(Image.open(io.BytesIO(locator.screenshot())).convert("RGB")).astype(float)


def expected_image(
    attribution: ReducedAttribution, frame: int, direction: str, channel: str | int = "prin"
) -> np.ndarray:
    """What Python renders of a frame of attribution, premultiplied and clipped, (h, w, 4) in 0..255."""
    residual = attribution.residual
    image = render_attribution(
        attribution.channels[frame : frame + 1],
        None if residual is None else residual[frame : frame + 1],
        direction=direction,  # type: ignore[arg-type]
        channel=channel,
        scale=attribution.scale,
        hues=attribution.hues,
    )[0]
    return 255 * np.concatenate([np.clip(image[..., :3], 0, 1) * image[..., 3:], image[..., 3:]], -1)


def close(shown: np.ndarray, wanted: np.ndarray, tolerance: float = TOLERANCE) -> bool:
    """Whether a canvas shows an image, up to the coding of values and of the canvas."""
    return shown.shape == wanted.shape and bool(np.abs(shown - wanted).max() <= tolerance)


def wait_for_value(page: Page, value: float, tolerance: float) -> None:
    """Wait until the panel What if shows a value after the change."""
    page.wait_for_function(
        """([expected, tolerance]) => {
          const row = document.querySelector("[data-testid=what-if-value]");
          return row && Math.abs(Number(row.dataset.after) - expected) <= tolerance;
        }""",
        arg=[value, tolerance],
    )


def wait_for_track(page: Page, values: list[float], tolerance: float) -> None:
    """Wait until the track of the panel What if shows values after the change."""
    page.wait_for_function(
        """([expected, tolerance]) => {
          const track = document.querySelector("[data-testid=what-if-track]");
          const shown = JSON.parse(track?.dataset.after ?? "[]");
          return expected.length === shown.length && expected.every((v, i) => Math.abs(v - shown[i]) < tolerance);
        }""",
        arg=[values, tolerance],
    )

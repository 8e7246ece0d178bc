"""Take the screenshots and the animation of the pages in docs/images/.

    python -m scripts.make_screenshots [--only KIND ...] [--KIND PAGE ...]

The kinds are agent, training, memory, debug and failure. Pages without a directory on the command line are made first,
from the included agents (this takes some minutes, and needs Procgen and Atari).
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from rl_clarity.pages.results import Results, open_results
from scripts.chromium import FLAGS, find_chromium

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
LAYER = "2b"
ROWS = "?layer={layer}&trajectory={trajectory}&frame={frame}"
ANIMATION_SIZE = (1080, 780)
ANIMATION_FRAMES = 40
TRAINING_CHECKPOINTS = "1.7"
READY = """() => {
  const canvases = [...document.querySelectorAll('[data-testid=attribution-canvas], [data-testid=observation-canvas]')];
  const frame = window.rlClarity?.state().frame;
  return canvases.length > 0 && canvases.every((canvas) => canvas.dataset.frame?.endsWith(`/${frame}`))
    && [...document.images].every((image) => image.complete || image.getBoundingClientRect().top > innerHeight);
}"""
TOURED = "localStorage.setItem('rl-clarity:{id}:settings', JSON.stringify({{ toured: true }}))"


@dataclass(frozen=True)
class Screenshot:
    """A screenshot: the page's address and size, and actions before it is taken."""

    name: str
    query: str = ""
    scheme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = (1440, 1040)
    act: Callable[[Page], None] = field(default=lambda page: None)


def open_feature(page: Page) -> None:
    page.locator("[data-testid=legend-1] button.card").click()
    page.locator("[data-testid=example][data-crop]").first.wait_for()
    page.mouse.move(700, 880)


def open_trust(page: Page) -> None:
    page.keyboard.press("t")
    page.get_by_test_id("gaps").wait_for()


SCREENSHOTS = (
    Screenshot("page-light"),
    Screenshot("page-dark", scheme="dark"),
    Screenshot("page-features", act=open_feature),
    Screenshot("page-compare", query="&rows={compare}&columns=1"),
    Screenshot("page-trust", act=open_trust),
    Screenshot("page-narrow", size=(390, 844)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PAGES, default=list(PAGES), help="kinds of pages")
    for kind in PAGES:
        parser.add_argument(f"--{kind}", type=Path, help=f"directory of a page of the kind {kind}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        for kind in options.only:
            make, take = PAGES[kind]
            take(browser, getattr(options, kind) or make(Path(temporary) / kind))
        browser.close()


def make_agent(directory: Path) -> Path:
    import rl_clarity

    rl_clarity.run(
        "models:coinrun",
        directory,
        load={"temp_files": True},
        trajectories={"num_envs": 4, "num_steps": 256},
        layers={"name_contains_one_of": ["2b", "3a"]},
        attribution={"policy": True},
        title="CoinRun",
    )
    return directory


def make_training(directory: Path) -> Path:
    from rl_clarity.commands.demo import demo

    demo(directory, page="training")
    return directory


def make_memory(directory: Path) -> Path:
    from rl_clarity.commands.demo import demo

    demo(directory, page="memory")
    return directory


def make_debug(directory: Path) -> Path:
    import rl_clarity

    rl_clarity.debug("models:coinrun", directory)
    return directory


def make_failure(directory: Path) -> Path:
    """Make the page of docs/guides/failure.md."""
    import rl_clarity

    rl_clarity.run(
        "models:coinrun-early",
        directory,
        trajectories={"num_envs": 4, "num_steps": 96},
        observations={"num_envs": 2, "num_obs": 16},
        layers={"name_contains_one_of": ["2b"]},
        analyses={"failures": {}, "survival": {"layer": "2b"}},
    )
    return directory


def take_agent(browser: Browser, directory: Path) -> None:
    """Take the screenshots and the animation of the page of an agent."""
    address = position(open_results(directory))
    for screenshot in SCREENSHOTS:
        take_one(browser, directory, screenshot, address)
    animate(browser, directory, address)


def position(results: Results) -> dict[str, Any]:
    """Return the values for the query strings of the screenshots, which show the first bookmarked frame with a high
    advantage.
    """
    bookmark = results.section("trajectories")["bookmarks"]["high"][0]
    outputs = [output["id"] for output in results.section("attribution")["outputs"] if output["kind"] == "action"]
    slugs = [layer["slug"] for layer in results.section("attribution")["layers"]]
    second = f"value~{slugs[-1]}" if len(slugs) > 1 else (outputs or ["value"])[-1]
    return {
        "layer": LAYER if LAYER in results.layers else results.layers[0],
        "id": results.manifest["id"],
        "trajectory": bookmark["trajectory"] + 1,
        "frame": bookmark["frame"] + 1,
        "compare": f"value,{second}",
    }


def take_one(browser: Browser, directory: Path, screenshot: Screenshot, address: dict[str, Any]) -> None:
    page = open_page(browser, directory, screenshot, address)
    screenshot.act(page)
    wait_until_drawn(page)
    save(page, screenshot.name)
    page.context.close()


def animate(browser: Browser, directory: Path, address: dict[str, Any]) -> None:
    """Play the frames that lead up to the frame of the screenshots, and write them as an animated WebP."""
    page = open_page(browser, directory, Screenshot("page"), address)
    images = []
    for frame in range(address["frame"] - ANIMATION_FRAMES, address["frame"]):
        page.evaluate("(frame) => window.rlClarity.select({ frame })", max(frame, 0))
        wait_until_drawn(page)
        with Image.open(io.BytesIO(page.screenshot())) as image:
            images.append(image.convert("RGB").resize(ANIMATION_SIZE, Image.Resampling.LANCZOS))
    page.context.close()
    target = IMAGES / "page.webp"
    images[0].save(target, save_all=True, append_images=images[1:], duration=125, loop=0, quality=70, method=6)
    print(f"{target.name}: {target.stat().st_size // 1024} KB")


def take_training(browser: Browser, directory: Path) -> None:
    """Take the screenshot of the page of a training, at the step on which checkpoints disagree most."""
    page = open_large(browser, directory, f"?checkpoints={TRAINING_CHECKPOINTS}")
    page.get_by_test_id("disagreement").click()
    page.mouse.move(0, 0)
    page.evaluate("window.scrollTo(0, 0)")
    save(page, "training")


def take_memory(browser: Browser, directory: Path) -> None:
    """Take the screenshot of the page of a recurrent agent, at the window that is explained first."""
    page = open_large(browser, directory, "")
    page.get_by_test_id("windows").locator("button").first.click()
    page.mouse.move(0, 0)
    save(page, "memory")


def take_debug(browser: Browser, directory: Path) -> None:
    """Take the screenshot of the debugger's findings, at the frame that shows the first finding."""
    page = open_large(browser, directory, "")
    page.get_by_test_id("panel-findings").locator("tbody tr").first.get_by_role("button").click()
    page.mouse.move(0, 0)
    page.evaluate("window.scrollTo(0, 0)")
    save(page, "debug")


def take_failure(browser: Browser, directory: Path) -> None:
    """Take the screenshot of a failure, at the last frame of an episode that a saw ended."""
    page = open_large(browser, directory, "?trajectory=1&frame=73&objects=1")
    page.mouse.move(0, 0)
    save(page, "failure")


def open_large(browser: Browser, directory: Path, query: str) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 1040}, reduced_motion="reduce")
    page.add_init_script(TOURED.format(id=open_results(directory).manifest["id"]))
    page.goto((directory / "interface.html").resolve().as_uri() + query)
    return page


def save(page: Page, name: str) -> None:
    """Take a screenshot once everything is loaded."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)
    target = IMAGES / f"{name}.png"
    page.screenshot(path=target)
    with Image.open(target) as image:
        image.convert("RGB").save(target, optimize=True)
    print(f"{target.name}: {target.stat().st_size // 1024} KB")


def open_page(browser: Browser, directory: Path, screenshot: Screenshot, address: dict[str, Any]) -> Page:
    width, height = screenshot.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=screenshot.scheme, reduced_motion="reduce"
    )
    context.add_init_script(TOURED.format(**address))
    page = context.new_page()
    query = (ROWS + screenshot.query).format(**address)
    page.goto((directory / "interface.html").resolve().as_uri() + query)
    page.wait_for_function(READY)
    return page


def wait_until_drawn(page: Page) -> None:
    page.wait_for_function(READY)
    page.wait_for_timeout(500)  # thumbnails of bookmarks


PAGES: dict[str, tuple[Callable[[Path], Path], Callable[[Browser, Path], None]]] = {
    "agent": (make_agent, take_agent),
    "training": (make_training, take_training),
    "memory": (make_memory, take_memory),
    "debug": (make_debug, take_debug),
    "failure": (make_failure, take_failure),
}
"""Functions that make a page of each kind, and functions that take its screenshots."""


if __name__ == "__main__":
    main()

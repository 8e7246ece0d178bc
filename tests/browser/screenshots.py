"""Screenshots for the documentation: `python -m tests.browser.screenshots PAGE_DIRECTORY OUTPUT_DIRECTORY`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from scripts.chromium import FLAGS, find_chromium
from tests.browser.pages import Visitor

WIDE = (1440, 900)


@dataclass(frozen=True)
class Shot:
    """One screenshot: the window, and what the reader does first."""

    name: str
    scheme: str = "light"
    size: tuple[int, int] = WIDE
    extra: str = ""
    act: Callable[[Visitor], None] = lambda visitor: None


def _feature(visitor: Visitor) -> None:
    visitor.by("legend-1").locator(".card").click()
    visitor.page.wait_for_selector("[data-testid=example][data-crop]")


SHOTS = (
    Shot("page-light"),
    Shot("page-dark", scheme="dark"),
    Shot("page-narrow", size=(390, 844)),
    Shot("page-feature", act=_feature),
    Shot("page-comparison", size=(1440, 1200), extra="&rows=value,value~{other}&columns=1"),
    Shot("page-trust", scheme="dark", act=lambda visitor: visitor.press("t")),
)


def main() -> None:
    """Write every screenshot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--frame", type=int, default=60)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium: RL_CLARITY_CHROMIUM names one")
    with sync_playwright() as playwright:
        arguments = [flag for flag in FLAGS if not flag.startswith("--headless")]
        browser = playwright.chromium.launch(executable_path=str(program), args=arguments)
        for shot in SHOTS:
            _take(browser, shot, options.page, options.frame, options.output / f"{shot.name}.png")
        browser.close()


def _take(browser: Browser, shot: Shot, directory: Path, frame: int, target: Path) -> None:
    width, height = shot.size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=shot.scheme)  # type: ignore[arg-type]
    page: Page = context.new_page()
    visitor = Visitor(page, directory)
    visitor.goto(f"?frame={frame}")
    if shot.extra:
        other = page.evaluate("rlClarity.manifest.layers.at(-1).slug")
        visitor.goto(f"?frame={frame}" + shot.extra.format(other=other))
    shot.act(visitor)
    visitor.settle()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=target)
    context.close()


if __name__ == "__main__":
    main()

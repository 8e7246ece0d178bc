"""The page in Firefox, where one is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.pages.results import open_results
from tests.browser.firefox import Firefox, find_firefox, firefox
from tests.browser.generated import Generated
from tests.browser.pages import close, expected_image

RIGHT = "\ue014"
SETTLED = """
const frame = () => window.rlClarity?.state().frame;
const settled = () => {
  const canvases = [...document.querySelectorAll('[data-testid=attribution-canvas], [data-testid=observation-canvas]')];
  return canvases.length > 0 && canvases.every((canvas) => canvas.dataset.frame?.endsWith(`/${frame()}`));
};
return new Promise((resolve) => {
  const watch = () => (settled() ? resolve(frame()) : setTimeout(watch, 10));
  watch();
});"""
READ = """
const canvas = document.querySelector('[data-testid=attribution-canvas][data-direction=pos]');
const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
return { data: Array.from(data), width, height };"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    program = find_firefox()
    if program is None:
        pytest.skip("no Firefox on the PATH")
    with firefox(program, tmp_path_factory.mktemp("firefox") / "profile") as started:
        yield started


def scrub(browser: Firefox, directory: Path, layer: str, trajectory: int) -> None:
    """Open a page near the end of a segment, step into the next one, and look at what is shown."""
    address = (directory / "interface.html").resolve().as_uri()
    browser.open(f"{address}?layer={layer}&trajectory={trajectory + 1}&frame=60&mixed=1&residual=0&scale=trajectory")
    assert browser.run(SETTLED) == 59
    browser.run("document.querySelector('[data-testid=tour-skip]')?.click()")
    for frame in range(60, 66):
        browser.press(RIGHT)
        assert browser.run(SETTLED) == frame
    read = browser.run(READ)
    shown = np.array(read["data"], float).reshape(read["height"], read["width"], 4)
    shown[..., :3] *= shown[..., 3:] / 255
    assert close(shown, expected_image(open_results(directory).attribution(layer, trajectory), 65, "pos"))


def test_firefox_opens_a_synthetic_page_and_scrubs_through_frames(synthetic: Path, browser: Firefox) -> None:
    scrub(browser, synthetic, "2b", 0)
    browser.run("document.querySelector('[data-testid=frame-slider]').focus()")
    for name in ("layer-4a", "trajectory-2", "open-find", "find-go"):
        browser.run(f"document.querySelector('[data-testid={name}]').click()")
        browser.run(SETTLED)
    assert browser.errors() == []


def test_firefox_opens_a_page_generated_by_rl_clarity(generated: Generated, browser: Firefox) -> None:
    scrub(browser, generated.directory, "Relu_1", 1)
    # A page that was left may have been loading ahead, which Firefox says.
    assert [message for message in browser.errors() if str(generated.directory) in message] == []

"""The page in Firefox, where one is at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.interface.results import open_results
from tests.browser.firefox import find_firefox, firefox
from tests.browser.pages import close, picture_of

RIGHT = "\ue014"
SETTLED = """
const frame = () => window.rlClarity?.state().frame;
const settled = () => {
  const pictures = [...document.querySelectorAll('[data-testid=attribution-canvas], [data-testid=observation-canvas]')];
  return pictures.length > 0 && pictures.every((canvas) => canvas.dataset.frame?.endsWith(`/${frame()}`));
};
return new Promise((resolve) => {
  const watch = () => (settled() ? resolve(frame()) : setTimeout(watch, 10));
  watch();
});"""
READ = """
const canvas = document.querySelector('[data-testid=attribution-canvas][data-direction=pos]');
const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
return { data: Array.from(data), width, height };"""


def test_firefox_opens_the_page_and_scrubs(synthetic: Path, tmp_path: Path) -> None:
    program = find_firefox()
    if program is None:
        pytest.skip("no Firefox on the PATH")
    attribution = open_results(synthetic).attribution("2b", 0)
    with firefox(program, tmp_path / "profile") as browser:
        browser.open((synthetic / "interface.html").resolve().as_uri() + "?layer=2b&frame=60")
        assert browser.run(SETTLED) == 59
        browser.run("document.querySelector('[data-testid=tour-skip]')?.click()")
        for frame in range(60, 66):  # into the next segment
            browser.press(RIGHT)
            assert browser.run(SETTLED) == frame
        read = browser.run(READ)
        shown = np.array(read["data"], float).reshape(read["height"], read["width"], 4)
        shown[..., :3] *= shown[..., 3:] / 255
        assert close(shown, picture_of(attribution, 65, "pos"))
        browser.run("document.querySelector('[data-testid=frame-slider]').focus()")
        for name in ("layer-4a", "trajectory-2", "open-find", "find-go"):
            browser.run(f"document.querySelector('[data-testid={name}]').click()")
            browser.run(SETTLED)
        assert browser.errors() == []

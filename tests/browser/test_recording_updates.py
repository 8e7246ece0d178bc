"""The panel of recordings' pages that shows what each checkpoint changed, while training goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from rl_clarity.viewer.publishing import publish
from tests.browser.pages import Visitor, read_canvas
from tests.browser.recordings_server import serve_recordings
from tests.explaining.recordings import chunk, explain
from tests.explaining.test_updates import probed, record, section


def test_clicking_a_peak_opens_the_observations_that_changed_most(chromium_browser: Browser, tmp_path: Path) -> None:
    location = tmp_path / "exp1/plugins/rl_clarity/training"
    record(location, (0, 4, 2))
    explain(location, embeddings=[])
    with serve_recordings(tmp_path) as server:
        context = chromium_browser.new_context(viewport={"width": 1366, "height": 768})
        visitor = Visitor(context.new_page(), tmp_path)
        visitor.page.goto(server.address)
        visitor.by("tour-skip").click()
        strip = visitor.by("updates-strip")
        expect(strip).to_have_attribute("aria-valuemax", "2")
        for measure in ("policy", "maps.value"):
            changes = chunk(location, section(location)["changes"])[measure]
            means = changes.mean(axis=1)
            bars = visitor.by(f"updates-{measure}").locator(".bar")
            shares = bars.evaluate_all("bars => bars.map((bar) => Number(bar.dataset.share))")
            assert shares == pytest.approx((means / means.max()).tolist(), rel=1e-4)
            peak = int(means.argmax())
            bars.nth(peak).click()
            expect(strip).to_have_attribute("aria-valuenow", f"{peak + 1}")
            order = np.argsort(-changes[peak], kind="stable")[:6]
            for index in order:
                shown = visitor.by(f"changed-{index}")
                change = float(shown.locator("button").get_attribute("data-change") or "nan")
                assert change == pytest.approx(changes[peak][index], rel=1e-5)
            frame = visitor.by(f"changed-{order[0]}").get_by_test_id("training-observation").first
            expect(frame).to_have_attribute("data-frame", f"0/{order[0]}")
            np.testing.assert_array_equal(read_canvas(frame)[..., :3], probed()[order[0]])
        record(location, (9,))
        explain(location, embeddings=[])
        expect(strip, "it grows while the page is open").to_have_attribute("aria-valuemax", "3")
        assert visitor.messages == []
        context.close()


def test_a_published_page_shows_changes_between_checkpoints(chromium_browser: Browser, tmp_path: Path) -> None:
    record(tmp_path / "runs/exp1/plugins/rl_clarity/training")
    explain(tmp_path / "runs/exp1/plugins/rl_clarity/training", embeddings=[])
    publish(tmp_path / "runs", tmp_path / "page", ["0"])
    context = chromium_browser.new_context(viewport={"width": 390, "height": 768})
    visitor = Visitor(context.new_page(), tmp_path / "page")
    visitor.goto(wait=False)
    expect(visitor.by("updates-frames").locator("li")).to_have_count(6)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
    assert visitor.messages == []

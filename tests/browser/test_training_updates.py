"""The panel of a training's page that shows what each checkpoint changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import read_manifest, write_page
from tests.browser.pages import Visitor
from tests.browser.training_pages import EVERY, STEPS, TrainingPage, write_training_page

Open = Callable[..., Visitor]


def bars(visitor: Visitor, measure: str) -> Locator:
    return visitor.by(f"updates-{measure}").locator(".bar")


def changed(visitor: Visitor) -> list[tuple[int, float]]:
    """Indices of the shown observations, with their changes."""
    items = visitor.by("updates-frames").locator("li")
    expect(items).to_have_count(6)
    read = "items => items.map((one) => [one.dataset.testid.slice(8), one.querySelector('button').dataset.change])"
    return [(int(index), float(change)) for index, change in items.evaluate_all(read)]


def test_the_updates_strip_has_a_bar_for_each_pair_of_checkpoints(open_training: Open, training: TrainingPage) -> None:
    visitor = open_training()
    for measure, changes in training.changes.items():
        shares = bars(visitor, measure).evaluate_all("bars => bars.map((bar) => Number(bar.dataset.share))")
        means = changes.mean(axis=1)
        np.testing.assert_allclose(shares, means / means.max(), rtol=1e-4)
    boxes = bars(visitor, "policy").evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().width)")
    assert np.array(boxes) / sum(boxes) == pytest.approx(np.diff(STEPS) / (STEPS[-1] - STEPS[0]), abs=0.01)


@pytest.mark.parametrize("measure", ["policy", "value", "maps.value"])
def test_clicking_a_peak_opens_the_frames_that_changed_most(
    open_training: Open, training: TrainingPage, measure: str
) -> None:
    visitor = open_training()
    changes = training.changes[measure]
    for update in (2, 1):
        bars(visitor, measure).nth(update).click()
        assert visitor.state()["chosen"] == [update, update + 1]
        order = np.argsort(-changes[update], kind="stable")[:6]
        shown = changed(visitor)
        assert [index for index, _ in shown] == order.tolist()
        assert [change for _, change in shown] == pytest.approx(changes[update][order], rel=1e-5)
        visitor.by(f"changed-{order[1]}").locator("button").click()
        assert visitor.state()["step"] == order[1] * EVERY
    values = [one["values"][order[1] * EVERY] for one in training.shown[1:3]]
    text = visitor.by(f"changed-{order[1]}").inner_text().replace("\u2212", "-")
    assert "value" in text
    for value in values:
        assert f"{value:.3g}" in text


def test_the_largest_update_opens_first_and_keys_select_others(open_training: Open) -> None:
    visitor = open_training()
    strip = visitor.by("updates-strip")
    expect(strip).to_have_attribute("aria-valuenow", "3")
    strip.focus()
    visitor.press("ArrowLeft")
    expect(strip).to_have_attribute("aria-valuenow", "2")
    visitor.page.wait_for_url("**update=2*")
    assert "half a million (500 k steps) → one million (1 M steps)" in visitor.text("update-text")


def test_pages_without_updates_have_no_updates_panel(open_page: Open, tmp_path: Path) -> None:
    write_training_page(tmp_path)
    manifest = read_manifest((tmp_path / "interface.html").read_bytes())
    manifest["sections"] = [one for one in manifest["sections"] if one["kind"] != "updates"]
    write_page(LocalDirectory(tmp_path), manifest)
    visitor = open_page(tmp_path, wait=False)
    expect(visitor.by("updates-strip")).to_have_count(0)
    expect(visitor.by("film-1")).to_have_count(1)

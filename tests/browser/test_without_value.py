"""The page of a policy without a value: no value, no advantages, no bookmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.pages.results import open_results
from tests.browser.pages import Visitor
from tests.fakes import TinyAgent

Open = Callable[..., Visitor]
STEPS, ACTIONS, SIDE = 40, 4, 16


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("without_value")
    rng = np.random.default_rng(0)
    trajectories = {
        "observations": rng.integers(0, 256, (1, STEPS, SIDE, SIDE, 3), np.uint8),
        "actions": rng.integers(0, ACTIONS, (1, STEPS)),
        "rewards": rng.integers(0, 2, (1, STEPS)),
        "firsts": np.arange(STEPS)[None] % 20 == 0,
    }
    agent = TinyAgent("logits", (SIDE, SIDE, 3), ACTIONS)
    varied = rng.integers(0, 256, (32, SIDE, SIDE, 3), np.uint8)
    rl_clarity.generate(agent, trajectories, varied, directory, nmf_features=3)
    return directory


def test_the_largest_logit_replaces_the_value(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=5")  # its messages on the console fail the test
    assert visitor.attribution("pos").max() > 0
    logits = open_results(page).series(0)["logits"]
    shown = visitor.track("greedy").locator(".value")
    shown.wait_for()
    assert float(shown.inner_text().replace("−", "-")) == pytest.approx(logits[4].max(), rel=6e-3)
    expect(visitor.by("policy")).to_be_visible()
    expect(visitor.by("policy").locator("[data-action]")).to_have_count(ACTIONS)
    expect(visitor.track("value")).to_have_count(0)
    expect(visitor.track("advantage")).to_have_count(0)


def test_panels_that_need_advantages_are_omitted(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=5")
    expect(visitor.page.locator("[data-panel=bookmarks]")).to_have_count(0)
    assert "advantage" not in visitor.page.locator("[data-panel=timeline]").inner_text().lower()
    visitor.press("f")
    kinds = (
        visitor.by("find-condition")
        .locator("select")
        .first.locator("option")
        .evaluate_all("all => all.map(e => e.value)")
    )
    assert {"reward", "output"} <= {*kinds}
    assert not {"advantage", "bookmark"} & {*kinds}
    visitor.click("find-go")
    visitor.by("find-count").wait_for()
    for key in ("ArrowRight", "g", "e", "n", "t", "?"):
        visitor.press(key)
    assert visitor.by("drawer").get_attribute("data-panel") == "help"


@pytest.mark.parametrize("search", ["advantage~above~-9", "bookmark~high"])
def test_searches_for_advantages_or_bookmarks_find_nothing(page: Path, open_page: Open, search: str) -> None:
    visitor = open_page(page, f"?find={search}")
    visitor.press("f")
    visitor.by("find-count").wait_for()
    assert visitor.text("find-count") == "No frames match."


def test_exported_tables_have_no_advantages(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=5")
    visitor.press("e")
    header = visitor.saved("export-csv").read_text().splitlines()[0]
    assert "advantage" not in header
    assert "largest logit" in header

"""The debugger's page: findings first, each of which opens the frame that shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

import rl_clarity
from tests.browser.pages import Visitor
from tests.debugging.field import Player, field_spec, scattered


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an agent that does not see mines."""
    folder = tmp_path_factory.mktemp("debugging") / "page"
    rl_clarity.debug(
        Player(avoided=()),
        folder,
        environment=field_spec(scattered("coin", "mine", "mine", "mine", "stone")),
        trajectories={"num_envs": 4, "num_steps": 80},
        failures={"count": 6, "window": 8, "horizon": 8, "points": 2},
        goals={"states": 48},
    )
    return folder


def test_findings_come_first_and_open_the_frames_that_show_them(page: Path, open_page: Callable[..., Visitor]) -> None:
    visitor = open_page(page, wait=False)
    panels = visitor.page.locator("main [data-testid^=panel-]")
    panels.first.wait_for()
    expect(visitor.page.get_by_role("alert")).to_have_count(0)
    assert panels.first.get_attribute("data-testid") == "panel-findings"
    findings = visitor.by("panel-findings").locator("tbody tr")
    first = findings.first.get_by_role("button")
    assert "failures" in first.inner_text()
    assert "are ended by mine (verdict: no reaction)" in first.inner_text()
    for row in range(findings.count()):
        findings.nth(row).get_by_role("button").click()
        place = visitor.state()
        assert "here" in (findings.nth(row).get_attribute("class") or "")
        assert visitor.frame() == place["frame"] + 1


def test_failures_are_shown_with_a_continuation_that_survives(page: Path, open_page: Callable[..., Visitor]) -> None:
    visitor = open_page(page, wait=False)
    failures = visitor.by("panel-failures").locator("tbody tr")
    failures.first.wait_for()
    expect(failures).to_have_count(6)
    ends = failures.first.get_by_role("button", name="frame ")
    ends.click()
    last = visitor.frame()
    assert ends.inner_text() == f"frame {last}"
    assert f"step {last} of trajectory" in failures.first.inner_text()
    visitor.by("panel-failures").get_by_role("button", name="What Failures shows").click()
    help_text = visitor.by("panel-failures").locator(".help")
    expect(help_text).to_contain_text("wrong reaction: the policy reacted in time, but not in a way that survives")
    for name in ("avoidable", "survives", "without"):
        limits = visitor.track(name).locator(".limit")
        assert [float(text) for text in limits.all_inner_texts()] == [1, 0]
        label = visitor.track(name).locator(".text")
        assert label.evaluate("text => text.scrollWidth <= text.clientWidth")
    clips = visitor.by("panel-failure_clips").locator("img")
    clips.last.scroll_into_view_if_needed()
    visitor.page.wait_for_function(
        "image => image.complete && image.naturalWidth === 76", arg=clips.last.element_handle()
    )
    clips.first.locator("xpath=ancestor::button").click()
    place = visitor.state()
    assert (place["trajectory"], place["frame"]) != (0, 0)

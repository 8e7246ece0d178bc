"""The panel of recordings' pages that shows the returns of all runs over training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Position, expect

from tests.browser.pages import Visitor
from tests.browser.recording_pages import EXPLAINED, LENGTHS, RUNS, RecordingsPage, write_recordings_page

Open = Callable[..., Visitor]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> RecordingsPage:
    return write_recordings_page(tmp_path_factory.mktemp("recordings"))


def dots(visitor: Visitor, run: str) -> int:
    """Number of a run's dots."""
    paths = visitor.by("returns-chart").locator(f'.dots[data-run="{run}"]')
    return sum(path.count("M") for path in paths.evaluate_all("paths => paths.map((one) => one.getAttribute('d'))"))


def test_the_returns_chart_has_a_dot_per_episode_and_can_hide_runs(open_page: Open, recordings: RecordingsPage) -> None:
    visitor = open_page(recordings.directory, wait=False)
    expect(visitor.by("returns-run")).to_have_count(2)
    assert [dots(visitor, run) for run in RUNS] == [len(lengths) for lengths in LENGTHS]
    visitor.by("returns-run").nth(0).click()
    assert [dots(visitor, run) for run in RUNS] == [0, len(LENGTHS[1])]


def test_the_chart_can_show_entropy_or_total_saliency(open_page: Open, recordings: RecordingsPage) -> None:
    visitor = open_page(recordings.directory, wait=False)
    names = visitor.by("returns-curve").locator("option").all_text_contents()
    assert names == ["return", "length", "entropy of the policy", "total saliency, policy", "total saliency, value"]
    visitor.by("returns-curve").select_option("entropy")
    expect(visitor.by("returns-chart")).to_contain_text("entropy of the policy")
    assert [dots(visitor, run) for run in RUNS] == [len(lengths) for lengths in LENGTHS]
    visitor.by("returns-curve").select_option("total-value")  # of the episodes that are explained
    assert [dots(visitor, run) for run in RUNS] == [EXPLAINED, EXPLAINED]
    visitor.by("returns-run").nth(1).click()
    chart = visitor.by("returns-chart")
    box = chart.bounding_box()
    assert box
    chart.hover(position=Position(x=box["width"] - 15, y=box["height"] / 2))
    shown = visitor.by("returns-pointed").locator("strong").text_content() or ""
    assert float(shown) == pytest.approx(recordings.maps[0][1]["total value"].mean(), rel=0.01)
    assert visitor.state()["curve"] == "total-value"


def test_hovering_a_dot_shows_its_episode_and_clicking_plays_it(open_page: Open, recordings: RecordingsPage) -> None:
    visitor = open_page(recordings.directory, wait=False)
    visitor.by("returns-run").nth(1).click()  # one run is left, so that any point is nearest to it
    chart = visitor.by("returns-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box
    middle = Position(x=52 + (box["width"] - 62) / 2, y=box["height"] / 2)  # episodes began at steps 0, 1000 and 2000
    chart.hover(position=middle)
    expect(visitor.by("returns-pointed")).to_have_attribute("data-key", f"{RUNS[0]}~50")
    expect(visitor.by("thumbnail")).to_have_attribute("data-frame", f"1/{LENGTHS[0][1] // 2}")
    chart.click(position=middle)
    assert visitor.state()["chosen"] == [f"{RUNS[0]}~50"]
    visitor.page.wait_for_function("() => rlClarity.state().step > 2")


def test_a_recording_of_a_single_episode_has_no_returns_chart(open_page: Open, tmp_path: Path) -> None:
    write_recordings_page(tmp_path, ((40,),))
    visitor = open_page(tmp_path, wait=False)
    expect(visitor.by("episode-row")).to_have_count(1)
    expect(visitor.by("returns-chart")).to_have_count(0)


def test_runs_are_filtered_and_grouped_by_regular_expressions(open_page: Open, recordings: RecordingsPage) -> None:
    visitor = open_page(recordings.directory, wait=False)
    keys = visitor.by("returns-run").locator(".key")
    expect(keys).to_have_count(2)
    colors = "keys => keys.map((key) => getComputedStyle(key).backgroundColor)"
    assert len(set(keys.evaluate_all(colors))) == 2
    visitor.by("returns-group").fill(".")
    assert len(set(keys.evaluate_all(colors))) == 1
    visitor.by("returns-runs").fill(f"^{RUNS[1]}$")
    expect(visitor.by("returns-run")).to_have_count(1)
    assert [dots(visitor, run) for run in RUNS] == [0, len(LENGTHS[1])]
    expect(visitor.by("episode-row")).to_have_count(len(LENGTHS[1]))
    assert visitor.state()["runs"] == f"^{RUNS[1]}$"
    visitor.by("returns-runs").fill("(")
    expect(visitor.by("returns-runs")).to_have_attribute("aria-invalid", "true")
    expect(visitor.by("returns-run")).to_have_count(2)

"""A walk through the page of the light switch's agent, whose numbers are those that Python reads from the same page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import rl_clarity
from rl_clarity.live import LiveNetwork
from rl_clarity.pages.results import Results
from tests.browser.memory_pages import settle
from tests.browser.pages import Visitor
from tests.browser.test_memory import bars, strip_image
from tests.light_switch import checkpoint
from tests.live.pages import ask
from tests.servers import serving_page

pytestmark = pytest.mark.slow
SWITCHES = 9
"""The step at which the agent chooses a switch: the lamp of the first frame says which."""
OPTIONS: dict[str, Any] = {
    **{"count": 3, "method": "pca", "clusters": 3, "lags": (1, 2), "maps": ("pca",), "replay_steps": 0},
    **{"influence_samples": 4, "interventions": 0, "intervention_episodes": 0, "episodes": 6, "windows": 12},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    directory = tmp_path_factory.mktemp("walk") / "page"
    return rl_clarity.explain_memory(checkpoint("memory"), directory, **OPTIONS).results()


def test_the_memory_page_shows_the_same_arrays_as_open_results(
    results: Results, open_page: Callable[..., Visitor]
) -> None:
    section, states = results.section("windows"), results.section("states")
    number = next(n for n, one in enumerate(section["windows"]) if one["frame"] == SWITCHES)
    window = results.window(number)
    query = f"?episode={window.trajectory + 1}&step={SWITCHES + 1}&target=action"
    visitor = open_page(Path(results._directory.location), query, wait=False)
    settle(visitor)
    assert visitor.state()["window"] == number

    maps = window.maps["memory"][window.targets.index("action")]
    steps = visitor.by("strip-step").evaluate_all("all => all.map((one) => [+one.dataset.raises, +one.dataset.lowers])")
    wanted = np.stack([np.maximum(maps, 0).sum((1, 2)), np.maximum(-maps, 0).sum((1, 2))], 1)
    np.testing.assert_allclose(steps, wanted, rtol=1e-3, atol=1e-6 * np.abs(wanted).max())
    assert np.argmax(np.sum(steps, 1)[:SWITCHES]) == 0, "the lamp in the first frame"

    opacity = strip_image(visitor, 0)[..., 3] / 255
    row, column = np.unravel_index(np.argmax(opacity), opacity.shape)
    size = np.array(opacity.shape) / maps.shape[1:]
    at = (int(row / size[0]), int(column / size[1]))
    assert abs(maps[0][at]) > 0.7 * np.abs(maps[0]).max(), "the most opaque place is that of the largest value"

    scales = np.array([one["scale"] for one in states["directions"]])
    coordinates = results.chunk(states["coordinates"][window.trajectory])["coordinates"][SWITCHES]
    np.testing.assert_allclose(bars(visitor, "bars-now"), coordinates / scales, rtol=1e-3, atol=1e-4)
    caused = window.components["memory"][window.targets.index("action")].sum(0)
    np.testing.assert_allclose(bars(visitor, "bars-caused"), caused, rtol=1e-3, atol=1e-4 * np.abs(caused).max())

    series = results.series(window.trajectory)
    facts = visitor.text("facts")
    label = results.manifest["agents"][0]["actions"][series["actions"][SWITCHES]]["label"]
    assert f"action {label}" in facts
    points = results.state_map("pca")
    assert visitor.by("state-map").get_attribute("data-points") == str(len(points.positions))


def test_every_window_of_the_memory_page_opens(results: Results, open_page: Callable[..., Visitor]) -> None:
    visitor = open_page(Path(results._directory.location), wait=False)
    settle(visitor)
    entries = visitor.by("windows").locator("li")
    count = len(results.section("windows")["windows"])
    expect(entries).to_have_count(count)
    for number in range(count):
        entries.nth(number).get_by_role("button").click()
        assert visitor.state()["window"] == number
        visitor.page.wait_for_function(
            "n => document.querySelectorAll('[data-testid=strip-step]').length === n",
            arg=len(results.window(number).frames),
        )


def test_a_served_page_explains_steps_without_a_stored_window(results: Results, chromium_browser: Browser) -> None:
    known = {(one["trajectory"], one["frame"]) for one in results.section("windows")["windows"]}
    episode, step = next((0, step) for step in range(SWITCHES, 0, -1) if (0, step) not in known)
    network = LiveNetwork(results, rl_clarity.load_agent(checkpoint("memory")))
    wanted = ask(network, "window", trajectory=episode, step=step)["window"]
    messages: list[str] = []
    with serving_page(network) as address, closing(chromium_browser.new_context()) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(f"{address}&episode={episode + 1}&step={step + 1}")
        page.get_by_test_id("tour-skip").click()
        page.get_by_test_id("explain-step").click()
        steps = step - wanted["first"] + 1
        expect(page.get_by_test_id("caption")).to_contain_text(f"episode {episode + 1}, step {step + 1}")
        expect(page.get_by_test_id("strip-step")).to_have_count(steps)
        expect(page.get_by_test_id("explain-step")).to_have_count(0)
        count = len(known) + 1
        expect(page.get_by_test_id("window-count")).to_have_text(f"{count} of {count} windows")
        page.get_by_test_id("windows").get_by_role("button").first.click()
        page.get_by_test_id("windows").get_by_role("button").last.click()
        expect(page.get_by_test_id("caption")).to_contain_text(f"episode {episode + 1}, step {step + 1}")
    assert messages == []

"""Pages of agents that observe numbers: beside an image, or as a vector, which has no images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.pages.results import open_results
from tests.agents.test_vector_observations import NAMES, Hidden, make_agent
from tests.browser.pages import Visitor
from tests.dictionaries import SHAPES, Dictionary, make_network

Open = Callable[..., Visitor]


def number(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-"))


@pytest.fixture(scope="module")
def dictionary_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = rl_clarity.TorchAgent(make_network(), SHAPES)
    samples = rl_clarity.collect(agent, Dictionary(), 24, 16, obs_every=2)
    directory = tmp_path_factory.mktemp("dictionary")
    rl_clarity.generate(agent, *samples, directory, features={"count": 2})
    return directory


@pytest.fixture(scope="module")
def vector_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = make_agent(Hidden())
    samples = rl_clarity.collect(agent, gymnasium.make("CartPole-v1"), 40, 24, obs_every=2)
    directory = tmp_path_factory.mktemp("vector")
    rl_clarity.generate(agent, *samples, directory, features={"count": 3})
    return directory


def test_numeric_inputs_beside_an_image_are_shown_as_tracks(dictionary_page: Path, open_page: Open) -> None:
    visitor = open_page(dictionary_page, "?frame=5")
    assert visitor.attribution("pos").max() > 0
    tracks = visitor.by("input-tracks")
    for name in ("direction", "speed 1", "speed 2"):
        expect(tracks.get_by_text(name, exact=True)).to_be_visible()
    speed = open_results(dictionary_page).series(0)["inputs"][4, 1]
    assert number(visitor.track("input-2").locator(".value").inner_text()) == pytest.approx(speed)


def test_rendered_frames_of_a_vector_agent_are_shown_above_the_bars(tmp_path: Path, open_page: Open) -> None:
    pytest.importorskip("pygame")
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    agent = make_agent(Hidden())
    samples = rl_clarity.collect(agent, env, 4, 4, full_resolution=True)
    page = rl_clarity.generate(agent, *samples, tmp_path / "page", features={"count": 2})
    results = page.results()
    thumbnails = results.layer("input")["features"]["thumbnails"]
    assert {results.image(name).shape[:2] for name in thumbnails} == {(4 * 400, 4 * 600)}, "patches are whole frames"
    visitor = open_page(tmp_path / "page", wait=False)
    frame = visitor.by("observation-canvas")
    expect(frame).to_be_visible()
    box = frame.bounding_box()
    assert box is not None
    assert box["height"] == pytest.approx(box["width"] * 400 / 600, rel=0.02)
    expect(visitor.page.get_by_role("checkbox", name="residual", exact=True)).to_be_visible()
    expect(visitor.page.get_by_role("checkbox", name="over the observation")).to_have_count(0)


def test_a_vector_agent_has_bars_and_tracks_but_no_images(vector_page: Path, open_page: Open) -> None:
    visitor = open_page(vector_page, "?layer=input&frame=5", wait=False)
    visitor.by("decomposition").first.wait_for()
    expect(visitor.by("attribution-canvas")).to_have_count(0)
    expect(visitor.by("observation-canvas")).to_have_count(0)
    expect(visitor.by("vector")).to_be_visible()
    bars = visitor.by("decomposition").first
    reduced = open_results(vector_page).attribution("input", 0).channels[4, 0, 0]
    for channel, name in enumerate(NAMES):
        bar = bars.locator(f"[data-channel='{channel}']")
        assert name in bar.inner_text()
        assert float(bar.get_attribute("data-value") or "nan") == pytest.approx(reduced[channel], rel=0.02, abs=0.01)
    assert np.abs(reduced).max() > 0
    played = open_results(vector_page).series(0)["inputs"][4]
    for k in range(4):
        shown = number(visitor.track(f"input-{k + 1}").locator(".value").inner_text())
        assert shown == pytest.approx(played[k], rel=6e-3, abs=1e-3)
    visitor.by("layer-act").click()
    expect(bars.locator("[data-channel]")).to_have_count(4)  # three features and the residual

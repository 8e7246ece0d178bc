"""The page of an agent whose actions have several factors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.agents.actions import Categorical, Factor, Gaussian
from rl_clarity.base.statistics import softmax
from rl_clarity.pages.results import open_results
from tests.browser.pages import Visitor
from tests.fakes import TinyAgent

Open = Callable[..., Visitor]
STEPS, SIDE = 40, 16


class Driver(TinyAgent):
    """Chooses a gear, and steers by a number."""

    @property
    def action_factors(self) -> tuple[Factor, ...]:
        return Categorical(3, "gear", ("back", "neutral", "forward")), Gaussian(-1, 1, squashed=True, name="steering")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("factors")
    rng = np.random.default_rng(0)
    actions = np.stack([rng.integers(0, 3, STEPS), rng.uniform(-1, 1, STEPS)], axis=1)[None]
    trajectories = {
        "observations": rng.integers(0, 256, (1, STEPS, SIDE, SIDE, 3), np.uint8),
        "actions": actions,
        "rewards": rng.integers(0, 2, (1, STEPS)),
        "firsts": np.arange(STEPS)[None] % 20 == 0,
    }
    agent = Driver("policy", (SIDE, SIDE, 3), 5)
    varied = rng.integers(0, 256, (32, SIDE, SIDE, 3), np.uint8)
    rl_clarity.generate(agent, trajectories, varied, directory, nmf_features=3)
    return directory


def test_each_action_factor_has_a_row_with_the_chosen_action(page: Path, open_page: Open) -> None:
    visitor = open_page(page, "?frame=5")  # its messages on the console fail the test
    series = open_results(page).series(0)
    taken = [float(series[f"info.action.{i}"][4]) for i in range(2)]
    gear = ("back", "neutral", "forward")[int(taken[0])]
    words = visitor.by("factors").locator(".words")
    words.first.wait_for()
    share = softmax(series["logits"][4, :3])[int(taken[0])]
    assert words.nth(0).inner_text().split()[0] == gear
    assert float(words.nth(0).inner_text().split()[1].strip("\u202f %")) == pytest.approx(100 * share, abs=0.6)
    steering = words.nth(1).inner_text().replace("\u2212", "-").split()
    assert float(steering[0]) == pytest.approx(taken[1], abs=0.006)
    assert float(steering[2]) == pytest.approx(np.tanh(series["logits"][4, 3]), abs=0.006)
    assert visitor.by("next-action").inner_text().startswith(f"{gear}, ")
    expect(visitor.by("policy")).to_have_count(0)


def test_every_output_of_the_action_factors_can_be_selected(page: Path, open_page: Open) -> None:
    manifest = open_results(page).manifest
    outputs = next(section for section in manifest["sections"] if section["kind"] == "attribution")["data"]["outputs"]
    names = ["gear: back", "gear: neutral", "gear: forward", "steering: mean", "steering: log std"]
    assert [output["label"] for output in outputs] == ["value function", *names]
    visitor = open_page(page, "?frame=5&rows=action-3")
    assert visitor.attribution("pos").max() > 0

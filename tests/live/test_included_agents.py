"""The network behind pages of included agents computes their outputs, and what ablated features change."""

from __future__ import annotations

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError
from rl_clarity.live import LiveNetwork, open_page_agent
from rl_clarity.pages.results import Results
from tests.live.pages import ask, values_of

pytestmark = pytest.mark.slow
STEPS = 32
TOLERANCE = 1e-3
AGENTS = ("coinrun", "fruitbot", "starpilot-lstm")


@pytest.fixture(scope="module", params=AGENTS)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    pytest.importorskip("procgen")
    page = rl_clarity.run(
        f"models:{request.param}",
        tmp_path_factory.mktemp(request.param),
        trajectories={"num_envs": 1, "num_steps": STEPS},
        observations={"num_envs": 2, "num_obs": 16},
        objects={"every": 8, "last_steps": 0},
    )
    return page.results()


def test_the_page_finds_its_agent_and_refuses_another(results: Results) -> None:
    open_page_agent(results)
    with pytest.raises(CheckpointError, match="is not the checkpoint of the page"):
        open_page_agent(results, "models:coinrun-early")


def test_outputs_and_ablated_features_are_those_of_the_page(results: Results) -> None:
    network = LiveNetwork(results, open_page_agent(results))
    assert ask(network, "check", trajectory=0)["agrees"]
    layer = results.layers[-1]
    stored = results.chunk(results.section("ablation")["layers"][results.layer(layer)["slug"]]["trajectories"][0])
    for feature in (1, 2):
        change = {"features": [{"layer": layer, "baseline": [feature]}]}
        answer = ask(network, "outputs", trajectory=0, first=0, last=STEPS - 1, change=change)
        changes = (values_of(answer, "after") - values_of(answer, "before"))[stored["frames"]]
        np.testing.assert_allclose(changes, stored["change.value"][:, feature - 1], atol=TOLERANCE)


def test_objects_are_removed_as_their_effects_were_measured(results: Results) -> None:
    network = LiveNetwork(results, open_page_agent(results))
    effects = results.chunk(results.section("objects")["trajectories"][0]["chunk"])
    assert len(effects["frame"]) >= 3
    for frame, track, expected in zip(effects["frame"], effects["track"], effects["value"], strict=True):
        step, change = int(frame), {"objects": [int(track) + 1]}
        answer = ask(network, "outputs", trajectory=0, first=step, last=step, change=change)
        assert values_of(answer, "before") - values_of(answer, "after") == pytest.approx(expected, abs=TOLERANCE)

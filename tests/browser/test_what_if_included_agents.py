"""The network behind pages of included agents, served or beside them, computes their outputs and changed features."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError
from rl_clarity.base.statistics import softmax
from rl_clarity.live import LiveNetwork, open_page_agent
from rl_clarity.pages import browser_runtime
from rl_clarity.pages.results import Results
from tests.browser.pages import Visitor, wait_for_value
from tests.live.pages import ask, values_of

pytestmark = pytest.mark.slow
STEPS = 32
TOLERANCE = 1e-3
HAS_RUNTIME = browser_runtime.missing_file() is None and all(
    find_spec(name) for name in ("torch", "onnx", "onnxscript")
)
POLICY_IS = """([expected, tolerance]) => {
  const rows = [...document.querySelectorAll("[data-testid=what-if-action]")];
  const shown = rows.map(({ dataset }) => Number(dataset.after));
  return shown.length === expected.length && shown.every((share, k) => Math.abs(share - expected[k]) <= tolerance);
}"""
AGENTS = ("coinrun", "starpilot-lstm")


@pytest.fixture(scope="module", params=AGENTS)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    pytest.importorskip("procgen")
    page = rl_clarity.run(
        f"models:{request.param}",
        tmp_path_factory.mktemp(request.param),
        trajectories={"num_envs": 1, "num_steps": STEPS},
        observations={"num_envs": 2, "num_obs": 16},
        layers={"discard_first_n": 2},
        objects={"every": 8, "last_steps": 0},
        live=HAS_RUNTIME,
    )
    return page.results()


def test_a_page_loads_its_own_agent_and_refuses_another(results: Results) -> None:
    open_page_agent(results)
    with pytest.raises(CheckpointError, match="is not the checkpoint of the page"):
        open_page_agent(results, "models:coinrun-early")


def test_live_outputs_and_ablations_equal_those_stored_on_the_page(results: Results) -> None:
    network = LiveNetwork(results, open_page_agent(results))
    assert ask(network, "check", trajectory=0)["agrees"]
    layer = results.layers[-1]
    stored = results.chunk(results.section("ablation")["layers"][results.layer(layer)["slug"]]["trajectories"][0])
    for feature in (1, 2):
        change = {"features": [{"layer": layer, "baseline": [feature]}]}
        answer = ask(network, "outputs", trajectory=0, first=0, last=STEPS - 1, change=change)
        changes = (values_of(answer, "after") - values_of(answer, "before"))[stored["frames"]]
        np.testing.assert_allclose(changes, stored["change.value"][:, feature - 1], atol=TOLERANCE)


def test_removing_objects_live_gives_their_measured_effects(results: Results) -> None:
    network = LiveNetwork(results, open_page_agent(results))
    effects = results.chunk(results.section("objects")["trajectories"][0]["chunk"])
    assert len(effects["frame"]) >= 3
    for frame, track, expected in zip(effects["frame"], effects["track"], effects["value"], strict=True):
        step, change = int(frame), {"objects": [int(track) + 1]}
        answer = ask(network, "outputs", trajectory=0, first=step, last=step, change=change)
        assert values_of(answer, "before") - values_of(answer, "after") == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.browser
@pytest.mark.skipif(not HAS_RUNTIME, reason="needs PyTorch, onnx, onnxscript and onnxruntime-web (make onnxruntime)")
def test_a_page_opened_from_a_file_computes_the_same_outputs(
    results: Results, open_page: Callable[..., Visitor]
) -> None:
    network = LiveNetwork(results, open_page_agent(results))
    layer = results.layers[-1]
    slug = results.layer(layer)["slug"]
    ablation = results.chunk(results.section("ablation")["layers"][slug]["trajectories"][0])
    visitor = open_page(Path(results.location), "?edit=open")
    visitor.by("what-if-value").wait_for()
    if visitor.by("what-if-separate").count():
        visitor.by("what-if-separate").check()
    for row in (1, len(ablation["frames"]) // 2, -1):
        step = int(ablation["frames"][row])
        stored = float(results.series(0)["values"][step])
        visitor.page.evaluate("frame => rlClarity.select({ frame, edit: 'open' })", step)
        wait_for_value(visitor.page, stored, TOLERANCE)
        for number, change in enumerate(ablation["change.value"][row], start=1):
            visitor.page.evaluate("edit => rlClarity.select({ edit })", f"base~{slug}~{number}")
            wait_for_value(visitor.page, stored + float(change), TOLERANCE)
            removed = {"features": [{"layer": layer, "baseline": [number]}]}
            answer = ask(network, "outputs", trajectory=0, first=step, last=step, change=removed)
            policy = softmax(np.asarray(answer["after"]["logits"][0]))
            visitor.page.wait_for_function(POLICY_IS, arg=[policy.tolist(), TOLERANCE])
    box = {"boxes": [{"box": [8, 20, 40, 44]}]}
    answer = ask(network, "outputs", trajectory=0, first=step, last=step, change=box)
    visitor.page.evaluate("rlClarity.select({ edit: 'around~8.20.40.44' })")
    wait_for_value(visitor.page, float(answer["after"]["values"][0]), TOLERANCE)

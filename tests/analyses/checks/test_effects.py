"""Maps and measured effects of objects on the page of checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.checks import analysis as checks
from rl_clarity.analyses.checks.effects import EffectChecks, pack_effects, unpack_effects
from rl_clarity.analyses.checks.methods import layer_methods
from rl_clarity.analyses.checks.report import SanityReport
from rl_clarity.analyses.objects.agreement import CONTROLS, EffectSample
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import WorldError
from rl_clarity.pages.results import Page
from rl_clarity.recordings.object_effects import ObjectEffects
from tests.analyses import check_pages
from tests.analyses.squares import square_effects
from tests.fakes import TinyAgent

METHODS_CHECKED = ("perturbation", "signed_perturbation", "integrated_gradients body.1")


@pytest.fixture(scope="module")
def agent() -> Any:
    pytest.importorskip("torch")
    return check_pages.torch_agent()


@pytest.fixture(scope="module")
def effects(agent: Any) -> ObjectEffects:
    return square_effects(agent, check_pages.SHAPE[0], episodes=8, steps=4, objects=2)


@pytest.fixture(scope="module")
def page(agent: Any, effects: ObjectEffects, tmp_path_factory: pytest.TempPathFactory) -> Page:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "object_effects", lambda *_, **__: effects)
        return check_pages.write_page(
            tmp_path_factory.mktemp("effects"), agent, checks={"methods": METHODS_CHECKED, "frames": 6}
        )


def test_maps_are_summed_at_objects_and_compared_with_measured_effects(agent: Any, effects: ObjectEffects) -> None:
    compared = EffectChecks.measured(agent, effects).method(layer_methods(agent)["integrated_gradients body.1"], 0)
    for output in ("value", "greedy"):
        sample = EffectSample.for_output(agent, effects, output)
        score: Any = 0 if output == "greedy" else "value"
        best = agent.forward(sample.observations).policy_logits.argmax(axis=1)
        if output == "greedy":
            score = {action: (best == action).astype(np.float32) for action in range(3)}
        maps = rl_clarity.integrated_gradients(
            agent, sample.observations, "body.1", score, steps=16, quadrature="midpoint"
        )
        assert compared[output] == sample.agreement(sample.sums(maps.sum(axis=-1)))


def test_unsigned_maps_are_assigned_the_most_frequent_effect_sign(agent: Any, effects: ObjectEffects) -> None:
    few = EffectChecks.measured(agent, effects)
    unsigned, signed = (few.method(METHODS.get(name), 0)["value"] for name in METHODS_CHECKED[:2])
    sample = few.samples["value"]
    large = sample.change[np.abs(sample.change) > sample.threshold]
    usual = max((large > 0).mean(), (large < 0).mean())
    assert unsigned.signs.value == pytest.approx(usual)
    assert signed.signs.value > unsigned.signs.value


def test_the_table_of_effects_lists_methods_and_controls(page: Page) -> None:
    section = page.results().section("check_effects")
    assert [column["label"] for column in section["columns"]][:3] == [
        "method",
        "value: correlation",
        "value: right signs",
    ]
    labels = [row["method"] for row in section["rows"]]
    assert labels[:3] == ["perturbation", "signed perturbation", "integrated gradients body.1"]
    assert labels[3:] == [f"control: {label}" for label in (*CONTROLS.values(), "random weights")]
    report = json.loads((Path(page.path).parent / checks.REPORT).read_text())
    for column in section["columns"][1:]:
        output, name = column["key"].split("_", 1)
        values = [method["effects"][output][name]["value"] for method in report["methods"]]
        cells = [row[column["key"]] for row in section["rows"]]
        assert cells[int(np.argmax(values))] == next(cell for cell in cells if cell.endswith(", best"))
        assert [float(cell.split()[0].rstrip(",")) for cell in cells[:3]] == pytest.approx(values, abs=0.0051)
    assert "64 objects in 8 episodes" in section["caption"]


def test_the_report_with_measured_effects_can_be_read_again(page: Page, agent: Any, effects: ObjectEffects) -> None:
    values = json.loads((Path(page.path).parent / checks.REPORT).read_text())
    report = SanityReport.from_dict(values)
    expected = EffectChecks.measured(agent, effects)
    signed = expected.method(METHODS.get("signed_perturbation"), 0)
    assert report.methods[1].effects["value"].correlation == signed["value"].correlation
    assert report.methods[1].effects["greedy"].by_type["saw"] == signed["greedy"].by_type["saw"]
    assert report.controls["random_weights"]["value"].threshold == expected.samples["value"].threshold
    assert report.controls["edges"] == expected.controls(0)["edges"]
    text = str(report)
    assert "value: correlation" in text
    assert "control, edges (Sobel): best action: correlation" in text


def test_object_effects_are_saved_with_the_page(page: Page, effects: ObjectEffects) -> None:
    read = unpack_effects((Path(page.path).parent / checks.EFFECTS).read_bytes())
    np.testing.assert_array_equal(read.type, effects.type)
    np.testing.assert_array_equal(read.without_object, effects.without_object)
    assert read.state is None
    with_state: Any = ObjectEffects(**{**vars(effects), "state": (np.ones((64, 2)), np.zeros((64, 3)))})
    for part, expected in zip(unpack_effects(pack_effects(with_state)).state or (), with_state.state, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_effects_are_reported_as_unknown_if_states_cannot_be_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise WorldError("states of the environment kind 'gymnasium' cannot be edited; editable kinds: procgen")

    monkeypatch.setattr(checks, "object_effects", refuse)
    agent = TinyAgent(observation_shape=check_pages.SHAPE, num_actions=3)
    page = check_pages.write_page(tmp_path, agent, checks={"methods": ["integrated_gradients 1a"]})
    section = page.results().section("check_effects")
    assert section["rows"] == []
    assert section["caption"] == (
        "Whether these maps predict the effects of objects is not known for this agent (states of the environment kind "
        "'gymnasium' cannot be edited; editable kinds: procgen). docs/truth.md, in the documentation, has the numbers "
        "for other agents."
    )
    report = SanityReport.from_dict(json.loads((Path(page.path).parent / checks.REPORT).read_text()))
    assert str(report).splitlines()[-1] == section["caption"]
    assert report.methods[0].effects == {}


def test_for_agents_without_a_value_only_the_best_action_is_compared() -> None:
    agent: Any = TinyAgent("logits", observation_shape=(32, 32, 3), num_actions=3)
    values = TinyAgent(observation_shape=(32, 32, 3), num_actions=3)
    assert set(EffectChecks.measured(agent, square_effects(values, 32, 4, 2)).samples) == {"greedy"}

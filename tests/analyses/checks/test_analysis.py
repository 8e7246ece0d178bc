"""The page of sanity checks: report, table, maps and bars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution.saliency import SaliencyMethod
from rl_clarity.analyses.checks import analysis as checks
from rl_clarity.analyses.checks.methods import sanity_checks
from rl_clarity.analyses.checks.report import MethodReport
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import Interval
from rl_clarity.pages.results import Page
from tests.analyses import check_pages
from tests.fakes import TinyAgent
from tests.pipeline.small import record_tasks


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    pytest.importorskip("torch")
    return check_pages.write_page(tmp_path_factory.mktemp("checks"))


def section(page: Page, kind: str) -> Any:
    return page.results().section(kind)


def test_the_page_stores_the_report_of_sanity_checks(page: Page) -> None:
    expected = sanity_checks(
        check_pages.torch_agent(), check_pages.trajectories(), methods=check_pages.METHODS, frames=6
    )
    report = json.loads((Path(page.path).parent / checks.REPORT).read_text())
    assert "neither env_name nor env_id" in report["effects_unknown"]
    assert {**report, "effects_unknown": ""} == json.loads(json.dumps(expected.to_dict()))
    assert [MethodReport.from_dict(one) for one in report["methods"]] == list(expected.methods)
    (_, rounded, _) = section(page, "checks")["report"]["methods"]
    area = expected.methods[1].deletion["area"]
    assert rounded["deletion"]["area"] == pytest.approx(
        {"mean": area.mean, "low": area.low, "high": area.high}, rel=1e-5
    )


def test_the_table_of_sanity_checks_describes_results_in_words(page: Page) -> None:
    data = section(page, "checks")
    assert [row["method"] for row in data["rows"]] == ["perturbation", "Jacobian", "integrated gradients body.1"]
    for row, method in zip(data["rows"], data["report"]["methods"], strict=True):
        correlation = method["randomization"][-1]["rank_correlation"]
        assert row["weights"].startswith("its maps change" if correlation < 0.5 else "STAYS SIMILAR")
        assert f"rank correlation {correlation:.2f}" in row["weights"]
        assert ("NO FASTER" in row["deletion"]) == (method["deletion"]["above_random"]["low"] <= 0)


def test_saliency_maps_of_trained_and_random_networks_are_side_by_side(page: Page) -> None:
    data = section(page, "check_maps")
    images, columns = data["images"], data["columns"]
    assert len(images) == columns * checks.EXAMPLES * len(check_pages.METHODS)
    first = images[:columns]
    assert [one["label"] for one in first[:2]] == ["perturbation", "trained"]
    assert first[-1]["label"].startswith("random to body.0: ")
    assert {"trajectory", "frame"} <= set(first[0])
    trained, randomized = (page.results().image(first[at]["image"]) for at in (1, -1))
    assert trained.shape == (16, 16, 1)
    assert trained.max() == randomized.max() == 255
    assert not np.array_equal(trained, randomized)


@pytest.mark.parametrize("measure", ["deletion", "insertion"])
def test_bars_compare_pixel_orders_of_maps_with_random_and_center_orders(page: Page, measure: str) -> None:
    bars = section(page, f"check_{measure}")["bars"]
    report = section(page, "checks")["report"]["methods"][1][measure]
    expected = [report["above_random"], report["above_center"]]
    assert [bar["label"] for bar in bars[2:4]] == ["Jacobian, random", "Jacobian, center"]
    assert [(bar["value"], bar["low"], bar["high"]) for bar in bars[2:4]] == [
        (one["mean"], one["low"], one["high"]) for one in expected
    ]


def test_a_saliency_method_that_ignores_the_weights_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")

    def edges(agent: Any, observations: np.ndarray, outputs: list[Any], state: Any) -> np.ndarray:
        return np.stack([np.diff(observations.astype(float), axis=1, append=0)] * len(outputs))

    monkeypatch.setattr(METHODS, "_registered", {"edges": SaliencyMethod("edges", "", edges)})
    page = check_pages.write_page(tmp_path, checks={"methods": ["edges"]})
    (row,) = section(page, "checks")["rows"]
    assert row["weights"].startswith("STAYS SIMILAR when all weights are random (rank correlation 1.00)")


def test_an_agent_whose_weights_cannot_be_set_is_not_randomized(tmp_path: Path) -> None:
    agent = TinyAgent("recurrent", observation_shape=check_pages.SHAPE, num_actions=3)
    page = check_pages.write_page(tmp_path, agent, checks={"methods": ["integrated_gradients 1a"]})
    (row,) = section(page, "checks")["rows"]
    assert row["weights"].startswith("not tested")
    assert section(page, "check_maps")["columns"] == 2


def test_changed_options_repeat_the_sanity_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = TinyAgent(observation_shape=check_pages.SHAPE, num_actions=3)
    options: dict[str, Any] = {"methods": ["integrated_gradients 1a"]}

    def tasks(frames: int) -> list[str]:
        with record_tasks(monkeypatch) as names:
            check_pages.write_page(tmp_path, agent, checks={**options, "frames": frames}, overwrite=True)
        return [name for name in names if name.startswith("checks/")]

    expected = ["checks/effects", "checks/method/integrated_gradients-1a", "checks/report"]
    assert tasks(4) == expected
    assert tasks(4) == []
    assert tasks(5) == expected


def test_the_forecast_includes_the_sanity_checks(tmp_path: Path) -> None:
    agent = TinyAgent(observation_shape=check_pages.SHAPE, num_actions=3)
    forecast: Any = check_pages.write_page(tmp_path, agent, checks={"methods": ["jacobian"]}, dry_run=True)
    assert forecast.stages["checks"] > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["lime"]}, "methods='lime' is not one of perturbation, signed_perturbation, jacobian"),
        ({"output": "logits"}, "output='logits' must be one of policy, value, greedy"),
        ({"frames": 0}, "frames=0 must be at least 1"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    agent = TinyAgent(observation_shape=check_pages.SHAPE, num_actions=3)
    with pytest.raises(OptionError, match=message):
        check_pages.write_page(tmp_path / "page", agent, checks={"methods": None, **options})
    assert not (tmp_path / "page").exists()


def test_the_report_points_out_attribution_that_does_not_add_up() -> None:
    interval = Interval(0.1, -0.1, 0.3)
    orders = {"area": interval, "above_random": interval, "above_center": interval}
    few, many, none = (MethodReport("jacobian", [], orders, orders, gap) for gap in (0.05, 2.5, None))
    assert (few.adds_up, many.adds_up, none.adds_up) == (True, False, True)
    assert few.completeness_text.endswith("except for 5.0%")
    assert many.completeness_text.startswith("DOES NOT ADD UP")
    assert many.completeness_text.endswith("250% of it is missing")
    assert none.completeness_text == ""
    assert few.deletion_text == (
        "removing pixels in its maps' order is NO FASTER than in a random order (+0.10, -0.10 to +0.30)"
    )


def test_a_report_of_sanity_checks_prints_as_text() -> None:
    agent: Any = TinyAgent(observation_shape=check_pages.SHAPE, num_actions=3)
    report = rl_clarity.sanity_checks(agent, check_pages.trajectories(), ["integrated_gradients 1a"], frames=3)
    lines = str(report).splitlines()
    assert lines[:2] == ["saliency methods: 1, checked on 3 frames; output: policy", "integrated gradients 1a:"]
    assert len(lines) == 5

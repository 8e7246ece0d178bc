"""`rl_clarity.ablate`: the report, its files, and its section of the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest

import rl_clarity
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.commands.ablate import AblationReport
from rl_clarity.environments import KINDS
from tests import colors

SIZES: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 4, "num_steps": 16},
    "observations_kwargs": {"num_envs": 4, "num_obs": 16, "obs_every": 1},
}

COMPARED: dict[str, Any] = {"layer": colors.LAYER, "attribution": {"baseline": "zero-layer"}}
"""Ablation sets a feature to zero, from where attribution then starts, too."""


@pytest.fixture(scope="module", autouse=True)
def color_games() -> Iterator[None]:
    KINDS.register("colors", colors.KIND)
    yield
    KINDS.unregister("colors")


def ablate(folder: Path, **options: Any) -> AblationReport:
    pytest.importorskip("torch")
    kind = options.pop("kind", "policy")
    return rl_clarity.ablate(colors.torch_agent(kind), folder, episodes=options.pop("episodes", 60), **SIZES, **options)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> AblationReport:
    return ablate(tmp_path_factory.mktemp("report"), **COMPARED)


def color_of(report: AblationReport, feature: int) -> str:
    """The color whose channel a feature is."""
    with np.load(report.page.path.parent / ".rl-clarity" / f"features-{colors.LAYER}.npz") as features:  # type: ignore[union-attr]
        component = features["components"][feature - 1]
    assert np.sort(component)[-2] < 1e-3 * component.max()
    return colors.COLORS[int(component.argmax())]


def test_only_ablating_the_feature_that_the_policy_uses_changes_behavior(report: AblationReport) -> None:
    rows = {color_of(report, row["feature"]): row for row in report}
    assert set(rows) == set(colors.COLORS)
    for color in ("green", "blue"):
        measures = [rows[color][name] for name in ("return", "length")]
        for one in [*measures, *rows[color]["causes"].values(), *rows[color]["actions"].values()]:
            assert (one["difference"], one["interval"], one["adjusted_p"]) == (0, [0, 0], 1)
    red = rows["red"]
    assert red["return"]["unedited"] == colors.STEPS
    assert red["return_difference"] < -2
    assert red["interval"][0] < red["return_difference"] < red["interval"][1] < 0
    assert red["adjusted_p"] < 0.01
    assert red["causes"]["goal"]["unedited"] == 1
    assert red["causes"]["wrong side"]["difference"] > 0.5


def test_attribution_and_ablation_agree_on_a_linear_head(report: AblationReport) -> None:
    for row in report.rows:
        assert row["ablation"] == pytest.approx(-row["attribution"], rel=0.1)  # of every fourth frame, and of all
    entry = report.page.results().section("ablation")["layers"][colors.LAYER]["outputs"]["value"]
    np.testing.assert_allclose(entry["correlation"], 1, atol=1e-3)


def test_p_values_are_corrected_for_the_number_of_tests(report: AblationReport) -> None:
    measures = 2 + len(report.rows[0]["causes"]) + colors.ColorEnvironment.num_actions
    assert report.tests == 3 * measures
    for row in report.rows:
        assert row["adjusted_p"] >= row["return"]["p"]


def test_the_report_is_written_as_json_and_csv(report: AblationReport) -> None:
    folder = Path(report.page.path).parent / "behavior"
    written = json.loads((folder / "report.json").read_text())
    assert written["episodes"] == report.episodes == 60
    assert [row["feature"] for row in written["rows"]] == [1, 2, 3]
    rows = list(csv.DictReader((folder / "report.csv").open()))
    assert len(rows) == report.tests
    assert {row["measure"] for row in rows} >= {"return", "length", "ended by: goal", "action: ←"}
    returns = {row["feature"]: float(row["difference"]) for row in rows if row["measure"] == "return"}
    assert returns == pytest.approx({str(row["feature"]): row["return_difference"] for row in report}, abs=1e-5)
    assert str(report).startswith("without an edit: return 5.00, 5 steps; goal 100%")


def test_clips_show_the_first_action_that_ablation_changed(report: AblationReport) -> None:
    results = report.page.results()
    (clip,) = results.section("behavior")["clips"]
    assert color_of(report, clip["feature"]) == "red"
    assert 1 <= clip["step"] <= colors.STEPS
    with PIL.Image.open(Path(report.page.path).parent / clip["image"]) as image:
        assert image.size == (2 * colors.SIZE + 4, colors.SIZE)
        assert image.n_frames > 1  # type: ignore[attr-defined]
    assert results.image(clip["still"]).shape == (colors.SIZE, 2 * colors.SIZE + 4, 3)


def test_the_same_arguments_give_the_same_report_and_episodes_are_reused(
    report: AblationReport, tmp_path: Path
) -> None:
    again = ablate(tmp_path, **COMPARED)
    assert again.rows == report.rows
    for name in (".rl-clarity", "behavior"):
        files = {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        others = {p.name: p.read_bytes() for p in (Path(report.page.path).parent / name).rglob("*") if p.is_file()}
        assert files == others
    (tmp_path / "behavior" / "report.csv").unlink()
    ablate(tmp_path, **COMPARED)
    done = [task["task"] for task in json.loads((tmp_path / "run-log.json").read_text())["runs"][-1]["tasks"]]
    assert done == ["comparison"]


def test_ablate_keeps_the_feature_numbers_and_names_of_a_given_page(report: AblationReport, tmp_path: Path) -> None:
    assert report.page.path is not None
    other = {**COMPARED, "seed": 3, "features": {"fit_observations": 20, "names": {colors.LAYER: {1: "first"}}}}
    named = ablate(tmp_path / "page", episodes=2, **other).page
    page = Path(str(named.path)).parent
    again = ablate(tmp_path / "again", episodes=2, page=page, **COMPARED)
    first, second = named.results(), again.page.results()
    np.testing.assert_array_equal(second.reduction(colors.LAYER).components, first.reduction(colors.LAYER).components)
    assert second.feature_names(colors.LAYER) == {1: "first"}
    assert str(again).endswith(f"those of the page {page}")
    assert "features were fitted" in str(report)
    with pytest.raises(OptionError, match="has no features of layer 'elsewhere'; its layers are"):
        ablate(tmp_path / "wrong", episodes=2, page=page, **{**COMPARED, "layer": "elsewhere"})


def test_episodes_stop_early_where_the_effect_of_ablation_is_clear(tmp_path: Path) -> None:
    """After the first block of 50 pairs, whose numbers are those of a report of 50 pairs."""
    early = ablate(tmp_path / "early", episodes=120, **COMPARED)
    short = ablate(tmp_path / "short", episodes=50, **COMPARED)
    played = {color_of(early, row["feature"]): row["episodes"] for row in early}
    assert played == {"red": 50, "green": 120, "blue": 120}
    assert "(50 pairs were enough)" in str(early)
    row, expected = (
        next(row for row in report if color_of(report, row["feature"]) == "red") for report in (early, short)
    )
    assert row["return_difference"] == expected["return_difference"]
    assert row["interval"] == expected["interval"]
    assert row["adjusted_p"] < 0.05
    full = ablate(tmp_path / "full", episodes=120, behavior={"stop_early": False}, **COMPARED)
    assert {row["episodes"] for row in full} == {120}


def test_similar_features_are_ablated_together_transitively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twins = [[1], [0, 2], [1]]  # 1 and 3 are none of each other
    monkeypatch.setattr("rl_clarity.analyses.behavior.variants.load_facts", lambda *_: SimpleNamespace(twins=twins))
    report = ablate(tmp_path, episodes=12, **COMPARED)
    assert [(row["feature"], row["twins"]) for row in report] == [(1, []), (1, [2, 3]), (2, []), (3, [])]
    alone, together = [row for row in report if not row["twins"]], report.rows[1]
    red = next(row for row in alone if color_of(report, row["feature"]) == "red")
    assert together["return"] == {**red["return"]}  # the policy depends on red alone
    assert together["attribution"] == pytest.approx(sum(row["attribution"] for row in alone))
    assert together["ablation"] is None
    assert "feature 1 and 2 and 3: return" in str(report)
    assert len(report.page.results().section("behavior")["clips"]) == 1  # of single features


@pytest.mark.parametrize("kind", ["recurrent", "q"])
def test_recurrent_and_q_value_agents_can_be_ablated(kind: str, tmp_path: Path) -> None:
    report = ablate(tmp_path, kind=kind, episodes=12)
    assert report.rows[0]["return"]["unedited"] == colors.STEPS
    assert min(row["return_difference"] for row in report) < 0


def test_a_page_without_behavior_episodes_has_no_behavior_section(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    agent = colors.torch_agent()
    samples = rl_clarity.collect(agent, colors.ColorEnvironment(2, 0), 8, 8, obs_every=1)
    results = rl_clarity.generate(agent, *samples, tmp_path).results()
    assert "behavior" not in [section["kind"] for section in results.manifest["sections"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes=0 must be at least 2"),
        ({"episodes": 1}, "episodes=1 must be at least 2"),
        ({"layer": "nothing"}, r"name_contains_one_of=\['nothing'\] matches none of the layers features"),
        ({"layer": "feature"}, r"behavior.layers=\['feature'\] are not layers of the page; its layers are features"),
        ({"causal_max_steps": 0}, "behavior.max_steps=0 must be at least 1"),
        ({"metadata": {}}, "the checkpoint's metadata has neither env_name nor env_id"),
        ({"metadata": {"env_name": "colors", "env_kind": "colours"}}, "unknown kind of environment 'colours'"),
    ],
)
def test_invalid_options_raise_a_one_line_error(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    agent = colors.torch_agent()
    agent.metadata = options.pop("metadata", colors.METADATA)
    with pytest.raises(ClarityError, match=message) as raised:
        rl_clarity.ablate(agent, tmp_path / "page", **SIZES, **options)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "page").exists()

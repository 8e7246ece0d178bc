"""The script that adds an agent and its model card to the package."""

from __future__ import annotations

import ast
import json
import shutil
import xml.etree.ElementTree as ET
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import cli
from rl_clarity.analyses.checks.report import MethodReport, Randomization, SanityReport
from rl_clarity.base.resources import models_directory
from rl_clarity.base.statistics import Interval
from rl_clarity.commands.ablate import AblationReport
from rl_clarity.debugging.findings import Finding, Untested
from rl_clarity.formats import load_agent
from rl_clarity.pages.results import Page
from rl_clarity.ppo import train
from rl_clarity.ppo.options import train_options
from scripts import cards
from scripts.cards import check_facts, check_lines, command
from scripts.curve import curve, ticks
from scripts.make_model_card import INDEX, MAX_BYTES, RANDOM, main, ship
from tests.ppo.small import COLUMNS_ID, tiny


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    train(tmp_path / "run", **tiny(3, save_interval=1, save_all=True))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "README.md").write_text(f"# Agents\n\n{INDEX[0]}\nold\n{INDEX[1]}\n\nThe end.\n")
    return tmp_path


def test_the_script_writes_a_model_card_a_curve_and_an_index_entry(trained: Path) -> None:
    models = trained / "models"
    arguments = [str(trained / "run"), "columns", "--models", str(models), "--episodes", "6"]
    main([*arguments, "--checkpoint", "checkpoint-2.jd", "--machine", "one core", "--note", "A note."])
    assert load_agent(models / "columns.jd").num_actions == 3
    card = (models / "columns.md").read_text()
    assert "64 environment steps" in card
    assert " on one core: " in card
    assert " a second over the whole training." in card
    assert "one core" in card
    assert "A note." in card
    assert "| random policy" in card
    facts = json.loads((models / "columns.json").read_text())
    assert facts["timesteps"] == 64
    assert {result["episodes"] for result in facts["returns"].values()} == {6}
    index = (models / "README.md").read_text()
    assert "[columns](columns.md)" in index
    assert "old" not in index
    assert index.endswith("The end.\n")
    for path in models.glob("*.*"):
        assert str(trained).encode() not in path.read_bytes(), f"{path.name} contains a path of this machine"
    ET.parse(models / "columns.svg")
    (models / "columns.md").unlink()
    main([*arguments, "--only-write"])
    assert (models / "columns.md").read_text() == card


def test_a_model_card_lists_findings_and_their_command(
    trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models, output = trained / "models", tmp_path / "page"
    arguments = [str(trained / "run"), "columns", "--models", str(models), "--episodes", "2"]
    main(arguments)
    finding = Finding("no_reaction", "mine", "No reaction.", "", 0.0, (-0.01, 0.01), 0.05, 9, {}, "", "reaction", True)
    report = {"findings": [asdict(finding)], "untested": [asdict(Untested("pursuit", "coin", "rare"))]}
    text = json.dumps(report)

    def debug(checkpoint: Path, output_dir: Path, **options: Any) -> None:
        (output_dir / "findings").mkdir(parents=True)
        (output_dir / "findings" / "findings.json").write_text(text)

    monkeypatch.setattr("scripts.make_model_card.debug", debug)
    main([*arguments, "--only-write", "--findings", str(output)])
    card = (models / "columns.md").read_text()
    assert "- Reaction:\n    - **No reaction.**\n" in card
    assert "Neither found nor excluded: pursuit: coin." in card
    assert "rl-clarity debug models:columns out/columns-debug --expect models/findings/columns.json" in card
    assert (models / "findings" / "columns.json").read_text() == text


@pytest.mark.parametrize("name", ["coinrun", "coinrun-early", "fruitbot"])
def test_model_cards_of_included_agents_match_their_stored_facts(name: str, tmp_path: Path) -> None:
    """Writing the card again keeps the line about measured effects."""
    for path in (*models_directory().glob(f"{name}.*"), models_directory() / "README.md"):
        shutil.copyfile(path, tmp_path / path.name)
    if (findings := models_directory() / "findings" / f"{name}.json").exists():
        (tmp_path / "findings").mkdir()
        shutil.copyfile(findings, tmp_path / "findings" / findings.name)
    main(["-", name, "--models", str(tmp_path), "--only-write"])
    assert (tmp_path / f"{name}.md").read_text() == (models_directory() / f"{name}.md").read_text()


def test_a_model_card_lists_all_stages_of_training(trained: Path) -> None:
    models = trained / "models"
    train(trained / "run", **tiny(5, save_interval=1, save_all=True, learning_rate=1e-4))
    main([str(trained / "run"), "columns", "--models", str(models), "--episodes", "2"])
    facts = json.loads((models / "columns.json").read_text())
    assert [stage["until"] for stage in facts["stages"]] == [96, 160]
    card = (models / "columns.md").read_text()
    assert card.count("rl_clarity.train(\n") == 2
    assert card.index("timesteps_per_proc=96") < card.index("learning_rate=0.0001") < card.index("=160")


def test_a_model_card_describes_training_by_a_custom_script(trained: Path, tmp_path: Path) -> None:
    models, text = trained / "models", tmp_path / "training.md"
    text.write_text("A script trained it.\n")
    main([str(trained / "run"), "scripted", "--models", str(models), "--episodes", "2", "--training", str(text)])
    card = (models / "scripted.md").read_text()
    assert "## Training\n\nA script trained it.\n\nSHA-256" in card
    assert "rl_clarity.train" not in card


def test_large_agents_are_stored_in_half_precision(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = trained / "run" / "checkpoint.jd", trained / "shipped.jd"
    assert not ship(source, target)
    assert target.read_bytes() == source.read_bytes()
    monkeypatch.setattr("scripts.make_model_card.MAX_BYTES", source.stat().st_size * 2 // 3)
    assert ship(source, target)
    assert target.stat().st_size < source.stat().st_size * 2 // 3
    observations = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), np.uint8)
    single, half = (load_agent(path).forward(observations) for path in (source, target))
    assert single.policy_logits is not None
    assert half.policy_logits is not None
    assert single.values is not None
    assert half.values is not None
    np.testing.assert_allclose(half.policy_logits, single.policy_logits, atol=2e-3)
    np.testing.assert_allclose(half.values, single.values, atol=2e-3)
    monkeypatch.setattr("scripts.make_model_card.MAX_BYTES", 1000)
    with pytest.raises(SystemExit, match="larger than 1000 bytes"):
        ship(source, target)


def test_the_command_on_a_model_card_reproduces_its_numbers(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = trained / "models"
    main([str(trained / "run"), "columns", "--models", str(models), "--episodes", "6"])
    (line,) = [line for line in (models / "columns.md").read_text().splitlines() if line.startswith("rl-clarity")]
    arguments = line.replace("models:columns", str(models / "columns.jd")).split()[1:]
    assert cli.main([*arguments, "--metadata", f"env_id={COLUMNS_ID}", "--json"]) == 0  # of a module
    returns = json.loads((models / "columns.json").read_text())["returns"]
    evaluated = json.loads(capsys.readouterr().out)
    assert returns["training levels"]["mean"] == pytest.approx(evaluated["agent"]["mean_return"], abs=1e-3)
    assert returns[RANDOM]["mean"] == pytest.approx(evaluated["random policy"]["mean_return"], abs=1e-3)


def test_the_training_call_on_a_model_card_reproduces_its_options() -> None:
    options = {"env_name": "coinrun", "lambda": 0.9, "num_levels": 10, "timesteps_per_proc": 64_000, "use_lstm": True}
    args = train_options(options).checkpoint_args()
    (call,) = ast.parse(command(args, "agent", 64_000)).body
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    keywords: dict[str, Any] = {}
    for keyword in call.value.keywords:
        value = ast.literal_eval(keyword.value)
        keywords |= value if keyword.arg is None else {keyword.arg: value}
    assert train_options(keywords).checkpoint_args() == args


def test_included_agents_are_small_and_better_than_random() -> None:
    facts = {path.stem: json.loads(path.read_text()) for path in models_directory().glob("*.json")}
    assert set(facts) == {path.stem for path in models_directory().glob("*.jd")}
    for name, fact in facts.items():
        assert (models_directory() / f"{name}.jd").stat().st_size == fact["bytes"] <= MAX_BYTES
    returns = facts["coinrun"]["returns"]
    agent, random = returns["training levels"], returns["random policy, training levels"]
    assert agent["mean"] - random["mean"] > 5 * (agent["standard_error"] ** 2 + random["standard_error"] ** 2) ** 0.5


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (-1, 1, [-1, -0.5, 0, 0.5, 1]), (0, 0.7, [0, 0.2, 0.4, 0.6])],
)
def test_axis_ticks_of_the_curve_are_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


def test_a_curve_leaves_out_updates_before_the_first_episode_ends() -> None:
    image = ET.fromstring(curve([100, 200, 300], [float("nan"), 1.0, 2.0], reference=0.5, shipped=200))
    (line,) = image.iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.attrib["points"].split()) == 2


def test_a_model_card_reports_returns_with_a_feature_ablated(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = trained / "models"
    arguments = ["-", "columns", "--models", str(models), "--only-write"]
    main([str(trained / "run"), "columns", "--models", str(models), "--episodes", "6"])
    assert "Without a feature" not in (models / "columns.md").read_text()

    def measure(before: float, after: float, p: float) -> dict[str, Any]:
        difference = after - before
        intervals = {name: [difference - 0.1, difference + 0.1] for name in ("interval", "corrected_interval")}
        return {"unedited": before, "ablated": after, "difference": difference, "adjusted_p": p, **intervals}

    rows = [
        {
            **{"layer": "2b", "feature": feature, "twins": twins, "attribution": 0.5},
            "ablation": None if twins else -0.25,
            "return": measure(8, 8 - feature, p),
            "length": measure(70, 80, 1),
            "causes": {"saw": measure(0.2, 0.2, 1), "goal": measure(0.8, 0.8 - feature / 10, p)},
            "actions": {"→": measure(0.5, 0.4, p), "←": measure(0.1, 0.1, 1)},
        }
        for feature, twins, p in ((1, [], 0.2), (2, [], 0.001), (3, [4, 5], 0.2))
    ]
    calls: list[Any] = []

    def ablate(checkpoint: Path, directory: Path, **options: Any) -> AblationReport:
        calls.append((checkpoint.name, options["layer"], options["episodes"]))
        return AblationReport(rows, 400, 46, Page(directory))

    monkeypatch.setattr("scripts.make_model_card.ablate", ablate)
    main([*arguments, "--ablate", "2b", "--ablation-note", "A middle layer."])
    assert calls == [("columns.jd", "2b", 400)]
    card = (models / "columns.md").read_text()
    assert "adjusted for all 46 tests" in card
    assert "A middle layer." in card
    assert "| none |  |  | 8.00 |  |  | 80.0% | 20.0% |" in card
    assert "| 2 | 0.500 | -0.250 | 6.00 | -2.00 (-2.10 to -1.90) | 0.001 | 60.0% (-20.0) | 20.0% (+0.0) |" in card
    assert "- Without feature 2, the return changes by -2.00, beyond chance" in card
    assert "- Without feature 2, 60.0% of the episodes end by: goal (80.0% with it), beyond chance." in card
    assert "- Without feature 2, the agent acts differently, beyond chance: → in 40.0% of its steps (50.0%)." in card
    assert "Without feature 1," not in card
    assert "| 3 and 4 and 5 | 0.500 |  | 5.00 |" in card
    assert "--features.count 2\n" in card
    main(arguments)
    assert (models / "columns.md").read_text() == card


def test_a_model_card_lists_saliency_methods_that_fail_sanity_checks() -> None:
    def report(
        method: str, correlation: float, low: float, gap: float | None, signed: float | None = None
    ) -> MethodReport:
        interval = Interval(low + 0.1, low, low + 0.2)
        orders = {"area": interval, "above_random": interval, "above_center": interval}
        return MethodReport(method, [Randomization("1a", correlation, 0.25, signed)], orders, orders, gap)

    good = report("jacobian", 0.4, 0.1, None)
    bad = report("perturbation", 0.7, 0.1, None)
    signs = report("integrated_gradients 1a", 0.8, 0.1, 0.01, 0.03)
    slow = report("integrated_gradients 2b", 0.2, -0.05, 0.5)
    facts = check_facts(SanityReport("policy", 64, [good, bad, signs, slow])) | {"note": "A note."}
    card = "\n".join(check_lines("coinrun", json.loads(json.dumps(facts))))
    assert "checked on 64 frames" in card
    assert "A note." in card
    assert "| integrated gradients 2b | 0.20 |  | 0.25 | +0.050 (-0.050 to +0.150) |" in card
    assert "| integrated gradients 1a | 0.80 | 0.03 | 0.25 |" in card
    assert "- **Fails:** the maps of perturbation; integrated gradients 1a stay similar" in card
    assert "- The signs of these maps change, their brightness does not: integrated gradients 1a." in card
    assert "- **Fails:** removing pixels in the order of integrated gradients 2b is no faster" in card
    assert "- **Fails:** a gap of more than 10% is left by: integrated gradients 2b." in card
    assert "rl-clarity check models:coinrun out/coinrun-check --frames 64" in card
    passed = check_facts(SanityReport("policy", 64, [good])) | {"note": ""}
    assert "Fails" not in "\n".join(check_lines("coinrun", passed))
    assert check_lines("coinrun", None) == []


def test_a_model_card_lists_quality_checks_that_a_simulator_fails() -> None:
    def errors(first: float, slope: float) -> list[list[float]]:
        return [[first + slope * h for h in range(12)]] * 3

    frame = {
        "posterior": errors(0.01, 0),
        "prior": errors(0.012, 0.001),
        "closed_loop": errors(0.012, 0.002),
        "last_frame": errors(0.0145, 0.0003),
        "mean_frame": errors(0.05, 0),
    }
    reward = {name: errors(0.25, 0) for name in frame} | {"last_frame": errors(0.5, 0)}
    quality = {
        "windows": 64,
        "auc": 0.9,
        "coverage": 0.5,
        "coverage_interval": [0.25, 0.875],
        "latent_dimensions": 7.0,
        "errors": {"frame": frame, "reward": reward},
    }
    quality["compass"] = {"actions": ["none", "LEFT", "RIGHT", "UP"], "agreement": [None, 0.9, 0.95, 0.7]}
    quality["deletion"] = {"difference": 0.2, "interval": [0.1, 0.3]}
    facts = {"fit": {"size": "small", "batch_size": 16, "horizon": 12}, "steps": 900, "recorded_steps": 5000}
    facts |= {"action_noise": 0.1, "parameters": 123456, "quality": quality, "note": "Tried: two values of kl."}
    text = "\n".join(cards.simulator_lines("maze", facts))
    assert "| prior, true actions | 0.0120 | 0.0130 | 0.0160 | 0.0210 |" in text
    assert "| mean squared error of rewards at horizon | 1 | 2 | 5 | 10 |" in text
    assert "| no reward | 0.5000 | 0.5000 | 0.5000 | 0.5000 |" in text
    assert "**Fails:** with the true actions, its frames are better" in text
    assert "at 3 of the 9 horizons from 2 to 10." in text
    assert "- The order of mean errors" in text
    assert "**Fails:** the agent moves as the action" in text
    assert "of starts: left 90%, right 95%, up 70%." in text
    assert "- Removing what saliency through time points at changes the value by +0.200 (+0.100 to +0.300) more" in text
    assert "50% of random latents are as near to one of 32 of them" in text
    assert "(95 % of random choices of 32: 25% to 88%)" in text
    assert "Tried: two values of kl." in text
    assert cards.simulator_lines("maze", None) == []

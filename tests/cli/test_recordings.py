"""Commands about recordings: record, inspect, run --recording."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rl_clarity
from rl_clarity.cli import main
from tests.cli.calls import SMALL, parse_summary
from tests.recordings.episodes import make_recording


def test_record_writes_a_recording_that_inspect_describes(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    command = ["record", str(checkpoint), str(tmp_path / "recording"), "--steps", "100", "--action-noise", "0.5"]
    assert main([*command, "--metadata", "distribution_mode", "easy", "--json"]) == 0
    summary = parse_summary(capsys.readouterr())
    assert summary["steps"] == 100
    assert summary["metadata"]["environment"]["options"]["distribution_mode"] == "easy"
    assert summary["metadata"]["sampling"] == {"temperature": 1.0, "greedy": False, "action_noise": 0.5}
    assert summary["fields"]["observations"] == ["uint8", 64, 64, 3]
    assert summary["fields"]["behaviour_logits"] == ["float32", 15]
    assert main(["inspect", str(tmp_path / "recording"), "--json"]) == 0
    assert parse_summary(capsys.readouterr()) == summary
    assert main([*command, "--metadata", "distribution_mode", "easy"]) == 1
    assert "already has episodes with this seed" in capsys.readouterr().err
    assert main([*command, "--seed", "1"]) == 1
    assert "contains a recording with different metadata (environment)" in capsys.readouterr().err


def test_inspect_prints_the_contents_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_recording(tmp_path, (3, 5), metadata={"name": "dot"})
    assert main(["inspect", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "recording of 2 episodes, 8 steps" in printed
    assert "ends: done 2" in printed
    assert "mean return 6.50 over 2 complete episodes" in printed
    assert "observations: uint8 (T, 16, 12, 3)" in printed
    assert "dot" in printed
    date = re.search(r"^begun: (.*)$", printed, re.MULTILINE)
    assert date is not None
    assert abs(time.time() - datetime.strptime(date[1], "%Y-%m-%d %H:%M %Z").replace(tzinfo=UTC).timestamp()) < 120


@pytest.mark.parametrize("episodic_life", [True, False])
def test_inspect_reports_if_episodes_end_with_each_life(
    episodic_life: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recording(tmp_path, (3,), metadata={"environment": {"options": {"episodic_life": episodic_life}}})
    assert main(["inspect", str(tmp_path)]) == 0
    assert ("episodes end with each life" in capsys.readouterr().out) == episodic_life


def test_a_damaged_recording_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_recording(tmp_path)
    (tmp_path / "recording.json").write_text("{")
    assert main(["inspect", str(tmp_path)]) == 1
    assert "recording.json is damaged" in capsys.readouterr().err


def test_invalid_options_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "models:coinrun", "recording", "--episodes", "0"]) == 2
    assert "episodes=0 must be at least 1" in capsys.readouterr().err


@pytest.mark.slow
def test_run_explains_a_recording(checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    recording = rl_clarity.record(checkpoint, tmp_path / "recording", steps=100)
    command = ["run", str(checkpoint), str(tmp_path / "page"), *SMALL]
    assert main([*command, "--recording", str(tmp_path / "recording")]) == 0
    results = rl_clarity.open_results(tmp_path / "page")
    trajectories = results.section("trajectories")["trajectories"]
    assert [trajectory["steps"] for trajectory in trajectories] == [10, 10]
    actions = recording.to_trajectories(2, 10).actions
    assert results.series(1)["actions"].tolist() == actions[1].tolist()

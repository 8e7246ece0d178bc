"""Commands about one checkpoint: inspect, convert, evaluate."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import rl_clarity
from rl_clarity import formats, load_agent
from rl_clarity.cli import main
from tests.cli.calls import SMALL, parse_summary
from tests.pipeline.small import ARGS, write_checkpoint


def test_inspect_prints_network_layers_and_metadata(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(checkpoint), "--json"]) == 0
    summary = parse_summary(capsys.readouterr())
    assert summary["network"] == "nature"
    assert summary["num_actions"] == 15
    assert summary["layers"] == {"Relu": [15, 15, 32], "Relu_1": [6, 6, 64], "Relu_2": [4, 4, 64]}
    assert summary["metadata"]["num_levels"] == 3
    assert summary["metadata"]["env_name"] == "coinrun"
    assert summary["metadata"]["timesteps"] is None  # JSON has no infinity
    parameters = joblib.load(checkpoint)["params"]
    assert summary["parameters"] == sum(array.size for array in parameters.values())
    assert main(["inspect", str(checkpoint)]) == 0
    printed = capsys.readouterr().out
    assert "network nature" in printed
    assert "Relu_1 (6 x 6 x 64)" in printed


def test_inspect_notes_misspelled_environment_names(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(checkpoint), "--env-name", "conrun"]) == 0
    assert "note: unknown Procgen game 'conrun'; did you mean coinrun?" in capsys.readouterr().out
    assert main(["inspect", str(checkpoint), "--env-name", "conrun", "--json"]) == 0
    assert "did you mean coinrun?" in parse_summary(capsys.readouterr())["notes"][0]
    assert main(["inspect", str(checkpoint)]) == 0
    assert "note:" not in capsys.readouterr().out


def test_control_characters_in_a_file_do_not_reach_the_terminal(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata: dict[str, Any] = {"note": "\x1b[2J\nsha256 0", "\u202ekey\r": 1}
    copy = tmp_path / "clear\x1b[2J.safetensors"
    formats.convert(checkpoint, copy, **metadata)
    assert main(["inspect", str(copy)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines)
    assert [line.startswith("sha256") for line in lines].count(True) == 1
    assert r"note: \x1b[2J\nsha256 0" in lines
    assert r"\u202ekey\r: 1" in lines
    copy.write_bytes(copy.read_bytes()[:-1])
    assert main(["inspect", str(copy)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_inspect_describes_an_included_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "models:coinrun", "--json"]) == 0
    assert parse_summary(capsys.readouterr())["layers"]["1a"] == [64, 64, 16]
    assert main(["inspect", "models:coinrum"]) == 1
    assert "did you mean models:coinrun?" in capsys.readouterr().err


def test_convert_writes_a_safetensors_file_with_equal_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = write_checkpoint(tmp_path / "agent.jd")
    target = tmp_path / "folder" / "agent.safetensors"
    command = ["convert", str(checkpoint), str(target), "--metadata", "gamma", "0.9", "frame_skip", "[2, 5]"]
    assert main([*command, "use_backgrounds", "False", "--json"]) == 0
    summary = parse_summary(capsys.readouterr())
    assert summary["file"] == str(target)
    assert (summary["format"], summary["network"]) == ("baselines", "nature")
    copy = formats.read(target)
    metadata = {name: copy.metadata[name] for name in ("gamma", "frame_skip", "use_backgrounds", "env_name")}
    assert metadata == {"gamma": 0.9, "frame_skip": [2, 5], "use_backgrounds": False, "env_name": "coinrun"}
    observations = np.random.default_rng(0).integers(0, 256, (2, *load_agent(target).observation_shape), np.uint8)
    before, after = (load_agent(path).forward(observations) for path in (checkpoint, target))
    assert before.policy_logits is not None
    assert after.policy_logits is not None
    assert before.values is not None
    assert after.values is not None
    np.testing.assert_array_equal(before.policy_logits, after.policy_logits)
    np.testing.assert_array_equal(before.values, after.values)


def test_convert_refuses_unknown_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("hello")
    assert main(["convert", str(tmp_path / "a"), str(tmp_path / "b.safetensors")]) == 1
    assert "unknown format" in capsys.readouterr().err
    assert not (tmp_path / "b.safetensors").exists()


def test_convert_refuses_targets_that_do_not_end_in_safetensors(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "agent.txt"
    assert main(["convert", str(checkpoint), str(target)]) == 1
    assert f"{target} must end in .safetensors" in capsys.readouterr().err
    assert not target.exists()


def test_convert_replaces_an_existing_file_only_with_force(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "agent.safetensors"
    target.write_text("another file")
    command = ["convert", str(checkpoint), str(target)]
    assert main(command) == 1
    assert capsys.readouterr().err == (
        f"rl-clarity: {target} exists: choose another name, or replace it with overwrite=True (--force)\n"
    )
    assert target.read_text() == "another file"
    assert main([*command, "--force"]) == 0
    assert formats.read(target).network == "nature"
    assert rl_clarity.convert(target, target, overwrite=True, gamma=0.5).metadata["gamma"] == 0.5


@pytest.mark.slow
def test_evaluate_prints_returns_of_agent_and_random_policy(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    command = ["evaluate", str(checkpoint), "--episodes", "4", "--random"]
    assert main([*command, "--json"]) == 0
    summary = parse_summary(capsys.readouterr())
    assert set(summary) == {"agent", "unseen levels", "random policy"}
    assert summary["agent"]["episodes"] == 4
    assert 0 <= summary["agent"]["mean_return"] <= 10
    low, high = summary["agent"]["interval"]
    assert low <= summary["agent"]["mean_return"] <= high
    assert main([*command, "--no-unseen"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"mean return [0-9.]+ \+- [0-9.]+ over 4 episodes", lines[0])
    assert lines[0].startswith(f"mean return {summary['agent']['mean_return']:.2f} +- ")
    assert not any("unseen" in line for line in lines)


@pytest.mark.parametrize("command", ["inspect", "run --dry-run", "evaluate --episodes 1 --max-steps 3"])
def test_output_is_escaped_on_terminals_without_unicode(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    checkpoint = write_checkpoint(tmp_path / "agent.jd", {**ARGS, "comment": "\u65e5\u672c"})
    for stream, descriptor, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        text = open(descriptor, "w", encoding="ascii", errors=errors, closefd=False)  # noqa: SIM115 (closed by pytest)
        monkeypatch.setattr(sys, stream, text)
    name, *options = command.split()
    places = [str(tmp_path / "\u65e5\u672c"), *SMALL] if name == "run" else []
    assert main([name, str(checkpoint), *places, *options]) == 0
    sys.stderr.flush()
    printed = capfd.readouterr()
    assert (printed.out + printed.err).isascii()
    assert ("\\u65e5\\u672c" in printed.out) == (name == "inspect")


def test_evaluate_skips_unseen_levels_for_agents_trained_on_all_levels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    checkpoint = write_checkpoint(tmp_path / "agent.jd")
    command = ["evaluate", str(checkpoint), "--episodes", "2", "--max-steps", "3", "--deterministic"]
    assert main([*command, "--json"]) == 0
    summary = parse_summary(capsys.readouterr())
    assert set(summary) == {"agent"}
    assert summary["agent"]["lengths"] == [3, 3]
    assert summary["agent"]["cut"] == 2
    assert main([*command, "--expect-return", "0"]) == 0
    capsys.readouterr()
    assert main([*command, "--expect-return", "9", "--tolerance", "0.5"]) == 1
    assert "0.00 to 0.00, extended by 0.5, does not contain expect_return=9 " in capsys.readouterr().err

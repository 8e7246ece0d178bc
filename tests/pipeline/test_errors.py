"""Inputs that cannot be used raise one clear error, and nothing is written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError, ClarityError, EnvironmentSetupError, OptionError, SamplesError
from rl_clarity.cli import main
from tests.pipeline.small import ARGS, LAST_LAYER, OBSERVATIONS, REPOSITORY, SmallRun, is_complete, read_files

CONV = "ppo2_model/pi/c1/w:0"
BIAS = "ppo2_model/pi/fc1/b:0"
TINY = (
    *("--layer-kwargs.name-contains-one-of", "Relu_2", "--trajectories.num-envs", "1", "--trajectories.num-steps", "9"),
    *("--observations.num-envs", "2", "--observations.num-obs", "4", "--observations.obs-every", "1", "--json"),
)


def changed(change: Callable[[dict[str, Any]], None]) -> Callable[[Path, Path], None]:
    """Return a function that writes a checkpoint with changed content."""

    def write(source: Path, target: Path) -> None:
        content = joblib.load(source)
        change(content)
        joblib.dump(content, target)

    return write


def truncate(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes()[:50_000])


def insert_nan(content: dict[str, Any]) -> None:
    array = content["params"][CONV].copy()
    array[0, 0, 0, 0] = np.nan
    content["params"][CONV] = array


BROKEN = {
    "wrong shape": (
        changed(lambda c: c["params"].update({CONV: c["params"][CONV][:, :, :, :16]})),
        r"ppo2_model/pi/c1/w:0.*\(8, 8, 3, 16\).*\(8, 8, 3, 32\)",
    ),
    "missing": (changed(lambda c: c["params"].pop(BIAS)), r"ppo2_model/pi/fc1/b:0.*(missing|lack)"),
    "extra": (changed(lambda c: c["params"].update({"ppo2_model/pi/c4/w:0": np.zeros(3)})), "ppo2_model/pi/c4/w:0"),
    "not a number": (changed(insert_nan), r"ppo2_model/pi/c1/w:0.*(NaN|finite)"),
    "unknown network": (changed(lambda c: c["args"].update(cnn="natur")), "'natur'.*did you mean 'nature'"),
    "truncated": (truncate, "truncated"),
    "no parameters": (changed(lambda c: c.pop("params")), "params"),
    "no environment": (changed(lambda c: c["args"].pop("env_name")), "neither env_name nor env_id"),
}


@pytest.fixture(params=BROKEN)
def broken_checkpoint(request: pytest.FixtureRequest, checkpoint: Path, tmp_path: Path) -> tuple[Path, str]:
    write, message = BROKEN[request.param]
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    write(checkpoint, path)
    return path, message


def test_broken_checkpoints_raise_one_clear_error(
    broken_checkpoint: tuple[Path, str], tmp_path: Path, capsys: Any
) -> None:
    path, message = broken_checkpoint
    with pytest.raises(ClarityError, match=message):
        rl_clarity.run(path, tmp_path / "page")
    assert main(["run", str(path), str(tmp_path / "page"), "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("rl-clarity: ")
    assert "Traceback" not in printed.err
    assert sorted(tmp_path.iterdir()) == [tmp_path / "checkpoints"]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("checkpoint", ["nowhere.jd", "models:coinrum"])
def test_missing_checkpoints_raise_one_clear_error(checkpoint: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere\.jd|unknown agent models:coinrum"):
        rl_clarity.run(checkpoint, tmp_path / "page")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attr_polcy": True}, "unknown option 'attr_polcy'; did you mean 'attribution.policy'"),
        ({"load_kwargs": {"resampel": True}}, "unknown option 'load.resampel'; did you mean 'load.resample'"),
        ({"trajectories_kwargs": {"n_envs": 1}}, r"trajectories\.n_envs.*'trajectories\.num_envs'"),
        ({"observations_kwargs": {"obs_evry": 1}}, r"observations\.obs_evry.*'observations\.obs_every'"),
        ({"layer_kwargs": {"names": ["2b"]}}, r"layers\.names"),
        ({"attr_policy": "yes"}, "attribution.policy='yes' must be True or False"),
        ({"trajectories_kwargs": {"num_steps": 0}}, "num_steps=0 must be at least 1"),
        ({"attr_quadrature": "trapezoid"}, "'trapezoid'"),
        ({"layer_kwargs": {"name_contains_one_of": ["5a"]}}, r"\['5a'\] matches none of the layers Relu, Relu_1"),
    ],
)
def test_invalid_options_are_refused_before_any_work(
    options: dict[str, Any], message: str, small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl_clarity.sources.checkpoint.make", None)  # no samples may be collected
    with pytest.raises(OptionError, match=message):
        rl_clarity.run(small_run.checkpoint, tmp_path / "page", **options)
    assert not (tmp_path / "page").exists()


def test_unknown_games_raise_an_error_with_a_suggestion(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    changed(lambda content: content["args"].update(env_name="coinrunn"))(checkpoint, path)
    with pytest.raises(EnvironmentSetupError, match=r"coinrunn.*coinrun"):
        rl_clarity.run(path, tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_an_agent_with_the_wrong_observation_shape_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="the environment is an Atari game")
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    args = {**ARGS, "env_kind": "atari", "env_name": "pong", "observation_shape": [64, 64, 3]}
    changed(lambda content: content.update(args=args))(checkpoint, path)
    with pytest.raises(SamplesError, match="15 actions, but the environment has 6"):
        rl_clarity.run(path, tmp_path / "page", trajectories_kwargs={"num_envs": 1, "num_steps": 2})
    assert not (tmp_path / "page").exists()


def test_a_file_as_output_directory_is_refused(small_run: SmallRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ClarityError, match="is a file; choose a directory"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def fill_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Simulate a disk that is full after a number of files."""
    fsync = os.fsync
    written: list[int] = []

    def failing(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 20])
def test_a_run_that_a_full_disk_ended_can_be_resumed(
    after: int, small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    path.write_bytes(small_run.checkpoint.read_bytes())
    command = ["run", str(path), str(tmp_path / "page"), *TINY]
    with monkeypatch.context() as patch:
        fill_disk(patch, after)
        assert main(command) == 1
    printed = capsys.readouterr()
    assert "No space left on device" in printed.err
    assert printed.err.count("rl-clarity: ") == 1
    assert "Traceback" not in printed.err
    assert not list(tmp_path.rglob("*.unfinished"))
    assert not is_complete(tmp_path / "page")
    assert main(command) == 0  # with free space again


@pytest.mark.slow
def test_a_file_size_limit_ends_a_run_with_one_clear_error(small_run: SmallRun, tmp_path: Path) -> None:
    """The copy of the checkpoint exceeds the limit."""
    command = f"ulimit -f 100; {sys.executable} -m rl_clarity run {small_run.checkpoint} {tmp_path / 'page'}"
    command += f" --load.trajectories-path {tmp_path / 't'} --trajectories.num-envs 1 --trajectories.num-steps 99"
    result = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "File too large" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_an_interrupted_run_prints_how_to_resume(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C during the attribution: exit code 130, one message, and no complete page."""
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    path.write_bytes(small_run.checkpoint.read_bytes())
    # Processes started in the background may inherit that SIGINT is ignored.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    attribute = "rl_clarity.analyses.attribution.analysis.attribute_trajectory"
    monkeypatch.setattr(attribute, lambda *arguments: signal.raise_signal(signal.SIGINT))
    try:
        assert main(["run", str(path), str(tmp_path / "page"), *TINY]) == 130
    finally:
        signal.signal(signal.SIGINT, previous)
    printed = capsys.readouterr()
    assert printed.out == ""
    forecast, message = printed.err.splitlines()
    assert forecast.startswith("This will take about ")
    assert message == "rl-clarity: interrupted; the same command resumes it"
    assert not is_complete(tmp_path / "page")
    assert read_files(tmp_path / "page")


def test_attribution_with_nan_raises_an_error(small_run: SmallRun, tmp_path: Path) -> None:
    from tests.fakes import TinyAgent

    class Broken(TinyAgent):
        def _head(self) -> np.ndarray:
            return np.full((6, 16), np.nan)

    arrays = {name: getattr(small_run.trajectories, name)[:1, :4] for name in ("observations", "actions", "rewards")}
    arrays["firsts"] = small_run.trajectories.firsts[:1, :4]
    with pytest.raises(ClarityError, match="attribution to layer 1a is not finite"):
        rl_clarity.generate(Broken(), arrays, small_run.observations.observations[:4], tmp_path / "page")


def test_a_page_of_one_observation_and_one_step_can_be_made(small_run: SmallRun, tmp_path: Path) -> None:
    page = rl_clarity.run(
        small_run.checkpoint,
        tmp_path / "page",
        load_kwargs={"temp_files": True},
        trajectories_kwargs={"num_envs": 1, "num_steps": 1},
        observations_kwargs={**OBSERVATIONS, "num_envs": 1, "num_obs": 1},
        layer_kwargs=LAST_LAYER,
    )
    results = page.results()
    assert results.manifest["complete"]
    assert results.attribution("Relu_2", 0).channels.shape == (1, 4, 4, 8)

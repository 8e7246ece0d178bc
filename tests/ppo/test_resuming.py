"""Interrupted training that is resumed gives the same results as uninterrupted training."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError
from rl_clarity.environments import KINDS
from rl_clarity.formats import load_agent, read
from rl_clarity.jobs.store import DIRECTORY, LOCK
from rl_clarity.ppo import train
from rl_clarity.ppo.logs import read_csv
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.trainer import COLUMNS, Trainer, TrainingState
from tests.ppo.small import STATEFUL, make_trainer, parameters, stop_in_update, tiny
from tests.ppo.toys import KIND, Columns, ResumableColumns


@pytest.mark.slow
def test_resumed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    uninterrupted = make_trainer(ResumableColumns, reward_processing="normalize")
    for _ in range(2):
        uninterrupted.update()
    uninterrupted.state().save(tmp_path / "state.npz")
    resumed = make_trainer(ResumableColumns, reward_processing="normalize")
    resumed.restore(TrainingState.load(tmp_path / "state.npz"))
    for _ in range(2):
        expected, actual = uninterrupted.update(), resumed.update()
    for name in set(COLUMNS) - {"seconds", "steps_per_second"}:
        if not name.startswith("seconds_"):
            assert expected[name] == pytest.approx(actual[name], nan_ok=True), name
    for name, array in parameters(uninterrupted).items():
        np.testing.assert_array_equal(array, parameters(resumed)[name], err_msg=name)


def test_log_rows_of_updates_lost_in_a_crash_are_dropped(tmp_path: Path) -> None:
    train(tmp_path, **tiny(2))
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("3,96,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n4,12")  # killed while writing, before a save
    train(tmp_path, **tiny(4))
    assert [row["update"] for row in read_csv(tmp_path / "progress.csv")] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("place", [(Trainer, "_write"), (TrainingState, "save")], ids=["checkpoint", "state"])
def test_training_killed_during_its_first_save_is_resumed(
    place: tuple[type, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(*place, stop)
        with pytest.raises(RuntimeError, match="stopped"):
            train(tmp_path, **tiny(1))
    assert train(tmp_path, **tiny(1)).updates == 1
    load_agent(tmp_path / "checkpoint.jd")


def test_training_cannot_be_resumed_with_another_network(tmp_path: Path) -> None:
    train(tmp_path, **tiny(1))
    with pytest.raises(OptionError, match=r"cnn='impala'.*'clear'"):
        train(tmp_path, **tiny(2, cnn="impala"))


def test_a_finished_training_returns_its_summary_again(tmp_path: Path) -> None:
    first = train(tmp_path, **tiny(2))
    assert np.isfinite(first.mean_return)
    assert train(tmp_path, **tiny(2)) == first


def test_unfinished_files_of_a_killed_training_are_deleted(tmp_path: Path) -> None:
    names = [".checkpoint.jd.1.unfinished", ".checkpoint-2.jd.1.unfinished", ".training-state.npz.1.unfinished"]
    for name in (*names, ".notes.unfinished", f"{DIRECTORY}/{LOCK}"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("process 1 on another machine")
    train(tmp_path, **tiny(1))
    assert not [name for name in names if (tmp_path / name).exists()]
    assert (tmp_path / ".notes.unfinished").exists(), "not a file of training"


@pytest.mark.parametrize("damage", ["removed", "truncated", "empty"])
def test_a_checkpoint_that_cannot_be_resumed_is_not_replaced(damage: str, tmp_path: Path) -> None:
    train(tmp_path, **tiny(1))
    agent, state = (tmp_path / "checkpoint.jd").read_bytes(), tmp_path / "training-state.npz"
    content = {"removed": None, "truncated": state.read_bytes()[:1000], "empty": b""}[damage]
    state.unlink()
    if content is not None:
        state.write_bytes(content)
    with pytest.raises(ClarityError, match=r"choose another directory, or start again with overwrite=True \(--force\)"):
        train(tmp_path, **tiny(2, seed=1))
    assert (tmp_path / "checkpoint.jd").read_bytes() == agent
    assert train(tmp_path, overwrite=True, **tiny(2, seed=1)).updates == 2
    assert [row["update"] for row in read_csv(tmp_path / "progress.csv")] == ["1", "2"]


def test_a_log_of_another_program_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("rollout/ep_rew_mean,time/iterations\n1.5,1\n")
    with pytest.raises(ClarityError, match=r"contains progress\.csv, but no training-state\.npz .*\(--force\)"):
        train(tmp_path, **tiny(1))
    assert (tmp_path / "progress.csv").read_text().endswith("1.5,1\n")
    train(tmp_path, overwrite=True, **tiny(1))
    assert [row["update"] for row in read_csv(tmp_path / "progress.csv")] == ["1"]


def test_overwrite_resumes_training_where_possible(tmp_path: Path) -> None:
    train(tmp_path, **tiny(1))
    before = TrainingState.load(tmp_path / "training-state.npz").values["seconds"]
    assert train(tmp_path, overwrite=True, **tiny(2)).seconds > before


@pytest.mark.slow
def test_procgen_resumes_in_the_middle_of_episodes(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    options: dict[str, Any] = {
        "env_name": "coinrun",
        "num_envs": 4,
        "num_steps": 16,
        "num_minibatches": 2,
        "ppo_epochs": 1,
    }
    options |= {"tensorboard": False, "save_interval": 2, "num_levels": 50, "distribution_mode": "easy"}
    train(tmp_path / "uninterrupted", **options, timesteps_per_proc=256)
    train(tmp_path / "resumed", **options, timesteps_per_proc=128)
    train(tmp_path / "resumed", **options, timesteps_per_proc=256)
    uninterrupted, resumed = (
        read(tmp_path / name / "checkpoint.jd").parameters for name in ("uninterrupted", "resumed")
    )
    for name, array in uninterrupted.items():
        np.testing.assert_array_equal(array, resumed[name], err_msg=name)


RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from rl_clarity.environments import KINDS
from rl_clarity.ppo import train
from tests.ppo.small import STATEFUL, tiny
from tests.ppo.toys import KIND
KINDS.register("columns", KIND)
train(sys.argv[2], **tiny(int(sys.argv[3]), **STATEFUL))
"""


@pytest.mark.slow
def test_killed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    repository = Path(__file__).resolve().parents[2]
    killed, uninterrupted = tmp_path / "killed", tmp_path / "uninterrupted"
    command = [sys.executable, "-c", RUN, str(repository)]
    for rows in (10, 23):
        process = subprocess.Popen([*command, str(killed), "1000000"])
        while not (killed / "progress.csv").exists() or len(read_csv(killed / "progress.csv")) < rows:
            assert process.poll() is None, "training ended before it was killed"
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for path in ("checkpoint.jd", "training-state.npz"):
            assert (killed / path).exists()
        load_agent(killed / "checkpoint.jd")
    updates = TrainingState.load(killed / "training-state.npz").values["updates"] + 4
    for directory in (killed, uninterrupted):
        subprocess.run([*command, str(directory), str(updates)], check=True)
        assert not list(directory.glob("*.unfinished"))
    logs = [read_csv(directory / "progress.csv") for directory in (killed, uninterrupted)]
    assert [int(row["update"]) for row in logs[0]] == list(range(1, updates + 1))
    timed = {name for name in COLUMNS if "seconds" in name or "second" in name}
    for row, other in zip(*logs, strict=True):
        assert {name: row[name] for name in row.keys() - timed} == {name: other[name] for name in row.keys() - timed}
    expected, actual = (TrainingState.load(directory / "training-state.npz") for directory in (uninterrupted, killed))
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(actual.arrays[name], array, err_msg=name)
    assert actual.values["rng"] == expected.values["rng"]


@pytest.fixture
def stateful() -> Iterator[dict[str, Any]]:
    """Options of a training whose environments can be saved."""
    KINDS.register("columns", KIND)
    yield {**STATEFUL, "save_interval": 100, "use_lstm": False}
    KINDS.unregister("columns")


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [press_ctrl_c, terminate])
def test_interrupting_training_saves_the_last_complete_update(
    stop: Callable[[], None], stateful: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted, interrupted = tmp_path / "uninterrupted", tmp_path / "interrupted"
    train(uninterrupted, **tiny(4, **stateful))
    with monkeypatch.context() as patch:
        stop_in_update(3, stop, patch)
        with pytest.raises(KeyboardInterrupt, match="training is saved, and resumes when it is started again"):
            train(interrupted, **tiny(4, **stateful))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert TrainingState.load(interrupted / "training-state.npz").values["updates"] == 2
    train(interrupted, **tiny(4, **stateful))
    assert [row["update"] for row in read_csv(interrupted / "progress.csv")] == ["1", "2", "3", "4"]
    expected, actual = (TrainingState.load(path / "training-state.npz") for path in (uninterrupted, interrupted))
    assert expected.values["rng"] == actual.values["rng"]
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(actual.arrays[name], array, err_msg=name)


def test_the_first_update_is_saved_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash() -> None:
        raise RuntimeError("a crash, after which nothing can be saved")

    stop_in_update(2, crash, monkeypatch)
    with pytest.raises(RuntimeError):
        train(tmp_path, **tiny(3, save_interval=0))
    assert TrainingState.load(tmp_path / "training-state.npz").values["updates"] == 1


def test_old_logs_are_kept_until_the_first_state_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "progress.csv"
    log.write_text("update,timesteps,seconds\n1,32,1\n2,64,2\n")
    with monkeypatch.context() as patch:
        stop_in_update(1, press_ctrl_c, patch)
        with pytest.raises(KeyboardInterrupt, match="nothing is saved before the first update"):
            train(tmp_path, **tiny(3))
    assert log.read_text() == "update,timesteps,seconds\n1,32,1\n2,64,2\n"
    save = TrainingState.save
    before: list[int] = []

    def record_log(self: TrainingState, path: Path) -> None:
        before.append(len(read_csv(log)))
        save(self, path)

    monkeypatch.setattr(TrainingState, "save", record_log)
    train(tmp_path, **tiny(1))
    assert before == [2], "the old rows are there until the state is saved"
    assert [row["update"] for row in read_csv(log)] == ["1"]


def test_environments_that_cannot_be_restored_start_new_episodes(tmp_path: Path) -> None:
    first = make_trainer(Columns, reward_processing="normalize")
    first.update()
    assert not first.state().part("0/player")
    second = make_trainer(Columns, reward_processing="normalize")
    second.restore(first.state())
    assert not second.rewards.returns.any()
    assert second.rewards.variance == first.rewards.variance
    assert second.runner.play(second.learner, 4).firsts[0].all()
    for name, array in parameters(first).items():
        np.testing.assert_array_equal(array, parameters(second)[name])


def test_options_that_may_change_when_resuming_exist() -> None:
    from rl_clarity.ppo.session import CHANGEABLE

    assert {field.name for field in dataclasses.fields(TrainOptions)} >= CHANGEABLE


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("learner/adam/mean", np.zeros(3, np.float32), r"learner/adam/mean is float32 \(3,\), not float32 \(\d+,\)"),
        ("0/rewards/returns", np.zeros((2, 2)), r"0/rewards/returns is float64 \(2, 2\), not float64 \(\d,\)"),
        ("0/rewards/moments", None, "moments"),
        ("rng", [1], "state must be a dict"),
        ("recent", [[1, 2, 3]], "argument"),
    ],
)
def test_an_incompatible_training_state_is_reported_with_its_file(
    name: str, value: Any, message: str, tmp_path: Path
) -> None:
    train(tmp_path, **tiny(1))
    path = tmp_path / "training-state.npz"
    state = TrainingState.load(path)
    arrays, values = dict(state.arrays), dict(state.values)
    (arrays if "/" in name else values)[name] = value
    TrainingState({name: array for name, array in arrays.items() if array is not None}, values).save(path)
    with pytest.raises(CheckpointError, match=message) as raised:
        train(tmp_path, **tiny(2))
    assert str(raised.value).startswith(f"{path} does not fit this training (")
    assert "start again with overwrite=True (--force)" in str(raised.value)

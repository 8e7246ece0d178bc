"""Learning curves are read from the logs of several libraries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.sources.curves import read_curve

LOGS = {
    "rl_clarity": ("update,timesteps,mean_return,loss\n1,100,1.5,0\n3,300,3.5,0\n2,200,2.5,0\n", "steps"),
    "progress.csv": ("rollout/ep_rew_mean,time/fps,time/total_timesteps\n1.5,9,100\n2.5,9,200\n3.5,9,300\n", "steps"),
    "baby-a3c": ("time, episodes, frames, mean-epr\n00h, 1, 100, 1.5\n0, 1, 300, 3.5\n0, 1, 200, 2.5\n", "frames"),
}


@pytest.mark.parametrize("name", LOGS)
def test_columns_of_training_logs_are_recognized_and_rows_sorted(tmp_path: Path, name: str) -> None:
    text, unit = LOGS[name]
    (tmp_path / "log").write_text(text)
    curve = read_curve(tmp_path / "log")
    assert curve.steps.tolist() == [100, 200, 300]
    assert curve.returns.tolist() == [1.5, 2.5, 3.5]
    assert curve.unit == unit


def test_text_logs_of_several_processes_are_merged(tmp_path: Path) -> None:
    lines = ["time 00h, episodes 6, frames 0.2M, mean epr 1.39, run loss 0.31", "junk", "frames 0.1M, mean epr -1.24,"]
    (tmp_path / "log.txt").write_text("\n".join(lines))
    curve = read_curve(tmp_path / "log.txt")
    assert curve.steps.tolist() == pytest.approx([1e5, 2e5])
    assert curve.returns.tolist() == [-1.24, 1.39]


def test_curves_of_monitor_files_are_means_over_100_episodes(tmp_path: Path) -> None:
    rows = [f"{i},{10},{i / 10}" for i in range(150)]
    (tmp_path / "monitor.csv").write_text("\n".join(['#{"t_start": 1}', "r,l,t", *rows]))
    curve = read_curve(tmp_path / "monitor.csv")
    assert curve.steps[[0, -1]].tolist() == [10, 1500]
    assert curve.returns[[0, 9, 149]].tolist() == [0, 4.5, np.arange(50, 150).mean()]


def test_repeated_steps_keep_the_last_row_and_incomplete_rows_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("timesteps,mean_return\n100,1\n200,nan\n100,2\n300,x\n400")
    curve = read_curve(tmp_path / "log")
    assert (curve.steps.tolist(), curve.returns.tolist()) == ([100], [2])


def test_columns_of_the_log_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a,b\n1,2\n")
    assert read_curve(tmp_path / "log", ("b", "a")).steps.tolist() == [2]
    with pytest.raises(OptionError, match=r"log_columns=\('c', 'a'\)"):
        read_curve(tmp_path / "log", ("c", "a"))


def test_tensorboard_event_files_are_read_as_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    pytest.importorskip("tensorflow")
    from rl_clarity.ppo.logs import EventLog

    log = EventLog(tmp_path / "events")
    for update in (1, 2):
        log.write({"update": update, "timesteps": 100 * update, "mean_return": update + 0.5})
    log.close()
    curve = read_curve(tmp_path / "events")
    assert (curve.steps.tolist(), curve.returns.tolist()) == ([100, 200], [1.5, 2.5])
    with pytest.raises(OptionError, match="no scalar reward"):
        read_curve(tmp_path / "events", ("step", "reward"))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "timesteps,mean_return\n", "\x00\x01", "#{}\nx,y\n1,2\n"])
def test_files_that_are_not_training_logs_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(ClarityError):
        read_curve(tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timesteps,mean_return\n100,1.5\n\n-200,2.5\n", r"log, line 4: a number of steps is negative \(-200\)"),
        ('#{"t_start": 1}\nr,l,t\n1,10,0.1\n1,-5,0.2\n', r"log, line 4: a number of steps is negative \(-5\)"),
    ],
)
def test_negative_steps_are_refused_with_their_line_number(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(ClarityError, match=message):
        read_curve(tmp_path / "log")


def test_a_missing_log_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ClarityError, match=r"absent\.csv"):
        read_curve(tmp_path / "absent.csv")


@pytest.mark.parametrize("name", ["breakout-v4/log.txt", "models_model7-02-17-20-41/log-model7-02-17-20-41.txt"])
def test_published_logs_of_baby_a3c_are_read(shared_formats: Path, name: str) -> None:
    curve = read_curve(shared_formats / "baby-a3c" / name)
    assert np.all(np.diff(curve.steps) > 0)
    assert curve.steps[-1] >= 5e7
    assert curve.returns[-1] > 150
    assert curve.returns[0] < 2
    assert curve.unit == "frames"

"""Series of checkpoints: which files, in which order, and the errors for those that cannot be compared."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError
from rl_clarity.formats import included as models
from rl_clarity.sources.series import SeriesCheckpoint, find_curve, read_series
from tests.tiny_series import register, write_checkpoint, write_series

register()


def read(checkpoints: Any, steps_per_number: float | None = None, **metadata: Any) -> list[SeriesCheckpoint]:
    with ExitStack() as files:
        return read_series(checkpoints, metadata, steps_per_number, files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_series(tmp_path / "series", 3)


def test_checkpoints_are_sorted_by_their_training_step(folder: Path) -> None:
    files = [folder / f"agent-{number}.pt" for number in (3, 1, 2)]
    series = read(files)
    assert [(one.name, one.step) for one in series] == [("agent-1", 1000), ("agent-2", 2000), ("agent-3", 3000)]


def test_a_folder_or_glob_pattern_lists_checkpoints_by_number(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        write_checkpoint(tmp_path / f"agent-{number}.pt", number)
    (tmp_path / "progress.csv").write_text("timesteps,mean_return\n1,2\n")
    for checkpoints in (tmp_path, f"{tmp_path}/agent-*.pt"):
        assert [(one.name, one.step) for one in read(checkpoints)] == [
            ("agent-1", None), ("agent-9", None), ("agent-10", None)
        ]  # fmt: skip


def test_copies_in_a_folder_are_ignored_but_explicit_ones_are_refused(folder: Path) -> None:
    copy = folder / "agent.pt"
    copy.write_bytes((folder / "agent-3.pt").read_bytes())
    assert [one.name for one in read(folder)] == ["agent-1", "agent-2", "agent-3"]
    with pytest.raises(OptionError, match=r"agent\.pt has the same content as .*agent-3\.pt; leave one of them out"):
        read([folder / "agent-1.pt", folder / "agent-3.pt", copy])


def test_training_steps_come_from_file_names_and_a_factor(tmp_path: Path) -> None:
    names = ("rl_model_200_steps.pt", "rl_model_30_steps.pt")
    for seed, name in enumerate(names):
        write_checkpoint(tmp_path / name, seed)
    assert [one.step for one in read(tmp_path)] == [30, 200]
    for name in names:
        (tmp_path / name).rename(tmp_path / name.replace("_steps", ""))
    assert [one.step for one in read(tmp_path, 500)] == [15_000, 100_000]


def test_checkpoints_with_equal_names_are_distinguished_by_folder(tmp_path: Path) -> None:
    for seed, name in enumerate(("early", "late")):
        (tmp_path / name).mkdir()
        write_checkpoint(tmp_path / name / "agent.pt", seed)
    assert [one.name for one in read([tmp_path / "early", tmp_path / "late"])] == ["early/agent", "late/agent"]


@pytest.mark.parametrize(
    ("checkpoints", "message"),
    [
        ("{folder}/nothing-*.pt", r"no checkpoint matches .*/nothing-\*\.pt"),
        ("{folder}/empty", r"the folder .*/empty contains no checkpoints"),
        ("{folder}/agent-1.pt", r"agent-1\.pt is one checkpoint, but compare needs at least two"),
        ([], "there is no checkpoint, but compare needs at least two"),
        ("{folder}/nowhere.pt", r"cannot read the checkpoint .*nowhere\.pt"),
        ("models:breakout-serie", "unknown agent models:breakout-serie"),
    ],
)
def test_too_few_checkpoints_are_an_error(folder: Path, checkpoints: Any, message: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(CheckpointError, match=message):
        read(checkpoints.format(folder=folder) if isinstance(checkpoints, str) else checkpoints)


def test_checkpoints_of_different_environments_are_refused(folder: Path) -> None:
    write_checkpoint(folder / "agent-4.pt", 4, metadata={"env_name": "another"})
    with pytest.raises(OptionError, match=r"agent-4\.pt plays with env_name='another', but agent-1\.pt with 'tiny'"):
        read(folder)
    assert len(read(folder, env_name="tiny")) == 4
    write_checkpoint(folder / "agent-4.pt", 4, metadata={"frame_stack": 4})
    with pytest.raises(OptionError, match=r"agent-4\.pt plays with frame_stack=4, but agent-1\.pt with None"):
        read(folder)


def test_a_training_log_is_found_beside_the_checkpoints(folder: Path, tmp_path: Path) -> None:
    series = read(folder)
    assert find_curve(series, None, None) is None
    (folder / "log.txt").write_text("no log of training")
    assert find_curve(series, None, None) is None
    (folder / "progress.csv").write_text("timesteps,mean_return\n1000,2\n2000,3\n")
    found = find_curve(series, None, None)
    assert found is not None
    assert (found[0].returns.tolist(), found[1]) == ([2, 3], "progress.csv")
    (tmp_path / "own.csv").write_text("frame,score\n1,5\n")
    own = find_curve(series, tmp_path / "own.csv", ("frame", "score"))
    assert own is not None
    assert (own[0].returns.tolist(), own[0].unit, own[1]) == ([5], "frames", "own.csv")
    with pytest.raises(ClarityError, match="is not a known training log"):
        find_curve(series, tmp_path / "own.csv", None)


def test_an_included_series_of_checkpoints_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tiny-series").mkdir()
    for number in (1, 2):
        write_checkpoint(tmp_path / "tiny-series" / f"agent-{number}.jd", number)
    monkeypatch.setattr(models, "models_directory", lambda: tmp_path)
    (tmp_path / "rl-clarity").mkdir()  # of samples
    write_checkpoint(tmp_path / "rl-clarity" / "agent.model.jd", 1)
    assert models.series_names() == ["tiny-series"]
    assert [one.name for one in read("models:tiny-series")] == ["agent-1", "agent-2"]
    assert models.resolve("models:tiny-series/agent-2") == tmp_path / "tiny-series" / "agent-2.jd"
    with pytest.raises(CheckpointError, match="unknown agent models:tiny-series/agent-3"):
        models.resolve("models:tiny-series/agent-3")

"""The same call makes the same bytes, however often it was stopped, and does only what is not yet done."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.distributed.store import DIRECTORY
from rl_clarity.errors import OutputError
from rl_clarity.interface.files import LocalDirectory
from tests.pipeline.conftest import Explain
from tests.pipeline.small import (
    LAST_LAYER,
    OBSERVATIONS,
    REPOSITORY,
    SmallRun,
    counted_tasks,
    files_of,
    is_complete,
    page_files,
)

SHORT = {"trajectories_kwargs": {"num_envs": 2, "num_steps": 24}, "observations_kwargs": OBSERVATIONS}


@pytest.fixture
def run(small_run: SmallRun, tmp_path: Path) -> Callable[..., Path]:
    """Run a copy of the small run's checkpoint, with samples of its own, on one layer."""

    def ran(directory: str, checkpoint: str = "checkpoint", **options: Any) -> Path:
        path = tmp_path / checkpoint / "agent.jd"
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(small_run.checkpoint, path)
        rl_clarity.run(path, tmp_path / directory, **{"layer_kwargs": LAST_LAYER, **SHORT, **options})
        return tmp_path / directory

    return ran


# --- the same bytes ------------------------------------------------------------------------------------------------


def test_the_same_run_makes_the_same_bytes(run: Callable[..., Path]) -> None:
    first, second = run("a", "here"), run("b", "there", batch_size=512)
    assert files_of(first) == files_of(second)
    document = (first / "interface.html").read_text()
    assert str(first.parent) not in document


def test_another_seed_makes_another_page(run: Callable[..., Path]) -> None:
    first, second = run("a"), run("b", seed=1)
    same = {name for name in files_of(first) if files_of(first)[name] == files_of(second).get(name)}
    assert not {name for name in same if name.endswith(".js")}


def test_a_finished_page_is_left_as_it_is(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run("page")
    times = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    with counted_tasks(monkeypatch) as done:
        run("page")
    assert done == []
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == times


def test_what_was_lost_is_made_again(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run("page")
    before = files_of(directory)
    (directory / "attribution/Relu_2/2/value-1.js").unlink()
    (directory / "observations/observations-1.png").unlink()
    with counted_tasks(monkeypatch) as done:
        run("page")
    assert done == ["attribution/Relu_2/2"]
    assert files_of(directory) == before


# --- stopped -------------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """Something that nobody catches."""


@pytest.mark.parametrize("options", [{}, {"single_file": True}, {"inline_js": False}], ids=str)
def test_stopped_at_any_write_and_gone_on(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    options["nmf_features"] = 3
    explain(tmp_path / "undisturbed", **options)
    write = LocalDirectory.write
    left = 0

    def stopping(self: LocalDirectory, name: str, data: Any) -> None:
        nonlocal left
        if left == 0:
            raise Stop
        left -= 1
        write(self, name, data)

    monkeypatch.setattr(LocalDirectory, "write", stopping)
    for writes in range(1, 60, 2):
        left = writes
        try:
            explain(tmp_path / "stopped", **options)
            break
        except Stop:
            assert not is_complete(tmp_path / "stopped")
    assert writes > 5
    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "undisturbed")


def test_what_a_killed_process_left_is_cleared_away(explain: Explain, tmp_path: Path) -> None:
    explain(tmp_path / "undisturbed")
    folder = tmp_path / "killed" / "thumbnails" / "Relu_2"
    folder.mkdir(parents=True)
    (folder / ".thumbnail-1.png.1234.unfinished").write_bytes(b"half")
    explain(tmp_path / "killed")
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "undisturbed")


def test_finished_tasks_are_not_done_again(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch, counted_tasks(monkeypatch) as done:
        patch.setattr("rl_clarity.stages.tasks.write_trajectory", broken)
        with pytest.raises(Stop):
            explain()
    assert done == ["features/Relu_2"]
    with counted_tasks(monkeypatch) as done:
        explain()
    assert sorted(done) == ["attribution/Relu_2/1", "attribution/Relu_2/2", "trajectory/1", "trajectory/2"]


KILLS = 20


@pytest.mark.slow
def test_killed_twenty_times(tmp_path: Path, small_run: SmallRun) -> None:
    """SIGKILL at random moments, from the start to the end; at last the bytes of an undisturbed run are there."""
    options = ("--layer-kwargs.name-contains-one-of", "Relu_1", "Relu_2", "--trajectories.num-envs", "3")
    options += ("--trajectories.num-steps", "16", "--observations.num-envs", "8", "--observations.num-obs", "4")
    options += ("--observations.obs-every", "3", "--json")

    def start(name: str) -> subprocess.Popen[bytes]:
        path = tmp_path / f"{name}-checkpoint" / "agent.jd"
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(small_run.checkpoint, path)
        command = [sys.executable, "-m", "rl_clarity", "run", str(path), str(tmp_path / name), *options]
        return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def progress(name: str) -> int:
        return sum(len(list((tmp_path / folder).rglob("*"))) for folder in (name, f"{name}-checkpoint"))

    assert start("undisturbed").wait() == 0
    most = progress("undisturbed")
    rng = random.Random(0)
    # Each is killed when so many files are there, whatever the machine's speed: the moments spread over the whole job.
    moments = sorted(rng.randrange(2, most) for _ in range(KILLS))
    reached = []
    for moment in moments:
        process = start("killed")
        while process.poll() is None and progress("killed") < moment:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.wait()
        reached.append(progress("killed"))
    assert start("killed").wait() == 0
    assert len(set(reached)) > KILLS / 3
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "undisturbed")
    outcomes = [run["outcome"] for run in json.loads((tmp_path / "killed" / "run-log.json").read_text())["runs"]]
    assert outcomes[-1] == "finished"
    assert "running" in outcomes  # those that were killed at it


# --- other options -------------------------------------------------------------------------------------------------


FEATURES = {"features/Relu_2"}
PLAYED = {"trajectory/1", "trajectory/2"}
EXPLAINED = {"attribution/Relu_2/1", "attribution/Relu_2/2"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"video_speed": 3, "numpy_precision": 4, "trajectory_bookmarks": 2, "title": "B"}, set()),
        ({"vis_subdiv_mult_default": 2, "vis_expand_mults": [1, 4], "attr_single_channels": False}, set()),
        ({"inline_js": False}, set()),
        ({"observations_subdir": "seen", "features_grids_subdir": "grids"}, set()),
        ({"scrub_range": (0, 0.1)}, PLAYED),
        ({"gae_lambda": 0.5}, PLAYED),
        ({"action_group_fns": ()}, PLAYED),
        ({"vis_thumbnail_num_mult": 3}, FEATURES),
        ({"vis_subdiv_mults": [1, 2]}, FEATURES),
        ({"thumbnails_subdir": "thumbs"}, FEATURES),
        ({"attr_integrate_steps": 4}, EXPLAINED),
        ({"attribution_totals_subdir": "totals"}, EXPLAINED),
        ({"attr_policy": True}, EXPLAINED),
        ({"nmf_features": 4}, FEATURES | EXPLAINED),
        ({"attr_quadrature": "midpoint"}, FEATURES | EXPLAINED),
        ({"input_layer_include": True}, {"attribution/input/1", "attribution/input/2"}),
        ({"layer_kwargs": {"name_contains_one_of": ["Relu_1"]}}, None),
    ],
    ids=str,
)
def test_changed_options_cost_only_what_depends_on_them(
    explain: Explain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    expected: set[str] | None,
) -> None:
    explain()
    (tmp_path / "page" / "mine.txt").write_text("mine")
    (tmp_path / "page" / "attribution" / "mine.txt").write_text("mine")
    with counted_tasks(monkeypatch) as done:
        explain(overwrite=True, **options)
    if expected is not None:
        assert set(done) == expected
    mine = {"mine.txt": b"mine", "attribution/mine.txt": b"mine"}
    explain(tmp_path / "new", **options)
    assert files_of(tmp_path / "page") == files_of(tmp_path / "new") | mine


def test_back_to_the_old_options_after_a_stop(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a stopped run with other options had begun to replace are not taken for the old ones."""
    explain()
    before = files_of(tmp_path / "page")

    def stopped(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("rl_clarity.stages.attribution.write_totals", stopped)  # attribution itself is written by then
        with pytest.raises(Stop):
            explain(overwrite=True, attr_integrate_steps=1)
    assert not is_complete(tmp_path / "page")
    explain()
    assert files_of(tmp_path / "page") == before


def test_more_observations_do_not_play_the_trajectories_again(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rl_clarity.stages import samples

    played = []
    collect = samples.collect_trajectories
    monkeypatch.setattr(samples, "collect_trajectories", lambda *a, **k: played.append(1) or collect(*a, **k))
    run("page")
    run("other", observations_kwargs={**OBSERVATIONS, "num_obs": 5})
    assert played == [1]
    run("another", trajectories_kwargs={"num_envs": 2, "num_steps": 20})
    assert played == [1, 1]


# --- whose directory it is -----------------------------------------------------------------------------------------


def test_another_page_is_not_replaced_unasked(explain: Explain, tmp_path: Path) -> None:
    explain(title="Mine")
    before = files_of(tmp_path / "page")
    with pytest.raises(OutputError, match=r"already holds a page \(Mine\).*overwrite=True \(--force\)"):
        explain(seed=1)
    assert files_of(tmp_path / "page") == before


def test_other_predicates_make_another_page(explain: Explain, tmp_path: Path) -> None:
    explain(action_group_fns=(lambda combo: "UP" in combo,))
    explain(action_group_fns=(lambda combo: "UP" in list(combo),))  # which says the same
    with pytest.raises(OutputError, match="already holds a page"):
        explain(action_group_fns=(lambda combo: "DOWN" in combo,))
    results = explain(action_group_fns=(lambda combo: "DOWN" in combo,), overwrite=True)
    assert [group["actions"] for group in results.manifest["action_groups"]] == [[0, 3, 6]]


def test_an_error_before_the_work_leaves_the_old_page(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run("page")
    before = files_of(directory)

    def missing(*arguments: Any, **options: Any) -> None:
        raise OutputError("no such game")

    monkeypatch.setattr("rl_clarity.stages.samples.make", missing)
    with pytest.raises(OutputError, match="no such game"):
        run("page", overwrite=True, seed=3)
    assert files_of(directory) == before


def test_a_page_that_nobody_can_read_is_replaced_alone(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "interface.html").write_text("notes")
    (tmp_path / "page" / "other.html").write_text("notes")
    explain(overwrite=True)
    assert (tmp_path / "page" / "other.html").read_text() == "notes"
    assert (tmp_path / "page" / "interface.html").read_text() != "notes"


def test_a_hostile_page_removes_nothing_outside(explain: Explain, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    explain()
    document = tmp_path / "page" / "interface.html"
    document.write_text(document.read_text().replace('"trajectories/1/series.js"', '"../victim.txt"'))
    explain(overwrite=True, seed=1)
    assert victim.read_text() == "mine"


def test_pages_at_an_address(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = explain()
    address = "memory://bucket/page"
    there = explain(address)
    assert there.manifest == here.manifest
    np.testing.assert_array_equal(there.frames(1), here.frames(1))
    with counted_tasks(monkeypatch) as done:
        explain(address)
        assert done == []
        with pytest.raises(OutputError, match=r"memory://bucket/page already holds a page \(An agent\)"):
            explain(address, title="B")
        assert explain(address, title="B", overwrite=True, single_file=True).manifest["title"] == "B"
    files = there._directory.names()
    assert files == {"interface.html", "run-log.json"}


def test_a_second_run_is_refused_by_name_of_the_first(explain: Explain, tmp_path: Path) -> None:
    holder = (
        "import sys, time; from rl_clarity.distributed import locked\n"
        "with locked(sys.argv[1]):\n    print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path / "page")], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(OutputError, match=f"being written by process {process.pid} on "):
            explain()
        assert page_files(tmp_path / "page") == set()
    finally:
        process.kill()
        process.wait()
    assert explain().manifest["complete"]  # the lock fell with the process


def test_nothing_in_a_page_tells_where_and_when_it_was_made(explain: Explain, tmp_path: Path) -> None:
    explain()
    words = [str(tmp_path).encode(), os.uname().nodename.encode(), str(Path.home()).encode() + b"/"]
    for name, content in files_of(tmp_path / "page").items():
        assert not [word for word in words if len(word) > 3 and word in content], name


def test_entries_are_json(explain: Explain, tmp_path: Path) -> None:
    explain()
    entries = [json.loads(path.read_text()) for path in (tmp_path / "page" / DIRECTORY).glob("*-*.json")]
    assert len(entries) == 5
    assert all(set(entry) == {"facts", "files", "key", "name"} for entry in entries)
    assert all(np.isfinite(list(entry["facts"].get("scales", {}).values())).all() for entry in entries)

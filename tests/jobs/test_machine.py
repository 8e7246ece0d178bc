"""What each rank takes of a machine that several share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_clarity.jobs import SingleProcess, take_share
from rl_clarity.jobs.job import team
from rl_clarity.jobs.machine import THREADS, Share, choose_device, compute_share, gpu_count

EIGHT = tuple(range(8))


def test_ranks_share_the_cores_and_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_clarity.jobs.machine.available_memory", lambda: 1000)
    share = compute_share(1, [EIGHT] * 4, 0, {})
    assert (share.threads, share.memory()) == (2, 250)
    assert share.variables == dict.fromkeys(THREADS, "2")


def test_more_ranks_than_cores_have_one_thread_each() -> None:
    assert compute_share(4, [(0, 1)] * 5, 0, {}).threads == 1


def test_cores_that_the_launcher_gave_to_each_rank_are_its_own() -> None:
    own = [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert compute_share(1, own, 0, {}).threads == 4


def test_what_the_user_has_set_stays() -> None:
    variables = compute_share(0, [EIGHT] * 2, 0, {"OMP_NUM_THREADS": "3"}).variables
    assert "OMP_NUM_THREADS" not in variables
    assert variables["TF_NUM_INTRAOP_THREADS"] == "4"


def test_one_process_takes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    share = take_share(SingleProcess())
    assert share.variables == {}
    assert share.memory() > 0


@pytest.mark.parametrize(
    ("index", "count", "visible", "gpus", "expected"),
    [
        (0, 4, None, 4, "0"),
        (3, 4, None, 4, "3"),
        (5, 8, None, 4, "1"),  # two ranks on each
        (1, 2, "2,3", 8, "3"),  # of those that the job was given
        (1, 2, "GPU-a, GPU-b", 8, "GPU-b"),
        (1, 2, "6", 8, None),  # the launcher has chosen
        (1, 2, None, 1, None),
        (1, 2, None, 0, None),
        (1, 2, "", 4, None),  # the user wants none
        (0, 1, None, 4, None),  # alone: the backend chooses
    ],
)
def test_each_rank_has_a_gpu_of_its_own(
    index: int, count: int, visible: str | None, gpus: int, expected: str | None
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    share = compute_share(index, [EIGHT] * count, gpus, environment)
    assert share.variables.get("CUDA_VISIBLE_DEVICES") == expected


def test_ranks_on_one_gpu_leave_each_other_room() -> None:
    assert compute_share(0, [EIGHT] * 4, 2, {}).variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in compute_share(0, [EIGHT] * 2, 2, {}).variables


def test_devices_are_dealt_in_turn() -> None:
    assert [choose_device(rank, 4, ["a", "b"]) for rank in range(4)] == ["a", "b", "a", "b"]


def test_gpus_are_counted_by_their_driver(tmp_path: Path) -> None:
    assert gpu_count(tmp_path) == 0
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / name).mkdir(parents=True)
    assert gpu_count(tmp_path) == 2


def test_environment_variables_are_restored_when_the_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share(threads=3, neighbours=2, variables={"OMP_NUM_THREADS": "3", "TF_NUM_INTRAOP_THREADS": "3"})
    monkeypatch.setattr("rl_clarity.jobs.job.take_share", lambda ranks: share)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    with team() as workers:
        assert workers.share() is share
        assert os.environ["OMP_NUM_THREADS"] == os.environ["TF_NUM_INTRAOP_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "TF_NUM_INTRAOP_THREADS" not in os.environ

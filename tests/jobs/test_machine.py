"""Ranks on the same machine share its cores, memory and GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rl_clarity.jobs import SingleProcess, take_share
from rl_clarity.jobs.job import team
from rl_clarity.jobs.machine import (
    THREADS,
    Share,
    choose_device,
    compute_share,
    computes_in_bfloat16,
    gpu_count,
    peak_memory,
)

EIGHT_CORES = tuple(range(8))


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("flags\t\t: fpu avx512_bf16 sse\n", True),
        ("flags : amx_bf16\n", True),
        ("flags : avx512f\n", False),
        ("", False),
    ],
)
def test_bfloat16_support_is_detected_from_the_processor_flags(tmp_path: Path, cpuinfo: str, expected: bool) -> None:
    assert not computes_in_bfloat16(tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(cpuinfo)
    assert computes_in_bfloat16(tmp_path) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="a process inherits the peak of the one that starts it")
def test_peak_memory_excludes_the_peak_of_the_parent_process() -> None:
    program = "from rl_clarity.jobs.machine import peak_memory; print(peak_memory())"
    parent = (
        f"held = bytes(10**9); import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}], check=True)"
    )
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    assert 10**7 < int(done.stdout) < 3e8
    assert peak_memory() > 10**7


def test_mpi_ranks_share_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_clarity.jobs.machine.available_memory", lambda: 1000)
    share = compute_share(1, [EIGHT_CORES] * 4, 0, {})
    assert (share.threads, share.memory()) == (2, 250)
    assert share.variables == dict.fromkeys(THREADS, "2")


def test_each_mpi_rank_has_at_least_one_thread() -> None:
    assert compute_share(4, [(0, 1)] * 5, 0, {}).threads == 1


def test_mpi_ranks_keep_the_cores_assigned_by_the_launcher() -> None:
    cores = [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert compute_share(1, cores, 0, {}).threads == 4


def test_thread_variables_set_by_the_user_are_kept() -> None:
    variables = compute_share(0, [EIGHT_CORES] * 2, 0, {"OMP_NUM_THREADS": "3"}).variables
    assert "OMP_NUM_THREADS" not in variables
    assert variables["TF_NUM_INTRAOP_THREADS"] == "4"


def test_a_single_process_uses_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
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
        (5, 8, None, 4, "1"),  # two ranks per GPU
        (1, 2, "2,3", 8, "3"),  # the second of the job's GPUs
        (1, 2, "GPU-a, GPU-b", 8, "GPU-b"),
        (1, 2, "6", 8, None),  # assigned by the launcher
        (1, 2, None, 1, None),
        (1, 2, None, 0, None),
        (1, 2, "", 4, None),  # disabled by the user
        (0, 1, None, 4, None),  # a single process: the backend chooses
    ],
)
def test_mpi_ranks_are_assigned_to_gpus(
    index: int, count: int, visible: str | None, gpus: int, expected: str | None
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    share = compute_share(index, [EIGHT_CORES] * count, gpus, environment)
    assert share.variables.get("CUDA_VISIBLE_DEVICES") == expected


def test_mpi_ranks_on_a_shared_gpu_allocate_memory_on_demand() -> None:
    assert compute_share(0, [EIGHT_CORES] * 4, 2, {}).variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in compute_share(0, [EIGHT_CORES] * 2, 2, {}).variables


def test_devices_are_assigned_to_ranks_in_turn() -> None:
    assert [choose_device(rank, 4, ["a", "b"]) for rank in range(4)] == ["a", "b", "a", "b"]


def test_gpus_are_counted_from_files_of_the_nvidia_driver(tmp_path: Path) -> None:
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

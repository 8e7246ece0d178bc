"""Available memory: of the machine, of control groups, of the process's limits."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from rl_clarity.jobs.machine import available_memory

GB = 10**9


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 8 GB of available memory and no control groups."""
    write(tmp_path / "proc/meminfo", f"MemTotal: {16 * GB // 1024} kB\nMemAvailable: {8 * GB // 1024} kB\n")
    return tmp_path


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def write_cgroup_v2(folder: Path, limit: object, used: int, cache: int = 0) -> None:
    write(folder / "memory.max", limit)
    write(folder / "memory.current", used)
    write(folder / "memory.stat", f"anon {used - cache}\ninactive_file {cache}")


def test_available_memory_is_that_of_the_machine_without_limits(machine: Path) -> None:
    assert available_memory(machine) == 8 * GB // 1024 * 1024


def test_available_memory_respects_the_limit_of_a_cgroup(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/slurm/job")
    write_cgroup_v2(machine / "sys/fs/cgroup/slurm/job", 3 * GB, GB)
    assert available_memory(machine) == 2 * GB


def test_cached_files_in_a_cgroup_count_as_available_memory(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/slurm/job")
    write_cgroup_v2(machine / "sys/fs/cgroup/slurm/job", 3 * GB, 2 * GB, cache=GB)
    assert available_memory(machine) == 2 * GB


def test_available_memory_respects_the_limit_of_a_parent_cgroup(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/slurm/job")
    write_cgroup_v2(machine / "sys/fs/cgroup/slurm/job", "max", GB)
    write_cgroup_v2(machine / "sys/fs/cgroup/slurm", 2 * GB, 2 * GB - 1000)
    assert available_memory(machine) == 1000


def test_available_memory_respects_the_limit_of_a_cgroup_of_version_1(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/")
    folder = machine / "sys/fs/cgroup/memory/a/b"
    write(folder / "memory.limit_in_bytes", 4 * GB)
    write(folder / "memory.usage_in_bytes", 3 * GB)
    write(folder / "memory.stat", f"cache 5\ntotal_inactive_file {GB // 2}")
    assert available_memory(machine) == 3 * GB // 2


def test_available_memory_respects_the_limit_of_a_container(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/on/the/host")
    write_cgroup_v2(machine / "sys/fs/cgroup", GB, 100)
    assert available_memory(machine) == GB - 100


def test_available_memory_respects_the_address_space_limit_of_the_process(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machine / "proc/self/status", f"VmSize: {GB // 1024} kB\nVmData: {GB // 2048} kB")
    limits = {resource.RLIMIT_AS: 3 * GB, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], resource.RLIM_INFINITY))
    assert available_memory(machine) == pytest.approx(2 * GB, abs=1024)


def test_an_exceeded_memory_limit_leaves_no_available_memory(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/job")
    write_cgroup_v2(machine / "sys/fs/cgroup/job", GB, 2 * GB)
    assert available_memory(machine) == 0


def test_available_memory_of_this_machine_is_plausible() -> None:
    assert 10**7 < available_memory() < 10**14

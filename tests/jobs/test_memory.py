"""How much memory is at hand: of the machine, of control groups, of the process's own limits."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from rl_clarity.jobs.machine import available_memory

GB = 10**9


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 8 GB at hand and no control groups."""
    write(tmp_path / "proc/meminfo", f"MemTotal: {16 * GB // 1024} kB\nMemAvailable: {8 * GB // 1024} kB\n")
    return tmp_path


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def second_version(folder: Path, limit: object, used: int, of_files: int = 0) -> None:
    write(folder / "memory.max", limit)
    write(folder / "memory.current", used)
    write(folder / "memory.stat", f"anon {used - of_files}\ninactive_file {of_files}")


def test_without_limits_it_is_what_the_machine_has(machine: Path) -> None:
    assert available_memory(machine) == 8 * GB // 1024 * 1024


def test_a_control_group_may_have_less(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/slurm/job")
    second_version(machine / "sys/fs/cgroup/slurm/job", 3 * GB, GB)
    assert available_memory(machine) == 2 * GB


def test_pages_of_files_give_way(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/slurm/job")
    second_version(machine / "sys/fs/cgroup/slurm/job", 3 * GB, 2 * GB, of_files=GB)
    assert available_memory(machine) == 2 * GB


def test_so_may_a_group_above_it(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/slurm/job")
    second_version(machine / "sys/fs/cgroup/slurm/job", "max", GB)
    second_version(machine / "sys/fs/cgroup/slurm", 2 * GB, 2 * GB - 1000)
    assert available_memory(machine) == 1000


def test_control_groups_of_the_first_version(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/")
    folder = machine / "sys/fs/cgroup/memory/a/b"
    write(folder / "memory.limit_in_bytes", 4 * GB)
    write(folder / "memory.usage_in_bytes", 3 * GB)
    write(folder / "memory.stat", f"cache 5\ntotal_inactive_file {GB // 2}")
    assert available_memory(machine) == 3 * GB // 2


def test_inside_a_container_its_own_group_is_mounted(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/on/the/host")
    second_version(machine / "sys/fs/cgroup", GB, 100)
    assert available_memory(machine) == GB - 100


def test_limits_of_the_process(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "proc/self/status", f"VmSize: {GB // 1024} kB\nVmData: {GB // 2048} kB")
    limits = {resource.RLIMIT_AS: 3 * GB, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], resource.RLIM_INFINITY))
    assert available_memory(machine) == pytest.approx(2 * GB, abs=1024)


def test_it_is_never_less_than_nothing(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/job")
    second_version(machine / "sys/fs/cgroup/job", GB, 2 * GB)
    assert available_memory(machine) == 0


def test_this_machine_has_some() -> None:
    assert 10**7 < available_memory() < 10**14

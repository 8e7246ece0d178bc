"""Determine which cores, memory and GPUs of a machine a process may use, and share them among the ranks on the
machine.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_clarity.jobs.communicator import Communicator

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that limit the threads of libraries. Variables that the user has set are kept."""
DEVICES = "CUDA_VISIBLE_DEVICES"
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert"})
"""Names of bfloat16 instructions among the processor flags in Linux."""
UNKNOWN_MEMORY = 4e9
"""Bytes of available memory that are assumed if the system does not report them."""


@dataclass(frozen=True)
class Share:
    """A rank's share of its machine."""

    threads: int
    neighbours: int
    """Number of ranks on the machine, including this one."""
    variables: Mapping[str, str]
    """Environment variables to set before TensorFlow or JAX is imported."""

    def memory(self) -> int:
        """Return the bytes that this rank can still allocate. Call it after all large libraries are imported."""
        return available_memory() // self.neighbours


def take_share(ranks: Communicator) -> Share:
    """Return this process's share of the machine's cores, memory and GPUs. All ranks must call it together.

    The environment variables of the share must be set before a framework is imported, because frameworks read them
    during the import.
    """
    cores = tuple(sorted(_cores()))
    index, neighbours = ranks.neighbours(cores)
    share = compute_share(index, neighbours, gpu_count(), os.environ)
    if len(neighbours) > 1:
        import threadpoolctl

        threadpoolctl.threadpool_limits(share.threads)  # for libraries that NumPy has already loaded
    return share


def compute_share(index: int, neighbours: Sequence[Sequence[int]], gpus: int, environment: Mapping[str, str]) -> Share:
    """Return the share of the rank with the index `index` on its machine. `neighbours` contains the cores on which each
    rank of the machine may run, and `environment` the environment variables.
    """
    count, mine = len(neighbours), neighbours[index]
    competing = sum(1 for cores in neighbours if set(cores) & set(mine))  # a launcher may bind ranks to cores
    threads = max(1, len(mine) // competing)
    variables: dict[str, str] = {}
    if count > 1:
        variables |= {name: str(threads) for name in THREADS if name not in environment}
    devices = _visible_devices(environment.get(DEVICES), gpus)
    device = choose_device(index, count, devices)
    if device is not None:
        variables[DEVICES] = device
    if gpus and count > len(devices):  # if several ranks use a GPU, none may reserve all of its memory
        variables |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return Share(threads, count, variables)


def choose_device(index: int, count: int, devices: Sequence[str]) -> str | None:
    """Return the GPU that one of `count` ranks on a machine uses (assigned round robin), or None if there is a single
    rank or at most one GPU.

    If a launcher assigns GPUs to ranks, each rank sees only one GPU, and the result is None.
    """
    return None if count == 1 or len(devices) < 2 else devices[index % len(devices)]


def gpu_count(root: Path = Path("/")) -> int:
    """Return the number of NVIDIA GPUs according to the driver, or 0 without one."""
    try:
        return sum(1 for _ in (root / "proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return 0


def computes_in_bfloat16(root: Path = Path("/")) -> bool:
    """Return whether the processor has instructions for bfloat16 products. The result is False if the system does not
    report this.
    """
    try:
        flags = re.search(r"^flags\s*:(.*)$", (root / "proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    return flags is not None and not BFLOAT16.isdisjoint(flags[1].split())


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process can still allocate under the limits of the machine, its control groups and the
    process.

    `root` is the directory that contains `proc` and `sys`.
    """
    return max(0, int(min([_machine_memory(root), *_cgroup_memory(root), *_rlimit_memory(root)])))


def peak_memory(root: Path = Path("/")) -> int:
    """Return the peak resident memory of this process in bytes, or 0 if the system does not report it (Windows)."""
    try:
        # Linux's getrusage starts with the peak of the process that started this one.
        return int(_fields(root / "proc/self/status")["VmHWM"]) * 1024
    except (OSError, KeyError):
        resource = _resource()
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _visible_devices(visible: str | None, gpus: int) -> list[str]:
    if visible is None:
        return [str(device) for device in range(gpus)]
    return [device.strip() for device in visible.split(",") if device.strip()]


def _cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _machine_memory(root: Path) -> float:
    try:
        return _fields(root / "proc/meminfo")["MemAvailable"] * 1024
    except (OSError, KeyError):  # not Linux, so assume half of the memory
        if not hasattr(os, "sysconf"):  # Windows
            return UNKNOWN_MEMORY
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def _cgroup_memory(root: Path) -> Iterator[float]:
    """Yield the free bytes under each limit of control groups (v1 and v2). Cached file pages count as free."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, limit, usage, cache = mount, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, cache = mount / "memory", "total_inactive_file"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        for folder in _cgroup_and_parents(base, path):
            try:
                maximum = float((folder / limit).read_text().replace("max", "inf"))
                used = float((folder / usage).read_text()) - _fields(folder / "memory.stat").get(cache, 0)
            except (OSError, ValueError):
                continue
            yield maximum - used


def _cgroup_and_parents(base: Path, path: str) -> Iterator[Path]:
    folder = base / path.strip("/")
    if not folder.is_dir():  # in a container, the container's group is mounted as the root
        folder = base
    yield folder
    while folder != base:
        folder = folder.parent
        yield folder


def _rlimit_memory(root: Path) -> Iterator[float]:
    """Yield the free bytes under `ulimit -v` and `ulimit -d`."""
    resource = _resource()
    if resource is None:
        return
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            try:
                yield limit - _fields(root / "proc/self/status")[name] * 1024
            except (OSError, KeyError):
                continue


def _resource() -> Any:
    """Return the module `resource`, or None on Windows, which does not have it."""
    try:
        return importlib.import_module("resource")
    except ImportError:
        return None


def _fields(path: Path) -> dict[str, float]:
    """Return the numbers in a file by name. Its lines have the form `MemAvailable: 123 kB` or `inactive_file 123`."""
    numbers = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.replace(":", " ").partition(" ")
        value = rest.split()[:1]
        if value and value[0].isdecimal():
            numbers[name] = float(value[0])
    return numbers

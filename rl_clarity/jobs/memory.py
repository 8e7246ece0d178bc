"""How much memory this process may still take."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that this process can still take: of the machine, of each control group it is in, of its own limits.

    `root` is where `proc` and `sys` are.
    """
    found = [_of_machine(root), *_of_control_groups(root), *_of_limits(root)]
    return max(0, int(min(found)))


def peak_memory() -> int:
    """Bytes that this process has held at most."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _of_machine(root: Path) -> float:
    try:
        return _fields(root / "proc/meminfo")["MemAvailable"] * 1024
    except (OSError, KeyError):  # no Linux: half of what there is
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def _of_control_groups(root: Path) -> Iterator[float]:
    """What is left below the limits of the control groups, of both versions; pages of files give way."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mounted = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            kinds = [(mounted, "memory.max", "memory.current", "inactive_file")]
        elif "memory" in controllers.split(","):
            kinds = [(mounted / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")]
        else:
            continue
        for base, limit, usage, giving_way in kinds:
            for folder in _group_and_those_above(base, path):
                try:
                    most = float((folder / limit).read_text().replace("max", "inf"))
                    used = float((folder / usage).read_text()) - _fields(folder / "memory.stat").get(giving_way, 0)
                except (OSError, ValueError):
                    continue
                yield most - used


def _group_and_those_above(base: Path, path: str) -> Iterator[Path]:
    folder = base / path.strip("/")
    if not folder.is_dir():  # inside a container its own group is what is mounted
        folder = base
    yield folder
    while folder != base:
        folder = folder.parent
        yield folder


def _of_limits(root: Path) -> Iterator[float]:
    """What is left below `ulimit -v` and `ulimit -d`."""
    for kind, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(kind)[0]
        if most != resource.RLIM_INFINITY:
            try:
                yield most - _fields(root / "proc/self/status")[field] * 1024
            except (OSError, KeyError):
                continue


def _fields(path: Path) -> dict[str, float]:
    """Numbers by name of a file of lines such as `MemAvailable: 123 kB` or `inactive_file 123`."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.replace(":", " ").partition(" ")
        value = rest.split()[:1]
        if value and value[0].isdecimal():
            found[name] = float(value[0])
    return found

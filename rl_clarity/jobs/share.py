"""What each rank takes of the machine it shares with others: cores, memory, a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rl_clarity.jobs.communicator import Communicator
from rl_clarity.jobs.memory import available_memory

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that say how many threads the libraries start; those that the user has set are left as they are."""
DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Share:
    """A rank's part of its machine."""

    threads: int
    neighbours: int
    """Ranks on the machine, this one included."""
    variables: Mapping[str, str]
    """Of the environment, to be set before TensorFlow or JAX begins."""

    def memory(self) -> int:
        """Bytes that this rank can take beside what it has now; to be asked when all that is heavy is loaded."""
        return available_memory() // self.neighbours


def take_share(ranks: Communicator) -> Share:
    """Find this rank's share of its machine's cores, memory and GPUs, and keep to it from now on.

    All ranks call it together, before anything heavy is imported.
    """
    cores = tuple(sorted(_cores()))
    index, neighbours = ranks.neighbours(cores)
    share = share_of(index, neighbours, gpu_count(), os.environ)
    os.environ.update(share.variables)
    if len(neighbours) > 1:
        import threadpoolctl

        threadpoolctl.threadpool_limits(share.threads)  # of what NumPy has begun already
    return share


def share_of(index: int, neighbours: Sequence[Sequence[int]], gpus: int, environment: Mapping[str, str]) -> Share:
    """The share of one of the ranks on a machine, each of which may run on certain cores."""
    count = len(neighbours)
    mine = neighbours[index]
    alike = sum(1 for cores in neighbours if set(cores) & set(mine))  # a launcher may have given each its own
    threads = max(1, len(mine) // alike)
    variables: dict[str, str] = {}
    if count > 1:
        variables |= {name: str(threads) for name in THREADS if name not in environment}
    devices = _devices(environment.get(DEVICES), gpus)
    device = device_of(index, count, devices)
    if device is not None:
        variables[DEVICES] = device
    if gpus and count > len(devices):  # several on one GPU: each takes what it needs, rather than all there is
        variables |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return Share(threads, count, variables)


def device_of(index: int, count: int, devices: Sequence[str]) -> str | None:
    """The GPU of one of `count` ranks on a machine, in turn; None where there is nothing to choose.

    A launcher that gives each rank a GPU of its own shows each rank one device.
    """
    return None if count == 1 or len(devices) < 2 else devices[index % len(devices)]


def _devices(visible: str | None, gpus: int) -> list[str]:
    """Names of the GPUs that may be used, where `CUDA_VISIBLE_DEVICES` is `visible`."""
    if visible is None:
        return [str(device) for device in range(gpus)]
    return [device.strip() for device in visible.split(",") if device.strip()]


def gpu_count(root: Path = Path("/")) -> int:
    """NVIDIA's GPUs in this machine, by its driver; 0 where there is none."""
    try:
        return sum(1 for _ in (root / "proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return 0


def _cores() -> set[int]:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))

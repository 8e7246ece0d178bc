"""Samples that are on disk before a test begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity.recordings.samples import Observations, Trajectories, to_arrays
from rl_clarity.recordings.storage import SamplesWriter


def save_samples(folder: Path, samples: Trajectories | Observations, facts: Mapping[str, Any] | None = None) -> None:
    """Write samples that are in memory, array by array, as a run does while it plays."""
    with SamplesWriter(folder) as writer:
        for name, array in to_arrays(samples).items():
            file = writer.store.create(name, array.shape, array.dtype, axis=0)
            file.write(array)
            file.finish()
        writer.commit(samples, facts)

"""Write samples for tests to disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity.recordings.samples import Observations, Trajectories, to_arrays
from rl_clarity.recordings.storage import SamplesWriter


def save_samples(folder: Path, samples: Trajectories | Observations, facts: Mapping[str, Any] | None = None) -> None:
    """Write samples array by array, as a run does while it collects them."""
    with SamplesWriter(folder) as writer:
        for name, array in to_arrays(samples).items():
            file = writer.store.create(name, array.shape, array.dtype, axis=0)
            file.write(array)
            file.finish()
        writer.commit(samples, facts)

"""The state of training on disk: all that the next update depends on, in one file that is replaced as a whole."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.errors import CheckpointError
from rl_clarity.files import write_atomically

JSON = "json"


@dataclass(frozen=True)
class TrainingState:
    """Arrays by name, and plain values."""

    arrays: Mapping[str, np.ndarray]
    values: Mapping[str, Any]

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names begin with `prefix/`, under the rest of their names."""
        start = f"{prefix}/"
        return {name.removeprefix(start): array for name, array in self.arrays.items() if name.startswith(start)}


def save(path: Path, state: TrainingState) -> None:
    """Write the file anew: whoever reads it, even after a crash, finds the old state or the new one."""
    values = np.frombuffer(json.dumps(dict(state.values), sort_keys=True).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, **{JSON: values}, **state.arrays)
    write_atomically(path, content.getvalue())


def load(path: Path) -> TrainingState:
    """Read it; raises CheckpointError where it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        values = json.loads(arrays.pop(JSON).tobytes())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is no state of training ({error}): remove it to begin anew") from error
    return TrainingState(arrays, values)

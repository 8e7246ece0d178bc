"""Copy the golden numbers of the tests, reduced to a size for the repository.

The source contains, for each network, a checkpoint and `expected.npz`, the arrays that the original program computed
from the checkpoint. Checkpoints are copied unchanged; large arrays whose first axis is the observations are cut to the
first frames. Tests must therefore use as many observations as an array has frames.

    python scripts/make_golden.py ../shared/golden tests/golden
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = ("clear", "impala", "nature")
PER_LAYER = ("activations", "ig_value_10", "ig_logit2_10", "grad_times_act_value", "input_gradient_of_value")
KEPT_BYTES = 120_000
TOTAL_LIMIT_BYTES = 16_000_000


def shortened(key: str, array: np.ndarray) -> np.ndarray:
    """Cut an array of a layer's values for each observation to KEPT_BYTES, but keep at least one frame."""
    if key.rsplit(".", 1)[-1] not in PER_LAYER:
        return array
    return array[: max(1, KEPT_BYTES // array[0].nbytes)]


def copy_network(source: Path, destination: Path) -> int:
    """Copy the files of a network, and return their size in bytes."""
    destination.mkdir(parents=True, exist_ok=True)
    checkpoint, expected = destination / "checkpoint.jd", destination / "expected.npz"
    shutil.copyfile(source / "checkpoint.jd", checkpoint)
    with np.load(source / "expected.npz") as arrays:
        kept: dict[str, Any] = {key: shortened(key, arrays[key]) for key in arrays.files}
    np.savez_compressed(expected, **kept)
    return checkpoint.stat().st_size + expected.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("destination", type=Path)
    arguments = parser.parse_args()
    sizes = {name: copy_network(arguments.source / name, arguments.destination / name) for name in NETWORKS}
    for name, size in sizes.items():
        print(f"{name}: {size / 1e6:.1f} MB")
    if sum(sizes.values()) > TOTAL_LIMIT_BYTES:
        raise SystemExit(f"{sum(sizes.values())} bytes exceed {TOTAL_LIMIT_BYTES}: reduce KEPT_BYTES")


if __name__ == "__main__":
    main()

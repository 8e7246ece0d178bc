"""Measure what things cost: `python -m benchmarks [--json FILE]`, or compare two results: `--compare A.json B.json`."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"), help="print B as ratios of A")
    arguments = parser.parse_args()
    if arguments.compare:
        before, after = (json.loads(path.read_text()) for path in arguments.compare)
        print("\n".join(compared(before, after)))
        return
    from rl_clarity.quiet import import_keras

    import_keras()
    from benchmarks import growth, pipeline

    result = {**pipeline.measure(), "processor": platform.processor() or platform.machine()}
    print("\n".join(pipeline.lines(result)), flush=True)
    result["growth"] = growth.measure()
    print("\n".join(growth.lines(result["growth"])))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1, sort_keys=True))


def compared(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Ratios of each stage's seconds, relative to the speed of convolutions in the same run: machines are noisy."""
    speed = after["convolution_gmacs"] / before["convolution_gmacs"]
    rows = [f"convolutions {speed:.2f} x; seconds below are ratios at equal speed of convolutions"]
    for name, stage in after["stages"].items():
        if name in before["stages"]:
            ratio = stage["seconds"] * speed / before["stages"][name]["seconds"]
            rows.append(f"{name:24} {ratio:6.2f} x")
    total = after["default_job"]["seconds"] * speed / before["default_job"]["seconds"]
    return [*rows, f"{'default job':24} {total:6.2f} x"]


if __name__ == "__main__":
    main()

"""Measure what things cost: `python -m benchmarks [--only PART ...] [--json FILE]`, in less than fifteen minutes.

Two results that were kept are compared by `--compare A.json B.json`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.compare import compared
from benchmarks.parts import PARTS, measure_all


def main(arguments: list[str] | None = None) -> None:
    parts = "; ".join(f"{name}: {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"leave out the others. {parts}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"), help="print two results and their ratios")
    given = parser.parse_args(arguments)
    if given.compare:
        before, after = (json.loads(path.read_text()) for path in given.compare)
        print("\n".join(compared(before, after)))
        return
    result = measure_all(given.only or list(PARTS))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()

"""Run benchmarks: `python -m benchmarks [--only PART ...] [--json FILE]`, in less than fifteen minutes.

`--compare A.json B.json` compares two saved results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.compare import compare
from benchmarks.parts import PARTS, measure_all


def main(arguments: list[str] | None = None) -> None:
    parts = "; ".join(f"{name}: {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"run only these parts. {parts}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the result")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"), help="print two results and their ratios")
    options = parser.parse_args(arguments)
    if options.compare:
        before, after = (json.loads(path.read_text()) for path in options.compare)
        print("\n".join(compare(before, after)))
        return
    result = measure_all(options.only or list(PARTS))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()

"""Measure `inspect` of files: prints JSON of [name, CPU seconds, bytes of memory beyond the imports, error] for each.

`python -m tests.formats.measure_inspect FILE...`
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from rl_clarity.base.errors import ClarityError
from rl_clarity.cli.inspection import inspect_checkpoint
from rl_clarity.formats.included import path_of

SPARE = 4 << 30


def status(field: str) -> int:
    """A size in bytes from the kernel's status of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def main(paths: list[str]) -> None:
    inspect_checkpoint(path_of("coinrun"), {})  # imports the framework
    imported = status("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + SPARE,) * 2)
    for path in paths:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        start = time.process_time()
        try:
            error = "accepted: " + inspect_checkpoint(Path(path), {}).text
        except ClarityError as refused:
            error = str(refused)
        except MemoryError:
            error = "MemoryError"
        seconds = time.process_time() - start
        print(json.dumps([path, seconds, status("VmHWM") - imported, error]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

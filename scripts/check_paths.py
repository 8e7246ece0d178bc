"""Fail if a tracked file contains a path of a particular machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOTS = ("home", "opt", "root", "tmp", "Users", "work")
# A path begins after a space, a quote or "file://", unlike the path of a URL. Homebrew's folder is the same everywhere.
MACHINE_PATH = re.compile(rb"(?:file://|(?<![\w./\\})<>*-]))/(?:%b)/(?!homebrew)[\w.-]+" % "|".join(ROOTS).encode())


def tracked_files() -> list[Path]:
    output = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [path for name in output.split("\0") if name and (path := Path(name)).is_file()]


def machine_paths(path: Path) -> list[str]:
    """Return `file:line: path` of each path in a text file."""
    content = path.read_bytes()
    if b"\0" in content:
        return []
    return [
        f"{path}:{number}: {match.group().decode()}"
        for number, line in enumerate(content.splitlines(), start=1)
        for match in MACHINE_PATH.finditer(line)
    ]


def main() -> int:
    lines = [line for path in tracked_files() for line in machine_paths(path)]
    print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

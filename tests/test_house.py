"""How the package hangs together: what an import loads, which room may import which, where the package's files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl_clarity
from rl_clarity import resources

PACKAGE = Path(rl_clarity.__file__).parent
ROOMS = (
    ("errors", "files", "parsing", "progress", "quiet", "resources", "threads"),
    ("options",),
    ("networks",),
    ("agents",),
    ("checkpoints",),
    ("environments",),
    ("recordings",),
    ("reduction",),
    ("visualization",),
    ("jobs",),
    ("pages",),
    ("analyses",),
    ("training",),
    ("models",),
    ("stages",),
    ("pipeline",),
    ("demo", "evaluation", "inspection"),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
HEAVY = ("tensorflow", "keras", "torch", "jax", "sklearn", "scipy", "mpi4py", "procgen", "gym", "gymnasium", "ale_py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of this package, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "rl_clarity":
            names = [f"rl_clarity.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "rl_clarity" and (room := rest.partition(".")[0]) in LEVEL:
                yield node.lineno, room


def test_every_module_is_in_a_room() -> None:
    homeless = {room_of(path) for path in PACKAGE.rglob("*.py")} - set(LEVEL)
    assert not homeless, "ROOMS says who may import whom: enter them there, and in CONTRIBUTING.md"


def test_rooms_import_only_from_rooms_above() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {room}"
        for path in PACKAGE.rglob("*.py")
        for line, room in imported_rooms(path)
        if LEVEL[room] > LEVEL.get(room_of(path), 0)
    ]
    assert not wrong


@pytest.mark.parametrize("statement", ["import rl_clarity", "import svelte3", "import rl_clarity.options"])
def test_import_is_light(statement: str) -> None:
    program = f"import sys; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_files_that_come_with_the_package_are_found() -> None:
    assert (resources.models_directory() / "README.md").is_file()
    assert resources.svelte_source_directory().is_dir()

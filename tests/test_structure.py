"""Structure of the package: light imports, imports between layers, package files."""

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
LAYERS = (
    ("adam", "errors", "files", "keys", "parallel", "parsing", "progress", "quiet", "registry", "resources", "threads"),
    ("jobs",),
    ("agents",),
    ("environments",),
    ("formats",),
    ("recordings",),
    ("sources",),
    ("reduction",),
    ("visualization",),
    ("pages",),
    ("analyses",),
    ("options",),
    ("training",),
    ("world_models",),
    ("models",),
    ("page_builder", "series", "states"),
    ("pipeline",),
    ("ablation", "checking", "comparison", "evaluation", "explaining", "integrations", "playing"),
    ("memory",),
    ("demo",),
    ("viewer",),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
HEAVY = ("tensorflow", "keras", "torch", "jax", "sklearn", "scipy", "mpi4py", "procgen", "gym", "gymnasium", "ale_py")


def layer_member(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_members(path: Path) -> Iterator[tuple[int, str]]:
    """Line and imported member of LAYERS for every import, including those inside functions."""
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
            if package == "rl_clarity" and (part := rest.partition(".")[0]) in LEVEL:
                yield node.lineno, part


def test_every_module_is_in_a_layer() -> None:
    missing = {layer_member(path) for path in PACKAGE.rglob("*.py")} - set(LEVEL)
    assert not missing, "add them to LAYERS, which defines what may import what, and to docs/architecture.md"


def test_imports_go_only_upwards() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {part}"
        for path in PACKAGE.rglob("*.py")
        for line, part in imported_members(path)
        if LEVEL[part] > LEVEL.get(layer_member(path), 0)
    ]
    assert not wrong


@pytest.mark.parametrize("statement", ["import rl_clarity", "import svelte3", "import rl_clarity.options"])
def test_import_is_light(statement: str) -> None:
    program = f"import sys; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_package_files_are_found() -> None:
    assert (resources.models_directory() / "README.md").is_file()
    assert resources.svelte_source_directory().is_dir()

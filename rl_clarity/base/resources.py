"""Locate files that are distributed with the package. They are inside the installed package, or beside it in a working
copy.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PREFIX = "models:"
"""Prefix of the names of included agents, such as `models:coinrun`."""
SAMPLES_FOLDER = "rl-clarity"
"""Folder beside a checkpoint in which samples of the agent are saved."""


def models_directory() -> Path:
    """Return the directory of the included agents."""
    return _directory("_models", "models")


def svelte_source_directory() -> Path:
    """Return the directory of the page's Svelte sources."""
    return _directory("_svelte_src", "svelte_src")


def _directory(installed: str, in_working_copy: str) -> Path:
    candidates = (PACKAGE / installed, PACKAGE.parent / in_working_copy)
    for directory in candidates:
        if directory.is_dir():
            return directory
    raise FileNotFoundError(f"neither {candidates[0]} nor {candidates[1]} exists: reinstall rl-clarity")

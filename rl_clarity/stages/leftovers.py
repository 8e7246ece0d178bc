"""Files that earlier runs left in an output directory: noted before this run begins, removed when its page is whole.

Work that is still good is kept until then, so that a page with other options costs only what those options change; and
what earlier runs did not write is never touched.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Set
from pathlib import Path

from rl_clarity.errors import ClarityError
from rl_clarity.files import UNFINISHED
from rl_clarity.jobs import WorkStore
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.files import Directory, is_name
from rl_clarity.pages.layout import PAGE, SCRIPT
from rl_clarity.pages.manifest import chunk_names, picture_names

NOTE = f"{DIRECTORY}/leftovers.json"


def note_leftovers(directory: Directory) -> None:
    """Note every file of earlier runs, then remove their document: what is left is no page any more."""
    names = _noted(directory) | WorkStore(directory).written() | _files_of_page(directory)
    if names:
        directory.write(NOTE, json.dumps(sorted(names)).encode())
    directory.remove(PAGE)
    if "://" not in directory.location:
        for path in Path(directory.location).rglob(f".*{UNFINISHED}"):
            path.unlink(missing_ok=True)


def remove_leftovers(directory: Directory, kept: Set[str]) -> None:
    """Remove what was noted and is not to be kept."""
    for name in sorted(_noted(directory) - kept):
        if is_name(name):
            directory.remove(name)
            _remove_empty_folders(directory, name)
    directory.remove(NOTE)


def _noted(directory: Directory) -> set[str]:
    try:
        return set(json.loads(directory.read(NOTE)))
    except (OSError, ValueError):
        return set()


def _files_of_page(directory: Directory) -> set[str]:
    try:
        manifest = read_manifest(directory.read(PAGE))
        return {SCRIPT, *chunk_names(manifest), *picture_names(manifest)}
    except (OSError, ClarityError, KeyError, TypeError, AttributeError):  # none, or one that we did not write
        return set()


def _remove_empty_folders(directory: Directory, name: str) -> None:
    if "://" not in directory.location:
        root = Path(directory.location)
        with contextlib.suppress(OSError):
            for folder in (root / name).parents:
                if folder == root:
                    break
                folder.rmdir()

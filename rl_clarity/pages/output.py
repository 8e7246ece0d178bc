"""Care for what is already in an output directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rl_clarity.errors import ClarityError, OutputError
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.files import Directory, open_directory
from rl_clarity.pages.layout import PAGE


def check_output_directory(
    output_dir: str | os.PathLike[str], overwrite: bool = False, page_id: str | None = None
) -> Directory:
    """The output directory, if a page may be written there.

    Raises OutputError where it cannot be written, or where another page (whose id is not `page_id`) lies there,
    finished, and `overwrite` is false. Changes nothing.
    """
    directory = open_directory(output_dir)
    if "://" not in directory.location:
        _check_writable(Path(directory.location))
    if PAGE not in directory.names():
        return directory
    try:
        manifest: dict[str, Any] = read_manifest(directory.read(PAGE))
    except ClarityError:
        manifest = {}
    if (page_id is not None and manifest.get("id") == page_id) or manifest.get("complete") is False:
        return directory
    if not overwrite:
        shown = f" ({manifest['title']})" if manifest.get("title") else ""
        raise OutputError(
            f"{directory.location} already holds a page{shown}: choose another directory, "
            "or replace it with overwrite=True (--force)"
        )
    return directory


def _check_writable(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file, not a directory to write a page into")
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"{existing} cannot be written: choose another output directory, or ask for permission")

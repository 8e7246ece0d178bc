"""Find the checkpoint that a page was made from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rl_clarity import formats
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import CheckpointError, ClarityError
from rl_clarity.base.files import local_path
from rl_clarity.base.resources import models_directory
from rl_clarity.formats.included import fetched
from rl_clarity.pages.results import Results

GROUP = "Checkpoint"
"""The group of a page's provenance that identifies the checkpoint of its agent."""


def open_page_agent(results: Results, checkpoint: str | os.PathLike[str] | None = None) -> Agent:
    """Load the agent of a page.

    Args:
        results: a page of a single agent
        checkpoint: path or URL of the checkpoint, or name of an included agent. By default, the file that the page
            names is searched for among the included agents, in the folder of the page and the two folders above it, and
            in the working directory

    Raises CheckpointError if the file is not found or is not the one that the page was made from, and ClarityError for
    a page that was not made from a checkpoint. Also raises the errors of `load_agent`.
    """
    recorded = _recorded(results)
    name, sha256 = str(recorded["file"]), str(recorded["sha256"])
    metadata = {key: recorded[key] for key in formats.READING if key in recorded}
    if checkpoint is not None:
        with fetched(checkpoint) as path:
            read = formats.read(path, **metadata)
            if read.sha256 != sha256:
                raise CheckpointError(
                    f"{os.fspath(checkpoint)} is not the checkpoint of the page: its SHA-256 is {read.sha256[:16]}..., "
                    f"but that of the page's {name} is {sha256[:16]}...; name the file that the page was made from"
                )
            return formats.build_agent(read)
    for path in _candidates(results, name):
        with suppress(CheckpointError):
            read = formats.read(path, **metadata)
            if read.sha256 == sha256:
                return formats.build_agent(read)
    raise CheckpointError(
        f"the page's checkpoint {name} (SHA-256 {sha256[:16]}...) is not among the included agents, next to the "
        "page, or in the working directory; pass its path with --checkpoint PATH"
    )


def _recorded(results: Results) -> Mapping[str, Any]:
    """Return what a page says about its checkpoint. Raises ClarityError if it says nothing."""
    for group in results.manifest.get("provenance", ()):
        facts = dict(group["items"]) if group["group"] == GROUP else {}
        if {"file", "sha256"} <= facts.keys():
            return {key: _value(text) if key in formats.READING else text for key, text in facts.items()}
    raise ClarityError(
        f"the page {results.location} does not name the checkpoint of a single agent, so there is no network to run. "
        "Serve a page that rl-clarity run wrote"
    )


def _value(text: str) -> Any:
    """Return the value of a fact that is stored as text. Texts that are JSON, such as numbers and lists, are parsed."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _candidates(results: Results, name: str) -> Iterator[Path]:
    if Path(name).name != name:  # a page is not trusted with other folders
        return
    folders = sorted({path.parent for path in models_directory().rglob(name)})
    place = local_path(results.location)
    if place is not None:
        folders += [place, *place.absolute().parents[:2]]
    for folder in dict.fromkeys([*folders, Path.cwd()]):
        if (folder / name).is_file():
            yield folder / name

"""Where a page goes, and whether it is there already."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_clarity.distributed import Communicator, code_version, key_of
from rl_clarity.distributed.store import DIRECTORY
from rl_clarity.errors import ClarityError
from rl_clarity.interface.document import read_manifest
from rl_clarity.interface.files import Directory, open_directory
from rl_clarity.interface.layout import PAGE
from rl_clarity.interface.notebook import Page
from rl_clarity.interface.output import check_output_directory
from rl_clarity.options import InterfaceOptions
from rl_clarity.stages.provenance import options_as_data


@dataclass(frozen=True)
class Output:
    """An output directory, and the page that will be in it."""

    directory: Directory
    data: Directory
    """Where the parts of the page are written: there too, or, if it will be one file, in a working directory."""
    options: InterfaceOptions
    key: str
    """Stands for the agent, its samples and the code."""
    page_id: str
    """Stands for everything that decides the page."""
    finished: bool
    """The page is there, with all its parts."""

    @property
    def single_file(self) -> bool:
        return is_single_file(self.options)

    def page(self) -> Page:
        """What `run` and `generate` return."""
        return Page(Path(self.directory.location) / PAGE)

    def clean(self) -> None:
        """Remove the parts of a page of one file."""
        if self.single_file and "://" not in self.data.location:
            shutil.rmtree(self.data.location, ignore_errors=True)


def open_output(
    output_dir: str | os.PathLike[str], options: InterfaceOptions, made_from: Any, ranks: Communicator
) -> Output:
    """The output directory, if a page of this agent, samples and options may be written there.

    `made_from` (JSON) stands for agent and samples. Raises OutputError where another page is and must not be replaced.
    """
    key = key_of([made_from, code_version()])
    decisive = {k: v for k, v in options_as_data(options).items() if k != "overwrite"}
    page_id = key_of([key, decisive])
    location = os.fspath(output_dir)
    if ranks.rank == 0:
        check_output_directory(location, options.overwrite, page_id)
    ranks.barrier()
    directory = open_directory(location)
    data = open_directory(f"{location}/{DIRECTORY}/data") if is_single_file(options) else directory
    finished = ranks.broadcast(_is_finished(directory, page_id) if ranks.rank == 0 else None)
    return Output(directory, data, options, key, page_id, finished)


def is_single_file(options: InterfaceOptions) -> bool:
    """Whether all goes into one html file; the original called it `inline_large_json`."""
    return options.single_file or bool(options.inline_large_json)


def _is_finished(directory: Directory, page_id: str) -> bool:
    try:
        manifest = read_manifest(directory.read(PAGE))
    except (OSError, ClarityError):
        return False
    return manifest.get("id") == page_id and bool(manifest.get("complete"))

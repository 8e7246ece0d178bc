"""Where a page goes, and whether it is there already."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_clarity.errors import ClarityError
from rl_clarity.jobs import Communicator, WorkStore
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.keys import code_version, key_of
from rl_clarity.options import InterfaceOptions
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.files import Directory, open_directory
from rl_clarity.pages.layout import PAGE, SCRIPT
from rl_clarity.pages.manifest import Manifest, chunk_names, picture_names
from rl_clarity.pages.notebook import Page
from rl_clarity.pages.output import check_output_directory
from rl_clarity.pages.page import write_page
from rl_clarity.stages.leftovers import note_leftovers, remove_leftovers
from rl_clarity.stages.plan import groups_of
from rl_clarity.stages.provenance import options_as_data

PARTS = f"{DIRECTORY}/data"
"""Where the parts of a page of one file are, until it is written."""


@dataclass(frozen=True)
class Output:
    """An output directory, and the page that will be in it."""

    directory: Directory
    data: Directory
    """Where the parts of the page are written: there too, or, if it will be one file, in a working directory."""
    options: InterfaceOptions
    key: str
    """Stands for the agent, its samples and the code."""
    finished: bool
    """The page is there, with all its parts."""

    def page_id(self, combos: Sequence[Sequence[str]]) -> str:
        """Stands for everything that decides the page of an agent whose actions press these buttons."""
        return _page_id(self.key, self.options, combos)

    def begin(self) -> None:
        """Take another page, and what is left of unfinished ones, for leftovers."""
        note_leftovers(self.directory)

    def write(self, manifest: Manifest, tasks: Iterable[str]) -> None:
        """Write the page's document, when all else that belongs to it is there; remove all that does not."""
        page, options = manifest.to_dict(), self.options
        single_file = is_single_file(options)
        kept: set[str] = set() if options.inline_js or single_file else {SCRIPT}
        if not single_file:
            kept |= {*chunk_names(page), *picture_names(page), *WorkStore(self.data).written(tasks)}
        remove_leftovers(self.directory, kept)
        write_page(self.directory, page, inline_js=options.inline_js, single_file=single_file, data=self.data)

    def write_unfinished(self, page: Mapping[str, Any], there: Set[str]) -> None:
        """Write the document of a page some of whose files are there; of one file, with these inside."""
        options = self.options
        write_page(
            self.directory,
            page,
            inline_js=options.inline_js,
            single_file=is_single_file(options),
            data=self.data,
            there=there,
        )

    def page(self) -> Page:
        """What `run` and `generate` return."""
        return _page_in(self.directory)

    def remove_parts(self) -> None:
        """Remove the parts of a page of one file, which are inside it now."""
        if "://" not in self.directory.location:
            shutil.rmtree(Path(self.directory.location) / PARTS, ignore_errors=True)
            return
        for name in self.directory.names():
            if name.startswith(f"{PARTS}/"):
                self.directory.remove(name)


def open_output(
    output_dir: str | os.PathLike[str], options: InterfaceOptions, made_from: Any, ranks: Communicator
) -> Output:
    """The output directory, if a page of this agent, samples and options may be written there.

    `made_from` (JSON) stands for agent and samples. Raises OutputError where another page is and must not be replaced.
    """
    key = key_of([made_from, code_version()])
    location = os.fspath(output_dir)
    directory = open_directory(location)
    finished = None
    if ranks.rank == 0:
        there = _manifest(directory)
        page_id = _id_of(there, key, options)
        check_output_directory(location, options.overwrite, page_id)
        finished = there.get("id") == page_id and _is_whole(directory, there, is_single_file(options))
    data = open_directory(f"{location}/{PARTS}") if is_single_file(options) else directory
    return Output(directory, data, options, key, bool(ranks.broadcast(finished)))


def finished_page(
    output_dir: str | os.PathLike[str], options: InterfaceOptions, made_from: Callable[[int], Any], ranks: Communicator
) -> Page | None:
    """The page that is there, if nothing is left to do; `made_from` is told how many actions that page's agent has."""
    found = False
    directory = open_directory(os.fspath(output_dir))
    if ranks.rank == 0:
        there = _manifest(directory)
        if there.get("complete"):
            key = key_of([made_from(int(there["agent"]["num_actions"])), code_version()])
            same = there.get("id") == _id_of(there, key, options)
            found = same and _is_whole(directory, there, is_single_file(options))
    return _page_in(directory) if ranks.broadcast(found) else None


def _id_of(there: Mapping[str, Any], key: str, options: InterfaceOptions) -> str:
    return _page_id(key, options, [action["combo"] for action in there.get("actions", [])])


def _page_in(directory: Directory) -> Page:
    location = directory.location
    return Page(f"{location}/{PAGE}" if "://" in location else Path(location) / PAGE)


def is_single_file(options: InterfaceOptions) -> bool:
    """Whether all goes into one html file; the original called it `inline_large_json`."""
    return options.single_file or bool(options.inline_large_json)


def _page_id(key: str, options: InterfaceOptions, combos: Sequence[Sequence[str]]) -> str:
    decisive = {name: value for name, value in options_as_data(options).items() if name != "overwrite"}
    # Predicates have no value of their own: they are what they choose.
    groups = None if options.action_group_fns is None else groups_of(combos, options.action_group_fns)
    return key_of([key, decisive, groups])


def _is_whole(directory: Directory, manifest: Mapping[str, Any], single_file: bool) -> bool:
    parts = () if single_file else (*chunk_names(manifest), *picture_names(manifest))
    return bool(manifest.get("complete")) and directory.names() >= set(parts)


def _manifest(directory: Directory) -> dict[str, Any]:
    """Of the page that is there; empty where there is none."""
    try:
        return read_manifest(directory.read(PAGE))
    except (OSError, ClarityError):
        return {}

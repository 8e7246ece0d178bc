"""The output directory of a page: check whether it may be written, find finished work, and remove obsolete files.

Files of earlier runs are listed before a run begins. When its page is complete, those that do not belong to it are
removed. Until then, work that is still valid is reused, so that after a change of options only the affected work is
repeated. Files that no run wrote are never removed, and only replaced with `overwrite` (see `jobs.ownership`).
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rl_clarity.base.errors import ClarityError, OutputError
from rl_clarity.base.keys import JsonObject, as_json, cache_key, code_version
from rl_clarity.base.parsing import check_minimum, check_option, hidden
from rl_clarity.jobs.communicator import Communicator
from rl_clarity.jobs.directory import Checksum, Directory, is_name, open_directory, remove_empty_folders
from rl_clarity.jobs.job import RUN_LOG
from rl_clarity.jobs.ownership import check_foreign, claim, release
from rl_clarity.jobs.store import DIRECTORY, WorkStore
from rl_clarity.jobs.tasks import Results, Task
from rl_clarity.pages.document import FILES, PAGE, SCRIPT, is_intact, read_checksums, read_manifest, write_page
from rl_clarity.pages.files import PageFiles, path_in
from rl_clarity.pages.manifest import Manifest
from rl_clarity.pages.results import Page

PARTS = f"{DIRECTORY}/data"
"""Folder that contains the files of a single-file page until the page is written."""
LEFTOVERS = f"{DIRECTORY}/leftovers.json"
MAX_PRECISION = 17
SECONDS_BETWEEN_UPDATES = 5.0
"""Minimum time between two updates of an unfinished page."""
UPDATE_RATIO = 20
"""Minimum ratio of the time between two updates to the duration of an update, which is long for large pages."""


Decisive = Callable[[Sequence[Sequence[str]]], object]
"""A function of the buttons of each action. It returns everything that determines a page, except for the agent and
the samples, as JSON."""


@dataclass(frozen=True)
class OutputOptions:
    """Options for writing a page."""

    inline_js: bool = True
    """Put the script into the page instead of beside it."""
    single_file: bool = False
    """Put everything into one HTML file."""
    overwrite: bool = False
    """Replace an existing page in the output directory, and other files that have the names of the page's files. Files
    of earlier runs are only reused if their contents match their checksums."""
    numpy_precision: int = hidden(6)
    """Number of significant figures of numbers in the page."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "numpy_precision")
        valid = self.numpy_precision <= MAX_PRECISION
        check_option(self, "numpy_precision", valid, f"must be at most {MAX_PRECISION}")


@dataclass(frozen=True)
class PageOutput:
    """An output directory, and the page to write there."""

    directory: Directory
    data: Directory
    """Directory of chunks and images: the same directory or, for a single-file page, a working directory in it."""
    options: OutputOptions
    key: str
    """Hash of agent, samples and code."""
    decisive: Decisive
    writes: Sequence[str]
    """Patterns of the names of files that may be written to the directory."""
    files: PageFiles
    """Chunks and images, in `data`."""
    finished: bool
    """Whether the page already exists with all its files."""
    damaged: Set[str] = frozenset()
    """Files of finished tasks whose contents have changed. They are determined only on rank 0 with `overwrite`."""

    def page_id(self, combos: Sequence[Sequence[str]]) -> str:
        """Return the hash of everything that determines the page. `combos` are the buttons that each action presses."""
        return cache_key([self.key, self.decisive(combos)])

    @property
    def store(self) -> WorkStore:
        """Store of finished work. It contains damaged files until `begin` removes them."""
        return WorkStore(self.data)

    @property
    def reusable(self) -> WorkStore:
        """Store of finished work as it will be after `begin`."""
        return WorkStore(self.data, self.damaged)

    def page(self) -> Page:
        """Return the `Page` for the directory, which `run` and `generate` return, too."""
        return _page(self.directory)

    def begin(self, page_id: str) -> None:
        """List all files of earlier runs, and remove damaged files and the document, which is out of date.

        Raises OutputError if another run has finished a different page since the directory was opened.
        """
        directory = self.directory
        check_output_directory(directory, self.options.overwrite, page_id, self.writes)
        names = _own_names(directory) - {PAGE, RUN_LOG}
        claim(directory, self.writes)
        if names:
            directory.write(LEFTOVERS, json.dumps(sorted(names)).encode())
        directory.remove(PAGE)
        for name in self.damaged:
            self.data.remove(name)

    def write(self, manifest: Manifest, tasks: Iterable[str]) -> None:
        """Write the document of the finished page, and remove files of earlier runs that do not belong to it.

        All other files must have been written before. `tasks` are the names of the page's tasks.
        """
        options, directory = self.options, self.directory
        files = {} if options.single_file else self.store.written(tasks)
        kept = {*files, FILES} if files else set()
        if not (options.inline_js or options.single_file):
            kept.add(SCRIPT)
        for name in sorted(_read_names(directory, LEFTOVERS) - kept):
            if is_name(name):
                directory.remove(name)
                remove_empty_folders(directory, name)
        directory.remove(LEFTOVERS)
        release(directory)
        self._write(manifest)
        if SCRIPT in kept:
            files[SCRIPT] = directory.checksum(SCRIPT)
        if files:
            directory.write(FILES, as_json(files).encode())
        if options.single_file:
            self._remove_parts()

    def updater(self, manifest: Callable[[Results], Manifest], tasks: Sequence[Task]) -> Callable[[], None]:
        """Return a function that writes the unfinished page from finished tasks, unless the last update was recent."""
        store, due = self.store, 0.0

        def update() -> None:
            nonlocal due
            start = time.perf_counter()
            if start < due:
                return
            store.refresh()
            finished = {task.name: store.finished(task.name, task.key) for task in tasks}
            results = {name: facts for name, facts in finished.items() if facts is not None}
            self._write(manifest(results), set(store.written(results)))
            now = time.perf_counter()
            due = now + max(SECONDS_BETWEEN_UPDATES, UPDATE_RATIO * (now - start))

        return update

    def _write(self, manifest: Manifest, present: set[str] | None = None) -> None:
        options = self.options
        write_page(
            self.directory,
            manifest,
            inline_js=options.inline_js,
            single_file=options.single_file,
            data=self.data,
            present=present,
        )

    def _remove_parts(self) -> None:
        if "://" not in self.directory.location:
            shutil.rmtree(Path(self.directory.location) / PARTS, ignore_errors=True)
            return
        for name in self.directory.names():
            if name.startswith(f"{PARTS}/"):
                self.directory.remove(name)


def open_output(
    output_dir: str | os.PathLike[str],
    options: OutputOptions,
    made_from: object,
    decisive: Decisive,
    folders: Iterable[str],
    ranks: Communicator,
) -> PageOutput:
    """Return the output directory if the page may be written there. All ranks call it together.

    `made_from` (JSON) identifies agent and samples. `folders` are the folders of the page's files. Raises OutputError
    if the directory cannot be written, or contains another page or other files that must not be replaced.
    """
    if not os.fspath(output_dir):
        raise OutputError("the name of the output directory is empty: give a directory, such as '.'")
    directory = open_directory(os.fspath(output_dir))
    key = cache_key([made_from, code_version()])
    data = open_directory(f"{directory.location}/{PARTS}") if options.single_file else directory
    files = PageFiles(data, writable=[path_in(folder, "*") for folder in folders])
    writes = [PAGE, RUN_LOG]
    if not options.single_file:
        writes += [*files.writable, *([] if options.inline_js else [SCRIPT])]
    finished, damaged = False, set[str]()
    if ranks.rank == 0:
        page_id = cache_key([key, decisive(_combos(directory))])
        finished = _is_finished(directory, page_id, options)
        if not finished:
            check_output_directory(directory, options.overwrite, page_id, writes)
            if options.overwrite:
                damaged = WorkStore(data).damaged()
    return PageOutput(directory, data, options, key, decisive, writes, files, ranks.broadcast(finished), damaged)


def finished_page(
    output_dir: str | os.PathLike[str],
    options: OutputOptions,
    made_from: Callable[[int], object],
    decisive: Decisive,
    ranks: Communicator,
) -> Page | None:
    """Return the existing page if it is finished, otherwise None.

    `made_from` is a function that maps the page's number of actions to the argument `made_from` of `open_output`.
    """
    directory, finished = open_directory(os.fspath(output_dir)), False
    if ranks.rank == 0:
        combos = _combos(directory)
        if combos:
            key = cache_key([made_from(len(combos)), code_version()])
            finished = _is_finished(directory, cache_key([key, decisive(combos)]), options)
    return _page(directory) if ranks.broadcast(finished) else None


def check_output_directory(
    directory: Directory, overwrite: bool = False, page_id: str | None = None, writes: Sequence[str] = ()
) -> None:
    """Raise OutputError if a page cannot or must not be written into a directory.

    Without `overwrite`, a page must not be written if there is a finished page with another id, or if files that no run
    wrote match the patterns `writes`. Nothing in the directory is changed.
    """
    if "://" not in directory.location:
        _check_writable(Path(directory.location))
    _check_page(directory, overwrite, page_id)
    check_foreign(directory, writes, partial(_own_names, directory), overwrite)


def _check_page(directory: Directory, overwrite: bool, page_id: str | None) -> None:
    if overwrite or PAGE not in directory.names():
        return
    manifest = _manifest(directory)
    if manifest.get("complete") is False or (page_id is not None and manifest.get("id") == page_id):
        return
    title = f" ({manifest['title']})" if manifest.get("title") else "" if manifest else " that cannot be read"
    raise OutputError(
        f"{directory.location} already holds a page{title}: choose another directory, or replace the page with "
        "overwrite=True (--force)"
    )


def _is_finished(directory: Directory, page_id: str, options: OutputOptions) -> bool:
    """Return whether the page is complete. Files are compared by size or, with `overwrite`, by content."""
    try:
        document = directory.read(PAGE)
        manifest = read_manifest(document)
    except (OSError, ClarityError):
        return False
    if not manifest.get("complete") or manifest.get("id") != page_id or not is_intact(document):
        return False
    if options.single_file:
        return True
    files, sizes = read_checksums(directory), directory.sizes()
    if not files or any(sizes.get(name) != checksum.size for name, checksum in files.items()):
        return False
    return not options.overwrite or all(Checksum.of(directory.read(name)) == files[name] for name in sorted(files))


def _page(directory: Directory) -> Page:
    location = directory.location
    return Page(f"{location}/{PAGE}" if "://" in location else Path(location) / PAGE)


def _check_writable(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file; choose a directory for the page")
    if path.is_symlink() and not path.exists():
        raise OutputError(f"{path} is a link to {path.readlink()}, which does not exist; create it, or remove the link")
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"{existing} is not writable: choose another output directory, or change its permissions")


def _manifest(directory: Directory) -> JsonObject:
    """Return the manifest of the existing page, or an empty dict."""
    try:
        return read_manifest(directory.read(PAGE))
    except (OSError, ClarityError):
        return {}


def _combos(directory: Directory) -> list[list[str]]:
    """Return the buttons of each action of the existing page, or an empty list."""
    try:
        return [list(map(str, action["combo"])) for action in _manifest(directory)["agents"][0]["actions"]]
    except (KeyError, IndexError, TypeError):
        return []


def _own_names(directory: Directory) -> set[str]:
    """Return the names of the files that earlier runs have written and finished."""
    names = {*_read_names(directory, LEFTOVERS), *read_checksums(directory), *WorkStore(directory).written()}
    if names or _manifest(directory):
        names |= {PAGE, SCRIPT, FILES, RUN_LOG}
    return names


def _read_names(directory: Directory, list_name: str) -> set[str]:
    try:
        return {str(name) for name in json.loads(directory.read(list_name))}
    except (OSError, ValueError, TypeError):
        return set()

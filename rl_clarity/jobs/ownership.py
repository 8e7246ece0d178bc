"""Which files of an output directory the program wrote: others are never replaced.

Finished work lists its files (see `store`). A job that is about to write claims, as patterns, the names that it may
write, so that its files are known to be its own wherever it is stopped. Before that, whatever else has such a name is
refused. Files in `.rl-clarity/` are always the program's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Set
from fnmatch import fnmatchcase
from pathlib import Path

from rl_clarity.base.errors import OutputError
from rl_clarity.base.files import UNFINISHED, final_path
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.store import DIRECTORY

CLAIMS = f"{DIRECTORY}/claims.json"
"""Patterns of the names that an unfinished job may have written."""
MOST_LISTED = 5
"""Files that an error lists by name."""


def check_foreign(
    directory: Directory, patterns: Iterable[str], own: Callable[[], Set[str]], overwrite: bool | None = None
) -> None:
    """Raise OutputError for files that the program did not write where it is about to write, and for links there.

    Args:
        directory: the output directory; nothing in it is changed
        patterns: shell-style patterns of the names that may be written
        own: names of the files that finished work lists; called if there are files with such names
        overwrite: whether other files may be replaced; None where the caller has no such option. Links are refused
            even then.
    """
    patterns = [*patterns]
    check_links(directory, patterns)
    if overwrite:
        return
    names = {name for name in directory.names() if not name.startswith(f"{DIRECTORY}/") and matches(name, patterns)}
    foreign = sorted(name for name in names - own() if not matches(name, _claimed(directory))) if names else []
    if foreign:
        force = ", or replace them with overwrite=True (--force)" if overwrite is not None else ""
        raise OutputError(
            f"{directory.location} contains files that rl-clarity did not write, in the place of its own: "
            f"{_listed(foreign)}; move them elsewhere, choose another directory{force}"
        )


def check_links(directory: Directory, patterns: Iterable[str]) -> None:
    """Raise OutputError for symbolic links that names which match the patterns are or lead through."""
    patterns = [*patterns, f"{DIRECTORY}/*"]
    links = [link for link in sorted(directory.links()) if any(_reaches(pattern, link) for pattern in patterns)]
    if links:
        raise OutputError(
            f"{directory.location} contains links, through which nothing is written: {_listed(links)}; remove them, or "
            "choose another directory"
        )


def claim(directory: Directory, patterns: Iterable[str]) -> None:
    """Claim names that match the patterns, in addition to those that are claimed already.

    Remove the unfinished files that a killed process left under such names; the directory must be locked.
    """
    before = _claimed(directory)
    claims = sorted({*before, *patterns})
    if claims != before:
        directory.write(CLAIMS, json.dumps(claims).encode())
    if "://" not in directory.location:
        root = Path(directory.location)
        for path in root.rglob(f".*{UNFINISHED}"):
            if matches(final_path(path).relative_to(root).as_posix(), [*claims, f"{DIRECTORY}/*"]):
                path.unlink(missing_ok=True)


def release(directory: Directory) -> None:
    """Give up all claims: what was written is listed as finished."""
    directory.remove(CLAIMS)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches any of the patterns, whose `*` also matches `/`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _reaches(pattern: str, link: str) -> bool:
    """Return whether a name that matches the pattern may be the link or below it."""
    return fnmatchcase(link, pattern) or pattern.startswith(f"{link}/")


def _claimed(directory: Directory) -> list[str]:
    try:
        return sorted(map(str, json.loads(directory.read(CLAIMS))))
    except (OSError, ValueError, TypeError):
        return []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more

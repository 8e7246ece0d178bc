"""Find out which files of an output directory were written by rl-clarity, because other files are replaced only if the
user asks for it.

The entry of a finished task lists its files (see `store`). Before a job writes files, it claims their names with
patterns, so that its files are recognized even if it is stopped. If another file has such a name, the job fails before
it claims the names. Files in `.rl-clarity/` always belong to rl-clarity.
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
"""Name of the file with patterns of the names that an unfinished job may have written."""
MOST_LISTED = 5
"""Number of files that an error lists by name."""


def check_foreign(
    directory: Directory, patterns: Iterable[str], own: Callable[[], Set[str]], overwrite: bool | None = None
) -> None:
    """Raise OutputError if the output directory contains links, or files that rl-clarity did not write, under names
    that rl-clarity is about to write.

    Args:
        directory: the output directory; nothing in it is changed
        patterns: shell-style patterns of the names that may be written
        own: a function that returns the names of the files that entries of finished tasks list; it is called only if
            there are files whose names match the patterns
        overwrite: whether files that rl-clarity did not write may be replaced; None if the caller has no such option.
            Links are never allowed.
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
            f"{directory.location} contains files that rl-clarity did not write, but whose names it needs: "
            f"{_listed(foreign)}; move them elsewhere or choose another directory{force}"
        )


def check_links(directory: Directory, patterns: Iterable[str]) -> None:
    """Raise OutputError if files whose names match the patterns are, or would be written through, symbolic links."""
    patterns = [*patterns, f"{DIRECTORY}/*"]
    links = [link for link in sorted(directory.links()) if any(_reaches(pattern, link) for pattern in patterns)]
    if links:
        raise OutputError(
            f"{directory.location} contains links, and files are not written through links: {_listed(links)}; remove "
            "them, or choose another directory"
        )


def claim(directory: Directory, patterns: Iterable[str]) -> None:
    """Claim the names that match the patterns, in addition to earlier claims.

    Unfinished files that a killed process left under these names are removed, so the directory must be locked.
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
    """Release all claims. Call this once all files of the job are listed in the entries of finished tasks."""
    directory.remove(CLAIMS)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches any of the shell-style patterns. A `*` also matches `/`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _reaches(pattern: str, link: str) -> bool:
    """Return whether a name that matches the pattern may be the name of the link, or of a file below the link."""
    return fnmatchcase(link, pattern) or pattern.startswith(f"{link}/")


def _claimed(directory: Directory) -> list[str]:
    try:
        return sorted(map(str, json.loads(directory.read(CLAIMS))))
    except (OSError, ValueError, TypeError):
        return []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more

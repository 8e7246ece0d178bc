"""Find out which files of an output directory the program wrote, because others are never replaced.

Finished work lists its files (see `store`). A job that is about to write claims, as patterns, the names that it may
write, so that its files are recognized wherever it is stopped. Before that, any other file with such a name is refused.
Files in `.rl-clarity/` always belong to the program.
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
    """Raise OutputError if there are files that the program did not write, or links, where it is about to write.

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
    """Raise OutputError for symbolic links in paths that match the patterns."""
    patterns = [*patterns, f"{DIRECTORY}/*"]
    links = [link for link in sorted(directory.links()) if any(_reaches(pattern, link) for pattern in patterns)]
    if links:
        raise OutputError(
            f"{directory.location} contains links, through which nothing is written: {_listed(links)}; remove them, or "
            "choose another directory"
        )


def claim(directory: Directory, patterns: Iterable[str]) -> None:
    """Claim the names that match the patterns, in addition to earlier claims.

    The unfinished files that a killed process left under such names are removed, so the directory must be locked.
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
    """Release all claims, because the files are listed by finished work."""
    directory.remove(CLAIMS)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches any of the patterns, whose `*` also matches `/`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _reaches(pattern: str, link: str) -> bool:
    """Return whether a name that matches the pattern may be the link or lie below it."""
    return fnmatchcase(link, pattern) or pattern.startswith(f"{link}/")


def _claimed(directory: Directory) -> list[str]:
    try:
        return sorted(map(str, json.loads(directory.read(CLAIMS))))
    except (OSError, ValueError, TypeError):
        return []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more

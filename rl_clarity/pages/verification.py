"""Verify that the files of a page are complete and unchanged."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rl_clarity.base.errors import ClarityError
from rl_clarity.base.progress import progress_bar
from rl_clarity.jobs.directory import Checksum
from rl_clarity.jobs.job import RUN_LOG
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.pages.chunks import decode_chunk, parse_embedded, parse_script
from rl_clarity.pages.document import (
    FILES,
    SCRIPT,
    embedded_files,
    is_intact,
    read_checksums,
    read_manifest,
)  # fmt: skip
from rl_clarity.pages.images import PNG_END, decode_png
from rl_clarity.pages.results import locate, read_document


@dataclass(frozen=True)
class Verification:
    """The files of a page that are missing, damaged, changed or extra."""

    files: int
    """Number of files of the page."""
    missing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """Files that cannot be decoded, because they are empty, truncated or corrupted."""
    changed: list[str] = field(default_factory=list)
    """Files that can be decoded, but whose content has changed since they were written."""
    extra: list[str] = field(default_factory=list)
    """Files that are not part of the page."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the type of each problem, such as `missing`, and the name of the file."""
        for kind in ("missing", "damaged", "changed", "extra"):
            for name in getattr(self, kind):
                yield kind, name


def verify(page: str | os.PathLike[str]) -> Verification:
    """Read all files of a page, and compare them with their recorded checksums.

    Args:
        page: the page's directory or address, or its `interface.html`

    Raises ClarityError if there is no page, if its format version is unknown, or if it is not finished.
    """
    directory, document_name = locate(page)
    document = read_document(directory, document_name)
    manifest = read_manifest(document)
    recorded = read_checksums(directory, document)
    if not recorded or not manifest.get("complete"):
        reason = f"{FILES}, which lists its files, is missing" if manifest.get("complete") else "it is not finished"
        raise ClarityError(
            f"the page in {directory.location} cannot be verified: {reason}; repeat the rl-clarity run that created it"
        )
    embedded = embedded_files(document)
    read: Callable[[str], bytes]
    if embedded:
        contents = {name: _decoded(kind, name, text) for (kind, name), text in embedded.items()}
        read, names = contents.__getitem__, set(contents)
    else:
        read = directory.read
        names = {name for name in directory.names() if name != RUN_LOG and not name.startswith(f"{DIRECTORY}/")}
    result = Verification(len(recorded) + 1, extra=sorted(names - {*recorded, document_name}))
    if not is_intact(document):
        (result.changed if document.rstrip().endswith(b"-->") else result.damaged).append(document_name)
    with progress_bar("Verifying") as report:
        for index, (name, checksum) in enumerate(sorted(recorded.items())):
            try:
                content = read(name)
            except (FileNotFoundError, NotADirectoryError, KeyError):
                result.missing.append(name)
            else:
                if Checksum.of(content) != checksum:
                    (result.changed if _is_readable(name, content) else result.damaged).append(name)
            report((index + 1) / len(recorded))
    return result


def _decoded(kind: str, name: str, text: str) -> bytes:
    """Return the content of a file that a single-file page embeds, or b"" if it cannot be decoded."""
    try:
        return parse_embedded(name, text).script() if kind == "chunk" else base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _is_readable(name: str, content: bytes) -> bool:
    try:
        if name.endswith(".png"):
            decode_png(name, content)  # also reads images without their end
            return content.endswith(PNG_END)
        elif name.endswith(".js") and name != SCRIPT:
            decode_chunk(parse_script(content))
    except ClarityError:
        return False
    return bool(content)

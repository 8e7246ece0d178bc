"""The names of a page's files, and the functions that analyses use to write them.

File names have their own types, so that they can be found in any section's data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rl_clarity.base.errors import OptionError, OutputError
from rl_clarity.jobs.directory import Directory, is_name
from rl_clarity.jobs.ownership import matches
from rl_clarity.pages.chunks import Chunk, decode_chunk, encode_chunk, parse_script
from rl_clarity.pages.images import encode_png

SEGMENT = 64
"""Number of steps of a trajectory whose frames or values are stored in one chunk."""


class ChunkName(str):
    """Name of a chunk file."""


class ImageName(str):
    """Name of an image file that the page shows."""


class ExtraImageName(ImageName):
    """Name of an image file that the page does not show, and that a single-file page does not contain."""


@dataclass(frozen=True)
class PageFiles:
    """The directory of a page. Each file is written atomically, so that work can be divided and resumed."""

    directory: Directory
    folder: str = ""
    """Subdirectory of the files. Arguments `name` of the methods below are relative to it."""
    writable: Sequence[str] = ("*",)
    """Patterns of the names, including the subdirectory, that may be written. It has already been checked that no
    files of other programs match them."""

    def write_chunk(
        self, name: str, arrays: Mapping[str, np.ndarray | bytes], meta: Mapping[str, object] | None = None
    ) -> None:
        """Write arrays as the chunk `name`."""
        self.write(encode_chunk(name, arrays, meta))

    def write(self, chunk: Chunk) -> None:
        """Write an encoded chunk."""
        name = path_in(self.folder, chunk.name)
        self._write(name, replace(chunk, name=name).script())

    def read_chunk(self, name: str) -> dict[str, np.ndarray]:
        """Return the arrays of the chunk `name`."""
        return decode_chunk(parse_script(self.directory.read(path_in(self.folder, name)), name))

    def write_file(self, name: str, data: bytes) -> None:
        """Write bytes to a file that is not a chunk, such as a report."""
        self._write(path_in(self.folder, name), data)

    def read_file(self, name: str) -> bytes:
        """Return the content of a file that `write_file` wrote."""
        return self.directory.read(path_in(self.folder, name))

    def write_image(self, name: str, image: np.ndarray) -> None:
        """Write an image (H, W, 1 | 3 | 4) uint8 as a PNG file."""
        self._write(path_in(self.folder, name), encode_png(image))

    def _write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        if not matches(name, self.writable):
            raise OutputError(
                f"an analysis tried to write {name}, which is outside the page's folders ({', '.join(self.writable)}): "
                "override Analysis.folders"
            )
        self.directory.write(name, data)


def segments(steps: int, length: int = SEGMENT) -> list[range]:
    """Return consecutive ranges of steps of at most `length`."""
    return [range(start, min(steps, start + length)) for start in range(0, steps, length)]


def path_in(subdirectory: str, name: str) -> str:
    """Return the name of a file in a subdirectory of the page. `""` and `/` stand for the page's directory itself."""
    subdirectory = subdirectory.strip("/")
    return f"{subdirectory}/{name}" if subdirectory else name


def check_subdirectories(options: object) -> None:
    """Raise OptionError if an option `*_subdir` is a folder outside the page's directory, or one that needs quoting."""
    for name in vars(options):
        if name.endswith("_subdir"):
            value = getattr(options, name)
            if value.strip("/") and not is_name(value.strip("/")):
                raise OptionError(f"{name}={value!r} must be a folder of the page, made of letters, digits and . _ / -")


def slugs(names: Sequence[str]) -> list[str]:
    """Convert names to names that file systems and URLs accept, and that differ even if case is ignored."""
    taken: set[str] = set()
    chosen = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "layer"
        slug, count = base, 1
        while slug.lower() in taken:
            count += 1
            slug = f"{base}-{count}"
        taken.add(slug.lower())
        chosen.append(slug)
    return chosen


def number_text(number: float) -> str:
    """Format a density or zoom for file names, such as 0.25, 1 or 2."""
    return f"{number:g}"

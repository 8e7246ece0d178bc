"""A page's directory and layout together: what everything that writes a part of a page is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl_clarity.pages.chunks import Chunk, encode_chunk
from rl_clarity.pages.files import Directory
from rl_clarity.pages.layout import Layout
from rl_clarity.pages.pictures import encode_png


@dataclass(frozen=True)
class PageFiles:
    """Where parts of a page go; each part is one file, written as a whole, so that work can be cut and resumed."""

    directory: Directory
    layout: Layout = field(default_factory=Layout)

    def write_chunk(
        self, name: str, arrays: Mapping[str, np.ndarray | bytes], meta: Mapping[str, Any] | None = None
    ) -> None:
        """Write arrays as the chunk of that name."""
        self.write(encode_chunk(name, arrays, meta))

    def write(self, chunk: Chunk) -> None:
        """Write a chunk that is packed already, as the file of its name."""
        self.directory.write(chunk.name, chunk.script())

    def write_picture(self, name: str, picture: np.ndarray) -> None:
        """Write a picture (H, W, 1 | 3 | 4) uint8 as the PNG file of that name."""
        self.directory.write(name, encode_png(picture))

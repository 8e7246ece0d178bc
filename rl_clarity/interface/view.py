"""A finished page, as `run` and `generate` return it."""

from __future__ import annotations

import html
import webbrowser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_clarity.interface.layout import PAGE


@dataclass(frozen=True)
class Page:
    """Where a page lies; in a notebook it shows itself."""

    directory: Path
    summary: dict[str, Any] = field(default_factory=dict)
    """What was made: `id`, `title`, `layers`, `trajectories`, `steps`, `outputs`, `tasks`, `bytes`."""

    @property
    def path(self) -> Path:
        """The document to open."""
        return self.directory / PAGE

    def open(self) -> bool:
        """Open the page in the user's browser; returns whether one was found."""
        return webbrowser.open(self.path.absolute().as_uri())

    def _repr_html_(self) -> str:
        try:
            source = self.path.absolute().relative_to(Path.cwd()).as_posix()
        except ValueError:
            source = self.path.absolute().as_uri()
        shown = html.escape(source, quote=True)
        return (
            f'<iframe src="{shown}" width="100%" height="900" style="border: 1px solid #8884"></iframe>'
            f'<p><a href="{shown}" target="_blank">Open the page</a></p>'
        )

"""What `run` and `generate` return: the page, to open, to show in a notebook, to read arrays from."""

from __future__ import annotations

import html
import os
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from rl_clarity.pages.results import Results, open_results


@dataclass(frozen=True)
class Page:
    """A finished page; in a notebook its value shows the page."""

    path: Path | str
    """The page's `interface.html`; text if it is an address such as `s3://bucket/page/interface.html`."""

    def open(self) -> None:
        """Open the page in the browser."""
        webbrowser.open(self.path if isinstance(self.path, str) else self.path.absolute().as_uri())

    def results(self) -> Results:
        """The page's arrays."""
        return open_results(self.path)

    def _repr_html_(self) -> str:
        # A notebook serves files below its own directory by their relative path; others it cannot show.
        address = self.path if isinstance(self.path, str) else Path(os.path.relpath(self.path)).as_posix()
        source = html.escape(address)
        return (
            f'<iframe src="{source}" width="100%" height="800" style="border: 0" title="rl-clarity"></iframe>'
            f'<p><a href="{source}" target="_blank">open the page by itself</a></p>'
        )

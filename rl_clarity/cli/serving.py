"""Commands that show recordings and pages from a server on this machine."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import tyro

from rl_clarity.base.errors import OptionError
from rl_clarity.cli.command import Command, Result
from rl_clarity.cli.option_types import Switch


@dataclass(frozen=True, kw_only=True)
class Serving(Command):
    """Options of commands that serve."""

    host: str = "127.0.0.1"
    """Name or address to listen on. If other machines can reach it, a random token is part of the page's address."""
    port: int = 6007
    """Port to listen on; 0 for a free one."""
    checkpoint: str | None = None
    """Checkpoint of a page's agent; by default it is looked for among the included agents, beside the page and in the
    working directory. It must be the file that the page was made of."""

    def serve_page(self, page: str, started: Callable[[str], None]) -> Result:
        from rl_clarity.viewer.server import serve_page

        serve_page(page, self.checkpoint, host=self.host, port=self.port, started=started)
        return Result({}, "")


@dataclass(frozen=True, kw_only=True)
class Serve(Serving):
    """Show the recordings of log directories in the browser, while they are written, as TensorBoard's tab does; or a
    finished page with its agent behind it, whose panel What if changes the observation and features. Ctrl-C ends it.
    """

    logdir: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="LOGDIR|PAGE")]
    """Log directories, recordings, or their addresses; or the directory of a page."""
    follow_links: Switch = False
    """Show runs that links in the log directories lead to, if the links belong to the owner of the log directory."""

    def execute(self) -> Result:
        from rl_clarity.viewer.server import is_page, serve

        def started(address: str) -> None:
            shown = "page is" if pages else "recordings are"
            print(f"The {shown} shown at {address} (Ctrl-C ends this)", flush=True)

        pages = [place for place in self.logdir if is_page(place)]
        if pages:
            if len(self.logdir) > 1:
                raise OptionError(f"{pages[0]} is a page, which is served alone: name no other directories")
            return self.serve_page(pages[0], started)
        if self.checkpoint is not None:
            raise OptionError(f"--checkpoint is that of a page, and {', '.join(self.logdir)} is none")
        serve(self.logdir, host=self.host, port=self.port, follow_links=self.follow_links, started=started)
        return Result({}, "")


@dataclass(frozen=True, kw_only=True)
class Open(Serving):
    """Serve a finished page with its agent behind it, as `serve` does, and open it in the browser. Ctrl-C ends it."""

    page: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
    """Directory of a page, or its interface.html."""
    port: int = 0
    """Port to listen on; 0 for a free one."""

    def execute(self) -> Result:
        def started(address: str) -> None:
            print(f"The page is shown at {address} (Ctrl-C ends this)", flush=True)
            webbrowser.open(address)

        return self.serve_page(self.page, started)

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
    """Options of commands that start a server."""

    host: str = "127.0.0.1"
    """Host name or IP address to listen on. If other machines can reach it, the printed URL contains a secret token."""
    port: int = 6007
    """Port to listen on; 0 for a free one."""
    checkpoint: str | None = None
    """Checkpoint of the page's agent, which must be the file that the page was made from. By default, it is searched
    for among the included agents, beside the page and in the working directory."""

    def serve_page(self, page: str, started: Callable[[str], None]) -> Result:
        from rl_clarity.viewer.server import serve_page

        serve_page(page, self.checkpoint, host=self.host, port=self.port, started=started)
        return Result({}, "")


@dataclass(frozen=True, kw_only=True)
class Serve(Serving):
    """Serve the recordings in log directories while they are written, like the tab in TensorBoard. Or serve a finished
    page with its agent, so that its "What if" panel can change observations and features. Ctrl-C stops the server.
    """

    logdir: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="LOGDIR|PAGE")]
    """Log directories or recordings, as paths or addresses; or the directory of a page."""
    follow_links: Switch = False
    """Show runs that symbolic links in a log directory point to, if the owner of the directory owns the links."""

    def execute(self) -> Result:
        from rl_clarity.viewer.server import is_page, serve

        def started(address: str) -> None:
            shown = "page is" if pages else "recordings are"
            print(f"The {shown} shown at {address} (Ctrl-C ends this)", flush=True)

        pages = [place for place in self.logdir if is_page(place)]
        if pages:
            if len(self.logdir) > 1:
                raise OptionError(f"{pages[0]} is a page, which must be served alone: remove the other directories")
            return self.serve_page(pages[0], started)
        if self.checkpoint is not None:
            raise OptionError(f"--checkpoint applies only to a page, and {', '.join(self.logdir)} is not a page")
        serve(self.logdir, host=self.host, port=self.port, follow_links=self.follow_links, started=started)
        return Result({}, "")


@dataclass(frozen=True, kw_only=True)
class Open(Serving):
    """Serve a finished page with its agent, as `serve` does, and open it in the browser. Ctrl-C stops the server."""

    page: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
    """Directory of a page, or its interface.html."""
    port: int = 0
    """Port to listen on; 0 for a free one."""

    def execute(self) -> Result:
        def started(address: str) -> None:
            print(f"The page is shown at {address} (Ctrl-C ends this)", flush=True)
            webbrowser.open(address)

        return self.serve_page(self.page, started)

"""The web server of `rl-clarity serve`, for the page of recordings, or for a finished page together with its agent."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rl_clarity.base.errors import DependencyError, OptionError
from rl_clarity.base.files import local_path
from rl_clarity.live import LiveNetwork, open_page_agent
from rl_clarity.pages.document import PAGE
from rl_clarity.pages.results import open_results
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory

HOST, PORT = "127.0.0.1", 6007
THREADS = 8
"""Number of threads that answer requests. While some threads wait for a computation, others can still send data."""


def serve(
    directories: Sequence[str],
    *,
    host: str = HOST,
    port: int = PORT,
    follow_links: bool = False,
    started: Callable[[str], None] = print,
) -> None:
    """Serve the page of recordings in log directories until the process is interrupted.

    Args:
        directories: Log directories or recordings, as paths or addresses.
        host: Host name or IP address to listen on. If it can be reached from other machines, a random token is part of
            the page's URL, and requests without it are rejected.
        port: Port to listen on; 0 for a free one.
        follow_links: Whether to show runs that symbolic links in a log directory point to, if the owner of the
            directory owns the links.
        started: Called with the page's URL when the server is listening.

    Raises:
        OptionError: The server cannot listen on this host and port.
        DependencyError: A package of the extra `tensorboard` is missing.
    """
    server = make_server(directories, host, port, started, follow_links=follow_links)
    try:
        server.run()
    finally:
        server.close()


def make_server(
    directories: Sequence[str],
    host: str,
    port: int,
    started: Callable[[str], None] = print,
    *,
    follow_links: bool = False,
) -> Any:
    """Return a server that already listens. Its method `run` answers requests. See `serve` for the arguments."""
    with _packages():
        from rl_clarity.viewer.application import Application, is_local
    places = [LogDirectory.at(one) for one in directories]
    page = RecordingsPage(places, ", ".join(directories), follow_links=follow_links)
    local = is_local(host)
    return _listening(Application(page, local_only=local), host, port, started, token=not local)


def is_page(place: str) -> bool:
    """Return whether a location is the local directory of a page, or its `interface.html`."""
    path = local_path(place)
    return path is not None and (path.name == PAGE or (path / PAGE).is_file())


def serve_page(
    page: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    started: Callable[[str], None] = print,
) -> None:
    """Serve a finished page together with its agent until the process is interrupted.

    Args:
        page: The page's directory or its `interface.html`.
        checkpoint: The checkpoint that the page was made from. By default, it is searched for; see
            `rl_clarity.live.open_page_agent`.
        host: Host name or IP address to listen on.
        port: Port to listen on; 0 for a free one.
        started: Called with the page's URL, which contains a random token. Requests without the token are rejected.

    Raises:
        OptionError: The server cannot listen on this host and port.
        CheckpointError: The checkpoint is not found, or is not the one that the page was made from.
        SamplesError: The page does not contain the observations of its agent.
        DependencyError: A package of the extra `tensorboard` is missing.
    """
    results = open_results(page)
    server = make_page_server(LiveNetwork(results, open_page_agent(results, checkpoint)), host, port, started)
    try:
        server.run()
    finally:
        server.close()


def make_page_server(
    network: LiveNetwork, host: str = HOST, port: int = PORT, started: Callable[[str], None] = print
) -> Any:
    """Return a server that already listens. Its method `run` answers requests. See `serve_page` for the arguments."""
    with _packages():
        from rl_clarity.viewer.agent_page import AgentPageApplication
        from rl_clarity.viewer.application import is_local
    application = AgentPageApplication(network.results, network, local_only=is_local(host))
    return _listening(application, host, port, started, token=True)


@contextmanager
def _packages() -> Iterator[None]:
    try:
        import waitress  # noqa: F401

        yield
    except ImportError as error:
        raise DependencyError(f'serve needs {error.name}: pip install "rl-clarity[tensorboard]"') from error


def _listening(application: Any, host: str, port: int, started: Callable[[str], None], *, token: bool) -> Any:
    import waitress

    from rl_clarity.viewer.application import COOKIE, TOKEN, TokenRequired

    query = ""
    if token:
        secret = secrets.token_urlsafe()
        # Browsers send cookies to all ports of a machine, so each server has its own cookie.
        cookie = f"{COOKIE}-{hashlib.sha256(secret.encode()).hexdigest()[:8]}"
        application, query = TokenRequired(application, secret, cookie), f"?{TOKEN}={secret}"
    try:
        server = waitress.create_server(application, host=host, port=port, ident=None, threads=THREADS)
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot listen on {host}, port {port}: {error}; choose another --host or --port") from error
    shown = f"[{host}]" if ":" in host else host
    # A name such as localhost can have several addresses, each with a socket.
    listening = server.effective_listen[0][1] if hasattr(server, "effective_listen") else server.effective_port
    started(f"http://{shown}:{listening}/{query}")
    return server

"""`rl-clarity serve`: the page of recordings on a web server of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from rl_clarity.base.errors import DependencyError, OptionError
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory

HOST, PORT = "127.0.0.1", 6007


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
        directories: Log directories, recordings, or their addresses.
        host: Name or address to listen on. If it can be reached from other machines, a random token is part of the
            page's address, and requests without it are refused.
        port: Port to listen on; 0 for a free one.
        follow_links: Whether to show runs that links in the log directories lead to, if the links belong to the owner
            of the log directory.
        started: Called with the page's address.

    Raises:
        OptionError: It cannot listen there.
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
    """Return a server that listens, and that `run` starts; see `serve`."""
    try:
        import waitress

        from rl_clarity.viewer.application import TOKEN, Application, TokenRequired, is_local
    except ImportError as error:
        raise DependencyError(f'serve needs {error.name}: pip install "rl-clarity[tensorboard]"') from error
    places = [LogDirectory.at(one) for one in directories]
    page = RecordingsPage(places, ", ".join(directories), follow_links=follow_links)
    local = is_local(host)
    application: Any = Application(page, local_only=local)
    query = ""
    if not local:
        token = secrets.token_urlsafe()
        application, query = TokenRequired(application, token), f"?{TOKEN}={token}"
    try:
        server = waitress.create_server(application, host=host, port=port, ident=None)
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot listen on {host}, port {port}: {error}; choose another --host or --port") from error
    shown = f"[{host}]" if ":" in host else host
    # A name such as localhost can have several addresses, each with a socket.
    listening = server.effective_listen[0][1] if hasattr(server, "effective_listen") else server.effective_port
    started(f"http://{shown}:{listening}/{query}")
    return server

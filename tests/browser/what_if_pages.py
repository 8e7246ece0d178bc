"""A page that is served with the agent behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rl_clarity.live import LiveNetwork
from rl_clarity.viewer.server import make_page_server


@contextmanager
def serve_network(network: LiveNetwork) -> Iterator[str]:
    """Serve a page until the end of the block; yield the address that the server prints."""
    addresses: list[str] = []
    server = make_page_server(network, "127.0.0.1", 0, addresses.append)

    def run() -> None:
        with suppress(OSError):  # closed below
            server.run()

    running = threading.Thread(target=run, daemon=True)
    running.start()
    try:
        yield addresses[0]
    finally:
        server.close()
        running.join(10)

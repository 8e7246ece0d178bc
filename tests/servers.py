"""Servers that run in a thread during a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from rl_clarity.viewer.server import make_page_server

wasyncore: Any = pytest.importorskip("waitress.wasyncore")

if TYPE_CHECKING:
    from rl_clarity.live import LiveNetwork


@contextmanager
def serving(make: Callable[[Callable[[str], None]], Any]) -> Iterator[str]:
    """Run a server, which `make` makes with a function that prints its address; yield the address that it prints."""
    addresses: list[str] = []
    server = make(addresses.append)

    def run() -> None:
        with suppress(OSError, ValueError):  # closed below
            server.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield addresses[0]
    finally:
        server.close()
        wasyncore.close_all(server._map, ignore_all=True)  # a browser keeps its connections open
        thread.join(10)
        assert not thread.is_alive()


@contextmanager
def serving_page(network: LiveNetwork) -> Iterator[str]:
    """Serve the page of a network on this machine; yield the address that the server prints."""
    with serving(lambda print_: make_page_server(network, "127.0.0.1", 0, print_)) as address:
        yield address

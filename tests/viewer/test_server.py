"""`rl-clarity serve` listens, and the address that it prints answers."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.recordings.episodes import make_recording
from tests.servers import serving

pytest.importorskip("waitress")
pytest.importorskip("werkzeug")

from rl_clarity.viewer.server import make_server


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "::1"])
def test_the_server_answers_at_the_printed_url(tmp_path: Path, host: str) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    make_recording(tmp_path, (3,), name="training")
    with serving(lambda print_: make_server([str(tmp_path)], host, 0, print_)) as address:
        assert "token" not in address
        with urlopen(address) as page, urlopen(f"{address}data/manifest.json") as manifest:
            assert (page.status, manifest.status) == (200, 200)


def test_a_public_server_requires_the_token_of_the_printed_url(tmp_path: Path) -> None:
    with serving(lambda print_: make_server([str(tmp_path)], "0.0.0.0", 0, print_)) as address:
        with urlopen(address) as page:
            assert page.status == 200
        with pytest.raises(HTTPError, match="403"):
            urlopen(address.partition("?")[0])

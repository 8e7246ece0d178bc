"""Routes of a page with its agent behind it: what they answer, and what they refuse."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from rl_clarity.base.errors import ClarityError
from rl_clarity.live import LiveNetwork, Superseded
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.results import open_results
from tests.live.pages import open_network, write_page
from tests.servers import serving_page

pytest.importorskip("waitress")
pytest.importorskip("werkzeug")

from werkzeug.test import Client

from rl_clarity.live.requests import MAX_BYTES
from rl_clarity.viewer.agent_page import AgentPageApplication
from rl_clarity.viewer.server import is_page
from rl_clarity.viewer.turns import WAITING, Busy, Turns

OUTPUTS = "/live/outputs?client=panel&number=1"
QUESTION = {"trajectory": 0, "first": 3, "last": 4}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def network(directory: Path) -> LiveNetwork:
    return open_network(directory)


@pytest.fixture
def client(network: LiveNetwork) -> Client:
    return Client(AgentPageApplication(network.results, network, local_only=True))


def ask(
    client: Client, address: str = OUTPUTS, body: bytes | None = None, headers: dict[str, str] | None = None
) -> Any:
    data = json.dumps(QUESTION).encode() if body is None else body
    return client.post(address, data=data, headers={**JSON, **(headers or {})})


def test_the_served_html_is_the_page_with_the_what_if_panel(client: Client, directory: Path) -> None:
    served, stored = client.get("/").get_data(), (directory / "interface.html").read_bytes()
    assert [one["kind"] for one in read_manifest(served)["sections"]][-1] == "what_if"
    section = rb',\{[^{}]*"data":\{\},"kind":"what_if"[^{}]*\}|,\{"kind":"what_if"[^}]*\}[^}]*\}'
    plain = re.sub(section + rb'|<script type="module" src="what_if.js"></script>\n', b"", served)
    assert plain.replace(b"connect-src 'self'", b"connect-src 'none'") == stored
    assert b'src="what_if.js"' in served


def test_the_served_script_registers_the_what_if_panel(client: Client) -> None:
    script = client.get("/what_if.js")
    assert script.mimetype == "text/javascript"
    assert 'rlClarity.panel("what_if"' in script.get_data(as_text=True)


def test_only_files_of_the_page_are_served(client: Client, directory: Path) -> None:
    (directory / "secret.txt").write_text("not to be read")
    name = open_results(directory).trajectory(0)["series"]
    assert client.get(f"/{name}").get_data() == (directory / name).read_bytes()
    for other in (
        "secret.txt",
        "../secret.txt",
        "%2e%2e/secret.txt",
        ".rl-clarity/page.json",
        "interface.htm",
        "live/",
    ):
        assert client.get(f"/{other}").status_code in (404, 405), other


def test_a_valid_request_returns_the_agents_outputs(client: Client, network: LiveNetwork) -> None:
    answer = ask(client).get_json()
    stored = network.results.series(0)["values"][3:5]
    assert answer["before"]["values"] == pytest.approx(stored.tolist(), abs=1e-4)
    assert ask(client).headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "https://example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:81"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "example.org"}, 400),
    ],
)
def test_requests_from_other_origins_are_refused(client: Client, headers: dict[str, str], status: int) -> None:
    assert ask(client, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("address", "body", "message"),
    [
        (OUTPUTS, b"{", "not JSON"),
        (OUTPUTS, b'{"trajectory": 99, "first": 0, "last": 0}', "out of range"),
        (OUTPUTS, b'{"trajectory": 0, "first": 0, "last": 999999}', "last=999999"),
        ("/live/shutdown?client=a&number=1", b"{}", "unknown kind"),
        ("/live/outputs", None, "client=NAME"),
        ("/live/outputs?client=a&number=-1", None, "client=NAME"),
        (f"/live/outputs?client={'a' * 41}&number=1", None, "client=NAME"),
        ("/live/outputs?client=a&number=99999999999999999", None, "client=NAME"),
    ],
)
def test_invalid_requests_are_refused_with_the_reason(
    client: Client, address: str, body: bytes | None, message: str
) -> None:
    response = ask(client, address, body)
    assert response.status_code == 400
    assert message in response.get_data(as_text=True)


def test_oversized_requests_are_refused_without_reading_them(client: Client) -> None:
    assert ask(client, body=b" " * (MAX_BYTES + 1)).status_code == 413


def test_unsupported_http_methods_are_refused(client: Client) -> None:
    assert client.post("/", data=b"", headers=JSON).status_code == 405
    assert client.get(OUTPUTS).status_code == 405
    assert client.delete("/live/outputs").status_code == 405


def test_an_outdated_request_of_the_same_client_is_refused(client: Client) -> None:
    assert ask(client, "/live/outputs?client=p&number=5").status_code == 200
    assert ask(client, "/live/outputs?client=p&number=4").status_code == 409
    assert ask(client, "/live/outputs?client=q&number=4").status_code == 200


def test_an_unfinished_page_cannot_be_served_with_its_agent(network: LiveNetwork, directory: Path) -> None:
    results = open_results(directory)
    results.manifest["complete"] = False
    with pytest.raises(ClarityError, match="not finished"):
        AgentPageApplication(results, network)


@contextmanager
def thread(run: Callable[[], object]) -> Iterator[threading.Thread]:
    running = threading.Thread(target=run, daemon=True)
    running.start()
    yield running
    running.join(10)
    assert not running.is_alive()


def test_a_newer_request_cancels_older_ones_of_the_same_client() -> None:
    turns, started, go_on = Turns(), threading.Event(), threading.Event()
    outcomes: list[str] = []

    def compute(wanted: Callable[[], bool]) -> None:
        started.set()
        go_on.wait(10)
        outcomes.append("wanted" if wanted() else "unwanted")

    def second() -> None:
        with pytest.raises(Superseded):
            turns.run("a", 2, lambda wanted: outcomes.append("second"))
        outcomes.append("dropped")

    with thread(lambda: turns.run("a", 1, compute)):
        assert started.wait(10)
        with thread(second), thread(lambda: turns.run("a", 3, lambda wanted: outcomes.append("third"))):
            while turns.newest("a") != 3:
                pass
            go_on.set()
    assert sorted(outcomes) == ["dropped", "third", "unwanted"]
    assert outcomes.index("third") > outcomes.index("unwanted")


def test_further_requests_are_refused_when_too_many_are_waiting() -> None:
    turns, go_on, started = Turns(), threading.Event(), threading.Event()

    def compute(wanted: Callable[[], bool]) -> None:
        started.set()
        go_on.wait(10)

    waiting = [threading.Thread(target=turns.run, args=(str(i), 1, compute), daemon=True) for i in range(WAITING + 1)]
    for one in waiting:
        one.start()
    assert started.wait(10)
    while turns.waiting < WAITING:
        pass
    with pytest.raises(Busy):
        turns.run("another", 1, compute)
    go_on.set()
    for one in waiting:
        one.join(10)


def test_requests_without_the_token_of_the_printed_url_are_refused(network: LiveNetwork) -> None:
    with serving_page(network) as address:
        place = address.partition("?")[0]
        with urlopen(address) as page:
            assert page.status == 200
            cookie = page.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict"} <= {*cookie.split("; ")}
        question = Request(f"{place}live/outputs?client=a&number=1", json.dumps(QUESTION).encode(), JSON)
        for url in (place, f"{place}?token=wrong", question):
            with pytest.raises(HTTPError, match="403"):
                urlopen(url)
        with urlopen(Request(question.full_url, question.data, {**JSON, "Cookie": cookie.partition(";")[0]})) as answer:
            assert answer.status == 200


def test_is_page_recognizes_a_page_directory_and_its_html_file(directory: Path, tmp_path: Path) -> None:
    places = [directory, directory / "interface.html", tmp_path, "s3://bucket/page"]
    assert [is_page(str(place)) for place in places] == [True, True, False, False]

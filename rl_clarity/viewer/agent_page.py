"""The WSGI application of `rl-clarity serve` for a finished page together with its agent.

Only the page's files and computations of its network can be requested. Nothing is written.
"""

from __future__ import annotations

import json
import re
from typing import Any

from werkzeug.exceptions import (
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    RequestEntityTooLarge,
    ServiceUnavailable,
    UnsupportedMediaType,
)
from werkzeug.wrappers import Request, Response

from rl_clarity.base.errors import ClarityError
from rl_clarity.live import LiveNetwork, Superseded, parse_request
from rl_clarity.live.requests import MAX_BYTES
from rl_clarity.pages.document import PAGE, panel_module, read_checksums
from rl_clarity.pages.results import Results, read_document
from rl_clarity.viewer.application import HTML, INDEX, JAVASCRIPT, BaseApplication
from rl_clarity.viewer.page import Content, content
from rl_clarity.viewer.turns import Busy, Turns
from svelte3.props import to_json

KIND = "what_if"
"""The kind of the section "What if", and the name of its script."""
SCRIPT, LIVE = f"{KIND}.js", "live/"
JSON, PNG, OTHER = "application/json", "image/png", "application/octet-stream"
TYPES = {"js": JAVASCRIPT, "png": PNG}
_MANIFEST = re.compile(rb'(<script type="application/json" id="manifest">)(.*?)(</script>)', re.DOTALL)
_POLICY = (
    b"connect-src 'none'",
    b"connect-src 'self'",
)
_CLIENT = re.compile(r"[A-Za-z0-9-]{1,40}")


class AgentPageApplication(BaseApplication):
    """Serve a page, its files, and computations of its network.

    Args:
        results: a finished page of one agent
        network: the network of the page's agent
        local_only: as for `BaseApplication`

    Raises ClarityError for a page that is not finished.
    """

    policy = "frame-ancestors 'none'"

    def __init__(self, results: Results, network: LiveNetwork, *, local_only: bool = False) -> None:
        super().__init__(local_only=local_only)
        self._network, self._turns = network, Turns()
        self._directory = results.directory
        document = read_document(self._directory, PAGE)
        self._names = frozenset(read_checksums(self._directory, document))
        if not results.manifest.get("complete"):
            raise ClarityError(f"the page {results.location} is not finished: repeat the command that writes it")
        self._static = {
            INDEX: content(with_panel(document, results), HTML, fixed=False),
            SCRIPT: content(panel_module(KIND).encode(), JAVASCRIPT, fixed=False),
        }

    def find(self, name: str, since: str) -> Content | None:
        if name in self._static:
            return self._static[name]
        if name not in self._names:
            return None
        try:
            data = self._directory.read(name)
        except OSError as error:
            raise ClarityError(f"{name} cannot be read: {error.strerror}") from error
        return content(data, TYPES.get(name.rpartition(".")[2], OTHER), fixed=False)

    def answer(self, request: Request, name: str) -> Response | None:
        if not name.startswith(LIVE):
            return None
        if request.method != "POST":
            raise MethodNotAllowed
        _check_origin(request)
        client, number = request.args.get("client", ""), request.args.get("number", "")
        if not (_CLIENT.fullmatch(client) and number.isdecimal() and len(number) < 16):
            raise BadRequest("a request needs ?client=NAME&number=N, which identify the panel and the request")
        try:
            asked = parse_request(name.removeprefix(LIVE), _body(request))
            found = self._turns.run(client, int(number), lambda wanted: self._network.answer(asked, wanted))
        except Superseded:
            raise Conflict("a newer request has replaced this one") from None
        except Busy:
            raise ServiceUnavailable("too many requests are waiting: try again") from None
        except ClarityError as error:
            raise BadRequest(error.message) from error
        response = Response(json.dumps(found), content_type=JSON)
        response.headers["Cache-Control"] = "no-store"
        return response


def with_panel(document: bytes, results: Results) -> bytes:
    """Return a page's document with the section and the script of the "What if" panel, which may send requests."""
    manifest: dict[str, Any] = results.manifest
    sections = [section for section in manifest["sections"] if section["kind"] != KIND]
    played = next(section for section in sections if section["kind"] == "trajectories")
    section = {"kind": KIND, "title": "What if", "data": {}}
    section |= {key: played[key] for key in ("agent", "recording") if key in played}
    text = to_json({**manifest, "sections": [*sections, section]}).encode("utf-8", "replace")
    document = _MANIFEST.sub(lambda match: match[1] + text + match[3], document, count=1)
    document = document.replace(*_POLICY, 1)
    head, end, tail = document.rpartition(b"</body>")
    return head + f'<script type="module" src="{SCRIPT}"></script>\n'.encode() + end + tail


def _check_origin(request: Request) -> None:
    """Raise Forbidden for a request from another site's page, and UnsupportedMediaType if its type is not JSON."""
    origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
    if origin is not None and origin != f"{request.scheme}://{host}":
        raise Forbidden("only the page of this server may send requests")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("only the page of this server may send requests")
    if request.mimetype != JSON:
        raise UnsupportedMediaType(f"a request must have the type {JSON}")


def _body(request: Request) -> bytes:
    if request.content_length is None or request.content_length > MAX_BYTES:
        raise RequestEntityTooLarge(f"a request needs a Content-Length of at most {MAX_BYTES} bytes")
    return request.get_data()

"""The WSGI application that serves the page of recordings, for TensorBoard and for `rl-clarity serve`.

Only content that the manifest or its entries list can be requested. No part of an address is used as a file path.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from html import escape
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from werkzeug.exceptions import BadRequest, HTTPException, MethodNotAllowed, NotFound, UnprocessableEntity
from werkzeug.wrappers import Request, Response

from rl_clarity.base.errors import ClarityError, printable
from rl_clarity.pages.document import compiled_bundle
from rl_clarity.viewer.page import MANIFEST, Content, RecordingsPage, content

INDEX, MODULE, SCRIPT, DATA = "index.html", "index.js", "page.js", "data/"
HTML, JAVASCRIPT, TEXT = "text/html; charset=utf-8", "text/javascript; charset=utf-8", "text/plain; charset=utf-8"
FIXED, CHANGING = "private, max-age=31536000, immutable", "no-cache"
TOKEN, COOKIE = "token", "rl-clarity-token"
METHODS = ("GET", "HEAD")
FEWEST_BYTES = 1024
"""Smallest size in bytes of data that are compressed."""
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z.-]+))(?::[0-9]+)?")
"""Pattern of the header `Host`: an IPv6 address in brackets, an IPv4 address or a name, and optionally a port."""
_SOURCE = Path(__file__).with_name(MODULE)
_START = f'import("./{MODULE}").then((module) => module.render());'
_POLICY = (
    "default-src 'none'; script-src 'self' 'sha256-{}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


class BaseApplication(ABC):
    """Answer requests to the addresses of a page, and reject all others.

    Args:
        prefix: The path under which the page is served, without a slash at the end.
        local_only: Whether to answer only requests that address this machine as `localhost`, or by a loopback address.
            This prevents DNS rebinding: a site whose name resolves to this machine cannot read the data.
    """

    policy = ""
    """The content security policy of documents."""

    def __init__(self, prefix: str = "", *, local_only: bool = False) -> None:
        self._prefix, self._local_only = f"{prefix}/", local_only

    @abstractmethod
    def find(self, name: str, since: str) -> Content | None:
        """Return the content called `name`, or None if there is none. Raises ClarityError for damaged data.

        `since` is the ETag of the version that the requesting page already has, or empty. The method may then return
        only the changes since that version.
        """

    def answer(self, request: Request, name: str) -> Response | None:
        """Return the answer to a request for something other than content, such as a computation; otherwise None."""
        return None

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        try:
            if self._local_only:
                _check_host(environ.get("HTTP_HOST", ""))
            response = self._response(Request(environ))
        except HTTPException as error:
            response = Response(f"{error.description}\n", error.code, content_type=TEXT)
            if isinstance(error, MethodNotAllowed):
                response.headers["Allow"] = ", ".join(METHODS)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        kind = response.headers["Content-Type"]

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            # Werkzeug omits the type where nothing has changed; TensorBoard logs a warning about each such answer.
            typed = any(name.lower() == "content-type" for name, _ in headers)
            return start_response(status, headers if typed else [*headers, ("Content-Type", kind)], *more)

        answer: Iterable[bytes] = response(environ, start)
        return answer

    def _response(self, request: Request) -> Response:
        if not request.path.startswith(self._prefix):
            raise NotFound
        name = request.path[len(self._prefix) :] or INDEX
        response = self.answer(request, name)
        if response is not None:
            return response
        if request.method not in METHODS:
            raise MethodNotAllowed
        try:
            found = self.find(name, request.args.get("since", ""))
        except ClarityError as error:
            raise UnprocessableEntity(error.message) from error
        if found is None:
            raise NotFound
        # Fixed content is loaded only once, and most of it is already compressed.
        compressed = not found.fixed and len(found.data) >= FEWEST_BYTES and "Range" not in request.headers
        data = found.data
        if compressed and "gzip" in request.accept_encodings:
            data = found.gzipped
        response = Response(data, content_type=found.type)
        if data is not found.data:
            response.headers["Content-Encoding"] = "gzip"
        if compressed:
            response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = FIXED if found.fixed else CHANGING
        response.set_etag(found.etag)
        if found.type == HTML:
            response.headers["Content-Security-Policy"] = self.policy
        return response.make_conditional(request, accept_ranges=True, complete_length=len(data))


class Application(BaseApplication):
    """Serve a page of recordings and its data; see `BaseApplication`."""

    def __init__(self, page: RecordingsPage, prefix: str = "", *, local_only: bool = False) -> None:
        super().__init__(prefix, local_only=local_only)
        self._page = page
        bundle = compiled_bundle("recordings")
        digest = base64.b64encode(hashlib.sha256(_START.encode()).digest()).decode()
        self.policy = _POLICY.format(digest)
        self._static = {
            INDEX: content(_index(page.title).encode(), HTML, fixed=False),
            MODULE: content(_SOURCE.read_bytes(), JAVASCRIPT, fixed=False),
            SCRIPT: content(bundle.script.encode(), JAVASCRIPT, fixed=False),
        }

    def find(self, name: str, since: str) -> Content | None:
        if name in self._static:
            return self._static[name]
        if not name.startswith(DATA):
            return None
        name = name[len(DATA) :]
        return self._page.manifest(since) if name == MANIFEST else self._page.file(name)


def is_local(host: str) -> bool:
    """Return whether a server that listens at a name or address can be reached from this machine only."""
    try:
        return host.lower().removesuffix(".") == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_host(header: str) -> None:
    """Raise BadRequest unless the header `Host` names this machine."""
    match = _HOST.fullmatch(header)
    if match is None or not is_local(match[1] or match[2]):
        raise BadRequest(
            f"Host {printable(header[:100])!r} is refused: open the page at localhost, or at the address that "
            "rl-clarity serve printed; to use a different name, start it with a different --host"
        )


def _index(title: str) -> str:
    """Return the HTML document of the page, which is used outside TensorBoard."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f'<link rel="modulepreload" href="{MODULE}">\n<link rel="preload" as="script" href="{SCRIPT}">\n'
        f'<link rel="preload" as="fetch" href="{DATA}{MANIFEST}" crossorigin>\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n"
        f'<script type="module">{_START}</script>\n</body>\n</html>\n'
    )


class TokenRequired:
    """A WSGI application that answers only requests with a token: in the query string or, after the first such request,
    in a cookie.
    """

    def __init__(self, application: BaseApplication, token: str, cookie: str = COOKIE) -> None:
        self._application, self._token, self._cookie = application, token, cookie

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        in_address = self._is_token(request.args.get(TOKEN, ""))
        if not in_address and not self._is_token(request.cookies.get(self._cookie, "")):
            response = Response("The address needs the token that rl-clarity serve printed.\n", 403, content_type=TEXT)
            refused: Iterable[bytes] = response(environ, start_response)
            return refused
        cookie = SimpleCookie({self._cookie: self._token})
        attributes: dict[str, Any] = {"path": "/", "httponly": True, "samesite": "Strict"}
        cookie[self._cookie].update(attributes)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            added = [("Set-Cookie", cookie[self._cookie].OutputString())] if in_address else []
            return start_response(status, [*headers, *added], *more)

        return self._application(environ, start)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token.encode())

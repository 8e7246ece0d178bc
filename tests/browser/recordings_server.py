"""A small server of the page of recordings, with a policy as strict as TensorBoard's, that notes what is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rl_clarity.pages.document import compiled_bundle
from rl_clarity.viewer import page as viewer_page
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory

MODULE = Path(viewer_page.__file__).with_name("index.js")
INDEX = (
    '<!doctype html><html lang="en"><title>Page</title><link rel="icon" href="data:,">'
    '<script type="module" src="start.js"></script>'
)
START = 'import { render } from "./index.js"; render();'
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'"
)


class RecordingsServer(ThreadingHTTPServer):
    """Answers on a free port of this machine; `answers` are the paths that were asked for, and the status of each."""

    def __init__(self, logdir: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = RecordingsPage([LogDirectory.at(str(logdir))], str(logdir))
        self.answers: list[tuple[str, int]] = []
        self.gone = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: RecordingsServer

    def do_GET(self) -> None:
        path = self.path.split("?")[0].lstrip("/")
        if self.server.gone and path.startswith("data/"):
            return self._answer(path, 503, b"", "text/plain")
        static = {
            "": (INDEX.encode(), "text/html"), "start.js": (START.encode(), "text/javascript"),
            "index.js": (MODULE.read_bytes(), "text/javascript"),
            "page.js": (compiled_bundle("recordings").script.encode(), "text/javascript"),
        }  # fmt: skip
        if path in static:
            return self._answer(path, 200, *static[path])
        name = path.removeprefix("data/")
        content = self.server.page.manifest() if name == "manifest.json" else self.server.page.file(name)
        if content is None:
            return self._answer(path, 404, b"", "text/plain")
        if self.headers["If-None-Match"] == content.etag:
            return self._answer(path, 304, b"", content.type, content.etag)
        return self._answer(path, 200, content.data, content.type, content.etag)

    def _answer(self, path: str, status: int, data: bytes, kind: str, etag: str = "") -> None:
        self.server.answers.append((path, status))
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(data)), "Content-Security-Policy": POLICY}
        for name, value in (headers | ({"ETag": etag} if etag else {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *values: Any) -> None:
        pass


@contextmanager
def serve_recordings(logdir: Path) -> Iterator[RecordingsServer]:
    """Serve a log directory until the end of the block."""
    server = RecordingsServer(logdir)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

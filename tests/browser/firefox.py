"""Firefox by its own remote protocol, Marionette: enough of it to open a page, run scripts and read errors."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMANDS = ("firefox", "firefox-esr")
_START_SECONDS = 60


def find_firefox() -> str | None:
    """Program file of the first Firefox on the PATH."""
    return next(filter(None, map(shutil.which, COMMANDS)), None)


@contextlib.contextmanager
def firefox(program: str, profile: Path) -> Iterator[Firefox]:
    """A headless Firefox with a fresh profile, which ends with the context."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    profile.mkdir(parents=True)
    preferences = {"marionette.port": port, "network.proxy.type": 1, "network.proxy.http": "127.0.0.1"}
    preferences |= {"network.proxy.http_port": 9, "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9}
    lines = [f"user_pref({json.dumps(key)}, {json.dumps(value)});" for key, value in preferences.items()]
    (profile / "user.js").write_text("\n".join(lines))
    command = [program, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--new-instance"]
    command += ["--profile", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with _connected(port, process) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def _connected(port: int, process: subprocess.Popen[bytes]) -> Iterator[socket.socket]:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=_START_SECONDS)
            break
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise TimeoutError("Firefox does not answer") from None
            time.sleep(0.1)
    with connection:
        yield connection


class Firefox:
    """One window. https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html"""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._stream, self._count = connection, connection.makefile("rb"), 0
        self._read()  # its greeting
        self._call("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {"acceptInsecureCerts": False}}})

    def open(self, address: str) -> None:
        self._call("WebDriver:Navigate", {"url": address})

    def run(self, script: str) -> Any:
        """What a script returns, a promise's value when it is there."""
        return self._call("WebDriver:ExecuteScript", {"script": script, "args": []})["value"]

    def press(self, key: str) -> None:
        """Press a key by its WebDriver code."""
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._call("WebDriver:PerformActions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def errors(self) -> list[str]:
        """Errors and warnings of scripts, styles and policies since Firefox began, from the page's own files."""
        self._call("Marionette:SetContext", {"value": "chrome"})
        found = self.run(
            """return Services.console.getMessageArray()
              .filter((message) => message instanceof Ci.nsIScriptError && message.sourceName.startsWith("file:"))
              .map((message) => message.message);"""
        )
        self._call("Marionette:SetContext", {"value": "content"})
        return list(found)

    def _call(self, name: str, parameters: dict[str, Any]) -> Any:
        self._count += 1
        message = json.dumps([0, self._count, name, parameters]).encode()
        self._connection.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        if error:
            raise RuntimeError(f"{name}: {error['error']}: {error['message']}")
        return result

    def _read(self) -> Any:
        length = b""
        while (byte := self._stream.read(1)) != b":":
            if not byte:
                raise ConnectionError("Firefox has gone")
            length += byte
        return json.loads(self._stream.read(int(length)))

"""Checkpoints on the Hugging Face Hub, with a local server in its place."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Never

import pytest

from rl_clarity.base.errors import CheckpointError, OutputError, SamplesError
from rl_clarity.formats.included import fetched, path_of
from rl_clarity.jobs.directory import RemoteDirectory
from rl_clarity.recordings.recording_files import RecordingFiles

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def hub() -> Iterator[str]:
    """Serve the repository `lab/agents`, with the file `runs/coinrun.jd`. Return the server's address."""
    pytest.importorskip("huggingface_hub")
    checkpoint = path_of("coinrun").read_bytes()
    listing = [{"type": "file", "path": "runs/coinrun.jd", "size": len(checkpoint), "oid": "0" * 40}]
    answers = {
        "/api/models/lab/agents": json.dumps({"id": "lab/agents", "sha": "1" * 40}).encode(),
        "/api/models/lab/agents/tree/main/runs": json.dumps(listing).encode(),
        "/lab/agents/resolve/main/runs/coinrun.jd": checkpoint,
    }

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.partition("?")[0])
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(answer or b"")))
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def inspect(address: str, hub: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_ENDPOINT": hub, "HF_HOME": str(cache)}  # read when the library is imported
    command = [sys.executable, "-m", "rl_clarity", "inspect", address]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_checkpoint_on_the_hugging_face_hub_is_read(hub: str, tmp_path: Path) -> None:
    result = inspect("hf://lab/agents/runs/coinrun.jd", hub, tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"sha256 {hashlib.sha256(path_of('coinrun').read_bytes()).hexdigest()}" in result.stdout


@pytest.mark.parametrize("address", ["hf://lab/agents/runs/other.jd", "hf://nobody/agents/runs/coinrun.jd"])
def test_missing_files_and_repositories_on_the_hub_are_errors(address: str, hub: str, tmp_path: Path) -> None:
    result = inspect(address, hub, tmp_path)
    assert result.returncode == 1
    assert f"cannot read the checkpoint {address}: " in result.stderr


@pytest.mark.parametrize(("scheme", "extra"), [("hf", "hub"), ("s3", "remote")])
def test_the_error_for_a_missing_library_names_the_extra_to_install(
    scheme: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(address: str) -> Never:
        raise ImportError("a library is missing")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    message = rf'pip install "rl-clarity\[{extra}\]"'
    with pytest.raises(CheckpointError, match=message), fetched(f"{scheme}://lab/agents/a.jd"):
        pass
    with pytest.raises(OutputError, match=message):
        RemoteDirectory(f"{scheme}://lab/agents/page")
    with pytest.raises(SamplesError, match=message):
        RecordingFiles(f"{scheme}://lab/agents/episodes")


def test_the_error_for_an_unknown_url_scheme_names_no_extra() -> None:
    with pytest.raises(OutputError, match=r"^cannot open nowhere://page: Protocol not known: nowhere$"):
        RemoteDirectory("nowhere://page")

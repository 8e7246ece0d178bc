"""Checkpoints and pages in remote storage: a file system in memory replaces those of cloud services."""

from __future__ import annotations

import sys
import types
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError
from rl_clarity.cli import main
from rl_clarity.jobs.directory import RemoteDirectory
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun, read_files, record_tasks

SHORT: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 2, "num_steps": 24},
    "observations_kwargs": OBSERVATIONS,
    "layer_kwargs": LAST_LAYER,
}


@pytest.fixture
def bucket() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def address(bucket: str, small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of the small run's checkpoint; its samples go to a temporary cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.filesystem("memory").pipe_file(f"{bucket}/agents/agent.jd", small_run.checkpoint.read_bytes())
    return f"{bucket}/agents/agent.jd"


def remote_files(address: str) -> dict[str, bytes]:
    directory = RemoteDirectory(address)
    return {name: directory.read(name) for name in sorted(directory.names()) if not name.endswith("run-log.json")}


@pytest.mark.slow
def test_run_reads_a_remote_checkpoint_and_writes_a_remote_page(
    address: str, bucket: str, small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = rl_clarity.run(address, f"{bucket}/page", **SHORT)
    assert page.path == f"{bucket}/page/interface.html"
    assert page.results().frames(1).shape == (24, 64, 64, 3)
    # It equals the local page, byte for byte.
    (tmp_path / "local").mkdir()
    local = tmp_path / "local" / "agent.jd"
    local.write_bytes(small_run.checkpoint.read_bytes())
    rl_clarity.run(local, tmp_path / "page", **SHORT)
    assert remote_files(f"{bucket}/page") == read_files(tmp_path / "page")
    # Running again does nothing.
    with record_tasks(monkeypatch) as done:
        assert rl_clarity.run(address, f"{bucket}/page", **SHORT) == page
    assert done == []


@pytest.mark.usefixtures("one_task_at_a_time")
def test_a_remote_run_is_resumed(explain: Explain, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(BaseException):
        pass

    def fail(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("rl_clarity.analyses.attribution.analysis.attribute_trajectory", fail)
        with pytest.raises(Stop):
            explain(f"{bucket}/stopped")
    assert not rl_clarity.open_results(f"{bucket}/stopped").manifest["complete"]
    with record_tasks(monkeypatch) as done:
        explain(f"{bucket}/stopped")
    assert done == ["attribution/Relu_2/1", "attribution/Relu_2/2", "atlas", "examples/Relu_2"]
    explain(f"{bucket}/uninterrupted")
    assert remote_files(f"{bucket}/stopped") == remote_files(f"{bucket}/uninterrupted")


def test_file_urls_are_treated_as_local_paths(explain: Explain, small_run: SmallRun, tmp_path: Path) -> None:
    explain(tmp_path / "page")
    explain(f"file://{tmp_path}/by-url")
    assert read_files(tmp_path / "by-url") == read_files(tmp_path / "page")
    assert rl_clarity.load_agent(f"file://{small_run.checkpoint}").layers == small_run.agent.layers


def test_inspect_export_and_load_agent_accept_urls(
    explain: Explain, address: str, bucket: str, tmp_path: Path, capsys: Any
) -> None:
    explain(f"{bucket}/page")
    assert main(["inspect", address]) == 0
    assert main(["export", f"{bucket}/page", str(tmp_path / "numbers.npz"), "--frames", "1:4"]) == 0
    assert (tmp_path / "numbers.npz").stat().st_size > 0
    assert rl_clarity.load_agent(address).num_actions == 15


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://nowhere/agent.jd", "cannot read the checkpoint memory://nowhere/agent.jd: no such file"),
        ("nosuch://bucket/agent.jd", "nosuch://bucket/agent.jd: .*nosuch"),
    ],
)
def test_missing_remote_checkpoints_raise_one_clear_error(url: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        rl_clarity.run(url, tmp_path / "page")
    assert not (tmp_path / "page").exists()


# --- content types ------------------------------------------------------------------------------------------------

TYPES = {
    "interface.html": "text/html; charset=utf-8",
    "interface.js": "text/javascript",
    "thumbnails/2b/1.png": "image/png",
    "run-log.json": "application/json",
}


WriteOptions = Callable[[str], dict[str, dict[str, Any]]]


class Store:
    """A file system that records the options of each file."""

    def __init__(self) -> None:
        self.options: dict[str, dict[str, Any]] = {}

    def makedirs(self, path: str, exist_ok: bool) -> None:
        pass

    def pipe_file(self, path: str, data: bytes, **options: Any) -> None:
        self.options[path] = options


@pytest.fixture
def write_options(monkeypatch: pytest.MonkeyPatch) -> WriteOptions:
    """Write each kind of file to a URL, and return the options that its file system receives."""

    def write(address: str) -> dict[str, dict[str, Any]]:
        store = Store()
        monkeypatch.setattr("fsspec.core.url_to_fs", lambda url: (store, "bucket/page"))
        directory = RemoteDirectory(address)
        for name in TYPES:
            directory.write(name, b"x")
        return {name: store.options[f"bucket/page/{name}"] for name in TYPES}

    return write


@pytest.mark.parametrize(
    ("protocol", "keyword"),
    [("s3", "ContentType"), ("s3a", "ContentType"), ("gs", "content_type"), ("gcs", "content_type")],
)
def test_files_in_s3_and_google_storage_have_content_types(
    protocol: str, keyword: str, write_options: WriteOptions
) -> None:
    assert write_options(f"{protocol}://bucket/page") == {name: {keyword: kind} for name, kind in TYPES.items()}


@pytest.mark.parametrize("protocol", ["az", "abfs", "abfss", "adl"])
def test_files_in_azure_storage_have_content_types(
    protocol: str, write_options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ContentSettings:
        def __init__(self, content_type: str) -> None:
            self.content_type = content_type

    for name in ("azure", "azure.storage", "azure.storage.blob"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["azure.storage.blob"].ContentSettings = ContentSettings  # type: ignore[attr-defined]
    options = write_options(f"{protocol}://bucket/page")
    assert {name: file["content_settings"].content_type for name, file in options.items()} == TYPES


def test_other_file_systems_receive_no_content_types(write_options: WriteOptions) -> None:
    assert set(map(str, write_options("memory://bucket/page").values())) == {"{}"}


class StoreWithoutCredentials(fsspec.AbstractFileSystem):
    """Fails as s3fs does without credentials: with an error that is no OSError."""

    protocol = "locked"

    def __getattribute__(self, name: str) -> Any:
        if name in ("cat_file", "find", "pipe_file", "makedirs", "rm_file"):
            raise RuntimeError("Unable to locate credentials")
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("inspect locked://b/agent.jd", "cannot read the checkpoint locked://b/agent.jd"),
        ("run models:coinrun locked://b/page", "cannot list locked://b/page"),
        ("export locked://b/page x.png", "cannot read locked://b/page/interface.html"),
        ("verify locked://b/page", "cannot read locked://b/page/interface.html"),
    ],
)
def test_missing_storage_credentials_are_reported_in_one_line(
    call: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fsspec.register_implementation("locked", StoreWithoutCredentials, clobber=True)
    assert main(call.split()) == 1
    assert capsys.readouterr() == ("", f"rl-clarity: {message}: Unable to locate credentials\n")

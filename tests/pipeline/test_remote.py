"""Checkpoint and page may be at addresses: a store in memory stands for those of the clouds."""

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
from rl_clarity.cli import main
from rl_clarity.errors import CheckpointError
from rl_clarity.jobs.directory import RemoteDirectory
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun, counted_tasks, files_of

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
    """Of the small run's checkpoint; its samples go to a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.filesystem("memory").pipe_file(f"{bucket}/agents/agent.jd", small_run.checkpoint.read_bytes())
    return f"{bucket}/agents/agent.jd"


def remote_files(address: str) -> dict[str, bytes]:
    directory = RemoteDirectory(address)
    return {name: directory.read(name) for name in sorted(directory.names()) if not name.endswith("run-log.json")}


def test_from_a_remote_checkpoint_to_a_remote_page(
    address: str, bucket: str, small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = rl_clarity.run(address, f"{bucket}/page", **SHORT)
    assert page.path == f"{bucket}/page/interface.html"
    assert page.results().frames(1).shape == (24, 64, 64, 3)
    # It is the page that is made here, byte for byte.
    (tmp_path / "here").mkdir()
    here = tmp_path / "here" / "agent.jd"
    here.write_bytes(small_run.checkpoint.read_bytes())
    rl_clarity.run(here, tmp_path / "page", **SHORT)
    assert remote_files(f"{bucket}/page") == files_of(tmp_path / "page")
    # And there is nothing left to do.
    with counted_tasks(monkeypatch) as done:
        assert rl_clarity.run(address, f"{bucket}/page", **SHORT) == page
    assert done == []


def test_a_remote_run_goes_on(explain: Explain, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(BaseException):
        pass

    def broken(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("rl_clarity.analyses.attribution.analysis.attribute_trajectory", broken)
        with pytest.raises(Stop):
            explain(f"{bucket}/stopped")
    assert not rl_clarity.open_results(f"{bucket}/stopped").manifest["complete"]
    with counted_tasks(monkeypatch) as done:
        explain(f"{bucket}/stopped")
    assert done == ["attribution/Relu_2/1", "attribution/Relu_2/2", "atlas", "examples/Relu_2"]
    explain(f"{bucket}/undisturbed")
    assert remote_files(f"{bucket}/stopped") == remote_files(f"{bucket}/undisturbed")


def test_addresses_of_files_are_of_this_machine(explain: Explain, small_run: SmallRun, tmp_path: Path) -> None:
    explain(tmp_path / "page")
    explain(f"file://{tmp_path}/by-address")
    assert files_of(tmp_path / "by-address") == files_of(tmp_path / "page")
    assert rl_clarity.load_agent(f"file://{small_run.checkpoint}").layers == small_run.agent.layers


def test_the_other_commands_take_addresses(
    explain: Explain, address: str, bucket: str, tmp_path: Path, capsys: Any
) -> None:
    explain(f"{bucket}/page")
    assert main(["inspect", address]) == 0
    assert main(["export", f"{bucket}/page", str(tmp_path / "numbers.npz"), "--frames", "1:4"]) == 0
    assert (tmp_path / "numbers.npz").stat().st_size > 0
    assert rl_clarity.load_agent(address).num_actions == 15


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("memory://nowhere/agent.jd", "cannot read the checkpoint memory://nowhere/agent.jd: no such file"),
        ("nosuch://bucket/agent.jd", "nosuch://bucket/agent.jd: .*nosuch"),
    ],
)
def test_checkpoints_that_cannot_be_had(given: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        rl_clarity.run(given, tmp_path / "page")
    assert not (tmp_path / "page").exists()


# --- what a store is told ------------------------------------------------------------------------------------------

TYPES = {
    "interface.html": "text/html; charset=utf-8",
    "interface.js": "text/javascript",
    "thumbnails/2b/1.png": "image/png",
    "run-log.json": "application/json",
}


class Store:
    """Notes what it is told of each file."""

    def __init__(self) -> None:
        self.told: dict[str, dict[str, Any]] = {}

    def makedirs(self, path: str, exist_ok: bool) -> None:
        pass

    def pipe_file(self, path: str, data: bytes, **told: Any) -> None:
        self.told[path] = told


@pytest.fixture
def told_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, dict[str, Any]]]:
    """What a directory of such an address tells its store of each kind of file."""

    def told(address: str) -> dict[str, dict[str, Any]]:
        store = Store()
        monkeypatch.setattr("fsspec.core.url_to_fs", lambda url: (store, "bucket/page"))
        directory = RemoteDirectory(address)
        for name in TYPES:
            directory.write(name, b"x")
        return {name: store.told[f"bucket/page/{name}"] for name in TYPES}

    return told


@pytest.mark.parametrize(
    ("protocol", "keyword"),
    [("s3", "ContentType"), ("s3a", "ContentType"), ("gs", "content_type"), ("gcs", "content_type")],
)
def test_files_are_served_as_what_they_are(protocol: str, keyword: str, told_by: Any) -> None:
    assert told_by(f"{protocol}://bucket/page") == {name: {keyword: kind} for name, kind in TYPES.items()}


@pytest.mark.parametrize("protocol", ["az", "abfs", "abfss", "adl"])
def test_azure_is_told_in_its_own_words(protocol: str, told_by: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class ContentSettings:
        def __init__(self, content_type: str) -> None:
            self.content_type = content_type

    for name in ("azure", "azure.storage", "azure.storage.blob"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["azure.storage.blob"].ContentSettings = ContentSettings  # type: ignore[attr-defined]
    told = told_by(f"{protocol}://bucket/page")
    assert {name: found["content_settings"].content_type for name, found in told.items()} == TYPES


def test_other_stores_are_told_nothing_they_do_not_know(told_by: Any) -> None:
    assert set(map(str, told_by("memory://bucket/page").values())) == {"{}"}

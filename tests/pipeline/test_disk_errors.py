"""A full disk or lost permissions: one message, no incomplete files, and the run can be resumed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.cli import main
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.chunks import decode_chunk, parse_script
from tests.pipeline.small import SmallRun, is_complete, read_files

NOBODY = 65534
OPTIONS = (
    *("--layer-kwargs.name-contains-one-of", "Relu_2", "--trajectories.num-envs", "2"),
    *("--trajectories.num-steps", "24"),
    *("--observations.num-envs", "8", "--observations.num-obs", "4", "--observations.obs-every", "3", "--json"),
)


@pytest.fixture
def agent_file(small_run: SmallRun, tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    shutil.copyfile(small_run.checkpoint, path)
    return path


@pytest.fixture
def uninterrupted(agent_file: Path, tmp_path: Path, capsys: Any) -> dict[str, bytes]:
    assert main(["run", str(agent_file), str(tmp_path / "uninterrupted"), *OPTIONS]) == 0
    capsys.readouterr()
    return read_files(tmp_path / "uninterrupted")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system of 600 kB."""
    mount = shutil.which("mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [str(mount), "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if mount is None or os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def assert_files_are_complete(directory: Path) -> None:
    for path in directory.rglob("*"):
        assert not path.name.endswith(".unfinished")
        if path.suffix == ".js":
            assert decode_chunk(parse_script(path.read_bytes()))
        if path.suffix == ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82")


def test_a_run_that_fills_the_disk_is_reported_and_can_be_resumed(
    agent_file: Path, uninterrupted: dict[str, bytes], small_disk: Path, capsys: Any
) -> None:
    command = ["run", str(agent_file), str(small_disk / "page"), *OPTIONS]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("rl-clarity: ") == 1
    assert "No space left on device" in printed.err
    assert "Traceback" not in printed.err
    assert not is_complete(small_disk / "page")
    assert_files_are_complete(small_disk / "page")
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    assert main(command) == 0
    assert read_files(small_disk / "page") == uninterrupted


@pytest.mark.usefixtures("one_task_at_a_time")  # another one could not remove its temporary file
@pytest.mark.parametrize("after", [0, 3, 12])
def test_a_run_that_loses_write_permission_can_be_resumed(
    after: int,
    agent_file: Path,
    uninterrupted: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    """After some files, root becomes nobody, and other users lose the right to write to the directory."""
    command, page = ["run", str(agent_file), str(tmp_path / "page"), *OPTIONS], tmp_path / "page"
    write, remaining = LocalDirectory.write, after

    def write_until_denied(self: LocalDirectory, name: str, data: Any) -> None:
        nonlocal remaining
        if remaining == 0 and os.geteuid() == 0:
            os.seteuid(NOBODY)
        elif remaining == 0:
            page.mkdir(exist_ok=True)
            page.chmod(0o500)
        remaining -= 1
        write(self, name, data)

    root = os.geteuid() == 0
    with monkeypatch.context() as patch:
        patch.setattr(LocalDirectory, "write", write_until_denied)
        try:
            assert main(command) == 1
        finally:
            if root:
                os.seteuid(0)
            elif page.exists():
                page.chmod(0o700)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("rl-clarity: ") == 1
    assert "Permission denied" in printed.err
    assert "Traceback" not in printed.err
    assert not is_complete(page)
    assert_files_are_complete(page)
    assert main(command) == 0
    assert read_files(page) == uninterrupted

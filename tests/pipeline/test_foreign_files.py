"""Files that the program did not write are not replaced, and nothing is written through links, by any command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.base.errors import OutputError
from rl_clarity.jobs.ownership import CLAIMS
from rl_clarity.jobs.store import WorkStore
from rl_clarity.jobs.tasks import Task
from tests.fakes import TinyEnvironment
from tests.pipeline.small import read_files
from tests.small_commands import LOGDIR, PAGES, explain_episodes, prepare_recording, publish_episodes, run, written

Command = Callable[..., None]
FILES = {
    "run": "observations/observations-1.png",
    "ablate": "behavior/report.json",
    "check": "checks/report.json",
    "compare": "agent-1/trajectories/1/series.js",
    "memory": "states/states.json",
    "debug": "findings/findings.json",
    "publish": "run-1/0/series-70.js",
}
"""A file in a folder of each page."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepare_recording(tmp_path / "work")


@pytest.fixture
def _no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("something is computed")

    monkeypatch.setattr(TinyEnvironment, "reset", fail)
    monkeypatch.setattr(Task, "batch", fail)


def write(path: Path, text: str = "mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.usefixtures("_no_work")
@pytest.mark.parametrize("command", PAGES)
def test_files_not_written_by_rl_clarity_are_refused_before_any_work(command: str, folder: Path) -> None:
    files = sorted([FILES[command], "run-log.json"])
    for name in files:
        write(folder / "output" / name)
    with pytest.raises(OutputError, match=rf"did not write.*{', '.join(files)}; move them.*\(--force\)"):
        PAGES[command](folder)
    assert read_files(folder / "output") == {name: b"mine" for name in files if name != "run-log.json"}
    assert (folder / "output/run-log.json").read_text() == "mine"


@pytest.mark.parametrize("command", PAGES)
def test_overwrite_replaces_only_files_that_the_command_writes(command: str, folder: Path) -> None:
    own = write(folder / "output" / FILES[command])
    others = [write(own.with_name("notes.txt")), write(folder / "output/notes.txt")]
    PAGES[command](folder, overwrite=True)
    assert own.read_bytes() != b"mine" or command == "publish"  # which has no file of this name
    PAGES[command](folder)  # nothing is left to do
    assert [path.read_text() for path in others] == ["mine", "mine"]


@pytest.mark.usefixtures("_no_work")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("command", PAGES)
def test_commands_write_nothing_through_symbolic_links(
    command: str, overwrite: bool, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (FILES[command].split("/")[0], ".rl-clarity", "run-log.json"):
        link = folder / "output" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(elsewhere)
        with pytest.raises(OutputError, match=f"contains links, and files are not written through links: {name}"):
            PAGES[command](folder, overwrite=overwrite)
        link.unlink()
    assert not list(elsewhere.iterdir())


def test_the_output_directory_itself_may_be_a_symbolic_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (folder / "output").symlink_to(tmp_path / "scratch")
    run(folder)
    assert (tmp_path / "scratch/interface.html").exists()


def test_a_users_file_in_a_finished_page_is_never_replaced(folder: Path) -> None:
    run(folder)
    name = "observations/observations-9.png"
    write(folder / "output" / name)
    run(folder)  # is finished
    next((folder / "output/thumbnails").rglob("*.png")).unlink()
    with pytest.raises(OutputError, match=name):
        run(folder)


def test_files_left_by_a_killed_command_are_recognized(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task's files are there, and nothing says yet that it is finished."""
    other = prepare_recording(tmp_path / "other")
    run(other)

    class Killed(BaseException):
        pass

    def kill(*arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(WorkStore, "enter", kill)
        with pytest.raises(Killed):
            run(folder)
    files = {name for name in read_files(folder / "output") if not name.startswith(".rl-clarity/")}
    assert len(files) > 1
    assert (folder / "output" / CLAIMS).exists()
    run(folder)
    assert written(folder) == written(other)
    assert not (folder / "output" / CLAIMS).exists()


def test_a_page_of_an_earlier_version_is_resumed(folder: Path) -> None:
    """It has no claims, but a run log and finished tasks."""
    run(folder)
    before = written(folder)
    for name in ("interface.html", ".rl-clarity/page.json"):
        (folder / "output" / name).unlink()
    run(folder)
    assert written(folder) == before


def test_explain_does_not_replace_a_users_file_beside_a_recording(folder: Path, tmp_path: Path) -> None:
    explained = folder / LOGDIR / "explained"
    path = write(explained / "00000/jacobian-1.js")
    write(explained / "notes.txt")
    with pytest.raises(OutputError, match=r"did not write.*: 00000/jacobian-1\.js; move them"):
        explain_episodes(folder)
    assert path.read_text() == "mine"
    path.unlink()
    explain_episodes(folder)
    explain_episodes(folder)
    assert (explained / "notes.txt").read_text() == "mine"
    assert not (explained / CLAIMS).exists()


@pytest.mark.parametrize("name", ["explained", "explained/.rl-clarity", "explained/00000", "explained/maps"])
def test_explain_writes_nothing_through_symbolic_links(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = folder / LOGDIR / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match=f"files are not written through links: {name}"):
        explain_episodes(folder)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_gallery_index_is_not_written_through_a_symbolic_link(folder: Path, tmp_path: Path) -> None:
    publish_episodes(folder)
    index = write(tmp_path / "index.html")
    (folder / "output/index.html").symlink_to(index)
    with pytest.raises(OutputError, match="is a link"):
        rl_clarity.gallery(folder / "output", overwrite=True)
    assert index.read_text() == "mine"


def test_an_analysis_may_write_only_into_its_declared_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rl_clarity.analyses.trajectories import TrajectoriesAnalysis

    monkeypatch.setattr(TrajectoriesAnalysis, "folders", lambda self, options: ["elsewhere"])
    with pytest.raises(OutputError, match=r"an analysis tried to write trajectories/1/.* override Analysis.folders"):
        run(folder)

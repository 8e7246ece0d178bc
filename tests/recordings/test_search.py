"""Which recordings of a log directory are found, and which links are followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_clarity.recordings.search import FoundRecording, find_recordings
from tests.recordings.episodes import make_recording

TRAINING = "plugins/rl_clarity/training"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A run on another disk."""
    make_recording(tmp_path / "scratch/exp", (3,), name="training")
    return tmp_path / "scratch/exp"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A log directory with one run."""
    make_recording(tmp_path / "runs/own", (3,), name="training")
    return tmp_path / "runs"


def problems(runs: Path, *, follow_links: bool = False) -> dict[str, str | None]:
    found = find_recordings(runs, follow_links=follow_links)
    return {Path(one.location).relative_to(runs).as_posix(): one.problem for one in found}


def test_a_symbolic_link_to_a_run_is_followed_only_on_request(runs: Path, scratch: Path) -> None:
    (runs / "linked").symlink_to(scratch)
    expected = f"a link to {scratch}, not followed; use --follow-links (follow_links=True) to follow it"
    assert problems(runs) == {"linked": expected, f"own/{TRAINING}": None}
    assert problems(runs, follow_links=True) == {f"linked/{TRAINING}": None, f"own/{TRAINING}": None}
    assert find_recordings(runs, follow_links=True)[0] == FoundRecording(f"{runs}/linked/{TRAINING}", str(scratch))


@pytest.mark.parametrize("link", ["exp/plugins", "exp/plugins/rl_clarity", f"exp/{TRAINING}", "group"])
def test_symbolic_links_at_every_level_are_followed_on_request(runs: Path, scratch: Path, link: str) -> None:
    (runs / link).parent.mkdir(parents=True, exist_ok=True)
    (runs / link).symlink_to(scratch.parent / link if link != "group" else scratch.parent)
    assert "a link to " in str(problems(runs)[link])
    location = f"group/exp/{TRAINING}" if link == "group" else f"exp/{TRAINING}"
    assert problems(runs, follow_links=True) == {location: None, f"own/{TRAINING}": None}


def test_symbolic_links_of_other_owners_are_never_followed(
    runs: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "linked").symlink_to(scratch)
    if os.geteuid() == 0:
        os.chown(runs / "linked", 12345, -1, follow_symlinks=False)
    else:  # the log directory is that of another user
        stat = Path.stat
        other = os.stat_result([*range(4), os.geteuid() + 1, *range(5)])
        monkeypatch.setattr(Path, "stat", lambda path, **kw: other if path == runs and not kw else stat(path, **kw))
    expected = f"a link to {scratch}, not followed because it does not belong to the owner of {runs}"
    assert problems(runs, follow_links=True)["linked"] == expected


def test_circular_symbolic_links_do_not_loop_forever(runs: Path, scratch: Path) -> None:
    (runs / "up").symlink_to(runs.parent)
    (runs / "circle").symlink_to(runs / "circle")
    (scratch / "back").symlink_to(runs)
    (runs / "linked").symlink_to(scratch)
    found = problems(runs, follow_links=True)
    assert found[f"own/{TRAINING}"] is None
    assert f"linked/{TRAINING}" in found
    assert "which does not exist or cannot be read" in str(found["circle"])
    assert len(found) < 20


def test_a_second_link_to_the_same_folder_is_reported(runs: Path, scratch: Path) -> None:
    for name in ("a", "b"):
        (runs / name).symlink_to(scratch)
    found = problems(runs, follow_links=True)
    assert sorted(map(str, found.values())).count("None") == 2
    assert any(f"a link to {scratch}, which is already searched through" in str(problem) for problem in found.values())


def test_links_to_searched_folders_or_files_are_not_reported(runs: Path, tmp_path: Path) -> None:
    (runs / "latest").symlink_to(runs / "own")
    (tmp_path / "notes.txt").touch()
    (runs / "notes").symlink_to(tmp_path / "notes.txt")
    (runs / ".#notes").symlink_to("user@machine.1")
    assert problems(runs) == {f"own/{TRAINING}": None}


def test_a_dangling_symbolic_link_is_reported(runs: Path, tmp_path: Path) -> None:
    (runs / "purged").symlink_to(tmp_path / "gone")
    expected = f"a link to {tmp_path}/gone, which does not exist or cannot be read"
    for follow_links in (False, True):
        assert problems(runs, follow_links=follow_links)["purged"] == expected


def test_an_unreadable_folder_is_reported(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / "secret").mkdir()
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    expected = f"it cannot be searched: {runs}/secret: Permission denied"
    assert problems(runs) == {f"own/{TRAINING}": None, "secret": expected}


def test_a_relative_log_directory_is_searched(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs / "own")
    assert [one.location for one in find_recordings(".")] == [TRAINING]

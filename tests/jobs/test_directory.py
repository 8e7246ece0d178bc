import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.jobs.directory import Directory, LocalDirectory, open_directory


@pytest.fixture(params=["local", "memory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    return open_directory(tmp_path / "page" if request.param == "local" else f"memory://{uuid.uuid4()}/page")


def test_written_files_can_be_read_replaced_and_removed(directory: Directory) -> None:
    assert directory.names() == set()
    directory.write("a/b/c.js", b"one")
    directory.write("d.png", [b"t", b"wo"])
    assert directory.read("a/b/c.js") == b"one"
    assert directory.read("d.png") == b"two"
    assert directory.names() == {"a/b/c.js", "d.png"}
    directory.write("d.png", b"three")
    assert directory.read("d.png") == b"three"
    directory.remove("d.png")
    directory.remove("d.png")
    assert directory.names() == {"a/b/c.js"}


def test_reading_a_missing_file_raises_file_not_found(directory: Directory) -> None:
    with pytest.raises(FileNotFoundError):
        directory.read("none.js")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//b", "", "a b"])
def test_invalid_file_names_are_refused(directory: Directory, name: str) -> None:
    with pytest.raises(OutputError, match="invalid file name"):
        directory.write(name, b"")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    directory.write("x.js", b"old")

    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"x\.js: No space left"):
        directory.write("x.js", pieces())
    assert [path.name for path in tmp_path.iterdir()] == ["x.js"]
    assert directory.read("x.js") == b"old"


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    names: list[str] = []

    def pieces() -> Iterator[bytes]:
        yield b"half"
        names.extend(path.name for path in tmp_path.iterdir())
        assert directory.names() == set()

    directory.write("x.js", pieces())
    assert len(names) == 1
    assert names != ["x.js"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.js"]


def test_a_directory_with_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(OutputError, match="nosuch://bucket"):
        open_directory("nosuch://bucket/page")

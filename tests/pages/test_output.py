from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.output import check_output_directory
from tests.pages.pages import write_small_page


def check(path: Path, **options: Any) -> None:
    check_output_directory(LocalDirectory(path), **options)


def test_new_and_empty_output_directories_are_accepted(tmp_path: Path) -> None:
    check(tmp_path / "new" / "page")
    check(tmp_path)
    assert not (tmp_path / "new").exists()


def test_another_page_is_not_overwritten(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path))
    before = (tmp_path / "interface.html").read_bytes()
    with pytest.raises(OutputError, match=r"A page.*overwrite=True"):
        check(tmp_path, page_id="another")
    assert (tmp_path / "interface.html").read_bytes() == before


def test_the_same_page_can_be_resumed(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path))
    check(tmp_path, page_id="0123abcd")
    assert (tmp_path / "interface.html").exists()


def test_checking_an_output_directory_changes_nothing(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    write_small_page(directory)
    before = directory.names()
    check(tmp_path, overwrite=True)
    assert directory.names() == before


def test_an_unreadable_page_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "interface.html").write_text("notes")
    with pytest.raises(OutputError, match="already holds a page"):
        check(tmp_path)


def test_a_file_is_refused_as_output_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        check(tmp_path / "file")

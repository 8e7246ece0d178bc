from pathlib import Path

import pytest

from rl_clarity.errors import OutputError
from rl_clarity.pages.files import LocalDirectory
from rl_clarity.pages.output import check_output_directory
from tests.pages.pages import write_small_page


def test_a_new_or_empty_directory_is_fine(tmp_path: Path) -> None:
    assert check_output_directory(tmp_path / "new" / "page").location == str(tmp_path / "new" / "page")
    check_output_directory(tmp_path)
    assert not (tmp_path / "new").exists()


def test_another_page_is_not_overwritten(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path))
    before = (tmp_path / "interface.html").read_bytes()
    with pytest.raises(OutputError, match=r"A page.*overwrite=True"):
        check_output_directory(tmp_path, page_id="another")
    assert (tmp_path / "interface.html").read_bytes() == before


def test_the_same_page_may_be_gone_on_with(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path))
    check_output_directory(tmp_path, page_id="0123abcd")
    assert (tmp_path / "interface.html").exists()


def test_checking_changes_nothing(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    write_small_page(directory)
    before = directory.names()
    check_output_directory(tmp_path, overwrite=True)
    assert directory.names() == before


def test_a_page_that_cannot_be_read_is_still_somebodys(tmp_path: Path) -> None:
    (tmp_path / "interface.html").write_text("notes")
    with pytest.raises(OutputError, match="already holds a page"):
        check_output_directory(tmp_path)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        check_output_directory(tmp_path / "file")

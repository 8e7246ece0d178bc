"""Verification of pages: what is missing, damaged, changed or extra."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from rl_clarity.base.errors import ClarityError
from rl_clarity.base.keys import as_json
from rl_clarity.jobs.directory import Directory, LocalDirectory, open_directory
from rl_clarity.pages.document import FILES, is_intact
from rl_clarity.pages.verification import Verification, verify
from tests.pages.pages import write_small_page

CHUNK, IMAGE = "trajectories/1/series.js", "observations/observations-1.png"


def write_page_with_checksums(directory: Directory) -> None:
    write_small_page(directory)
    names = directory.names() - {"interface.html"}
    directory.write(FILES, as_json({name: directory.checksum(name) for name in sorted(names)}).encode())


@pytest.fixture(params=["local", "remote"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    directory = open_directory(tmp_path / "page" if request.param == "local" else f"memory://{uuid.uuid4()}/page")
    write_page_with_checksums(directory)
    return directory


def problems(result: Verification) -> list[tuple[str, str]]:
    return list(result.problems())


def test_an_unchanged_page_passes_verification(directory: Directory) -> None:
    directory.write("run-log.json", b"{}")
    result = verify(directory.location)
    assert problems(result) == []
    assert result.files == len(directory.names()) - 2  # the log, and the checksums


def test_verify_reports_each_kind_of_problem(directory: Directory) -> None:
    directory.remove(CHUNK)
    content = directory.read(IMAGE)
    directory.write(IMAGE, content[:-20])
    directory.write("notes.txt", b"mine")
    names = sorted(name for name in directory.names() if name.startswith("attribution/2b"))
    directory.write(names[0], directory.read(names[1]))
    directory.write(names[2], b"")
    document = directory.read("interface.html")
    directory.write("interface.html", document.replace(b"<title>A page", b"<title>B page"))
    assert problems(verify(directory.location)) == [
        ("missing", CHUNK),
        ("damaged", names[2]),
        ("damaged", IMAGE),
        ("changed", "interface.html"),
        ("changed", names[0]),
        ("extra", "notes.txt"),
    ]


@pytest.mark.parametrize("name", [CHUNK, IMAGE])
def test_verify_finds_any_flipped_bit(name: str, tmp_path: Path) -> None:
    write_page_with_checksums(LocalDirectory(tmp_path))
    path = tmp_path / name
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert [found for _, found in verify(tmp_path).problems()] == [name]


def test_verify_finds_a_truncated_html_file(tmp_path: Path) -> None:
    write_page_with_checksums(LocalDirectory(tmp_path))
    document = (tmp_path / "interface.html").read_bytes()
    assert is_intact(document)
    (tmp_path / "interface.html").write_bytes(document[:-200] + b"\n")
    assert problems(verify(tmp_path)) == [("damaged", "interface.html")]
    (tmp_path / "interface.html").write_bytes(document[:200])
    with pytest.raises(ClarityError, match="contains no manifest"):
        verify(tmp_path)


def test_verify_reports_missing_and_damaged_data_of_a_single_file_page(tmp_path: Path) -> None:
    data = LocalDirectory(tmp_path / "data")
    write_small_page(LocalDirectory(tmp_path / "page"), data=data, single_file=True)
    page = tmp_path / "page" / "interface.html"
    assert problems(verify(page)) == []
    document = page.read_text()
    chunk = re.search(rf'<script type="text/plain" data-chunk="{CHUNK}">.*?</script>\n', document, re.DOTALL)
    image = re.search(rf'<script type="text/plain" data-image="{IMAGE}">(.*?)</script>\n', document, re.DOTALL)
    assert chunk is not None
    assert image is not None
    page.write_text(document.replace(chunk[0], "").replace(image[1], image[1][: len(image[1]) // 8 * 4]))
    assert problems(verify(page)) == [("missing", CHUNK), ("damaged", IMAGE), ("changed", "interface.html")]


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ('"version":2', '"version":3', "has format version 3"),
        ('"version":2', '"version":1', "has format version 1"),
        ('"complete":true', '"complete":false', "is not finished"),
    ],
)
def test_unfinished_and_unsupported_pages_cannot_be_verified(
    replaced: str, by: str, message: str, tmp_path: Path
) -> None:
    write_page_with_checksums(LocalDirectory(tmp_path))
    document = (tmp_path / "interface.html").read_text()
    assert replaced in document
    (tmp_path / "interface.html").write_text(document.replace(replaced, by))
    with pytest.raises(ClarityError, match=message):
        verify(tmp_path)


def test_verify_refuses_a_page_without_checksums(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path))
    with pytest.raises(ClarityError, match=rf"{re.escape(FILES)}, which lists its files, is missing"):
        verify(tmp_path)


def test_verify_refuses_a_directory_without_a_page(tmp_path: Path) -> None:
    with pytest.raises(ClarityError, match="contains no page"):
        verify(tmp_path)

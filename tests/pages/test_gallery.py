from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import ClarityError, OutputError
from rl_clarity.cli import main
from rl_clarity.jobs.directory import LocalDirectory, open_directory
from rl_clarity.pages.document import read_manifest, write_page
from rl_clarity.pages.files import PageFiles
from tests.pages.pages import BUNDLE, write_small_page


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page in a subdirectory of `tmp_path`."""
    write_small_page(LocalDirectory(tmp_path / "one"))
    return tmp_path / "one"


def entries(root: Path) -> list[dict[str, object]]:
    pages: list[dict[str, object]] = read_manifest((root / "index.html").read_bytes())["pages"]
    return pages


def test_the_gallery_of_the_same_pages_has_the_same_bytes(tmp_path: Path, page: Path) -> None:
    (page / "run-log.json").write_text(json.dumps({"runs": [{"ended": "2026-02-03T04:05:06+01:00"}]}))
    result = rl_clarity.gallery(tmp_path)
    first = (tmp_path / "index.html").read_bytes()
    rl_clarity.gallery(tmp_path)
    assert (tmp_path / "index.html").read_bytes() == first
    assert (result.path, result.pages, result.problems) == (tmp_path / "index.html", 1, {})
    (entry,) = entries(tmp_path)
    assert (entry["date"], entry["date_from"]) == ("2026-02-03T03:05:06+00:00", "run log")
    assert str(tmp_path) not in first.decode()


@pytest.mark.parametrize("log", ["", "{}", '{"runs": []}', '{"runs": [{"ended": 7}]}'])
def test_a_page_without_a_readable_run_log_has_the_date_of_its_file(tmp_path: Path, page: Path, log: str) -> None:
    (page / "run-log.json").write_text(log)
    rl_clarity.gallery(tmp_path)
    assert entries(tmp_path)[0]["date_from"] == "file"


def test_the_gallery_lists_a_single_file_page(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path / "one"), single_file=True, data=LocalDirectory(tmp_path / "data"))
    assert not rl_clarity.gallery(tmp_path).problems
    assert str(entries(tmp_path)[0]["image"]).startswith("data:image/png;base64,")


def test_the_gallery_lists_an_unfinished_page_with_the_reason(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path / "one")
    manifest = write_small_page(directory)
    (tmp_path / "one" / manifest["sections"][0]["data"]["trajectories"][0]["series"]).unlink()
    write_small_page(directory, changes={"complete": False})
    assert "not finished" in rl_clarity.gallery(tmp_path).problems["one"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text[:3000], "manifest"),
        (lambda text: text.replace('"version":2', '"version":1'), "version 1"),
        (lambda text: text.replace("A page", "B page"), "checksum"),
        (lambda text: "", "manifest"),
    ],
)
def test_the_gallery_lists_an_unreadable_page_with_the_reason(tmp_path: Path, page: Path, change, problem) -> None:  # type: ignore[no-untyped-def]
    document = page / "interface.html"
    document.write_text(change(document.read_text()))
    result = rl_clarity.gallery(tmp_path)
    assert problem in result.problems["one"]
    assert str(tmp_path) not in (tmp_path / "index.html").read_text()


def test_the_gallery_names_missing_data_without_the_local_path(tmp_path: Path, page: Path) -> None:
    for name in page.rglob("series*.js"):
        name.unlink()
    assert "series.js is missing in one" in rl_clarity.gallery(tmp_path).problems["one"]


def test_the_gallery_does_not_replace_another_index_html(tmp_path: Path, page: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(OutputError, match="that is not a gallery"):
        rl_clarity.gallery(tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"
    rl_clarity.gallery(tmp_path, overwrite=True)
    assert len(entries(tmp_path)) == 1


def test_the_gallery_matches_features_of_pages_of_the_same_recording(tmp_path: Path) -> None:
    data = LocalDirectory(tmp_path / "data")
    manifest = write_small_page(LocalDirectory(tmp_path / "one"), single_file=True, data=data)
    arrays = rl_clarity.open_results(tmp_path / "one").features("2b")
    components = arrays["components"][::-1].copy()
    components[0] = np.eye(components.shape[1])[0]
    chunk = manifest["sections"][1]["data"]["layers"]["2b"]["chunk"]
    PageFiles(data).write_chunk(chunk, {**arrays, "components": components})
    write_page(LocalDirectory(tmp_path / "two"), manifest, bundle=BUNDLE, single_file=True, data=data)
    rl_clarity.gallery(tmp_path)
    one, two = (dict(entry["matches"]) for entry in entries(tmp_path))  # type: ignore[call-overload]
    assert one == {"two": {"2b": [{"number": 3, "similarity": 1}, {"number": 2, "similarity": 1}, None]}}
    assert two == {"one": {"2b": [None, {"number": 2, "similarity": 1}, {"number": 1, "similarity": 1}]}}


def test_the_gallery_refuses_a_directory_without_pages(tmp_path: Path) -> None:
    with pytest.raises(ClarityError, match="contains no pages"):
        rl_clarity.gallery(tmp_path)
    assert not (tmp_path / "index.html").exists()


def test_the_gallery_lists_a_page_in_its_own_directory(page: Path) -> None:
    rl_clarity.gallery(page)
    assert [entry["href"] for entry in entries(page)] == ["./interface.html"]


def test_a_gallery_of_a_remote_directory_is_written() -> None:
    address = f"memory://{uuid.uuid4().hex}"
    write_small_page(open_directory(f"{address}/deep/one"))
    result = rl_clarity.gallery(address)
    assert (result.path, result.pages) == (f"{address}/index.html", 1)
    (entry,) = read_manifest(open_directory(address).read("index.html"))["pages"]
    assert (entry["href"], "date" in entry) == ("./deep/one/interface.html", False)


def test_the_gallery_command_prints_problems_and_the_path(
    tmp_path: Path, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (page / "interface.html").write_text("")
    assert main(["gallery", str(tmp_path), "--title", "Mine"]) == 0
    problem, path = capsys.readouterr().out.splitlines()
    assert problem.startswith("one: not a page of rl-clarity")
    assert path == f"The index of 1 page is {tmp_path / 'index.html'}"
    assert main(["gallery", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pages"] == 1

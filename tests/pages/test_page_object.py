from pathlib import Path

import pytest

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.results import Page
from tests.pages.pages import write_small_page


def test_a_page_object_is_displayed_in_notebooks_as_an_iframe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(tmp_path / 'an "odd" folder' / "interface.html")
    assert '<iframe src="an &quot;odd&quot; folder/interface.html"' in page._repr_html_()


def test_a_page_object_opens_in_the_web_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    Page(tmp_path / "interface.html").open()
    assert opened == [(tmp_path / "interface.html").as_uri()]


def test_the_results_of_a_page_object_have_its_layers(tmp_path: Path) -> None:
    write_small_page(LocalDirectory(tmp_path))
    assert Page(tmp_path / "interface.html").results().layers == ["2b", "input"]

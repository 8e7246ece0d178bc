"""The page of a running job can be opened at any time, and lists what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.base.errors import ClarityError
from rl_clarity.pages import output
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.manifest import section_data
from tests.browser.conftest import open_page as open_page  # fixtures
from tests.browser.conftest import reused_context as reused_context
from tests.browser.pages import Visitor
from tests.pipeline.conftest import Explain
from tests.pipeline.small import read_files


class Stop(BaseException):
    """An interruption that no code catches."""


@pytest.fixture
def stop_at(
    explain: Explain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, one_task_at_a_time: None
) -> Callable[..., Path]:
    """Make a page until the first task with a prefix, and return the directory of the incomplete page."""

    def stop(prefix: str, **options: Any) -> Path:
        from rl_clarity.jobs import tasks

        run = tasks._run

        def run_until(task: Any, *rest: Any) -> None:
            if task.name.startswith(prefix):
                raise Stop
            run(task, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(output, "SECONDS_BETWEEN_UPDATES", 0.0)
            patch.setattr(output, "UPDATE_RATIO", 0)
            patch.setattr(tasks, "_run", run_until)
            with pytest.raises(Stop):
                explain(**options)
        return tmp_path / "page"

    return stop


def load_manifest(directory: Path) -> dict[str, Any]:
    return read_manifest((directory / "interface.html").read_bytes())


@pytest.mark.parametrize("options", [{}, {"single_file": True}, {"inline_js": False}], ids=str)
def test_an_unfinished_page_lists_its_missing_files(stop_at: Callable[..., Path], options: dict[str, Any]) -> None:
    directory = stop_at("attribution/Relu_2/2", **options)
    manifest = load_manifest(directory)
    assert not manifest["complete"]
    layer = section_data(manifest, "attribution")["layers"][0]
    missing = set(manifest["missing"])
    chunk = section_data(manifest, "features")["layers"]["Relu_2"]["chunk"]
    assert missing == {layer["totals"][1], *layer["attribution"]["value"][1], chunk}
    results = rl_clarity.open_results(directory)
    assert results.frames(1).shape == (24, 64, 64, 3)
    assert results.attribution("Relu_2", 0).channels.shape == (24, 4, 4, 8)
    with pytest.raises(ClarityError, match=r"attribution.* is missing in .*the page is not complete"):
        results.attribution("Relu_2", 1)


def test_a_page_lists_all_files_as_missing_at_first(stop_at: Callable[..., Path]) -> None:
    manifest = load_manifest(stop_at("features"))
    trajectory = section_data(manifest, "trajectories")["trajectories"][1]
    names = [trajectory["series"], *trajectory["scrub"], *trajectory["frames"], *trajectory["images"]]
    layer = section_data(manifest, "attribution")["layers"][0]
    names += [*layer["totals"], *layer["attribution"]["value"][0]]
    features = section_data(manifest, "features")["layers"]["Relu_2"]
    assert {*names, features["chunk"], *features["thumbnails"]} <= set(manifest["missing"])
    assert any(section_data(manifest, "trajectories")["bookmarks"].values())


def test_files_left_by_another_page_count_as_missing(
    explain: Explain, stop_at: Callable[..., Path], tmp_path: Path
) -> None:
    explain()
    manifest = load_manifest(stop_at("attribution", attr_integrate_steps=2, overwrite=True))
    layer = section_data(manifest, "attribution")["layers"][0]
    assert (tmp_path / "page" / layer["totals"][0]).exists()  # of the previous page
    assert set(layer["totals"]) <= set(manifest["missing"])


@pytest.mark.parametrize("options", [{}, {"single_file": True}, {"inline_js": False}], ids=str)
def test_the_finished_page_replaces_the_unfinished_page(
    explain: Explain, stop_at: Callable[..., Path], tmp_path: Path, options: dict[str, Any]
) -> None:
    explain(tmp_path / "uninterrupted", **options)
    directory = stop_at("attribution/Relu_2/1", **options)
    explain(**options)
    assert read_files(directory) == read_files(tmp_path / "uninterrupted")


def test_an_unfinished_page_is_replaced_without_overwrite(explain: Explain, stop_at: Callable[..., Path]) -> None:
    stop_at("attribution")
    assert explain(title="B").manifest["complete"]


# --- in the browser ------------------------------------------------------------------------------------------------

NOTES = {
    "features": "frames of all trajectories; features of conv 3; attribution to conv 3.",
    "trajectories/2": "frames of trajectory 2; attribution to conv 3.",
    "attribution/Relu_2/2": "attribution to conv 3 on trajectory 2.",
}


@pytest.mark.browser
@pytest.mark.parametrize("task", NOTES)
def test_an_unfinished_page_opens_in_the_browser_without_an_error(
    task: str, stop_at: Callable[..., Path], open_page: Callable[..., Visitor], tmp_path: Path
) -> None:
    directory = stop_at(task)
    shutil.copytree(directory, tmp_path / "copy")
    visitor = open_page(tmp_path / "copy", wait=False)
    note = visitor.page.get_by_role("note")
    note.wait_for()
    assert f"Still missing: {NOTES[task]}" in " ".join(note.inner_text().split())
    for trajectory in (1, 0):  # first with missing files, then perhaps without: no request may fail
        visitor.page.evaluate("(t) => window.rlClarity.select({ trajectory: t })", trajectory)
        visitor.page.wait_for_timeout(400)
    assert visitor.messages == []

"""A page of any kind whose command was stopped half-way shows what is done, and names what is not computed yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from rl_clarity.jobs import tasks
from rl_clarity.pages import output
from rl_clarity.pages.document import read_manifest
from tests.browser.pages import Visitor
from tests.pipeline.small import record_tasks
from tests.small_commands import PAGES, prepare

Open = Callable[..., Visitor]
KINDS = [name for name in PAGES if name != "publish"]  # its tasks are those of explain


class Stop(BaseException):
    """An interruption that no code catches."""


def stop_after(count: int, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a page until so many tasks of its analyses have finished, and return its directory."""
    finished = 0
    run = tasks._run

    def run_some(task: Any, *rest: Any) -> None:
        nonlocal finished
        if not task.name.startswith(("playing/", "play/")):
            if finished == count:
                raise Stop
            finished += 1
        run(task, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(output, "SECONDS_BETWEEN_UPDATES", 0.0)
        patch.setattr(output, "UPDATE_RATIO", 0)
        patch.setattr(tasks, "_run", run_some)
        with pytest.raises(Stop):
            PAGES[kind](prepare(folder))
    return folder / "output"


@pytest.fixture(scope="module")
def task_names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By kind, the tasks of the whole page in the order in which they finish."""
    names: dict[str, list[str]] = {}
    for kind in KINDS:
        with pytest.MonkeyPatch.context() as patch, record_tasks(patch) as recorded:
            PAGES[kind](prepare(tmp_path_factory.mktemp(kind)))
        names[kind] = [name for name in recorded if not name.startswith(("playing/", "play/"))]
    return names


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_an_unfinished_page_shows_finished_sections_and_names_others(
    kind: str, task_names: dict[str, list[str]], tmp_path: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = task_names[kind]
    for count in sorted({0, len(names) // 2, len(names) - 1}):
        directory = stop_after(count, kind, tmp_path / str(count), monkeypatch)
        manifest = read_manifest((directory / "interface.html").read_bytes())
        assert manifest["complete"] is False
        visitor = open_page(directory, wait=False)
        expect(visitor.page.get_by_text("This page is unfinished.").first).to_be_visible()
        visitor.page.wait_for_timeout(300)
        text = visitor.page.locator("body").inner_text()
        for wrong in ("is missing", "undefined", "This page has no"):
            assert wrong not in text
        assert visitor.messages == []
        waiting = [title for title in manifest.get("pending", []) if title not in text]
        assert kind == "compare" or not waiting


@pytest.mark.browser
def test_an_unfinished_compare_page_shows_the_finished_checkpoints(
    tmp_path: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maps of both checkpoints are done, and the frames of the first one."""
    directory = stop_after(3, "compare", tmp_path, monkeypatch)
    visitor = open_page(directory, wait=False)
    note = visitor.page.get_by_role("note")
    note.wait_for()
    assert "1 of 2 checkpoints are done. Not computed yet: agent-2, the comparison on one" in note.inner_text()
    assert "agent-1" in visitor.text("film-1")
    assert "step 1 of" in visitor.text("film-1")
    assert "not computed yet" in visitor.text("checkpoint-2")
    visitor.by("compare-2").check()
    assert "agent-2 is not computed yet" in visitor.text("film-2")
    expect(visitor.by("marker-2")).to_have_count(1)
    assert visitor.messages == []

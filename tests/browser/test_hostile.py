"""Addresses, notes and storage that somebody else has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Visitor

Open = Callable[..., Visitor]
MARKUP = "</textarea><img src=x onerror=\"document.title='broken'\">"
SETTINGS, NOTES = "rl-clarity:synthetic-0001:settings", "rl-clarity:synthetic-0001:notes"


@pytest.mark.parametrize(
    "query",
    [
        "?layer=<img src=x onerror=alert(1)>&trajectory=-3&frame=NaN",
        "?layer=2b&trajectory=99999999999999999999&frame=1e99&opacity=7&threshold=Infinity&channels=0.-1.999.x",
        "?rows=<svg onload=alert(1)>,constructor~__proto__~-1&scale=constructor&feature=1e9",
        "?frame=%00%E0%A4%A&layer=%u0031&embed=1&panel=constructor",
        "?rows=" + ",".join(["value"] * 3000),
    ],
)
def test_an_address_with_invalid_parameters_still_shows_the_page(synthetic: Path, open_page: Open, query: str) -> None:
    # An empty list is valid: there is no image then, and the page reports it.
    visitor = open_page(synthetic, query, wait=False)
    visitor.by("panel-attribution").wait_for()
    state, manifest = visitor.state(), visitor.page.evaluate("rlClarity.manifest")
    assert 0 <= state["frame"] < manifest["trajectories"][state["trajectory"]]["steps"]
    assert len(state["rows"]) <= 12
    if state["rows"]:
        visitor.settle()
    else:
        assert "No output is selected" in visitor.text("panel-attribution")
    expect(visitor.page.locator("img[src=x]")).to_have_count(0)
    before = visitor.frame()
    visitor.press("ArrowRight")
    assert visitor.frame() == before + 1


def read_notes(visitor: Visitor, name: str, content: str) -> None:
    visitor.by("notes-import").set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": content.encode()}
    )


def test_imported_notes_are_shown_as_plain_text(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.press("n")
    note: dict[str, Any] = {"id": "1", "text": MARKUP, "query": "?layer=3a&trajectory=2&frame=7", "place": MARKUP}
    others: list[Any] = [
        note,
        {**note, "text": "the same id"},
        {**note, "id": {}},
        {**note, "query": "javascript:alert(1)"},
    ]
    others += [{**note, "id": None, "query": "?layer=<img src=x>&frame=-1"}, 7, None, {"text": "no link"}]
    read_notes(visitor, "others.json", json.dumps({"format": "rl-clarity-notes", "notes": others}))
    shown = visitor.by("notes").get_by_role("textbox")
    shown.nth(2).wait_for()
    assert [box.input_value() for box in shown.all()] == ["the same id", MARKUP, MARKUP]
    visitor.by("notes").get_by_role("button", name="</textarea>").first.click()
    visitor.settle()
    state = visitor.state()
    assert (state["layer"], state["trajectory"], state["frame"]) == (4, 1, 6)
    assert visitor.page.title() != "broken"
    expect(visitor.page.locator("img[src=x]")).to_have_count(0)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("null", "does not contain notes"),
        ('{"format": "rl-clarity-notes", "notes": {"length": 3}}', "does not contain notes"),
        (" " * 5_000_001, "too large"),
    ],
)
def test_a_file_that_contains_no_notes_is_refused(synthetic: Path, open_page: Open, content: str, problem: str) -> None:
    visitor = open_page(synthetic)
    visitor.press("n")
    read_notes(visitor, "notes.json", content)
    assert problem in visitor.by("drawer").get_by_role("alert").inner_text()


@pytest.mark.parametrize("storage", ["forbidden", "full"])
def test_the_page_works_without_local_storage(synthetic: Path, open_page: Open, storage: str, tmp_path: Path) -> None:
    forbid = {
        "forbidden": "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no'); } });",
        "full": "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };",
    }[storage]
    visitor = open_page(synthetic, "?layer=2b&frame=30", init_script=forbid)
    visitor.press("n")
    expect(visitor.by("notes-lost")).to_have_count(0)
    visitor.by("note-text").fill("kept by nobody")
    visitor.click("note-add")
    assert "cannot store" in visitor.text("notes-lost")
    assert "kept by nobody" in visitor.saved("notes-export").read_text()
    visitor.click("theme")
    assert visitor.page.evaluate("document.documentElement.dataset.theme") == "light"


def test_invalid_stored_settings_are_ignored(synthetic: Path, open_page: Open) -> None:
    settings = {"theme": "__proto__", "palette": {}, "toured": "yes", "totals": MARKUP}
    kept = {SETTINGS: json.dumps(settings), NOTES: json.dumps([None, 3, {"text": MARKUP}, {"text": "x", "query": "?"}])}
    script = "".join(f"localStorage.setItem({json.dumps(key)}, {json.dumps(value)});" for key, value in kept.items())
    visitor = open_page(synthetic, "?layer=2b&frame=30", init_script=script)
    assert visitor.page.evaluate("document.documentElement.dataset.theme") in ("light", "dark")
    visitor.press("n")
    expect(visitor.by("notes").get_by_role("textbox")).to_have_count(1)


def test_an_exported_animation_has_a_file_name_and_frame_times(
    synthetic: Path, open_page: Open, tmp_path: Path
) -> None:
    from PIL import Image

    visitor = open_page(synthetic, "?layer=2b&trajectory=2&frame=30")
    visitor.page.get_by_label("fps").fill("20")
    visitor.page.get_by_label("fps").press("Enter")
    visitor.click("open-export")
    visitor.by("export-from").fill("30")
    visitor.by("export-to").fill("33")
    with visitor.page.expect_download() as download:
        visitor.click("export-apng")
    assert download.value.suggested_filename == "trajectory-2-frames-30-33-2b.png"
    with Image.open(download.value.path()) as image:
        durations = []
        for frame in range(image.n_frames):  # type: ignore[attr-defined]
            image.seek(frame)
            durations.append(image.info["duration"])
    assert durations == [50, 50, 50, 50]


def test_at_most_a_hundred_notes_get_text_fields(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    visitor.press("n")
    note = {"text": "a note", "query": "?layer=3a&trajectory=2&frame=7", "place": "trajectory 2, frame 7"}
    notes = [{**note, "id": str(index), "text": f"note {index}"} for index in range(10_000)]
    content = json.dumps({"format": "rl-clarity-notes", "notes": notes})
    read_notes(visitor, "many.json", content)
    visitor.by("notes-earlier").wait_for()
    shown = visitor.by("notes").get_by_role("textbox")
    expect(shown).to_have_count(100)
    assert shown.last.input_value() == "note 9999"
    visitor.by("notes-earlier").click()
    expect(shown).to_have_count(200)
    assert shown.first.input_value() == "note 9800"

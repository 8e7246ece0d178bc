"""The page of sanity checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.analyses import check_pages
from tests.browser.pages import Visitor


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    directory = tmp_path_factory.mktemp("checks")
    check_pages.write_page(directory)
    return directory


def test_the_page_shows_sanity_check_tables_maps_and_bars(page: Path, open_page: Callable[..., Visitor]) -> None:
    visitor = open_page(page, wait=False)
    sections = [visitor.by(f"panel-{kind}") for kind in ("checks", "check_maps", "check_deletion", "check_insertion")]
    table, maps, deletion, insertion = sections
    expect(table.locator("tbody tr")).to_have_count(len(check_pages.METHODS))
    assert "when all weights are random" in table.locator("tbody tr").first.inner_text()
    expect(deletion.locator("tbody tr")).to_have_count(2 * len(check_pages.METHODS))
    expect(insertion.locator("tbody tr")).to_have_count(2 * len(check_pages.METHODS))
    images = maps.locator("img")
    images.last.scroll_into_view_if_needed()
    visitor.page.wait_for_function(
        "image => image.complete && image.naturalWidth === 16", arg=images.last.element_handle()
    )


def test_saliency_maps_of_a_frame_form_a_row_that_links_to_the_frame(
    page: Path, open_page: Callable[..., Visitor]
) -> None:
    visitor = open_page(page, wait=False)
    items = visitor.by("panel-check_maps").locator("li")
    columns = items.count() // (2 * len(check_pages.METHODS))
    tops = [items.nth(i).bounding_box() for i in range(columns + 1)]
    rows = [box["y"] for box in tops if box]
    assert rows[:columns] == [rows[0]] * columns < [rows[columns]]
    items.nth(columns).get_by_role("button").click()
    place = visitor.state()
    assert (place["trajectory"], place["frame"]) != (0, 0)
    assert visitor.frame() == place["frame"] + 1

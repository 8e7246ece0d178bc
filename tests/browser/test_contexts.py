"""A reused context is as new for each test."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from tests.browser.contexts import VIEWPORT, ReusedContext

PERMISSION = "navigator.permissions.query({ name: 'clipboard-read' }).then(({ state }) => state)"
COLORS = "matchMedia('(prefers-color-scheme: dark)').matches"


def open_empty(context: ReusedContext, folder: Path, **options: object) -> Page:
    (folder / "interface.html").write_text("<!doctype html><title>Page</title>")
    page = context.new_page(**options)
    page.goto((folder / "interface.html").as_uri())
    return page


def test_a_reused_browser_context_keeps_no_state_for_the_next_test(
    reused_context: ReusedContext, tmp_path: Path
) -> None:
    size = {"width": 500, "height": 400}
    page = open_empty(reused_context, tmp_path, viewport=size, color_scheme="dark", permissions=["clipboard-read"])
    page.evaluate("localStorage.setItem('rl-clarity:0:settings', '{}'); open('about:blank')")
    assert (page.viewport_size, page.evaluate(PERMISSION), page.evaluate(COLORS)) == (size, "granted", True)
    assert reused_context.take_back(page, unchanged=True)
    assert page.is_closed()
    following = open_empty(reused_context, tmp_path)
    assert following.context is page.context
    assert len(following.context.pages) == 2, "the empty one and this one"
    assert following.evaluate("localStorage.length") == 0
    assert following.viewport_size == VIEWPORT
    assert (following.evaluate(PERMISSION), following.evaluate(COLORS)) == ("prompt", False)
    assert reused_context.take_back(following, unchanged=False)
    newest = open_empty(reused_context, tmp_path)
    assert newest.context is not following.context
    assert not reused_context.take_back(following, unchanged=True)
    assert reused_context.take_back(newest, unchanged=True)

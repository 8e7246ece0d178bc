"""Browser contexts: one that tests use one after another, and new ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

VIEWPORT = {"width": 1440, "height": 900}
SETTABLE = {"viewport", "color_scheme", "reduced_motion", "permissions"}
"""Options of a context that can be set for a page, or are taken back after it."""


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Make a context that refuses what comes from a network."""
    context = browser.new_context(accept_downloads=True, **{"viewport": VIEWPORT, **options})
    context.route("http*://**", lambda route: route.abort())
    return context


class ReusedContext:
    """A context whose pages belong to one test after another; between them, what the browser keeps is deleted.

    A new context starts a process that compiles the page's script anew, which takes as long as the rest of most tests.
    An empty page keeps the process alive.
    """

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._empty = folder / "empty.html"
        self._empty.write_text("<!doctype html><title>Empty</title>")
        self._context: BrowserContext | None = None

    def provides(self, options: Mapping[str, Any]) -> bool:
        return options.keys() <= SETTABLE

    def new_page(self, viewport: Any = None, permissions: Any = None, **media: Any) -> Page:
        if self._context is None:
            self._context = new_context(self._browser)
            self._context.new_page().goto(self._empty.as_uri())
        if permissions:
            self._context.grant_permissions(permissions)
        page = self._context.new_page()
        if viewport:
            page.set_viewport_size(viewport)
        if media:
            page.emulate_media(**media)
        return page

    def take_back(self, page: Page, *, unchanged: bool) -> bool:
        """Whether a page is of this context, which then is as before, or gone if the test has changed the context."""
        if self._context is None or page.context is not self._context:
            return False
        if not unchanged:
            self.close()
            return True
        empty, *opened = self._context.pages
        for one in opened:
            one.close()
        empty.evaluate("localStorage.clear()")
        self._context.clear_permissions()
        return True

    def close(self) -> None:
        if self._context is not None:
            self._context.close()
            self._context = None

"""Pages in a real Chromium, opened from a file, no network, no console message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import write_page
from svelte3.errors import ToolchainError
from svelte3.toolchain import install
from tests.browser.contexts import ReusedContext, new_context
from tests.browser.generated import Generated, generate_page
from tests.browser.memory_pages import MemoryPage, write_memory_page
from tests.browser.memory_pages import settle as settle_memory
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, write_synthetic_page
from tests.browser.training_pages import TrainingPage, settle, write_training_page


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a page of made-up data, written apart from the program: more of everything than `generated`."""
    directory = tmp_path_factory.mktemp("page")
    write_synthetic_page(directory)
    return directory


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which checks accessibility."""
    try:
        return (install() / "node_modules/axe-core/axe.min.js").read_text()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """A page of a small network's real attribution."""
    return generate_page(tmp_path_factory.mktemp("generated"))


@pytest.fixture(scope="session")
def small_size() -> Size:
    """A page that is quickly written, for tests that need one of their own."""
    return Size(trajectories=1, steps=20, observations=16, layers=(("2a", 16, 32), ("3a", 8, 32)), input_layer=False)


@pytest.fixture(scope="session")
def with_view(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`with_view(scrubber_height="10vh", ...)`: a page with these view options, until others are asked for."""
    directory = tmp_path_factory.mktemp("view")
    size = Size(trajectories=2, steps=20, observations=16, layers=(("2a", 16, 32), ("3a", 8, 32)), input_layer=False)
    manifest = write_synthetic_page(directory, size)

    def change(**view: Any) -> Path:
        write_page(LocalDirectory(directory), manifest | {"view": manifest["view"] | view})
        return directory

    return change


@pytest.fixture
def with_layer_data(tmp_path: Path, small_size: Size) -> Callable[..., Path]:
    """`with_layer_data(label=..., facts=...)`: a page whose layer 2a has these entries."""

    def write(facts: dict[str, Any] | None = None, **entries: Any) -> Path:
        def change(manifest: dict[str, Any]) -> None:
            features, attribution = (section["data"]["layers"] for section in manifest["sections"][1:3])
            attribution[0].update(entries)
            features["2a"].update({} if facts is None else {"facts": facts})

        write_synthetic_page(tmp_path, small_size, edit=change)
        return tmp_path

    return write


@pytest.fixture(scope="session")
def reused_context(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReusedContext]:
    """The context of most tests' pages, one test after another."""
    context = ReusedContext(chromium_browser, tmp_path_factory.mktemp("context"))
    yield context
    context.close()


@pytest.fixture
def open_page(chromium_browser: Browser, reused_context: ReusedContext) -> Iterator[Callable[..., Visitor]]:
    """`open_page(directory, query, ...)` opens a page and waits until it stands.

    Other options are those of a context. A test's second page has a context of its own, as if another reader opened it.
    """
    visitors: list[Visitor] = []

    def open_in_browser(
        directory: Path,
        query: str = "",
        *,
        toured: bool = True,
        expect_messages: bool = False,
        wait: bool = True,
        init_script: str = "",
        **context: Any,
    ) -> Visitor:
        if visitors or init_script or not reused_context.provides(context):
            opened = new_context(chromium_browser, **context)
            if init_script:
                opened.add_init_script(init_script)
            page = opened.new_page()
        else:
            page = reused_context.new_page(**context)
        visitor = Visitor(page, directory, expect_messages=expect_messages, toured=toured)
        visitors.append(visitor)
        visitor.goto(query, wait=wait)
        return visitor

    yield open_in_browser
    for visitor in visitors:
        messages = visitor.messages
        if not reused_context.take_back(visitor.page, unchanged=not visitor.stopped_clock):
            visitor.page.context.close()
        if not visitor.expect_messages:
            assert messages == [], f"the page wrote to the console: {messages}"


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> TrainingPage:
    return write_training_page(tmp_path_factory.mktemp("training"))


@pytest.fixture
def open_training(open_page: Callable[..., Visitor], training: TrainingPage) -> Callable[..., Visitor]:
    """`open_training(query)` opens the page and waits until every checkpoint's episode is loaded."""

    def open_at(query: str = "", **options: object) -> Visitor:
        visitor = open_page(training.directory, query, wait=False, **options)
        settle(visitor)
        return visitor

    return open_at


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> MemoryPage:
    return write_memory_page(tmp_path_factory.mktemp("memory"))


@pytest.fixture
def open_memory(open_page: Callable[..., Visitor], memory: MemoryPage) -> Callable[..., Visitor]:
    """`open_memory(query)` opens the page and waits until the step and its window are drawn."""

    def open_at(query: str = "", page: MemoryPage = memory, **options: object) -> Visitor:
        visitor: Visitor = open_page(page.directory, query, wait=False, **options)
        settle_memory(visitor)
        return visitor

    return open_at

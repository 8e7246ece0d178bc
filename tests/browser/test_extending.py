"""A panel is one file and one line, and so is a kind of page on each side: in a copy of the sources elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import Bundle, write_page
from rl_clarity.pages.kinds import PAGE_KINDS, PageKind
from rl_clarity.resources import svelte_source_directory
from svelte3 import compile_js
from tests.browser.pages import Visitor
from tests.browser.synthetic import Size, write_synthetic_page
from tests.fakes import TinyAgent

pytestmark = pytest.mark.browser

Open = Callable[..., Visitor]
PANEL = """
<script context="module">
  export const about = { title: "Highest value", text: "The highest value of each trajectory." };
</script>

<script>
  export let rows;
</script>

<ol data-testid="highest">{#each rows as { value }}<li>{value}</li>{/each}</ol>
"""
PAGE_KIND = """
export * from "../agent/index.js";
export const layout = { navigation: ["trajectories"], main: ["timeline", "outputs"], legend: [], aside: ["help"] };
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The page's sources with one more panel and one more kind of page."""
    sources = tmp_path_factory.mktemp("outside") / "svelte_src"
    ignored = shutil.ignore_patterns("node_modules", "*.test.js")
    shutil.copytree(svelte_source_directory(), sources, ignore=ignored)
    (sources / "Highest.svelte").write_text(PANEL)
    with (sources / "panels.js").open("a") as panels:
        panels.write('export * as highest from "./Highest.svelte";\n')
    (sources / "pages" / "plain").mkdir()
    (sources / "pages" / "plain" / "index.js").write_text(PAGE_KIND)
    with (sources / "pages" / "index.js").open("a") as kinds:
        kinds.write('export * as plain from "./plain/index.js";\n')
    script = compile_js(sources / "App.svelte", sources.parent / "page.js", js_name="Interface")
    return Bundle(Path(script).read_text())


@pytest.fixture
def plain_kind() -> Iterator[None]:
    PAGE_KINDS.register("plain", PageKind(("trajectories",)))
    yield
    PAGE_KINDS.unregister("plain")


def test_a_panel_is_one_file_and_one_line(bundle: Bundle, tmp_path: Path, open_page: Open) -> None:
    def add_section(manifest: dict[str, Any]) -> None:
        rows = [{"value": 3}, {"value": 5}]
        manifest["sections"].append({"kind": "highest", "version": 1, "title": "Highest value", "data": {"rows": rows}})

    size = Size(trajectories=1, steps=20, observations=16, layers=(("3a", 8, 32),), input_layer=False)
    manifest = write_synthetic_page(tmp_path, size, edit=add_section)
    write_page(LocalDirectory(tmp_path), manifest, bundle=bundle)
    visitor = open_page(tmp_path)
    assert visitor.by("highest").get_by_role("listitem").all_inner_texts() == ["3", "5"]
    visitor.goto("?embed=1&panel=highest", wait=False)
    assert visitor.by("highest").count() == 1
    assert visitor.page.locator("[data-panel]").count() == 1


@pytest.mark.usefixtures("plain_kind")
def test_a_kind_of_page_is_one_file_on_each_side(
    bundle: Bundle, tmp_path: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl_clarity.pages.document.compiled_bundle", lambda: bundle)
    rng = np.random.default_rng(0)
    firsts = np.zeros((1, 12), bool)
    firsts[:, 0] = True
    page = rl_clarity.generate(
        TinyAgent(num_actions=4, observation_shape=(32, 32, 3)),
        {
            "observations": rng.integers(0, 256, (1, 12, 32, 32, 3), np.uint8),
            "actions": rng.integers(0, 4, (1, 12)),
            "rewards": np.zeros((1, 12)),
            "firsts": firsts,
        },
        rng.integers(0, 256, (8, 32, 32, 3), np.uint8),
        tmp_path / "page",
        page_kind="plain",
    )
    assert [section["kind"] for section in page.results().manifest["sections"]] == ["trajectories"]
    visitor = open_page(tmp_path / "page", wait=False)
    visitor.by("track").first.wait_for()
    panels = visitor.page.locator("[data-panel]").evaluate_all("panels => panels.map((panel) => panel.dataset.panel)")
    assert panels == ["trajectories", "timeline", "outputs"]
    visitor.press("ArrowRight")
    assert visitor.frame() == 2

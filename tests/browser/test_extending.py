"""A panel of the page is one file and one line, in a copy of the sources; a kind of page is one Python file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.base.resources import svelte_source_directory
from rl_clarity.cli import main
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import Bundle, write_page
from svelte3 import compile_js
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import Size, write_synthetic_page
from tests.fakes import TinyAgent
from tests.outside import RUN, SALIENCY, installed, write_checkpoint
from tests.plugins import install

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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
from rl_clarity.pages.kinds import PageField, PageKind

KIND = PageKind(
    ("trajectories", "totals"),
    title="Totals of {env_name}",
    slots={"navigation": ["trajectories"], "main": ["timeline", "controls"], "tabs": ["outputs", "totals"]},
    fields=[
        PageField("unit", "choice", "Unit", options=("points", "percent")),
        PageField("limit", "number", "Limit", default=1, least=0, most=10, whole=True),
    ],
    keys={"x": "unit"},
    tour=[("controls", "Choices", "Choose a unit.")],
)
"""
ANALYSIS = """
from dataclasses import dataclass

from rl_clarity.analyses import Analysis
from rl_clarity.pages.sections import SectionData
from rl_clarity.base.parsing import NoOptions

PANEL = '''
rlClarity.panel("totals", (element, { section, selection, select }) => {
  element.onclick = () => select({ frame: 3, limit: 4 });
  return selection.subscribe(({ unit, limit }) => (element.textContent = `${limit} of ${section.data.total} ${unit}`));
});
'''


@dataclass(frozen=True)
class TotalsSection(SectionData):
    kind = "totals"
    title = "Total reward"
    module = PANEL
    total: int


class Totals(Analysis[NoOptions, TotalsSection]):
    kind = "totals"

    def tasks(self, subject, options):
        return ()

    def sections(self, subject, options, results):
        yield TotalsSection(int(subject.trajectories.rewards.sum()))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The page's sources with one more panel."""
    sources = tmp_path_factory.mktemp("outside") / "svelte_src"
    ignored = shutil.ignore_patterns("node_modules", "*.test.js")
    shutil.copytree(svelte_source_directory(), sources, ignore=ignored)
    (sources / "Highest.svelte").write_text(PANEL)
    with (sources / "panels.js").open("a") as panels:
        panels.write('export * as highest from "./Highest.svelte";\n')
    script = compile_js(sources / "scripts" / "agent.svelte", sources.parent / "page.js", js_name="Interface")
    return Bundle(Path(script).read_text())


def test_a_new_panel_needs_one_source_file_and_one_registry_line(
    bundle: Bundle, tmp_path: Path, open_page: Open
) -> None:
    def add_section(manifest: dict[str, Any]) -> None:
        rows = [{"value": 3}, {"value": 5}]
        manifest["sections"].append({"kind": "highest", "version": 1, "title": "Highest value", "data": {"rows": rows}})

    size = Size(trajectories=1, steps=20, observations=16, layers=(("3a", 8, 32),), input_layer=False)
    manifest = write_synthetic_page(tmp_path, size, edit=add_section)
    write_page(LocalDirectory(tmp_path), manifest, bundle=bundle)
    visitor = open_page(tmp_path)
    assert visitor.by("highest").get_by_role("listitem").all_inner_texts() == ["3", "5"]
    visitor.goto("?embed=1&panel=highest", wait=False)
    expect(visitor.by("highest")).to_have_count(1)
    expect(visitor.page.locator("[data-panel]")).to_have_count(1)


@pytest.fixture
def page_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page whose kind and analysis installed packages declare as entry points."""
    install(tmp_path / "kind", monkeypatch, "rl_clarity.page_kinds: totals = my_kind:KIND", PAGE_KIND)
    install(tmp_path / "analysis", monkeypatch, "rl_clarity.analyses: totals = my_totals:Totals", ANALYSIS)
    rng = np.random.default_rng(0)
    firsts = np.zeros((2, 12), bool)
    firsts[:, 0] = True
    trajectories = {
        "observations": rng.integers(0, 256, (2, 12, 32, 32, 3), np.uint8),
        "actions": rng.integers(0, 4, (2, 12)),
        "rewards": np.ones((2, 12)),
        "firsts": firsts,
    }
    observations = rng.integers(0, 256, (8, 32, 32, 3), np.uint8)
    agent = TinyAgent(num_actions=4, observation_shape=(32, 32, 3))
    page = rl_clarity.generate(
        agent, trajectories, observations, tmp_path / "page", page_kind="totals", env_name="runner"
    )
    assert [section["kind"] for section in page.results().manifest["sections"]] == ["trajectories", "totals"]
    return tmp_path / "page"


def test_the_included_script_draws_a_page_kind_of_another_package(page_of_a_package: Path, open_page: Open) -> None:
    visitor = open_page(page_of_a_package, wait=False)
    visitor.by("track").first.wait_for()
    assert visitor.page.title() == "Totals of runner"
    panels = visitor.page.locator("#app [data-panel]")
    assert panels.evaluate_all("panels => panels.map((panel) => panel.dataset.panel)") == [
        *("trajectories", "timeline", "controls", "outputs"),
    ]
    visitor.click("tab-totals")
    assert visitor.by("custom-panel").inner_text() == "1 of 24 points"
    visitor.press("]")
    assert visitor.state()["trajectory"] == 1
    visitor.page.get_by_role("button", name="Help").click()
    keys = visitor.by("keys").inner_text()
    assert "Unit" in keys
    assert "feature" not in keys, "no keys of panels that the page does not have"


def test_page_controls_of_a_plugin_are_kept_in_the_address_and_have_keys(
    page_of_a_package: Path, open_page: Open
) -> None:
    visitor = open_page(page_of_a_package, wait=False)
    visitor.by("track").first.wait_for()
    visitor.click("tab-totals")
    visitor.by("control-unit").select_option("percent")
    visitor.by("control-limit").fill("30")
    visitor.by("control-limit").press("Enter")
    assert visitor.by("custom-panel").inner_text() == "10 of 24 percent", "the number stays in its range"
    visitor.page.wait_for_url("**&unit=percent&limit=10")
    visitor.page.reload()
    assert visitor.by("custom-panel").inner_text() == "10 of 24 percent"
    visitor.by("custom-panel").click()
    assert visitor.by("custom-panel").inner_text() == "4 of 24 percent"
    assert visitor.frame() == 4
    visitor.press("x")
    assert visitor.by("custom-panel").inner_text() == "4 of 24 points"
    visitor.press("u")
    assert visitor.by("custom-panel").inner_text() == "4 of 24 percent"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A page of an agent, and published episodes, that commands wrote with extensions of installed packages."""
    folder = tmp_path_factory.mktemp("written")
    with installed(folder / "packages"):
        agent, recording = write_checkpoint(folder / "agent.seed"), folder / "logdir/plugins/rl_clarity/line"
        for words in (
            ["run", agent, folder / "page", *RUN, *SALIENCY, "--analyses", "rewards"],
            ["record", agent, recording, "--episodes", "2", "--seed", "1"],
            ["explain", folder / "logdir", "--agent", agent, "--methods", "contrast", "--every", "1"],
            ["publish", folder / "logdir", folder / "published"],
        ):
            assert main([*map(str, words)]) == 0
        yield folder


def test_the_page_draws_an_analysis_and_a_saliency_method_of_plugins(written: Path, open_page: Open) -> None:
    visitor = open_page(written / "page", "?layer=contrast&frame=3")
    visitor.settle()
    assert read_canvas(visitor.overlay("saliency"))[..., 3].max() > 100
    assert visitor.by("custom-panel").inner_text().startswith("points: ")


def test_published_episodes_show_saliency_maps_of_a_plugin(written: Path, open_page: Open) -> None:
    visitor = open_page(written / "published", "?step=3&overlay=policy", wait=False)
    canvas = visitor.by("episode").get_by_test_id("saliency-canvas")
    canvas.and_(visitor.page.locator("[data-step='2']")).wait_for()
    assert read_canvas(canvas)[..., 3].max() > 100

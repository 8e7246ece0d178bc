"""The panel What if of a page that is served with its agent: its numbers are those of Python."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from rl_clarity.base.statistics import softmax
from rl_clarity.live import LiveNetwork
from rl_clarity.pages.document import compiled_bundle, read_manifest
from tests.browser.pages import read_canvas, wait_for_track, wait_for_value
from tests.live.pages import LAYER, SHAPE, ask, open_network, tiny_agent, write_page
from tests.servers import serving_page

pytest.importorskip("waitress")
pytest.importorskip("werkzeug")


pytestmark = pytest.mark.browser
FRAME = 12
TOLERANCE = 1e-3
ALIKE = [1, 3]
"""Actions with the same effect, of the agent with a policy."""


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LiveNetwork]:
    def write(kind: str) -> LiveNetwork:
        options = {"equivalent_actions": [ALIKE]} if kind == "policy" else {}
        return open_network(write_page(tmp_path_factory.mktemp(kind), tiny_agent(kind), **options), kind)

    return {kind: write(kind) for kind in ("policy", "recurrent")}


@pytest.fixture
def visit(chromium_browser: Browser) -> Iterator[Callable[..., Page]]:
    """`visit(network, query)` serves and opens a page; at the end it must have written nothing to the console.

    Pages are closed before their servers: a request that a server no longer answers is such a message.
    """
    messages: list[str] = []

    def visit(network: LiveNetwork, query: str = f"&frame={FRAME + 1}") -> Page:
        address = servers.enter_context(serving_page(network))
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(address + query)
        page.get_by_test_id("tour-skip").click()
        return page

    with ExitStack() as servers, closing(chromium_browser.new_context()) as context:
        yield visit
    assert messages == []


def numbers(page: Page, name: str = "what-if-value") -> tuple[float, float]:
    """The output before and after, once it is there."""
    row = page.get_by_test_id(name).first
    before, after = row.get_attribute("data-before"), row.get_attribute("data-after")
    assert before is not None
    assert after is not None
    return float(before), float(after)


def edit_of(page: Page) -> str:
    text: str = page.evaluate("rlClarity.state().edit")
    return text


def expected(network: LiveNetwork, change: dict[str, Any]) -> dict[str, Any]:
    return ask(network, "outputs", trajectory=0, first=FRAME, last=FRAME, change=change)


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_painting_a_box_shows_the_agents_outputs_for_that_image(
    networks: dict[str, LiveNetwork], visit: Any, kind: str
) -> None:
    network = networks[kind]
    page = visit(network)
    page.keyboard.press("w")
    page.get_by_test_id("what-if-value").wait_for()
    before, after = numbers(page)
    stored = float(network.results.series(0)["values"][FRAME])
    assert before == after == pytest.approx(stored, abs=TOLERANCE)
    page.get_by_test_id("what-if-brush").scroll_into_view_if_needed()
    box = page.get_by_test_id("what-if-brush").bounding_box()
    assert box
    page.mouse.move(box["x"] + 0.26 * box["width"], box["y"] + 0.13 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.55 * box["height"], steps=3)
    page.mouse.up()
    assert edit_of(page) == f"around~4.2.10.9~1~{FRAME + 1}"
    answer = expected(network, {"boxes": [{"box": [4, 2, 10, 9]}]})
    value = answer["after"]["values"][0]
    assert abs(value - stored) > 10 * TOLERANCE
    wait_for_value(page, value, TOLERANCE)
    shown = read_canvas(page.get_by_test_id("what-if-canvas"))
    pixels = network.observe(0, FRAME, FRAME, _change({"boxes": [{"box": [4, 2, 10, 9]}]}))[0]
    np.testing.assert_array_equal(shown[..., :3], pixels)
    expect(page.get_by_test_id("what-if-box")).to_contain_text("painted at this frame")
    page.keyboard.press("u")
    wait_for_value(page, stored, TOLERANCE)
    assert edit_of(page) == "open"


def test_a_box_painted_in_another_frame_names_that_frame(networks: dict[str, LiveNetwork], visit: Any) -> None:
    network = networks["policy"]
    page = visit(network, f"&frame={FRAME + 1}&edit=around~4.2.10.9~1~{FRAME + 1}")
    page.get_by_test_id("what-if-value").wait_for()
    applied = page.get_by_test_id("what-if-applied")
    expect(applied).to_contain_text(f"The change is applied to trajectory 1, frame {FRAME + 1}.")
    page.keyboard.press("ArrowRight")
    expect(applied).to_contain_text(f"The change is applied to trajectory 1, frame {FRAME + 2}.")
    change = {"boxes": [{"box": [4, 2, 10, 9]}]}
    answer = ask(network, "outputs", trajectory=0, first=FRAME + 1, last=FRAME + 1, change=change)
    wait_for_value(page, answer["after"]["values"][0], TOLERANCE)
    expect(page.get_by_test_id("what-if-box")).to_contain_text(
        f"painted at trajectory 1, frame {FRAME + 1}: here it covers the same pixels"
    )
    expect(page.get_by_test_id("what-if-brush").locator(".elsewhere")).to_have_count(1)
    page.get_by_test_id("what-if-go").click()
    expect(applied).to_contain_text(f"frame {FRAME + 1}.")
    expect(page.get_by_test_id("what-if-brush").locator(".elsewhere")).to_have_count(0)


def _change(change: dict[str, Any]) -> Any:
    from rl_clarity.live import parse_request

    request = {"trajectory": 0, "first": FRAME, "last": FRAME, "change": change}
    return parse_request("outputs", json.dumps(request).encode()).change  # type: ignore[union-attr]


def test_removing_a_feature_changes_the_value_as_the_page_predicts(
    networks: dict[str, LiveNetwork], visit: Any
) -> None:
    network = networks["policy"]
    ablation = network.results.section("ablation")["layers"][network.results.layer(LAYER)["slug"]]
    stored = network.results.chunk(ablation["trajectories"][0])
    change = float(stored["change.value"][list(stored["frames"]).index(FRAME), 1])
    page = visit(network)
    page.get_by_test_id("what-if-from-decomposition").click()
    page.get_by_test_id("what-if-value").wait_for()
    expect(page.get_by_test_id("what-if-applied")).to_contain_text("Nothing is changed")
    expect(page.get_by_test_id("what-if-state-2")).to_have_text("× 1.0")
    page.get_by_test_id("what-if-baseline-2").click()
    assert edit_of(page) == "base~2a~2"
    expect(page.get_by_test_id("what-if-state-2")).to_have_text("baseline")
    wait_for_value(page, float(network.results.series(0)["values"][FRAME]) + change, TOLERANCE)
    before, after = numbers(page)
    assert after - before == pytest.approx(change, abs=TOLERANCE)
    page.get_by_test_id("what-if-factor-2").fill("0")
    assert edit_of(page) == "times~2a~2~0", "the baseline or a multiple"
    expect(page.get_by_test_id("what-if-state-2")).to_have_text("× 0")
    page.get_by_test_id("what-if-only-3").click()
    expect(page.get_by_test_id("what-if-state-2")).to_have_text("removed")
    answer = expected(network, {"features": [{"layer": LAYER, "factors": {"2": 0}, "only": [3]}]})
    wait_for_value(page, answer["after"]["values"][0], TOLERANCE)
    page.get_by_test_id("what-if-clear").click()
    wait_for_value(page, before, TOLERANCE)


def test_removing_an_object_gives_its_measured_effect(networks: dict[str, LiveNetwork], visit: Any) -> None:
    network = networks["policy"]
    effects = network.results.chunk("objects/1/effects.js")
    saw = int(np.flatnonzero((effects["frame"] == FRAME) & (effects["track"] == 1))[0])
    stored = float(network.results.series(0)["values"][FRAME])
    page = visit(network, f"&frame={FRAME + 1}&edit=open")
    button = page.get_by_test_id("what-if-object-2")
    expect(button).to_have_text("saw 2")
    button.click()
    assert edit_of(page) == "without~2"
    wait_for_value(page, stored - float(effects["effect.value"][saw]), TOLERANCE)
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    wait_for_value(page, stored, TOLERANCE)
    assert edit_of(page) == "open"


def test_features_can_be_edited_locally_and_attribution_is_updated(
    networks: dict[str, LiveNetwork], visit: Any
) -> None:
    network = networks["policy"]
    layer = network.results.layer(LAYER)
    row, column = layer["height"] - 1, layer["width"] - 1
    box = {"box": [0, 0, 8, 16], "fill": "color", "color": [255, 0, 0]}
    text = f"color~0.0.8.16~ff0000,at~2a~0.0.{row}.{column}"
    page = visit(network, f"&frame={FRAME + 1}&edit={text}")
    page.get_by_test_id("what-if-add-1").fill("2.5")
    page.get_by_test_id("what-if-add-1").press("Tab")
    positions = [[y, x] for y in range(row) for x in range(column)]
    feature = {"layer": LAYER, "added": {"1": 2.5}, "positions": positions}
    change = {"boxes": [box], "features": [feature]}
    everywhere = {"boxes": [box], "features": [{**feature, "positions": None}]}
    value = expected(network, change)["after"]["values"][0]
    assert abs(value - expected(network, everywhere)["after"]["values"][0]) > 2 * TOLERANCE
    wait_for_value(page, value, TOLERANCE)
    page.get_by_test_id("what-if-at").uncheck()
    wait_for_value(page, expected(network, everywhere)["after"]["values"][0], TOLERANCE)
    page.get_by_test_id("what-if-maps").check()
    page.get_by_test_id("what-if-attribution").wait_for()
    cells = page.get_by_test_id("what-if-attribution").locator("td")
    shown = np.array([float(cell.get_attribute("data-value") or "nan") for cell in cells.all()]).reshape(-1, 2)
    for i, boxes in enumerate(([], [box])):
        asked = {"trajectory": 0, "step": FRAME, "layer": LAYER, "change": {"boxes": boxes}}
        answer = ask(network, "attribution", **asked)
        arrays = [
            np.frombuffer(base64.b64decode(answer[name]["data"]), np.float32).reshape(answer[name]["shape"])
            for name in ("channels", "residual")
        ]
        sums = [*arrays[0].sum(axis=(0, 1)), arrays[1].sum()]
        np.testing.assert_allclose(shown[:, i], sums, atol=TOLERANCE)


def test_an_edit_in_the_address_is_applied_to_a_range_of_steps(networks: dict[str, LiveNetwork], visit: Any) -> None:
    network = networks["recurrent"]
    change = {"boxes": [{"box": [0, 0, 8, 16], "fill": "color", "color": [255, 0, 0]}]}
    steps = {"trajectory": 0, "first": FRAME - 4, "last": FRAME, "change": change}
    page = visit(network, f"&frame={FRAME + 1}&edit=color~0.0.8.16~ff0000,last~4")
    page.get_by_test_id("what-if-track").wait_for()
    for memory in (False, True):
        if memory:
            page.get_by_test_id("what-if-memory").check()
        answer = ask(network, "outputs", **steps, memory=memory)
        wait_for_track(page, answer["after"]["values"], TOLERANCE)
    assert len({round(value, 3) for value in answer["after"]["values"]}) > 1
    page.keyboard.press("ArrowRight")
    moved = ask(network, "outputs", trajectory=0, first=FRAME + 1, last=FRAME + 1, change=change)
    wait_for_value(page, moved["after"]["values"][0], TOLERANCE)
    page.wait_for_function("() => location.search.includes('edit=color') && !location.search.includes('token')")


def test_equivalent_actions_are_separated_if_their_outputs_are(networks: dict[str, LiveNetwork], visit: Any) -> None:
    network = networks["policy"]
    change = {"features": [{"layer": LAYER, "baseline": [1]}]}
    answer = expected(network, change)
    before, after = (softmax(np.asarray(answer[when]["logits"][0])) for when in ("before", "after"))
    rows = {False: [[0], ALIKE, [2]], True: [[0], [1], [2], [3]]}
    page = visit(network, f"&frame={FRAME + 1}&edit=effects")
    box = page.get_by_test_id("what-if-separate")
    for separate in (False, True):
        page.get_by_test_id("separate-actions").set_checked(separate)
        expect(box).to_be_checked(checked=separate)
        expect(page.get_by_test_id("what-if-action")).to_have_count(len(rows[separate]))
        changes = [abs(sum(before[group]) - sum(after[group])) for group in rows[separate]]
        row = page.get_by_test_id("what-if-effect-1")
        assert float(row.get_attribute("data-policy") or "nan") == pytest.approx(sum(changes) / 2, abs=TOLERANCE)
    box.uncheck()
    expect(page.get_by_test_id("separate-actions")).not_to_be_checked()
    page.evaluate("edit => rlClarity.select({ edit })", "base~2a~1")
    wait_for_value(page, answer["after"]["values"][0], TOLERANCE)
    for row, group in zip(page.get_by_test_id("what-if-action").all(), rows[False], strict=True):
        shown = float(row.get_attribute("data-after") or "nan")
        assert shown == pytest.approx(sum(after[group]), abs=TOLERANCE)


def test_the_what_if_panel_stays_closed_for_another_network(networks: dict[str, LiveNetwork], visit: Any) -> None:
    network = networks["policy"]
    agent: Any = network.agent
    other = LiveNetwork(network.results, dataclasses.replace(agent, seed=1))
    page = visit(other)
    page.keyboard.press("w")
    page.get_by_test_id("what-if-disagreement").wait_for()
    expect(page.get_by_test_id("what-if")).to_have_count(0)


def test_invalid_edits_in_the_address_change_nothing(networks: dict[str, LiveNetwork], visit: Any) -> None:
    network = networks["policy"]
    page = visit(network, f"&frame={FRAME + 1}&edit=around~0.0.99.99,times~2a~99~0,%3Cscript%3E~,only~__proto__~1")
    page.get_by_test_id("what-if-value").wait_for()
    before, after = numbers(page)
    assert before == after


def test_a_page_opened_from_a_file_has_no_what_if_panel(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Any]
) -> None:
    visitor = open_page(Path(networks["policy"].results.location), wait=False)
    visitor.page.keyboard.press("w")
    assert visitor.state()["edit"] == ""
    expect(visitor.by("panel-what_if")).to_have_count(0)
    assert SHAPE[0] == visitor.page.evaluate("rlClarity.manifest.observation.height")


def test_a_page_without_its_network_contains_no_what_if_code(networks: dict[str, LiveNetwork]) -> None:
    page = Path(networks["policy"].results.location)
    document = (page / "interface.html").read_text()
    names = [path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file()]
    assert not [name for name in names if any(word in name for word in ("what_if", "runtime", "onnx"))]
    assert compiled_bundle("what_if").script.rstrip() not in document
    assert 'rlClarity.panel("what_if"' not in document
    assert "wasm" not in document.partition("<title>")[0], "its policy does not allow WebAssembly"
    manifest = json.dumps(read_manifest(document.encode()), separators=(",", ":"))
    assert len(document) < len(compiled_bundle("agent").script) + 1.1 * len(manifest) + 4000, "and nothing else"

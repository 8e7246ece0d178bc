"""The panel What if of a page that has its network beside it and is opened from a file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.base.statistics import softmax
from rl_clarity.live import LiveNetwork
from rl_clarity.pages import browser_runtime
from rl_clarity.pages.chunks import decode_chunk, encode_chunk, parse_script
from rl_clarity.pages.results import open_results
from tests.browser.pages import Visitor, read_canvas, wait_for_track, wait_for_value
from tests.live.pages import ask, write_page
from tests.servers import serving_page

pytest.importorskip("waitress")
pytest.importorskip("werkzeug")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

if browser_runtime.missing_file() is not None:
    pytest.skip("onnxruntime-web is not there: make onnxruntime", allow_module_level=True)

from tests.live.torch_networks import policy_agent, recurrent_agent

pytestmark = pytest.mark.browser
FRAME = 12
TOLERANCE = 1e-4
AGENTS: dict[str, Callable[[], Any]] = {"policy": policy_agent, "recurrent": recurrent_agent}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LiveNetwork]:
    def write(kind: str) -> LiveNetwork:
        agent = AGENTS[kind]()
        options = {"analyses": {"what_if": {}}, "layers": {"name_contains_one_of": ["body"]}}
        return LiveNetwork(open_results(write_page(tmp_path_factory.mktemp(kind), agent, **options)), agent)

    return {kind: write(kind) for kind in AGENTS}


def directory(network: LiveNetwork) -> Path:
    return Path(network.results.location)


def expected(network: LiveNetwork, **change: Any) -> float:
    answer = ask(network, "outputs", trajectory=0, first=FRAME, last=FRAME, change=change)
    return float(answer["after"]["values"][0])


def test_outputs_computed_in_the_browser_equal_those_of_the_agent(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    network = networks["policy"]
    stored = float(network.results.series(0)["values"][FRAME])
    visitor = open_page(directory(network), f"?frame={FRAME + 1}")
    requests: list[str] = []
    visitor.page.on("request", lambda request: requests.append(request.url))
    visitor.page.keyboard.press("w")
    wait_for_value(visitor.page, stored, TOLERANCE)
    assert {request.partition(":")[0] for request in requests} <= {"file", "blob", "data"}
    expect(visitor.by("what-if-maps")).to_have_count(0)
    box = {"box": [2, 3, 9, 12]}
    for text, boxes in {
        "around~2.3.9.12": [box],
        "color~2.3.9.12~ff8000,frame~0.0.4.16~1~40": [
            {**box, "fill": "color", "color": [255, 128, 0]},
            {"box": [0, 0, 4, 16], "fill": "frame", "trajectory": 0, "step": 39},
        ],
    }.items():
        visitor.page.evaluate("edit => rlClarity.select({ edit })", text)
        value = expected(network, boxes=boxes)
        assert abs(value - stored) > 10 * TOLERANCE
        wait_for_value(visitor.page, value, TOLERANCE)
    seen = read_canvas(visitor.by("what-if-canvas"))[..., :3]
    np.testing.assert_array_equal(seen, network.observe(0, FRAME, FRAME, _change(boxes=boxes))[0])


def _change(**values: Any) -> Any:
    from rl_clarity.live.requests import Change
    from rl_clarity.pages import schema

    return schema.read(Change, values, "change")


def test_editing_features_in_the_browser_gives_the_outputs_of_python(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    network = networks["policy"]
    results = network.results
    stored = float(results.series(0)["values"][FRAME])
    visitor = open_page(directory(network), f"?frame={FRAME + 1}&edit=open")
    changes: dict[str, list[dict[str, Any]]] = {
        "only~body.3~2": [{"layer": "body.3", "only": [2]}],
        "times~body.3~1~-1,times~body.3~2~2,add~body.3~3~1.5": [
            {"layer": "body.3", "factors": {"1": -1, "2": 2}, "added": {"3": 1.5}}
        ],
        "times~body.1~1~0,times~body.3~2~0,at~body.3~0.0.4.3": [
            {"layer": "body.1", "factors": {"1": 0}},
            {"layer": "body.3", "factors": {"2": 0}, "positions": [[y, x] for y in range(4) for x in range(3)]},
        ],
    }
    for text, features in changes.items():
        visitor.page.evaluate("edit => rlClarity.select({ edit })", text)
        value = expected(network, features=features)
        assert abs(value - stored) > 2 * TOLERANCE, text
        wait_for_value(visitor.page, value, TOLERANCE)
    expect(visitor.by("what-if")).to_be_in_viewport()  # an address with an edit leads to it
    visitor.page.evaluate("rlClarity.select({ layer: 0 })")
    expect(visitor.by("what-if-layer")).to_have_value("body.1")
    visitor.page.evaluate("rlClarity.select({ layer: 1 })")
    expect(visitor.by("what-if-layer")).to_have_value("body.3")
    visitor.page.get_by_role("button", name="are changed, too").click()
    expect(visitor.by("what-if-layer")).to_have_value("body.1")
    expect(visitor.by("what-if-factor-1")).to_have_value("0")
    for layer in results.layers:
        slug = results.layer(layer)["slug"]
        ablation = results.chunk(results.section("ablation")["layers"][slug]["trajectories"][0])
        row = list(ablation["frames"]).index(FRAME)
        for number, change in enumerate(ablation["change.value"][row], start=1):
            visitor.page.evaluate("edit => rlClarity.select({ edit })", f"base~{slug}~{number}")
            wait_for_value(visitor.page, stored + float(change), TOLERANCE)


EDIT = "around~2.3.9.12"
TABLES_AT_ONCE = """async state => {
  rlClarity.select(state);
  for (let turn = 0; turn < 3; turn += 1) await null;  // the page is drawn, the network has not answered
  return document.querySelectorAll("[data-testid=what-if-effects-table]").length;
}"""


def check_effects(visitor: Visitor, network: LiveNetwork, frame: int) -> None:
    """Check what is lost without each feature of a layer, set to the page's baseline, beside a painted box."""
    box = {"box": [2, 3, 9, 12]}
    visitor.by("what-if-effects-table").and_(visitor.page.locator(f"[data-frame='{frame + 1}']")).wait_for()
    expect(visitor.by("what-if-effects-table").locator("caption")).to_contain_text(
        f"Layer conv 2, frame {frame + 1}, each feature set to the page's baseline, blur."
    )
    steps = {"trajectory": 0, "first": frame, "last": frame}
    before = ask(network, "outputs", **steps, change={"boxes": [box]})["after"]
    layer = network.results.layer("body.3")
    for number in range(1, layer["channels"] + 1):
        change = {"boxes": [box], "features": [{"layer": layer["name"], "baseline": [number]}]}
        after = ask(network, "outputs", **steps, change=change)["after"]
        row = visitor.by(f"what-if-effect-{number}")
        lost = float(before["values"][0]) - float(after["values"][0])
        assert abs(float(row.get_attribute("data-lost") or "nan") - lost) < TOLERANCE
        policies = [softmax(np.asarray(one["logits"][0])) for one in (before, after)]
        change_of_policy = np.abs(policies[0] - policies[1]).sum() / 2
        assert abs(float(row.get_attribute("data-policy") or "nan") - change_of_policy) < TOLERANCE


def test_effects_of_all_features_are_listed(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    network = networks["policy"]
    visitor = open_page(directory(network), f"?layer=body.3&frame={FRAME + 1}&edit={EDIT}")
    visitor.by("what-if-effects").check()
    check_effects(visitor, network, FRAME)
    colors = set()
    for row in visitor.page.locator("[data-testid^='what-if-effect-']").all():
        color = row.locator(".bar .bar").evaluate("bar => getComputedStyle(bar).backgroundColor")
        colors.add((float(row.get_attribute("data-lost") or "nan") < 0, color))
    assert len(colors) == len({color for _, color in colors}) == 2  # one color for each sign
    assert visitor.state()["edit"] == f"{EDIT},effects"  # part of the address
    for state in ({"frame": FRAME + 3}, {"edit": "color~2.3.9.12~ff8000,effects"}, {"edit": f"{EDIT},effects"}):
        assert visitor.page.evaluate(TABLES_AT_ONCE, state) == 0, state  # nothing about what is no longer in view
        visitor.by("what-if-effects-table").wait_for()
    check_effects(visitor, network, FRAME + 3)
    visitor.page.evaluate("frame => rlClarity.select({ frame, edit: 'effects' })", FRAME)
    visitor.by("what-if-effects-table").wait_for()
    ablation = network.results.chunk(network.results.section("ablation")["layers"]["body.3"]["trajectories"][0])
    for number, change in enumerate(ablation["change.value"][list(ablation["frames"]).index(FRAME)], start=1):
        lost = visitor.by(f"what-if-effect-{number}").get_attribute("data-lost")
        assert abs(float(lost or "nan") + change) < TOLERANCE  # the page's causal number
    visitor.by("what-if-effects").uncheck()
    expect(visitor.by("what-if-effects-table")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"attribution": {"baseline": "mean"}}, {"ablation": {"every": 4, "to": "zero"}}])
def test_features_without_a_single_baseline_are_multiplied_by_zero(
    open_page: Callable[..., Visitor], tmp_path: Path, options: dict[str, Any]
) -> None:
    agent = policy_agent()
    layers = {"layers": {"name_contains_one_of": ["body.3"]}}
    network = LiveNetwork(
        open_results(write_page(tmp_path / "page", agent, analyses={"what_if": {}}, **layers, **options)), agent
    )
    visitor = open_page(directory(network), f"?layer=body.3&frame={FRAME + 1}&edit=open")
    visitor.by("what-if-effects").check()
    table = visitor.by("what-if-effects-table")
    expect(table.locator("caption")).to_contain_text("each feature multiplied by 0")
    is_same = "means of these values" if "ablation" in options else "something else, because the page's baseline, mean"
    expect(table.locator("caption")).to_contain_text(is_same)
    stored = float(network.results.series(0)["values"][FRAME])
    for number in (1, 2, 3):
        lost = stored - expected(network, features=[{"layer": "body.3", "factors": {str(number): 0}}])
        shown = visitor.by(f"what-if-effect-{number}").get_attribute("data-lost")
        assert abs(float(shown or "nan") - lost) < TOLERANCE


def test_removing_an_object_gives_its_measured_effect(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    network = networks["policy"]
    effects = network.results.chunk("objects/1/effects.js")
    stored = float(network.results.series(0)["values"][FRAME])
    visitor = open_page(directory(network), f"?frame={FRAME + 1}&edit=open")
    expect(visitor.by("what-if-object-2")).to_have_text("saw 2")
    names = visitor.by("objects-here").locator("tbody tr button").all_inner_texts()
    assert sorted(names) == ["coin 1", "saw 2"]  # the same in the panel Objects
    for track in (0, 1):
        row = int(np.flatnonzero((effects["frame"] == FRAME) & (effects["track"] == track))[0])
        visitor.page.evaluate("edit => rlClarity.select({ edit })", f"without~{track + 1}")
        wait_for_value(visitor.page, stored - float(effects["effect.value"][row]), TOLERANCE)
    visitor.page.evaluate("edit => rlClarity.select({ edit })", "without~9")
    expect(visitor.by("what-if-problem")).to_contain_text("This trajectory has no object 9")
    expect(visitor.by("what-if-value")).to_have_count(0)  # what it showed is about another change


def test_a_recurrent_network_continues_from_recorded_states(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    network = networks["recurrent"]
    last = 44  # an episode begins at step 40
    box = {"box": [0, 0, 60, 96], "fill": "color", "color": [255]}
    visitor = open_page(directory(network), f"?frame={last + 1}&edit=color~0.0.60.96~ff,last~8")
    for memory in (False, True):
        if memory:
            visitor.by("what-if-memory").check()
        steps = {"trajectory": 0, "first": last - 8, "last": last, "memory": memory}
        values = ask(network, "outputs", **steps, change={"boxes": [box]})["after"]["values"]
        wait_for_track(visitor.page, values, 1e-3)
    stored = network.results.series(0)["values"][last - 8 : last + 1]
    assert np.abs(np.asarray(values) - stored).max() > 2 * TOLERANCE
    low, high = min(*values, *stored), max(*values, *stored)
    shown = visitor.by("what-if-track-range").locator("span").all_inner_texts()
    assert [float(text.replace("\N{MINUS SIGN}", "-")) for text in shown] == pytest.approx([high, low], rel=0.01)
    expect(visitor.by("what-if-track-end")).to_have_text("end, 40")


def test_the_what_if_key_scrolls_to_the_open_panel(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    visitor = open_page(directory(networks["policy"]), f"?frame={FRAME + 1}&edit=open")
    expect(visitor.by("what-if")).to_be_in_viewport()
    visitor.by("what-if-value").wait_for()
    visitor.page.evaluate("window.scrollTo(0, 0)")
    expect(visitor.by("what-if")).not_to_be_in_viewport()
    visitor.by("what-if-from-decomposition").first.click()
    expect(visitor.by("what-if")).to_be_in_viewport()
    visitor.press("w")
    expect(visitor.by("what-if")).to_have_count(0)
    visitor.press("w")
    expect(visitor.by("what-if")).to_be_in_viewport()


def test_a_server_replaces_the_network_stored_beside_the_page(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor]
) -> None:
    network = networks["policy"]
    visitor = open_page(directory(network))
    with serving_page(network) as address:
        visitor.page.goto(f"{address}&frame={FRAME + 1}&edit=base~body.3~1,maps")
        wait_for_value(visitor.page, expected(network, features=[{"layer": "body.3", "baseline": [1]}]), TOLERANCE)
        visitor.by("what-if-attribution").wait_for()  # which only a server computes
        visitor.page.goto(f"{address}&layer=body.3&frame={FRAME + 1}&edit={EDIT}")
        visitor.by("what-if-effects").check()
        check_effects(visitor, network, FRAME)
        visitor.page.goto("about:blank")  # before the server is closed: the page asks it for data ahead of time


def rewritten(page: Path, name: str, key: str, content: bytes) -> None:
    arrays: dict[str, Any] = dict(decode_chunk(parse_script((page / name).read_bytes())))
    dtypes = {one: values.tobytes() if one in ("onnx", "script", "wasm") else values for one, values in arrays.items()}
    (page / name).write_bytes(encode_chunk(name, {**dtypes, key: content}).script())


def test_a_modified_network_file_is_refused(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor], tmp_path: Path
) -> None:
    page = tmp_path / "page"
    shutil.copytree(directory(networks["policy"]), page)
    original = decode_chunk(parse_script((page / "what_if/network.js").read_bytes()))["onnx"].tobytes()
    rewritten(page, "what_if/network.js", "onnx", original[:-1] + bytes([original[-1] ^ 1]))
    visitor = open_page(page, f"?frame={FRAME + 1}&edit=open", expect_messages=True)
    expect(visitor.by("what-if-problem")).to_contain_text("is not the one from which the page was made")
    expect(visitor.by("what-if-value")).to_have_count(0)
    (page / "what_if/network.js").write_text("nonsense(")
    visitor.goto(f"?frame={FRAME + 1}&edit=open")
    expect(visitor.by("what-if-problem")).to_contain_text("what_if/network.js is damaged")
    expect(visitor.by("what-if-value")).to_have_count(0)


def test_a_network_whose_outputs_differ_from_the_page_is_refused(
    networks: dict[str, LiveNetwork], open_page: Callable[..., Visitor], tmp_path: Path
) -> None:
    from rl_clarity.agents.onnx_export import export_onnx

    page, content = tmp_path / "page", export_onnx(policy_agent(seed=1))
    shutil.copytree(directory(networks["policy"]), page)
    rewritten(page, "what_if/network.js", "onnx", content)
    document = (page / "interface.html").read_text()
    import hashlib

    section = networks["policy"].results.section("what_if")
    (page / "interface.html").write_text(document.replace(section["sha256"], hashlib.sha256(content).hexdigest()))
    visitor = open_page(page, f"?frame={FRAME + 1}&edit=open")
    visitor.by("what-if-disagreement").wait_for()
    expect(visitor.by("what-if-value")).to_have_count(0)

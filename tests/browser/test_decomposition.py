"""The decomposition of an output on the page: all parts add up to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import rl_clarity
from rl_clarity.pages.results import open_results
from tests.browser.generated import Generated
from tests.browser.pages import Visitor
from tests.fakes import TinyAgent

Open = Callable[..., Visitor]
Pages = Callable[[str], Path]
STEPS, ACTIONS, FEATURES = 70, 4, 3
COMBOS = [("LEFT",), ("LEFT", "UP"), ("RIGHT",), ()]
_COUNT_DRAWN = """() => {
  window.drawn = {};
  const { prototype } = CanvasRenderingContext2D;
  const put = prototype.putImageData;
  prototype.putImageData = function (...parts) {
    const { testid, direction } = this.canvas.dataset;
    if (testid === "attribution-canvas") window.drawn[direction] = (window.drawn[direction] ?? 0) + 1;
    return put.apply(this, parts);
  };
}"""


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """`page_of("recurrent")`: the page of a tiny agent of a kind, with attribution of its logits."""
    made: dict[str, Path] = {}

    def page(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            rng = np.random.default_rng(0)
            agent = TinyAgent(kind, (32, 32, 3), ACTIONS, patch=2)
            trajectories = {
                "observations": rng.integers(0, 256, (2, STEPS, 32, 32, 3), np.uint8),
                "actions": rng.integers(0, ACTIONS, (2, STEPS)),
                "rewards": np.zeros((2, STEPS)),
                "firsts": np.arange(2 * STEPS).reshape(2, STEPS) % 30 == 0,
            }
            rl_clarity.generate(
                agent,
                trajectories,
                rng.integers(0, 256, (32, 32, 32, 3), np.uint8),
                made[kind],
                action_combos=COMBOS,
                attr_policy=True,
                nmf_features=FEATURES,
            )
        return made[kind]

    return page


def waterfall(visitor: Visitor, row: int = 0) -> dict[str, float]:
    """The numbers of a waterfall's columns, by part."""
    columns = visitor.by("row").nth(row).get_by_test_id("decomposition").locator("[data-part]")
    columns.first.wait_for()
    parts, values = ([one.get_attribute(f"data-{name}") for one in columns.all()] for name in ("part", "value"))
    return {part or "": float(value or "nan") for part, value in zip(parts, values, strict=True)}


def written(visitor: Visitor) -> list[float]:
    """The numbers of the waterfall as they are written."""
    return [float(text.replace("−", "-")) for text in visitor.by("decomposition").locator(".number").all_inner_texts()]


def expected(decomposition: dict[str, np.ndarray], frame: int) -> dict[str, float]:
    features = {f"feature-{k + 1}": value for k, value in enumerate(decomposition["features"][frame])}
    others = {name: decomposition[name][frame] for name in decomposition if name != "features"}
    return {name: float(value) for name, value in {**features, **others}.items()}


def combined(page: Path, trajectory: int, layer: str, weights: np.ndarray) -> dict[str, np.ndarray]:
    """The decomposition of a combination of logits with weights (T, A)."""
    decompositions = [
        open_results(page).decomposition(trajectory, layer, f"action-{action}") for action in range(ACTIONS)
    ]
    return {
        name: sum(
            (
                weights[:, a].reshape(-1, *[1] * (one[name].ndim - 1)) * one[name]
                for a, one in enumerate(decompositions)
            ),
            start=np.zeros_like(decompositions[0][name]),
        )
        for name in decompositions[0]
    }


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_the_waterfall_chart_shows_the_decomposition(page_of: Pages, open_page: Open, kind: str) -> None:
    page = page_of(kind)
    visitor = open_page(page, "?layer=1a&trajectory=2&frame=41&rows=value~2a,action-2")
    for row, (layer, output) in enumerate((("2a", "value"), ("1a", "action-2"))):
        decomposition = open_results(page).decomposition(1, layer, output)
        wanted = expected(decomposition, 40)
        if kind == "policy":
            assert wanted.pop("memory") == 0, "only a recurrent agent has memory"
        shown = waterfall(visitor, row)
        assert shown == pytest.approx(wanted, rel=1e-6, abs=1e-7)
        assert next(iter(shown)) == "baseline"
        parts = sum(value for name, value in shown.items() if name != "output")
        assert parts == pytest.approx(shown["output"], abs=1e-5)
        assert visitor.page.evaluate(f"rlClarity.decomposition({row}).baseline") == pytest.approx(shown["baseline"])


@pytest.mark.parametrize("instead", ["mean", "12"])
def test_a_step_can_be_compared_with_another_step_or_the_episode_mean(
    page_of: Pages, open_page: Open, instead: str
) -> None:
    page = page_of("recurrent")
    decomposition = open_results(page).decomposition(0, "2a")
    rows = slice(30, 60) if instead == "mean" else slice(11, 12)  # the episode of frame 41
    begin = {name: values[rows].mean(axis=0) for name, values in decomposition.items()}
    visitor = open_page(page, "?layer=2a&frame=41")
    assert waterfall(visitor) == pytest.approx(expected(decomposition, 40), rel=1e-6, abs=1e-7)
    visitor.by("instead").select_option("frame" if instead == "12" else instead)
    if instead == "12":
        visitor.by("instead-frame").fill(instead)
        visitor.press("Tab")
    visitor.by("instead-note").wait_for()
    assert visitor.state()["instead"] == (11 if instead == "12" else "mean")
    change = {name: values - begin[name] for name, values in decomposition.items()}
    wanted = {**expected(change, 40), "start": float(change["baseline"][40]), "baseline": float(begin["output"])}
    wanted["output"] = float(decomposition["output"][40])
    shown = waterfall(visitor)
    assert shown == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    assert sum(value for name, value in shown.items() if name != "output") == pytest.approx(shown["output"], abs=1e-5)
    visitor.page.wait_for_function(f"() => location.search.includes('instead={instead}')")


def test_the_printed_numbers_of_the_waterfall_add_up_to_the_output(page_of: Pages, open_page: Open) -> None:
    page = page_of("recurrent")
    visitor = open_page(page, "?layer=2a&frame=30")
    *parts, output = written(visitor)
    values = open_results(page).decomposition(0, "2a")["output"]
    assert len(parts) == FEATURES + 4
    assert sum(parts) == pytest.approx(output, abs=1e-3 * max(1.0, np.ptp(values)) * len(parts))
    visitor.page.evaluate(_COUNT_DRAWN)
    visitor.press("ArrowRight")
    visitor.settle()
    assert visitor.page.evaluate("window.drawn") == {"pos": 1, "neg": 1}, "each image is drawn once"
    assert waterfall(visitor) == pytest.approx(
        expected(open_results(page).decomposition(0, "2a"), 30), rel=1e-6, abs=1e-7
    )


@pytest.mark.parametrize(
    "question", ["action-1-less-action-2", "action-3-less-mean", "taken-less-mean", "group-0-less-mean"]
)
def test_comparisons_of_actions_are_combinations_of_logits(page_of: Pages, open_page: Open, question: str) -> None:
    page = page_of("policy")
    series = open_results(page).series(0)
    policy, actions = series["probabilities"], np.eye(ACTIONS)
    weights = {
        "action-1-less-action-2": np.tile(actions[1] - actions[2], (STEPS, 1)),
        "action-3-less-mean": actions[3] - policy,
        "taken-less-mean": actions[series["actions"]] - policy,
        "group-0-less-mean": actions[0] + actions[1] - 2 * policy,
    }[question]
    visitor = open_page(page, f"?layer=1a&frame=20&rows={question}")
    decomposition = combined(page, 0, "1a", weights)
    wanted = expected(decomposition, 19)
    left = decomposition["output"] - decomposition["residual"] - decomposition["features"].sum(1)
    share = 1 - left.var() / decomposition["output"].var()
    said = visitor.text("layer-share" if share >= 0.5 else "layer-warning")
    assert float(re.findall(r"([\d.]+)\s*%", said)[0]) == pytest.approx(100 * abs(share), abs=0.51)
    del wanted["memory"]
    assert waterfall(visitor) == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert wanted["output"] == pytest.approx(float((weights * series["logits"]).sum(1)[19]), abs=1e-5)
    shown = visitor.track(question).locator(".value").inner_text().replace("−", "-")
    assert float(shown) == pytest.approx(wanted["output"], rel=6e-3, abs=1e-4)
    attributions = [open_results(page).attribution("1a", 0, f"action-{action}", [19]) for action in range(ACTIONS)]
    channels = sum(weights[19, a] * one.channels[0] for a, one in enumerate(attributions))
    image = visitor.page.evaluate("rlClarity.compose(0, 'pos', false)")
    largest = np.maximum(channels, 0).max(-1)
    alphas = np.reshape(image["data"], (*largest.shape, 4))[..., 3]
    assert np.array_equal(alphas > 1e-6, largest > 1e-6 * image["scale"])


def test_the_decomposition_of_a_log_probability_adds_up_to_it(page_of: Pages, open_page: Open) -> None:
    page = page_of("policy")
    visitor = open_page(page, "?layer=1a&frame=20&rows=log-action-1")
    shown = waterfall(visitor)
    policy = open_results(page).series(0)["probabilities"]
    assert shown["output"] == pytest.approx(float(np.log(policy[19, 1])), abs=1e-5)
    assert sum(value for name, value in shown.items() if name != "output") == pytest.approx(shown["output"], abs=1e-5)
    mean = combined(page, 0, "1a", np.eye(ACTIONS)[1] - policy)
    assert shown["feature-2"] == pytest.approx(mean["features"][19, 1], abs=1e-5), "to first order"


def test_an_action_can_be_compared_with_another_instead_of_the_mean(page_of: Pages, open_page: Open) -> None:
    visitor = open_page(page_of("policy"), "?frame=20")
    visitor.by("output-0").select_option("action-2")
    assert visitor.state()["rows"][0]["output"] == "action-2-less-mean"
    visitor.page.wait_for_url("**rows=action-2-less-mean**")
    visitor.by("against-0").select_option("action-1")
    assert visitor.state()["rows"][0]["output"] == "action-2-less-action-1"
    visitor.by("against-0").focus()
    visitor.press("End")
    assert visitor.state()["rows"][0]["output"] == "action-2", "by the keyboard; the logit itself"
    visitor.page.evaluate("document.activeElement.blur()")
    visitor.press("u", "u")
    assert visitor.state()["rows"][0]["output"] == "action-2-less-mean"
    visitor.page.reload()
    visitor.settle()
    assert visitor.by("against-0").input_value() == "mean"
    visitor.press("f")
    visitor.by("find-kind").select_option("output")
    visitor.by("find-output").select_option("action-2-less-mean")
    series = [open_results(visitor.directory).series(trajectory) for trajectory in range(2)]
    numbers = np.concatenate([one["logits"][:, 2] - (one["probabilities"] * one["logits"]).sum(1) for one in series])
    limit = round(float(np.median(numbers)), 3)
    visitor.by("find-value").fill(str(limit))
    visitor.click("find-go")
    count = int((numbers > limit).sum())
    visitor.by("find-count").wait_for()
    assert visitor.text("find-count").startswith(f"{count} frame")


_OVERLAPS = """decomposition => {
  const texts = [...decomposition.querySelectorAll('.word, .number')].map((element) => {
    const range = document.createRange();
    range.selectNodeContents(element.querySelector(':scope > :not(.hidden-text)') ?? element);
    return { text: element.innerText, own: element.getBoundingClientRect(), ...range.getBoundingClientRect().toJSON() };
  });
  const cut = texts.filter(({ left, right, own }) => left < own.left - 1 || right > own.right + 1);
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const pairs = texts.flatMap((a, i) => texts.slice(0, i).filter((b) => !apart(a, b)).map((b) => [a.text, b.text]));
  return [...cut.map(({ text }) => text), ...pairs];
}"""


@pytest.mark.parametrize(("rows", "width"), [("value", 1366), ("value,action-2&columns=1", 1366), ("value", 390)])
def test_numbers_of_the_waterfall_do_not_overlap(generated: Generated, open_page: Open, rows: str, width: int) -> None:
    visitor = open_page(generated.directory, f"?frame=20&rows={rows}", viewport={"width": width, "height": 844})
    decomposition = visitor.by("decomposition").first
    expect(decomposition.locator("[data-part]")).to_have_count(12)
    assert decomposition.evaluate(_OVERLAPS) == []
    columns = decomposition.locator(".columns")
    assert columns.evaluate("e => e.scrollWidth <= e.clientWidth"), "all of them are visible"


def test_a_layer_that_explains_little_variance_of_an_output_is_marked(
    with_layer_data: Callable[..., Path], open_page: Open
) -> None:
    page = with_layer_data(variance_share={"value": 0.12}, label="block 2, 16 x 16 x 32", full_name="add_3")
    visitor = open_page(page, "?layer=2a&frame=5")
    assert "12" in visitor.text("layer-2a")
    expect(visitor.by("layer-2a")).to_have_attribute("title", re.compile("^add_3: "))
    expect(visitor.by("layer-2a").locator(".warning")).to_have_count(1)
    assert "only 12" in visitor.text("layer-warning")
    assert "bypass" not in visitor.text("layer-warning")
    expect(visitor.page.get_by_role("heading", name="Features of layer block 2, 16 x 16 x 32")).to_be_visible()
    visitor.click("layer-3a")
    visitor.settle()
    left = {"memory": 0.75, "completeness_error": -0.09, "baseline": 0.5}
    page = with_layer_data(variance_share={"value": -0.16}, unexplained={"value": left})
    visitor = open_page(page, "?layer=2a&frame=5")
    warning = "only −16\u202f% of the variance"
    assert warning in visitor.by("layer-warning").inner_text(), "a negative share is not 0"
    assert "The rest: memory 75 %, baseline 50 %, completeness error −9 %." in visitor.text("layer-warning")
    visitor.press("t")
    assert "116 %" in visitor.text("missing"), "what is missing together"
    page = with_layer_data(variance_share={"value": 0.93})
    visitor = open_page(page, "?layer=2a&frame=5")
    expect(visitor.by("layer-2a").locator(".warning")).to_have_count(0)
    expect(visitor.by("layer-warning")).to_have_count(0)


def test_the_legend_shows_the_coverage_of_the_features(with_layer_data: Callable[..., Path], open_page: Open) -> None:
    page = with_layer_data(facts={"coverage": {"value": 0.54}, "next_feature": 0.031})
    text = open_page(page, "?layer=2a&frame=5").text("coverage")
    assert text.startswith("These features cover 54")
    assert "One more would add 3.1" in text
    measured = open_page(page, "?layer=3a&frame=5").text("coverage")
    assert measured.startswith("These features cover "), "on the trajectory, where the page does not say it"

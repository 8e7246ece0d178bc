"""Answers of the network behind a page, compared to the agent's own functions and to the page's numbers."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.environments.painted_world import paint_over
from rl_clarity.live import LiveNetwork, Superseded, parse_request
from rl_clarity.live.requests import Change
from tests.live.pages import (
    BEHIND,
    EVERY,
    LAYER,
    SHAPE,
    STEPS,
    WORLD,
    ask,
    open_network,
    tiny_agent,
    values_of,
    write_page,
)

BOX = [4, 2, 10, 9]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def recurrent_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("recurrent"), tiny_agent("recurrent"))


@pytest.fixture(scope="module")
def network(page: Path) -> LiveNetwork:
    return open_network(page)


@pytest.fixture(scope="module")
def recurrent(recurrent_page: Path) -> LiveNetwork:
    return open_network(recurrent_page, "recurrent")


def agent_of(network: LiveNetwork) -> Any:
    return network.agent


def painted(image: np.ndarray) -> np.ndarray:
    image, size = image.copy(), SHAPE[0]
    paint_over(image, (BOX[0] / size, BOX[1] / size, BOX[2] / size, BOX[3] / size))
    return image


@pytest.mark.parametrize("kind", ["network", "recurrent"])
def test_the_live_network_reproduces_the_stored_outputs(kind: str, request: pytest.FixtureRequest) -> None:
    """Those of a recurrent agent too, although its trajectory begins within an episode."""
    answer = ask(request.getfixturevalue(kind), "check", trajectory=0)
    assert answer["agrees"]
    assert answer["difference"] < 1e-5


def test_the_check_detects_an_agent_other_than_that_of_the_page(page: Path) -> None:
    from dataclasses import replace

    known = open_network(page)
    assert not ask(LiveNetwork(known.results, replace(agent_of(known), seed=1)), "check", trajectory=0)["agrees"]


@pytest.mark.parametrize("feature", [1, 2, 3])
def test_setting_a_feature_to_the_baseline_gives_the_stored_ablation(network: LiveNetwork, feature: int) -> None:
    change = {"features": [{"layer": LAYER, "baseline": [feature]}]}
    answer = ask(network, "outputs", trajectory=0, first=0, last=STEPS - 1, change=change)
    ablation = network.results.section("ablation")["layers"][network.results.layer(LAYER)["slug"]]
    stored = network.results.chunk(ablation["trajectories"][0])
    changes = values_of(answer, "after") - values_of(answer, "before")
    np.testing.assert_allclose(changes[stored["frames"]], stored["change.value"][:, feature - 1], atol=1e-5)
    assert np.abs(changes).max() > 0.01


def test_multiplying_a_feature_by_0_equals_ablating_it(network: LiveNetwork) -> None:
    change = {"features": [{"layer": LAYER, "factors": {"2": 0}}]}
    answer = ask(network, "outputs", trajectory=0, first=3, last=6, change=change)
    component = network.results.reduction(LAYER).components[1]
    without = rl_clarity.edit(agent_of(network), rl_clarity.Ablate(LAYER, component=component))
    expected = without.forward(network.played.observations(0, 3, 6)).values
    np.testing.assert_allclose(values_of(answer, "after"), expected, atol=1e-5)


def test_baselines_that_need_other_observations_are_refused(network: LiveNetwork) -> None:
    with pytest.raises(OptionError, match="baseline='mean' depends on observations that the page does not have"):
        ask(network, "attribution", trajectory=0, step=7, layer=LAYER, baseline="mean")


def test_feature_factors_interpolate_linearly_between_0_and_1(network: LiveNetwork) -> None:
    """Twice the feature changes the layer by as much as its removal, in the other direction."""
    (edit,) = network.edits([_request({"layer": LAYER, "factors": {"2": 2}}).change.features[0]])
    (removal,) = network.edits([_request({"layer": LAYER, "factors": {"2": 0}}).change.features[0]])
    values = agent_of(network).activations(network.played.observations(0, 0, 3), LAYER)
    np.testing.assert_allclose(edit.apply(values) - values, values - removal.apply(values), atol=1e-6)
    assert network.edits([_request({"layer": LAYER, "factors": {"2": 1}}).change.features[0]]) == []


def _request(features: dict[str, Any], **values: Any) -> Any:
    import json

    body = {"trajectory": 0, "first": 0, "last": 0, "change": {"features": [features]}, **values}
    return parse_request("outputs", json.dumps(body).encode())


def test_keeping_only_a_feature_equals_ablate_with_everything_but(network: LiveNetwork) -> None:
    change = {"features": [{"layer": LAYER, "only": [2]}]}
    answer = ask(network, "outputs", trajectory=0, first=3, last=6, change=change)
    components = network.results.reduction(LAYER).components
    kept = rl_clarity.edit(agent_of(network), rl_clarity.Ablate(LAYER, component=components[1:2], everything_but=True))
    expected = kept.forward(network.played.observations(0, 3, 6))
    np.testing.assert_allclose(values_of(answer, "after"), expected.values, atol=1e-5)


def test_features_change_only_at_the_selected_positions(network: LiveNetwork) -> None:
    change = {"features": [{"layer": LAYER, "added": {"1": 3.0}, "positions": [[1, 2]]}]}
    answer = ask(network, "outputs", trajectory=0, first=3, last=6, change=change)
    component = network.results.reduction(LAYER).components[0]
    steer = rl_clarity.Steer(LAYER, component, amount=3.0, positions=[(1, 2)])
    expected = rl_clarity.edit(agent_of(network), steer).forward(network.played.observations(0, 3, 6))
    np.testing.assert_allclose(values_of(answer, "after"), expected.values, atol=1e-5)


@pytest.mark.parametrize("fill", ["surroundings", "color", "frame"])
def test_outputs_for_a_painted_box_are_those_for_the_painted_image(network: LiveNetwork, fill: str) -> None:
    image, other = network.played.observations(0, 5, 5)[0], network.played.observations(0, 66, 66)[0]
    left, top, right, bottom = BOX
    expected = {"surroundings": painted(image), "color": image.copy(), "frame": image.copy()}[fill]
    if fill != "surroundings":
        part = (slice(top, bottom), slice(left, right))
        expected[part] = [1, 20, 255] if fill == "color" else other[part]
    box = {"box": BOX, "fill": fill, "color": [1, 20, 255], "trajectory": 0, "step": 66}
    answer = ask(network, "outputs", trajectory=0, first=5, last=5, change={"boxes": [box]})
    outputs = agent_of(network).forward(expected[None])
    np.testing.assert_allclose(values_of(answer, "after"), outputs.values, atol=1e-5)
    np.testing.assert_allclose(answer["after"]["logits"], outputs.policy_logits, atol=1e-5)
    assert values_of(answer, "after") != values_of(answer, "before")


def test_edited_pixels_replace_an_observation(network: LiveNetwork) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, SHAPE, np.uint8)
    change = {"pixels": base64.b64encode(pixels.tobytes()).decode()}
    answer = ask(network, "outputs", trajectory=0, first=5, last=5, change=change)
    np.testing.assert_allclose(values_of(answer, "after"), agent_of(network).forward(pixels[None]).values, atol=1e-5)


def test_each_edited_step_starts_from_its_recorded_state(recurrent: LiveNetwork) -> None:
    answer = ask(recurrent, "outputs", trajectory=0, first=38, last=44, change={"boxes": [{"box": BOX}]})
    images = np.stack([painted(image) for image in recurrent.played.observations(0, 38, 44)])
    expected = agent_of(recurrent).forward(images, recurrent.played.states(0, 38, 44))
    np.testing.assert_allclose(values_of(answer, "after"), expected.values, atol=1e-5)


def test_with_memory_edited_steps_pass_their_state_on_within_an_episode(recurrent: LiveNetwork) -> None:
    answer = ask(recurrent, "outputs", trajectory=0, first=36, last=44, memory=True, change={"boxes": [{"box": BOX}]})
    state, expected = recurrent.played.states(0, 36, 36), list[np.ndarray]()
    for step, image in zip(range(36, 45), recurrent.played.observations(0, 36, 44), strict=True):
        outputs, state = agent_of(recurrent).step(painted(image)[None], state, np.array([step == 40]))
        expected.append(outputs.values)
    np.testing.assert_allclose(values_of(answer, "after"), np.concatenate(expected), atol=1e-5)


@pytest.mark.parametrize("baseline", [None, "zero-layer", "zero-input"])
def test_live_attribution_equals_integrated_gradients(network: LiveNetwork, baseline: str | None) -> None:
    chosen: dict[str, Any] = {} if baseline is None else {"baseline": baseline}
    answer = ask(network, "attribution", trajectory=0, step=7, layer=LAYER, output="action-2", points=9, **chosen)
    expected = rl_clarity.integrated_gradients(
        agent_of(network),
        network.played.observations(0, 7, 7),
        LAYER,
        2,
        steps=9,
        baseline=baseline or network.results.baseline,
    )
    channels, residual = network.results.reduction(LAYER).signed_transform(expected[0])
    for name, values in (("channels", channels), ("residual", residual)):
        shown = np.frombuffer(base64.b64decode(answer[name]["data"]), np.float32).reshape(answer[name]["shape"])
        np.testing.assert_allclose(shown, values, atol=1e-5)


def test_a_superseded_request_is_not_computed_to_the_end(recurrent: LiveNetwork) -> None:
    asked = iter([True, True, False])
    with pytest.raises(Superseded):
        recurrent.answer(_request({"layer": LAYER}, last=STEPS - 1, memory=True), lambda: next(asked))
    assert next(asked, None) is None


@pytest.mark.parametrize("removed", [[1], [2], [1, 2]])
def test_removing_an_object_gives_its_measured_effect(network: LiveNetwork, removed: list[int]) -> None:
    step = 4 * EVERY
    change = {"objects": removed}
    answer = ask(network, "outputs", trajectory=0, first=step, last=step, change=change)
    assert [(item["number"], item["type"]) for item in answer["objects"]] == [(1, "coin"), (2, "saw")]
    assert [item["box"] for item in answer["objects"]] == [list(box) for box in WORLD.boxes]
    expected = WORLD.draw([_without(network, step, removed)])[0]
    seen = network.observe(0, step, step, Change(objects=removed))[0]
    np.testing.assert_array_equal(seen, expected)
    effects = network.results.chunk("objects/1/effects.js")
    change_of_value = values_of(answer, "before") - values_of(answer, "after")
    if len(removed) == 1:
        chosen = (effects["frame"] == step) & (effects["track"] == removed[0] - 1)
        np.testing.assert_allclose(change_of_value, effects["effect.value"][chosen], atol=1e-5)
    assert np.abs(change_of_value).max() > 1e-3


def _without(network: LiveNetwork, step: int, removed: list[int]) -> bytes:
    """The state of the world whose squares are drawn as at a step, but for those that are removed."""
    image = network.observe(0, step, step, Change())[0]
    for number in removed:
        left, top, right, bottom = WORLD.boxes[number - 1]
        image[top:bottom, left:right] = BEHIND[step][top:bottom, left:right]
    return WORLD.state(image, (0, 0))


def test_removing_an_object_out_of_view_changes_nothing(network: LiveNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = network.objects._chunk(0)
    assert chunk is not None
    track, step = chunk.arrays["track"].copy(), EVERY
    track[(chunk.arrays["frame"] == step) & (track == 1)] = 5
    changed = dataclasses.replace(chunk, arrays={**chunk.arrays, "track": track})
    monkeypatch.setattr(network.objects, "_chunk", lambda trajectory: changed)
    seen = network.observe(0, step, step, Change(objects=[2]))
    np.testing.assert_array_equal(seen, network.played.observations(0, step, step))


@pytest.mark.parametrize(
    ("step", "objects", "message"),
    [
        (EVERY, [9], "trajectory 1 has no object 9"),
        (EVERY + 1, [1], "the objects of step 6 were not measured"),
        (EVERY, [1, 1], "object 1 overlaps another removed object"),
    ],
)
def test_objects_that_cannot_be_removed_are_refused(
    network: LiveNetwork, step: int, objects: list[int], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        ask(network, "outputs", trajectory=0, first=step, last=step, change={"objects": objects})
    if step % EVERY:
        assert ask(network, "outputs", trajectory=0, first=step, last=step)["objects"] == []

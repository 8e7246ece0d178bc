"""What edits do to the effects of objects, for an agent with a channel for each type of object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl_clarity import Ablate, fit_directions, lost_effects, object_pairs
from rl_clarity.agents.protocol import Outputs, Site, State, Written
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.object_effects import ObjectEffects

SIZE, PATCH = 16, 4
COLORS = {"saw": 0, "coin": 1}
WEIGHTS = {"saw": -2.0, "coin": 1.0}


class ColorAgent:
    """Layer `1a` (4, 4, 5): a channel each for red (saws), green (coins) and blue (the ground), and two that are 0.

    The value and the logits are weighted sums of the channels, and the logits of the others are 0.
    """

    num_actions, observation_shape, metadata = 3, (SIZE, SIZE, 3), {"env_name": "colors"}
    sites = (
        Site("input", "input", (SIZE, SIZE, 3)),
        Site("net/1a/Relu", "relu", (SIZE // PATCH, SIZE // PATCH, 5)),
        Site("policy_logits", "head", (3,)),
    )

    def initial_state(self, n: int) -> State:
        return None

    def forward(
        self,
        observations: np.ndarray,
        state: State = None,
        *,
        read: Sequence[str] = (),
        write: Mapping[str, Written] | None = None,
    ) -> Outputs:
        images = np.asarray(observations, np.float32) / 255
        blocks = images.reshape(-1, SIZE // PATCH, PATCH, SIZE // PATCH, PATCH, 3).mean(axis=(2, 4))
        layer = np.concatenate([blocks, np.zeros((*blocks.shape[:3], 2), np.float32)], axis=-1)
        for edit in (write or {}).values():
            layer = np.asarray(edit(layer) if callable(edit) else edit)
        totals = layer.sum(axis=(1, 2))  # (B, 5)
        values = WEIGHTS["saw"] * totals[:, 0] + WEIGHTS["coin"] * totals[:, 1] + 0.1 * totals[:, 2]
        logits = np.stack([3 * totals[:, 0], 2 * totals[:, 1], 0 * values], axis=1)
        return Outputs(policy_logits=logits, values=values, sites=dict.fromkeys(read, layer))

    def activations(self, observations: np.ndarray, site: str, state: State = None) -> np.ndarray:
        return self.forward(observations, read=[site]).sites[site]


def measure(agent: ColorAgent, episodes: int = 6, objects: int = 4) -> ObjectEffects:
    """Objects of both types, each alone on blue ground, whose boxes are cells of the layer."""
    rng = np.random.default_rng(0)
    count = episodes * objects
    types = np.array(["saw", "coin"] * (count // 2))
    cells = rng.integers(0, SIZE // PATCH, (count, 2))
    box = np.concatenate([cells, cells + 1], axis=1) * PATCH
    without = np.zeros((count, SIZE, SIZE, 3), np.uint8)
    without[..., 2] = 51
    with_object = without.copy()
    for image, kind, (left, top, right, bottom) in zip(with_object, types, box, strict=True):
        image[top:bottom, left:right] = 0
        image[top:bottom, left:right, COLORS[str(kind)]] = rng.integers(100, 256)
    outputs = [agent.forward(frames) for frames in (with_object, without)]
    values, logits = (np.asarray(getattr(outputs[0], n) - getattr(outputs[1], n)) for n in ("values", "policy_logits"))
    return ObjectEffects(
        type=types,
        episode=np.repeat(np.arange(episodes), objects),
        step=np.arange(count),
        position=np.zeros((count, 2), np.float32),
        box=box,
        value_change=values,
        logits_change=logits,
        policy_change=np.ones(count, np.float32),
        with_object=with_object,
        without_object=without,
        exact=np.full(count, True),
    )


@pytest.fixture(scope="module")
def agent() -> Any:
    return ColorAgent()


@pytest.fixture(scope="module")
def effects(agent: Any) -> ObjectEffects:
    return measure(agent)


def channels(*chosen: int) -> np.ndarray:
    return np.eye(5, dtype=np.float32)[list(chosen)]


def test_object_pairs_are_activations_at_and_away_from_objects(agent: Any, effects: ObjectEffects) -> None:
    pairs = object_pairs(agent, effects, "1a", "saw", margin=0)
    assert pairs.with_object.shape == pairs.without_object.shape == (12, 5)  # a cell each
    assert (pairs.with_object[:, 0] > 0.3).all()
    assert not pairs.without_object[:, 0].any()
    np.testing.assert_allclose(pairs.without_object[:, 2], 0.2, rtol=1e-6)
    assert (pairs.others[:12, 1] > 0.3).all()
    np.testing.assert_allclose(pairs.others[:12, 2], -0.2, rtol=1e-6)  # they hide the ground
    assert not pairs.others[:, 0].any()
    np.testing.assert_allclose(pairs.others[12:, 2], 0.2, rtol=1e-6)
    beyond = object_pairs(agent, effects, "1a", "saw").with_object
    assert len(beyond) > 12  # the margin adds the cells around the box
    assert (beyond[:, 0] > 0).sum() == 12


@pytest.mark.parametrize(("kind", "other"), [("saw", "coin"), ("coin", "saw")])
def test_ablating_a_types_direction_removes_only_effects_of_that_type(
    agent: Any, effects: ObjectEffects, kind: str, other: str
) -> None:
    pairs = object_pairs(agent, effects, "1a", kind)
    found = fit_directions(pairs.with_object, "pairs", 1, without=pairs.without_object, others=pairs.others)
    assert found.vectors[0, COLORS[kind]] > 0.99
    lost = lost_effects(agent, effects, Ablate("1a", component=channels(COLORS[kind]), signed=True))
    for name, share in ((kind, 1.0), (other, 0.0)):
        loss = lost.loss(name)
        assert (loss.count, loss.episodes) == (12, 6)
        for measured in (loss.policy_lost, loss.policy_changed):
            np.testing.assert_allclose(measured, share, atol=1e-6)
    blue = 0.1 * 0.2  # the effect on the value that remains is that of the ground under the object
    effect = np.abs(effects.value_change[effects.type == kind]).mean()
    assert lost.loss(kind).value_lost[0] == pytest.approx(1 - blue / effect, rel=1e-5)
    assert lost.loss(other).value_lost[0] == pytest.approx(0, abs=1e-6)


def test_ablation_of_strength_one_half_loses_half_of_the_effect_on_value(agent: Any, effects: ObjectEffects) -> None:
    loss = lost_effects(agent, effects, Ablate("1a", unit=[0, 1, 2], strength=0.5)).loss()
    np.testing.assert_allclose([loss.value_lost, loss.value_changed], 0.5, rtol=1e-5)


def test_an_effect_that_an_edit_enlarges_is_changed_but_not_lost(agent: Any, effects: ObjectEffects) -> None:
    """Without (1, 1, 0, 0, 0), green g becomes (-g / 2, g / 2), whose value is 1.5 g."""
    loss = lost_effects(agent, effects, Ablate("1a", component=channels(0) + channels(1), signed=True)).loss("coin")
    green = effects.with_object[effects.type == "coin"].max(axis=(1, 2))[:, 1].mean() / 255
    share = 0.5 * green / np.abs(effects.value_change[effects.type == "coin"]).mean()
    assert loss.value_lost[0] == pytest.approx(-share, rel=1e-4)
    assert loss.value_changed[0] == pytest.approx(share, rel=1e-4)


def test_several_edits_of_a_layer_are_applied_in_sequence(agent: Any, effects: ObjectEffects) -> None:
    edits = Ablate("1a", unit=0, strength=0.5), Ablate("1a", unit=0, strength=0.5)
    for at in (None, "saw"):
        lost = lost_effects(agent, effects, *edits, Ablate("1a", unit=2), at=at).loss("saw")
        red = effects.with_object[effects.type == "saw"].max(axis=(1, 2))[:, 0].mean() / 255
        effect = np.abs(effects.value_change[effects.type == "saw"]).mean()
        assert lost.value_lost[0] == pytest.approx(1 - 2 * red / 4 / effect, rel=1e-4)


def test_edits_at_objects_of_a_type_leave_other_objects_unchanged(agent: Any, effects: ObjectEffects) -> None:
    whole = Ablate("1a")
    everywhere, here = (lost_effects(agent, effects, whole, at=at, margin=0) for at in (None, "saw"))
    for kind, shares in (("saw", (1, 1)), ("coin", (1, 0))):
        for lost, share in zip((everywhere, here), shares, strict=True):
            np.testing.assert_allclose(lost.loss(kind).value_lost, share, atol=1e-6)
    np.testing.assert_allclose(everywhere.value_shift, -0.1 * 0.2 * 16, rtol=1e-5)
    np.testing.assert_allclose(here.value_shift, np.where(effects.type == "saw", -0.1 * 0.2, 0), rtol=1e-5, atol=1e-7)


def test_edits_at_a_type_apply_to_all_its_objects_in_a_frame(agent: Any, effects: ObjectEffects) -> None:
    """An episode is a frame here, with two saws and two coins."""
    together = replace(effects, step=np.zeros_like(effects.step))
    lost = lost_effects(agent, together, Ablate("1a"), at="saw", margin=0)
    saws = [{tuple(box) for box in effects.box[(effects.type == "saw") & (effects.episode == i)]} for i in range(6)]
    assert {len(places) for places in saws} == {2}
    np.testing.assert_allclose(lost.value_shift, -0.1 * 0.2 * 2, rtol=1e-5)


def test_confidence_intervals_of_ablation_effects_resample_episodes(agent: Any, effects: ObjectEffects) -> None:
    lost = lost_effects(agent, effects, Ablate("1a", unit=0, strength=0.7))
    share, low, high = lost.loss("saw").policy_lost
    assert low < share < high
    alone = lost_effects(agent, measure(agent, 1), Ablate("1a", unit=0)).loss("saw")
    assert np.isnan(alone.value_lost[1:]).all()


def test_unknown_types_and_unsuitable_layers_are_refused(agent: Any, effects: ObjectEffects) -> None:
    with pytest.raises(OptionError, match=r"types=\['lava'\] have no measured effects; available: coin, saw"):
        object_pairs(agent, effects, "1a", "lava")
    with pytest.raises(OptionError, match=r"shape \(3,\); only feature maps"):
        object_pairs(agent, effects, "policy_logits", "saw")
    resampled = Ablate("1a", to="resample", data=agent.activations(effects.with_object, "1a"))
    with pytest.raises(OptionError, match="draws a row for each observation"):
        lost_effects(agent, effects, resampled, at="saw")

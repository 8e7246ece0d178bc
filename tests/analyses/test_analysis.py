"""Description of an agent, attributed outputs and layers of a page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.analysis import action_groups, action_label, describe_agent
from rl_clarity.analyses.attribution.outputs import attributed_outputs, scores_to_compute
from rl_clarity.analyses.layers import LayersOptions, page_layers
from rl_clarity.analyses.trajectories import discounts
from rl_clarity.base.errors import OptionError
from rl_clarity.pages.options import InterfaceOptions
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent


@pytest.mark.parametrize(
    ("combo", "label"),
    [
        (("LEFT",), "←"),
        (("RIGHT",), "→"),
        (("UP",), "↑"),
        (("DOWN",), "↓"),
        (("LEFT", "UP"), "↖"),
        (("UP", "LEFT"), "↖"),
        (("DOWN", "LEFT"), "↙"),
        (("RIGHT", "UP"), "↗"),
        (("DOWN", "RIGHT"), "↘"),
        (("UP", "RIGHT", "FIRE"), "↗ FIRE"),
        (("D",), "D"),
        (("A", "B"), "A B"),
        (("LEFT", "RIGHT"), "←→"),
        ((), "no-op"),
    ],
)
def test_button_combinations_become_arrow_labels(combo: tuple[str, ...], label: str) -> None:
    assert action_label(combo) == label


def test_actions_are_grouped_by_direction() -> None:
    combos = [("LEFT",), (), ("LEFT", "UP"), ("A",)]
    assert action_groups(combos, [lambda combo: "LEFT" in combo, lambda combo: not combo]) == [[0, 2], [1]]
    groups = make_subject(TinyAgent(num_actions=4), action_combos=combos).info.action_groups
    assert [(group.label, group.actions) for group in groups] == [("any ←", [0, 2]), ("no direction", [1, 3])]


def test_custom_groups_are_named_by_their_actions() -> None:
    combos = [("LEFT",), (), ("UP",)]
    options: dict[str, Any] = {"action_combos": combos, "action_group_fns": (lambda combo: combo,)}
    groups = make_subject(TinyAgent(num_actions=3), **options).info.action_groups
    assert [group.label for group in groups] == ["← / ↑"]


def test_each_logit_is_attributed_once_and_groups_are_summed() -> None:
    combos = [("LEFT",), ("LEFT", "UP"), ()]
    subject = make_subject(TinyAgent(num_actions=3), action_combos=combos, attr_policy=True)
    ids = [output.id for output in attributed_outputs(subject)]
    assert ids == ["value", "action-0", "action-1", "action-2", "group-0"]
    assert scores_to_compute(subject) == ["value", 0, 1, 2]


def test_q_value_agents_have_greedy_and_action_outputs() -> None:
    subject = make_subject(TinyAgent("q", num_actions=2), attr_policy=True)
    assert [output.id for output in attributed_outputs(subject)] == ["greedy", "action-0", "action-1"]
    assert subject.info.action_groups == ()
    assert subject.output_kind == "greedy"


def test_policies_without_a_value_explain_the_largest_logit() -> None:
    subject = make_subject(TinyAgent("logits", num_actions=2), attr_policy=True)
    outputs = attributed_outputs(subject)
    assert [output.id for output in outputs] == ["greedy", "action-0", "action-1", "group-0"]
    assert outputs[0].label == "largest logit"
    assert (subject.info.kind, subject.info.has_value, subject.output_kind) == ("policy", False, "greedy")


def test_metadata_override_defaults_and_options_override_metadata() -> None:
    default = make_subject()
    assert (default.info.network, discounts(default)) == ("TinyAgent", (0.999, 0.95))
    assert [action.label for action in default.info.actions[:2]] == ["0", "1"]
    metadata = {"gamma": 0.9, "lambda": 0.8, "cnn": "clear", "action_combos": [["A"]] * 15}
    subject = make_subject(metadata=metadata)
    assert (subject.info.network, discounts(subject)) == ("clear", (0.9, 0.8))
    assert subject.info.actions[0].label == "A"
    assert discounts(make_subject(metadata=metadata, gae_gamma=0.5, gae_lambda=0.25)) == (0.5, 0.25)


def test_a_discount_of_0_overrides_the_metadata() -> None:
    assert discounts(make_subject(metadata={"gamma": 0.9, "lambda": 0.9}, gae_gamma=0, gae_lambda=0)) == (0, 0)


def test_a_layer_has_at_most_as_many_features_as_channels() -> None:
    subject = make_subject(nmf_features=11)
    layers = page_layers(subject.agent, subject.options)
    assert [(layer.name, layer.channels) for layer in layers] == [("1a", 11), ("2a", 10)]


def test_input_and_layer_names_may_differ_only_in_case() -> None:
    subject = make_subject(input_layer_include=True, input_layer_name="1A")
    layers = page_layers(subject.agent, subject.options)
    assert [layer.name for layer in layers] == ["1A", "1a", "2a"]
    assert len({layer.slug.lower() for layer in layers}) == 3


def test_the_input_name_must_not_equal_a_layer_name() -> None:
    subject = make_subject(input_layer_include=True, input_layer_name="1a")
    with pytest.raises(OptionError, match=r"layers\.input_name='1a'"):
        page_layers(subject.agent, subject.options)


@pytest.mark.parametrize(("channels", "stack", "expected"), [(4, 4, 4), (12, 4, 4), (3, 1, 1), (3, None, 1), (3, 2, 1)])
def test_the_number_of_stacked_frames_follows_from_channels_and_metadata(
    channels: int, stack: int | None, expected: int
) -> None:
    agent = TinyAgent(observation_shape=(16, 16, channels))
    assert make_subject(agent, metadata={"frame_stack": stack}).stack == expected


def test_layers_of_a_sequential_module_get_numbered_labels() -> None:
    nn = pytest.importorskip("torch").nn
    module: Any = nn.Module()
    layers = [nn.Conv2d(3, 8, 4, 4), nn.ReLU(), nn.Conv2d(8, 6, 2, 2), nn.ReLU(), nn.Flatten()]
    module.features, module.actor, module.critic = nn.Sequential(*layers), nn.Linear(24, 4), nn.Linear(24, 1)

    def forward(images: Any) -> Any:
        hidden = module.features(images)
        return module.actor(hidden), module.critic(hidden)

    module.forward = forward
    agent = rl_clarity.TorchAgent(module, (16, 16, 3))
    labels = {layer.name: layer.label for layer in page_layers(agent, InterfaceOptions())}
    assert labels == {"features.1": "conv 1", "features.3": "conv 2"}
    convolutions = InterfaceOptions(layers=LayersOptions(op_is_one_of=("conv2d",), bottleneck_only=False))
    assert [layer.label for layer in page_layers(agent, convolutions)] == ["conv 1", "conv 2"]
    both = InterfaceOptions(layers=LayersOptions(op_is_one_of=("conv2d", "relu"), bottleneck_only=False))
    assert [layer.label for layer in page_layers(agent, both)] == ["conv 1", "conv 1, relu", "conv 2", "conv 2, relu"]
    assert {layer.label for layer in page_layers(TinyAgent(), InterfaceOptions())} == {None}


def test_rendered_frames_that_show_another_view_are_recognized() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
    frames = np.stack([np.roll(level, step, axis=1) for step in range(20)]).repeat(8, axis=1).repeat(8, axis=2)
    agent = TinyAgent(observation_shape=(16, 16, 12))
    subject = make_subject(agent, metadata={"frame_stack": 4})

    def is_aligned(newest: np.ndarray, rendered: np.ndarray) -> bool:
        stacked = np.concatenate([np.zeros((*newest.shape[:3], 9), np.uint8), newest], axis=-1)
        trajectories = replace(subject.trajectories, observations=stacked[None], observations_full=rendered[None])
        return describe_agent(agent, trajectories, subject.metadata, subject.options).observation.aligned

    smaller = frames[:, ::4, ::4]
    assert is_aligned(smaller, frames)
    assert is_aligned(255 - smaller, frames)  # inverted, but in the same places
    assert not is_aligned(smaller.swapaxes(1, 2)[:, ::-1], frames)
    assert not is_aligned(rng.integers(0, 256, smaller.shape).astype(np.uint8), frames)
    assert is_aligned(np.zeros_like(smaller), frames)  # nothing to compare


def test_patches_are_cut_from_observations_if_frames_show_another_view() -> None:
    subject = make_subject(TinyAgent(observation_shape=(16, 16, 3)))
    full = np.ones((len(subject.observations.observations), 32, 32, 3), np.uint8)
    subject = replace(subject, observations=replace(subject.observations, observations_full=full))
    assert subject.observation_frames().shape[1:3] == (32, 32)
    other = replace(subject.info.observation, aligned=False)
    subject = replace(subject, info=replace(subject.info, observation=other))
    assert subject.observation_frames().shape[1:3] == (16, 16)

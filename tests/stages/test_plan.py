"""What a page will hold is decided from the agent, its samples and the options alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.errors import OptionError
from rl_clarity.options import InterfaceOptions
from rl_clarity.parsing import parse
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.stages.plan import Plan, action_label, groups_of, outputs_to_compute, plan_page
from tests.fakes import TinyAgent


def plan(agent: TinyAgent | None = None, metadata: dict[str, Any] | None = None, **options: Any) -> Plan:
    agent = agent or TinyAgent()
    shape = (1, 2, *agent.observation_shape)
    scores = np.zeros((1, 2, agent.num_actions), np.float32)
    heads = {"q_values": scores} if agent.kind == "q" else {"policy_logits": scores}
    observations = np.zeros(shape, np.uint8)
    nothing = np.zeros((1, 2))
    played = Trajectories(observations, nothing, nothing, nothing.astype(bool), **heads)
    given = parse(InterfaceOptions, options)
    return plan_page(agent, played, Observations(observations[0]), given, metadata or {})


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
def test_labels_of_actions(combo: tuple[str, ...], label: str) -> None:
    assert action_label(combo) == label


def test_groups() -> None:
    combos = [("LEFT",), (), ("LEFT", "UP"), ("A",)]
    assert groups_of(combos, [lambda combo: "LEFT" in combo, lambda combo: not combo]) == [[0, 2], [1]]
    found = plan(TinyAgent(num_actions=4), action_combos=combos).groups
    assert [(group.label, group.actions) for group in found] == [("any ←", [0, 2]), ("no direction", [1, 3])]


def test_groups_of_the_users_own_are_called_by_their_actions() -> None:
    combos = [("LEFT",), (), ("UP",)]
    found = plan(TinyAgent(num_actions=3), action_combos=combos, action_group_fns=(lambda combo: combo,)).groups
    assert [group.label for group in found] == ["← / ↑"]


def test_each_logit_is_differentiated_once() -> None:
    found = plan(TinyAgent(num_actions=3), action_combos=[("LEFT",), ("LEFT", "UP"), ()], attr_policy=True)
    assert [output.id for output in found.outputs] == ["value", "action-0", "action-1", "action-2", "group-0"]
    assert outputs_to_compute(found) == ["value", 0, 1, 2]


def test_action_values() -> None:
    found = plan(TinyAgent("q", num_actions=2), attr_policy=True)
    assert [output.id for output in found.outputs] == ["greedy", "action-0", "action-1"]
    assert found.groups == ()
    assert found.fit_output == "greedy"


def test_what_is_not_given_is_known_of_the_agent_or_usual() -> None:
    usual = plan()
    assert (usual.env_name, usual.title, usual.gamma, usual.lam) == ("unknown", "unknown, TinyAgent", 0.999, 0.95)
    assert [action.label for action in usual.actions[:2]] == ["0", "1"]
    known = {"env_id": "CarRacing-v3", "gamma": 0.9, "lambda": 0.8, "cnn": "clear", "action_combos": [["A"]] * 15}
    found = plan(metadata=known)
    assert (found.env_name, found.title, found.gamma, found.lam) == ("CarRacing-v3", "CarRacing-v3, clear", 0.9, 0.8)
    assert found.actions[0].label == "A"
    told = plan(metadata=known, env_name="cars", title="T", gae_gamma=0.5, gae_lambda=0.25)
    assert (told.env_name, told.title, told.gamma, told.lam) == ("cars", "T", 0.5, 0.25)


def test_a_gamma_of_0_is_a_gamma() -> None:
    assert plan(metadata={"gamma": 0.9, "lambda": 0.9}, gae_gamma=0, gae_lambda=0).gamma == 0


def test_layers_have_at_most_their_own_channels() -> None:
    layers = plan(nmf_features=11).layers
    assert [(layer.name, layer.channels) for layer in layers] == [("1a", 11), ("2a", 10)]


def test_a_layer_may_be_called_as_the_input_is() -> None:
    layers = plan(input_layer_include=True, input_layer_name="1A").layers
    assert [layer.name for layer in layers] == ["1A", "1a", "2a"]
    assert len({layer.slug.lower() for layer in layers}) == 3


def test_the_input_may_not_have_a_layers_name() -> None:
    with pytest.raises(OptionError, match="input_layer_name='1a'"):
        plan(input_layer_include=True, input_layer_name="1a")


@pytest.mark.parametrize(("channels", "stack", "expected"), [(4, 4, 4), (12, 4, 4), (3, 1, 1), (3, None, 1), (3, 2, 1)])
def test_frames_of_an_observation(channels: int, stack: int | None, expected: int) -> None:
    agent = TinyAgent(observation_shape=(16, 16, channels))
    assert plan(agent, metadata={"frame_stack": stack}).stack == expected

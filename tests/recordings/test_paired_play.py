"""Paired episodes: the same levels and random numbers for agents that differ in an edit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.environments import KINDS, EnvironmentSpec
from rl_clarity.recordings.evaluation import Evaluation, known_cause
from rl_clarity.recordings.paired_play import Block, blocks, environment_of
from tests import colors
from tests.fakes import TinyAgent

RED = [1.0, 0.0, 0.0]


@pytest.fixture(autouse=True)
def color_games() -> Iterator[None]:
    KINDS.register("colors", colors.KIND)
    yield
    KINDS.unregister("colors")


class ColorTinyAgent(TinyAgent):
    """A TinyAgent that plays the game of colors at random, and follows its own state."""

    metadata = colors.METADATA


def small_agent(kind: str) -> ColorTinyAgent:
    return ColorTinyAgent(kind, (colors.SIZE, colors.SIZE, 3), num_actions=2, patch=2)


def play(agent: Any, episodes: int = 20, number: int = 0) -> Evaluation:
    return Block(environment_of(agent), number, episodes, 0).play(agent, 100, known_cause)


def check_equal(first: Evaluation, second: Evaluation) -> None:
    for name in ("returns", "lengths", "causes", "actions"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("kind", ["policy", "recurrent", "q", "torch", "keras"])
def test_an_edit_of_strength_0_changes_no_episode(kind: str) -> None:
    if kind in ("torch", "keras"):
        pytest.importorskip(kind)
        agent: Any = getattr(colors, f"{kind}_agent")()
    else:
        agent = small_agent(kind)
    layer = next(iter(agent.layers))
    edits = [rl_clarity.Ablate(layer, strength=strength) for strength in (0.0, 1.0)]
    unedited = play(agent)
    check_equal(play(rl_clarity.edit(agent, edits[0])), unedited)
    ablated = play(rl_clarity.edit(agent, edits[1]))
    assert ablated.causes != unedited.causes or not np.array_equal(ablated.returns, unedited.returns)


def test_levels_of_paired_episodes_do_not_depend_on_the_agents_play() -> None:
    agents = [small_agent("policy"), ColorTinyAgent("policy", (4, 4, 3), num_actions=2, patch=2, seed=5)]
    block = Block(environment_of(agents[0]), 1, 6, 0)
    starts = [[block.replay(agent, episode, 100)[0][0] for episode in range(6)] for agent in agents]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert len({start.tobytes() for start in starts[0]}) == 6


def test_blocks_of_paired_episodes_play_different_levels() -> None:
    agent = small_agent("policy")
    parts = blocks(environment_of(agent), 70, 50, 3)
    assert [(part.number, part.episodes) for part in parts] == [(0, 50), (1, 20)]
    first, second = (part.replay(agent, 0, 100)[0][0] for part in parts)
    assert not np.array_equal(first, second)


def test_a_replay_of_a_paired_episode_is_identical() -> None:
    agent = small_agent("recurrent")
    block = Block(environment_of(agent), 0, 12, 0)
    played = block.play(agent, 100, known_cause)
    assert played.actions is not None
    for episode in range(12):
        observations, actions = block.replay(agent, episode, 100)
        assert len(observations) == len(actions) == played.lengths[episode]
        np.testing.assert_array_equal(np.bincount(actions, minlength=2), played.actions[episode])


def test_paired_episodes_report_the_cause_of_their_end() -> None:
    pytest.importorskip("torch")
    agent = colors.torch_agent()
    assert set(play(agent).causes) == {"goal"}
    assert play(agent).returns.tolist() == [colors.STEPS] * 20
    blind = rl_clarity.edit(agent, rl_clarity.Ablate(colors.LAYER, component=np.array(RED)))
    played = play(blind)
    assert set(played.causes) == {"goal", "wrong side"}
    np.testing.assert_array_equal(np.array(played.causes) == "goal", played.returns == colors.STEPS)


def test_a_user_function_can_name_causes_of_episode_ends() -> None:
    agent = small_agent("policy")
    calls = []

    def cause(info: Any, frames: np.ndarray) -> str:
        calls.append((info["return"], info["length"], info["truncated"], info["cause"], frames.shape))
        return f"after {info['length']}"

    played = Block(environment_of(agent), 0, 5, 0).play(agent, 100, cause)
    assert sorted(played.causes) == sorted(f"after {length}" for length in played.lengths)
    assert sorted(call[4][0] for call in calls) == sorted(played.lengths.tolist())
    assert {call[2] for call in calls} == {False}


def test_episodes_cut_at_max_steps_end_by_the_time_limit() -> None:
    pytest.importorskip("torch")
    agent = colors.torch_agent()
    played = Block(environment_of(agent), 0, 4, 0).play(agent, 3, known_cause)
    assert played.causes == ("time limit",) * 4
    assert played.cut == 4


def test_paired_play_ignores_the_reward_scale_of_training() -> None:
    agent = ColorTinyAgent()
    object.__setattr__(agent, "metadata", {**colors.METADATA, "reward_scale": 0.5})
    assert environment_of(agent) == EnvironmentSpec("colors", "colors", {})

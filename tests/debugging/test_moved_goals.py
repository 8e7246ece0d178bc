"""Whole episodes with the goal moved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import FailureOptions
from rl_clarity.debugging.findings import Measured, make_findings
from rl_clarity.debugging.goals import GoalOptions
from rl_clarity.debugging.moved_goals import MovedGoal, reach_moved_goal
from rl_clarity.debugging.sample import play_sample
from tests.debugging.field import SIDE, Player, Seen, field_spec


def at_the_right(rng: np.random.Generator) -> list[list[Any]]:
    row = int(rng.integers(0, SIDE))
    return [["player", row, 4], ["coin", row, SIDE - 1]]


class Rightward(Player):
    """Walks to the right, where the coin always was."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        return [2], 0.0


def moved(agent: Player, part: int = 0, parts: int = 1, **options: Any) -> MovedGoal | None:
    spec = field_spec(at_the_right)
    trajectories = play_sample(agent, spec, 4, 60, seed=1)
    with closing(Brancher(agent, spec)) as brancher:
        goals = GoalOptions(**{"episodes": 30, "far": 3, **options})
        return reach_moved_goal(brancher, trajectories, "coin", goals, FailureOptions(), 3, part, parts)


def test_an_agent_that_always_walks_right_does_not_reach_moved_goals() -> None:
    usual = moved(Rightward(noise=1e-6))
    assert usual is not None
    assert usual.unmoved == usual.episodes <= usual.tried <= 30
    assert usual.moved < usual.episodes / 2  # some are moved to the right
    assert usual.difference.mean == pytest.approx(usual.moved / usual.episodes - 1)
    findings, _ = make_findings(Measured(20, moved=[usual]))
    (finding,) = findings
    assert finding.key == ("goal_not_pursued", "coin, moved")
    assert finding.suspicious
    shares = f"({usual.moved} of {usual.episodes} episodes, and {usual.episodes} at its original place)"
    assert shares in finding.statement


def test_an_agent_that_looks_for_the_goal_reaches_moved_goals() -> None:
    everywhere = moved(Player())
    assert everywhere is not None
    assert everywhere.moved == everywhere.unmoved == everywhere.episodes
    assert make_findings(Measured(20, moved=[everywhere]))[0] == []


def test_parts_of_a_parallel_test_use_different_episodes() -> None:
    whole, first, second = (
        moved(Player(), episodes=8),
        moved(Player(), 0, 2, episodes=8),
        moved(Player(), 1, 2, episodes=8),
    )
    assert whole is not None
    assert first is not None
    assert second is not None
    total = first + second
    assert (first.tried, second.tried, total.tried) == (4, 4, whole.tried)
    assert total.moved == total.episodes == total.difference.n == total.difference.episodes
    assert total.difference.mean == 0


def test_goals_are_moved_to_free_cells() -> None:
    spec, agent = field_spec(at_the_right), Player()
    trajectories = play_sample(agent, spec, 2, 30, seed=1)
    assert trajectories.world_states is not None
    things = next(json.loads(state)[0] for state in trajectories.world_states.read(0, [0]))
    assert things[0][2] == 4
    assert moved(agent, episodes=0) is None
    with closing(Brancher(agent, spec)) as brancher:
        assert reach_moved_goal(brancher, trajectories, "mine", GoalOptions(), FailureOptions()) is None

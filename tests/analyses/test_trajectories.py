"""What the page says of episodes and of actions of equal effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.trajectories import episode_entries
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.rollouts import collect_trajectories
from rl_clarity.recordings.samples import Trajectories
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent, TinyEnvironment


def played(lengths: tuple[int, ...], truncates: tuple[bool, ...], steps: int) -> Trajectories:
    agent = TinyAgent(observation_shape=(16, 16, 1), num_actions=3, patch=4)
    return collect_trajectories(agent, TinyEnvironment(lengths, truncates), steps, np.random.default_rng(0))


def test_episode_entries_have_length_return_and_kind_of_end() -> None:
    trajectories = played((5, 4, 100), (False, True, False), 10)
    entries = [episode_entries(trajectories, i) for i in range(3)]
    assert [[(one.frame, one.steps, one.end) for one in row] for row in entries] == [
        [(0, 5, "done"), (5, 5, "done")],  # the last one ends with the last step
        [(0, 4, "time limit"), (4, 4, "time limit"), (8, 2, "cut")],
        [(0, 10, "cut")],
    ]
    for i, row in enumerate(entries):
        assert sum(one.return_ for one in row) == trajectories.rewards[i].sum()


def test_episode_entries_show_what_ended_the_episode() -> None:
    trajectories = replace(played((5, 100), (False, False), 12), causes=((0, 4, "saw"), (1, 3, "lava")))
    assert [one.cause for one in episode_entries(trajectories, 0)] == ["saw", None, None]
    assert [one.cause for one in episode_entries(trajectories, 1)] == [None], "no episode ends there"


def test_episode_ends_without_recorded_reason_are_only_called_ended() -> None:
    firsts = np.zeros((1, 6), bool)
    firsts[0, [0, 4]] = True
    arrays: dict[str, Any] = {name: np.zeros((1, 6), np.float32) for name in ("observations", "actions", "rewards")}
    assert [one.end for one in episode_entries(Trajectories(**arrays, firsts=firsts), 0)] == ["ended", "cut"]
    stopped: dict[str, Any] = {"dones": np.zeros((1, 6), bool), "truncated": np.eye(6, dtype=bool)[3:4]}
    assert [one.end for one in episode_entries(Trajectories(**arrays, firsts=firsts, **stopped), 0)] == [
        "cut",
        "cut",
    ]


def test_equivalent_actions_come_from_metadata_or_an_option() -> None:
    found = make_subject(metadata={"equivalent_actions": [[4, 9]]})
    assert found.info.equivalent_actions == [[4, 9]]
    assert make_subject(metadata={"equivalent_actions": [[4, 9]]}, equivalent_actions=()).info.equivalent_actions == []
    assert make_subject(equivalent_actions=[[1, 2], [3, 5]]).info.equivalent_actions == [[1, 2], [3, 5]]
    for groups in ([[1, 15]], [[1, 2], [2, 3]], [[-1, 2]]):
        with pytest.raises(OptionError, match="must be groups of different actions from 0 to 14"):
            make_subject(equivalent_actions=groups)

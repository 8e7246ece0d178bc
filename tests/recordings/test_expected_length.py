"""The length of episodes is estimated before they are recorded, for forecasts."""

from __future__ import annotations

from pathlib import Path

import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.environments import spec_from_metadata
from rl_clarity.recordings.agent_play import expected_length
from rl_clarity.recordings.options import RecordOptions
from tests.tiny_series import LONGEST, register, write_checkpoint

register()
LENGTHS = (LONGEST, 43)
"""Lengths of the episodes of the two environments."""


@pytest.mark.parametrize(("most", "expected"), [(1000, sum(LENGTHS) / 2), (60, 60), (20, 20)])
def test_it_is_the_mean_length_of_episodes_and_at_most_the_largest(tmp_path: Path, most: int, expected: float) -> None:
    path = write_checkpoint(tmp_path / "agent.pt", 1)
    agent = rl_clarity.load_agent(path)
    spec = spec_from_metadata(formats.read(path).metadata, num_actions=agent.num_actions)
    length = expected_length(agent, spec, RecordOptions(episodes=2, steps=2 * most), most)
    assert length == pytest.approx(expected, rel=0.2)
    assert length <= most

"""The length of episodes is estimated before they are recorded, for forecasts."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.environments import spec_from_metadata
from rl_clarity.recordings import agent_play
from rl_clarity.recordings.agent_play import expected_lengths
from rl_clarity.recordings.options import RecordOptions
from tests.tiny_series import LONGEST, register, write_checkpoint

register()
LENGTHS = (LONGEST, 43)
"""Lengths of the episodes of the two environments."""


@pytest.mark.parametrize(("most", "expected"), [(1000, sum(LENGTHS) / 2), (60, 60), (20, 20)])
def test_the_expected_length_is_the_mean_length_up_to_the_maximum(tmp_path: Path, most: int, expected: float) -> None:
    length = _expected_length(tmp_path, most)
    assert length == pytest.approx(expected, rel=0.2)
    assert length <= most


@pytest.mark.parametrize(("seconds_per_step", "expected"), [(0.1, sum(LENGTHS) / 2), (1.0, 1000)])
def test_the_expected_length_is_the_maximum_if_play_is_too_slow_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds_per_step: float, expected: float
) -> None:
    clock = SimpleNamespace(perf_counter=itertools.count(0, seconds_per_step).__next__)
    monkeypatch.setattr(agent_play, "time", clock)
    assert _expected_length(tmp_path, 1000) == pytest.approx(expected, rel=0.2)


def _expected_length(directory: Path, most: int) -> int:
    path = write_checkpoint(directory / "agent.pt", 1)
    agent = rl_clarity.load_agent(path)
    spec = spec_from_metadata(formats.read(path).metadata, num_actions=agent.num_actions)
    return expected_lengths(agent, spec, RecordOptions(episodes=2, steps=2 * most), most).mean

"""Recordings of the trained agents of the light switch."""

from __future__ import annotations

import pytest

import rl_clarity
from rl_clarity.recordings.recording import Recording
from tests.light_switch import Game, checkpoint

EPISODES = 48


@pytest.fixture(scope="session")
def light_switch_recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[Game, Recording]:
    """48 episodes of 10 steps of each game."""
    folder = tmp_path_factory.mktemp("light-switch")
    games: tuple[Game, ...] = ("memory", "world")
    return {game: rl_clarity.record(checkpoint(game), folder / game, episodes=EPISODES) for game in games}

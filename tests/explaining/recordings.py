"""Recordings whose episodes have checkpoints, and an agent for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.explaining import ExplainedRecording
from rl_clarity.recordings.recorder import Recorder
from tests.fakes import TinyAgent
from tests.recordings.episodes import SHAPE, add_episode

LENGTHS = (30, 70, 12)
OPTIONS: dict[str, Any] = {"methods": ["jacobian"], "perplexity": 5}


def load(path: str) -> TinyAgent:
    """The agent of a checkpoint, which contains a seed."""
    return TinyAgent(observation_shape=SHAPE, num_actions=5, patch=4, seed=int(Path(path).read_text()))


def record(location: Path, lengths: tuple[int, ...] = LENGTHS, first: int = 0, **options: Any) -> None:
    """Record episodes, each with a checkpoint of its own; `first` is the number of the first."""
    with Recorder(location, **{"name": None, "on_error": "raise", **options}) as recorder:
        for episode, length in enumerate(lengths, start=first):
            checkpoint = location.parent / f"{episode}.txt"
            checkpoint.write_text(f"{episode}")
            recorder.agent(checkpoint)
            add_episode(recorder, episode, length)


def explain(location: Path, **options: Any) -> ExplainedRecording:
    """Explain a recording."""
    (report,) = rl_clarity.explain_recording(location, **{"agent": load, **OPTIONS, **options})
    return report

"""Recordings whose episodes have checkpoints, and an agent for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.explaining import ExplainedRecording, Explanations
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.recordings.recorder import Recorder
from tests.fakes import TinyAgent
from tests.recordings.episodes import SHAPE, step_values

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
            add_played_episode(recorder, load(str(checkpoint)), episode, length)


def add_played_episode(recorder: Recorder, agent: TinyAgent, episode: int, length: int, **outputs: Any) -> None:
    """Add an episode with an agent's outputs at each step, and others that `outputs` overrides."""
    for step in range(length):
        values = step_values(episode, step)
        computed = agent.forward(values["observation"][None])
        assert computed.policy_logits is not None
        assert computed.values is not None
        own = {"logits": computed.policy_logits[0], "value": computed.values[0], **outputs}
        recorder.add(**{**values, **own}, terminated=step == length - 1)


def explain(location: Path, **options: Any) -> ExplainedRecording:
    """Explain a recording."""
    (report,) = rl_clarity.explain_recording(location, **{"agent": load, **OPTIONS, **options})
    return report


def read(location: Path) -> Explanations:
    """The explanations of a recording, which has some."""
    explanations = rl_clarity.read_explanations(location)
    assert explanations is not None
    return explanations


def chunk(location: Path, name: str) -> dict[str, np.ndarray]:
    """The arrays of a chunk beside a recording."""
    return decode_chunk(parse_script(read(location).path(name).read_bytes(), name))

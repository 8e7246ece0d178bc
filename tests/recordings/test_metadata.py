"""Metadata of recordings: what is refused by the recorder is refused in a file, and what it accepts can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.cli.inspection import describe_recording
from rl_clarity.recordings.metadata import FIELDS, RESERVED
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from rl_clarity.viewer.episodes import ShownEpisode
from rl_clarity.viewer.publishing import publish
from rl_clarity.viewer.runs import LogDirectory, Runs
from tests.recordings.episodes import make_recording, step_values

INVALID: list[tuple[Any, str]] = [
    ({"environment": "Breakout"}, r"metadata\.environment='Breakout' must be an object"),
    ({"environment": ["Breakout"]}, r"metadata\.environment=\['Breakout'\] must be an object"),
    ({"environment": {"options": "a"}}, r"metadata\.environment\.options='a' must be an object"),
    ({"environment": {"name": 5}}, r"metadata\.environment\.name=5 must be text"),
    (
        {"environment": {"options": {"frame_stack": "4"}}},
        r"metadata\.environment\.options\.frame_stack='4' must be an i",
    ),
    ({"checkpoint": "ppo.zip"}, r"metadata\.checkpoint='ppo\.zip' must be an object"),
    ({"checkpoint": {"network": 3}}, r"metadata\.checkpoint\.network=3 must be text"),
    ({"action_combos": [1, 2]}, r"metadata\.action_combos=\[1, 2\] must be a list of at most 4096 lists of strings"),
    ({"action_combos": "LEFT"}, r"metadata\.action_combos='LEFT' must be a list"),
    ({"action_combos": [["LEFT"]] * 20_000}, r"metadata\.action_combos=.* must be at most 10000 .* items"),
    ({"gamma": "0.99"}, r"metadata\.gamma='0\.99' must be a number from 0 to 1"),
    ({"lambda": 1.5}, r"metadata\.lambda=1\.5 must be a number"),
    ({"sampling": "greedy"}, r"metadata\.sampling='greedy' must be an object"),
    ({"sampling": {"temperature": 0}}, r"metadata\.sampling\.temperature=0 must be a positive number"),
    ({"name": "a\nb"}, r"metadata\.name='a\\nb' must be text"),
    ({"mine": float("nan")}, "NaN is not a finite number"),
    ({"mine": 1e999}, "Infinity is not a finite number"),
    ({"mine": 1 << 100}, r"metadata\.mine=\d+ must be .* integers of at most 64 bits"),
    ({"mine": "\ud800"}, r"metadata\.mine='.*' must be .* valid Unicode"),
    ({str(i): "x" * 9000 for i in range(200)}, r"\d+ bytes"),
    ({"format": "other"}, "format"),
    (["name"], "expected a JSON object"),
]


def replace_metadata(directory: Path, metadata: Any) -> None:
    """Write metadata to a recording as another program could."""
    if isinstance(metadata, dict):
        metadata = {"format": "rl_clarity recording", "version": 2, "begun": 1.0} | metadata
    (directory / "recording.json").write_text(json.dumps(metadata))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("logs") / "run"
    make_recording(directory, (3,))
    return directory


@pytest.mark.parametrize(("metadata", "message"), INVALID)
def test_invalid_metadata_are_refused_when_writing_and_reading(recording: Path, metadata: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Recorder(recording / "new", name=None, metadata=metadata)
    assert not (recording / "new").exists()
    replace_metadata(recording, metadata)
    with pytest.raises(SamplesError, match=r"recording\.json"):
        open_recording(recording)
    with pytest.raises(SamplesError, match=r"recording\.json"):
        Recorder(recording, name=None)
    (run,) = Runs([LogDirectory.at(str(recording))]).snapshots()
    assert run.error is not None
    assert "recording.json" in run.error


def test_metadata_that_json_cannot_represent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"metadata=.*object.* cannot be recorded"):
        Recorder(tmp_path, metadata={"mine": object()})
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(OptionError, match=r"metadata=.* cannot be recorded"):
        Recorder(tmp_path, metadata={"mine": nested})


def test_numpy_numbers_are_accepted_as_metadata(tmp_path: Path) -> None:
    with Recorder(tmp_path, name=None, metadata={"gamma": np.float32(0.5), "mine": np.arange(2), "lambda": None}):
        pass
    metadata = open_recording(tmp_path).metadata
    assert {name: metadata[name] for name in ("gamma", "mine", "lambda")} == {
        "gamma": 0.5,
        "mine": [0, 1],
        "lambda": None,
    }


def test_actions_that_contradict_the_metadata_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=r"policy_logits has the shape \(5,\), but action_combos .* 2 actions"):
        make_recording(tmp_path, (3,), metadata={"action_combos": [["LEFT"], []]})
    make_recording(tmp_path / "run", (3,))
    replace_metadata(tmp_path / "run", {"action_combos": [["LEFT"], []]})
    (run,) = Runs([LogDirectory.at(str(tmp_path / "run"))]).snapshots()
    assert run.error is not None
    assert "has 2 actions" in run.error


@pytest.mark.parametrize("name", ["observation", "action", "reward"])
def test_a_step_without_observation_action_or_reward_is_refused(tmp_path: Path, name: str) -> None:
    values: dict[str, Any] = dict(step_values(0, 0), terminated=True)
    with (
        Recorder(tmp_path, on_error="raise") as recorder,
        pytest.raises(SamplesError, match=f"{name}s must not be None"),
    ):
        recorder.add(**{**values, name: None})


TEXT = strategies.text(max_size=9)
JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats() | TEXT,
    lambda inner: strategies.lists(inner, max_size=5) | strategies.dictionaries(TEXT, inner, max_size=5),
    max_leaves=9,
)
NAMES = sorted({*FIELDS, "mine"} - {*RESERVED})
METADATA = strategies.dictionaries(strategies.sampled_from(NAMES), JSON, max_size=4) | strategies.fixed_dictionaries(
    {},
    optional={
        "environment": strategies.fixed_dictionaries({}, optional={"name": JSON, "kind": JSON, "options": JSON}),
        "checkpoint": strategies.fixed_dictionaries({}, optional={"network": JSON, "file": JSON}),
        "sampling": strategies.fixed_dictionaries({}, optional={"greedy": JSON, "action_noise": JSON}),
        "action_combos": strategies.lists(strategies.lists(strategies.text(max_size=3)), min_size=4, max_size=6),
        "gamma": strategies.floats(0, 1) | JSON,
    },
)


@pytest.mark.slow
@hypothesis.given(metadata=METADATA)
@hypothesis.settings(max_examples=150)
def test_metadata_accepted_by_the_recorder_can_always_be_read(
    tmp_path_factory: pytest.TempPathFactory, recording: Path, metadata: dict[str, Any]
) -> None:
    directory = tmp_path_factory.mktemp("logs") / "run"
    is_accepted = True
    try:
        make_recording(directory, (3,), metadata=metadata)
    except (OptionError, SamplesError):
        is_accepted = False
        replace_metadata(recording, metadata)
        directory = recording
    (run,) = Runs([LogDirectory.at(str(directory))]).snapshots()
    assert (run.error is None) == is_accepted
    if is_accepted:
        use(directory, run.agent)
        make_recording(directory, (2,), metadata=metadata)
        assert len(open_recording(directory)) == 2


def use(directory: Path, agent: Any) -> None:
    """Use a recording in all ways that read its metadata."""
    recording = open_recording(directory)
    recording.to_trajectories()
    describe_recording(recording)
    ShownEpisode(recording, recording[0], agent).series()
    publish(directory, directory.parent / "page")

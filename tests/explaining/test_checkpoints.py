"""Recordings with a checkpoint for each update: each step is explained with the network that acted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.saliency import compute_maps
from rl_clarity.cli import main
from rl_clarity.explaining.agents import Agents
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import StoredRecording, open_recording
from tests import state_dicts
from tests.explaining.recordings import chunk, explain, load, read
from tests.fakes import TinyAgent
from tests.formats.archive_writer import sb3_zip
from tests.recordings.episodes import SHAPE

STEPS = 70


def observations() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (STEPS, *SHAPE), np.uint8)


def save(seed: int, path: str) -> None:
    Path(f"{path}.txt").write_text(f"{seed}")


def record(location: Path, updates: Sequence[int], **options: Any) -> list[TinyAgent]:
    """Record an episode in which the network is updated before some steps. Return the agent of each step."""
    acting = []
    with Recorder(location, name=None, on_error="raise", **options) as recorder:
        for step, observation in enumerate(observations()):
            if step in updates:
                seed = updates.index(step)
                recorder.agent(partial(save, seed))
            acting.append(TinyAgent(observation_shape=SHAPE, num_actions=5, patch=4, seed=seed))
            outputs = acting[-1].forward(observation[None])
            assert outputs.policy_logits is not None
            assert outputs.values is not None
            recorder.add(
                observation=observation,
                action=0,
                reward=0.0,
                terminated=step == STEPS - 1,
                logits=outputs.policy_logits[0],
                value=outputs.values[0],
            )
    return acting


def test_each_step_is_explained_with_the_network_that_acted(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    acting = record(location, [0, 20, 30, 64], checkpoint_every=1)
    episode = open_recording(location)[0]
    assert episode.agents is not None
    assert np.bincount(episode.agents).tolist() == [20, 10, 34, 6]
    assert explain(location, every=1).skipped == {}
    entry = read(location).episodes[0]["saliency-jacobian"]
    assert entry.agreement.steps == STEPS
    assert entry.agreement.largest < 1e-5
    section = read(location).saliency([0])
    assert section is not None
    assert section.differences[0] is not None
    stored = chunk(location, section.differences[0])
    assert stored["steps"].tolist() == [*range(STEPS)]
    assert stored["differences"].max() < 1e-5
    chunks = [chunk(location, name) for name in section.methods[0].maps[0]]
    totals = np.concatenate([one["totals.value"] for one in chunks])
    for step, agent in enumerate(acting):
        (values,) = compute_maps(agent, "jacobian", observations()[step : step + 1], ["value"])
        assert totals[step] == pytest.approx(np.abs(values).sum(), rel=1e-4)


def test_steps_between_checkpoints_use_the_last_one_with_a_note(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location, [0, 20, 30, 64], checkpoint_every=2)
    episode = open_recording(location)[0]
    assert episode.agents is not None
    assert np.bincount(episode.agents).tolist() == [30, 40]
    explain(location, every=1)
    entry = read(location).episodes[0]["saliency-jacobian"]
    assert entry.differences is not None
    differences = chunk(location, entry.differences)["differences"]
    acted = (np.arange(STEPS) < 20) | ((np.arange(STEPS) >= 30) & (np.arange(STEPS) < 64))
    assert differences[acted].max() < 1e-5
    assert np.median(differences[~acted]) > 1e-2
    assert f"at most {differences.max():.1g} of their range" in str(read(location).agreement([0]))


def test_state_maps_of_a_layer_use_the_network_that_acted_at_each_step(tmp_path: Path) -> None:
    """Each step is placed by the activations of its own network."""
    location, single = tmp_path / "several", tmp_path / "single"
    acting = record(location, [0, 35], checkpoint_every=1)
    record(single, [0])
    points = {}
    for place in (location, single):
        explain(place, methods=(), layer="2a", embeddings=["pca"], every=1)
        maps = read(place).state_map
        assert maps is not None
        points[place] = chunk(place, maps["maps"][0]["chunk"])["x"]
    file = location / "explained/maps/layer-2a-fitted.js"
    fitted = decode_chunk(parse_script(file.read_bytes(), "maps/layer-2a-fitted.js"))["vectors"]
    expected = [
        agent.activations(seen[None], "2a").mean(axis=(1, 2))[0]
        for agent, seen in zip(acting, observations(), strict=True)
    ]
    np.testing.assert_allclose(fitted, expected, rtol=1e-4, atol=1e-6)
    assert not np.allclose(points[location][35:], points[single][35:])


def test_episodes_with_changed_checkpoints_are_explained_again(tmp_path: Path) -> None:
    keys = []
    for update in (20, 21):
        record(tmp_path / f"{update}", [0, update], checkpoint_every=1)
        recording = StoredRecording(tmp_path / f"{update}")
        with ExitStack() as context:
            keys.append(Agents(load, context).key(recording, recording[0]))
    assert keys[0] != keys[1]


def test_recorded_checkpoints_without_an_environment_cause_no_warning(tmp_path: Path) -> None:
    pytest.importorskip("keras")
    with Recorder(tmp_path, name=None, on_error="raise") as recorder:
        recorder.agent(lambda path: Path(f"{path}.zip").write_bytes(sb3_zip(state_dicts.sb3())))
        recorder.add(observation=np.zeros((84, 84, 4), np.uint8), action=0, reward=0.0, terminated=True)
    recording = StoredRecording(tmp_path)
    with ExitStack() as context, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        agent = Agents(None, context).players(recording, recording[0]).at(0)
    assert agent.num_actions == 4


def test_explain_loads_agents_with_a_function_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording only suggests it."""
    location = tmp_path / "recording"
    metadata = {"loader": "my_loaders:load"}
    record(location, [0, 20], checkpoint_every=1, metadata=metadata)
    record(location, [0], checkpoint_every=1, metadata=metadata)
    monkeypatch.chdir(tmp_path)
    Path("my_loaders.py").write_text("from tests.explaining.recordings import load\nprint('my_loaders is run')\n")
    arguments = ["explain", str(location), "--methods", "jacobian", "--embeddings", "pca"]
    main(arguments)
    printed = capsys.readouterr().out
    assert "0 of 2 complete episodes" in printed
    assert printed.count("not episode") == 1
    assert "--agent my_loaders:load" in printed
    assert "my_loaders is run" not in printed
    main([*arguments, "--agent", "my_loaders:load"])
    assert "2 of 2 complete episodes" in capsys.readouterr().out
    for name, message in (
        ("my_loaders:other", "has no function other; it has load"),
        ("none_such:load", "cannot import"),
    ):
        assert main([*arguments, "--agent", name]) != 0
        assert message in capsys.readouterr().err

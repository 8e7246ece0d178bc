"""Datasets of Minari, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from tests.fakes import TinyAgent
from tests.recordings.episodes import make_recording

minari = pytest.importorskip("minari")


def test_a_recording_survives_conversion_to_a_minari_dataset(tmp_path: Path) -> None:
    make_recording(tmp_path / "recording", (3, 40), metadata={"name": "test"})
    recording = open_recording(tmp_path / "recording")
    path = rl_clarity.write_minari(recording, tmp_path / "dataset")
    dataset = minari.MinariDataset(path / "data")
    assert dataset.total_episodes == 2
    assert dataset.total_steps == 43
    copy = open_recording(path)
    assert copy.metadata["name"] == "rl_clarity/test-v0"
    assert [row["steps"] for row in copy.table()] == [3, 40]
    for before, after in zip(recording, copy, strict=True):
        np.testing.assert_array_equal(after.actions, before.actions)
        np.testing.assert_array_equal(after.rewards, before.rewards)
        np.testing.assert_array_equal(after.info["policy_logits"], np.asarray(before.policy_logits))
        assert after.end == before.end
        assert after.observations.shape == before.observations.shape
        assert after.final_observation is not None


@pytest.mark.parametrize("shape", [(16, 16, 1), (40, 40, 3), (40, 40, 4)])
def test_observations_exported_to_minari_are_exact(tmp_path: Path, shape: tuple[int, ...]) -> None:
    observations = np.random.default_rng(0).integers(0, 256, (4, *shape), np.uint8)
    with Recorder(tmp_path / "recording") as recorder:
        for step in range(3):
            recorder.add(
                observation=observations[step],
                action=step,
                reward=0,
                terminated=False,
                truncated=step == 2,
                final_observation=observations[step + 1],
            )
    path = rl_clarity.write_minari(open_recording(tmp_path / "recording"), tmp_path / "dataset")
    episode = open_recording(path)[0]
    np.testing.assert_array_equal(episode.observations, observations[:3])
    assert episode.final_observation is not None
    np.testing.assert_array_equal(episode.final_observation, observations[3])
    assert episode.end == "time limit"


def test_minari_conversion_does_not_overwrite_an_existing_directory(tmp_path: Path) -> None:
    make_recording(tmp_path / "recording", (3,))
    with pytest.raises(OptionError, match="already exists; use a different directory"):
        rl_clarity.write_minari(open_recording(tmp_path / "recording"), tmp_path)


def test_reading_a_minari_dataset_does_not_create_its_environment(tmp_path: Path) -> None:
    make_recording(tmp_path / "recording", (3,))
    path = rl_clarity.write_minari(open_recording(tmp_path / "recording"), tmp_path / "dataset")
    metadata = json.loads((path / "data" / "metadata.json").read_text())
    del metadata["observation_space"]
    metadata["env_spec"] = json.dumps({"id": "hostile:Env-v0", "entry_point": "hostile:Env"})
    (path / "data" / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(SamplesError, match="its spaces are missing"):
        open_recording(path)


def test_a_damaged_minari_dataset_is_named_in_the_error(tmp_path: Path) -> None:
    make_recording(tmp_path / "recording", (3,))
    path = rl_clarity.write_minari(open_recording(tmp_path / "recording"), tmp_path / "dataset")
    file = path / "data" / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(SamplesError, match=r"dataset/data is damaged: episode 0"):
        open_recording(path)[0]


@pytest.mark.slow
def test_a_minari_dataset_of_minigrid_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minigrid")
    pytest.importorskip("jax", reason="Minari's collector needs it")
    import gymnasium
    from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    grid = gymnasium.make("MiniGrid-Empty-5x5-v0", max_steps=30)
    environment: Any = ImgObsWrapper(RGBImgPartialObsWrapper(grid, tile_size=8))
    collector = minari.DataCollector(environment)
    rng = np.random.default_rng(0)
    for episode in range(12):
        collector.reset(seed=episode)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = collector.step(int(rng.integers(3)))
            ended = terminated or truncated
    collector.create_dataset("minigrid/empty-v0")
    collector.close()

    recording = rl_clarity.open_recording(tmp_path / "minigrid" / "empty-v0")
    assert len(recording) == 12
    assert recording[0].observations.shape[1:] == (56, 56, 3)
    assert recording[0].final_observation is not None
    agent = TinyAgent(observation_shape=(56, 56, 3), num_actions=7)
    page = rl_clarity.generate(agent, recording, recording, tmp_path / "page")
    results = rl_clarity.open_results(page.path)
    assert len(results.section("trajectories")["trajectories"]) == 8

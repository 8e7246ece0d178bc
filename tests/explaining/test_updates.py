"""What each checkpoint of a recording changed, on the observations of `Recorder.probe`."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.saliency import compute_maps
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.statistics import softmax
from rl_clarity.explaining import recordings
from rl_clarity.pages.frames import read_frame
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import StoredRecording
from tests.explaining.recordings import add_played_episode, chunk, explain, load, read
from tests.explaining.test_checkpoints import save
from tests.fakes import TinyAgent
from tests.recordings.episodes import SHAPE, step_values

PROBED = 70
SEEDS = (0, 4, 2, 3)


def probed(count: int = PROBED) -> np.ndarray:
    return np.random.default_rng(9).integers(0, 256, (count, *SHAPE), np.uint8)


def agent(seed: int) -> TinyAgent:
    return TinyAgent(observation_shape=SHAPE, num_actions=5, patch=4, seed=seed)


def record(location: Path, seeds: tuple[int, ...] = SEEDS, **options: Any) -> None:
    """Record an episode of 10 steps with each network; their parameters follow from seeds."""
    with Recorder(location, name=None, on_error="raise", **options) as recorder:
        recorder.probe(probed())
        for episode, seed in enumerate(seeds):
            recorder.agent(partial(save, seed))
            add_played_episode(recorder, agent(seed), episode, 10, training_step=1000 * episode)


def section(location: Path) -> dict[str, Any]:
    updates = read(location).updates
    assert updates is not None
    return updates


def test_each_checkpoint_is_compared_with_the_previous_one(tmp_path: Path) -> None:
    """The numbers are recomputed from the networks."""
    location = tmp_path / "recording"
    record(location)
    explain(location)
    updates = section(location)
    names = [(one["name"], one["step"]) for one in updates["checkpoints"]]
    assert names == [(f"checkpoint {number}", 1000 * number) for number in range(4)]
    assert updates["steps"] == [*range(PROBED)]
    changes = chunk(location, updates["changes"])
    answers = [agent(seed).forward(probed()) for seed in SEEDS]
    for update, (old, new) in enumerate(pairwise(answers)):
        assert old.policy_logits is not None
        assert new.policy_logits is not None
        pair = np.stack([softmax(old.policy_logits), softmax(new.policy_logits)]).astype(np.float64)
        mean = pair.mean(axis=0)
        divergence = -(mean * np.log(mean)).sum(-1) + (pair * np.log(pair)).sum(-1).mean(axis=0)
        assert changes["policy"][update] == pytest.approx(divergence, abs=1e-6)
        assert old.values is not None
        assert new.values is not None
        assert changes["value"][update] == pytest.approx(abs(new.values - old.values), abs=1e-5)
        maps = [compute_maps(agent(SEEDS[k]), "jacobian", probed(), ["value"])[0] for k in (update, update + 1)]
        expected = abs(maps[1] - maps[0]).sum(axis=(1, 2))
        assert changes["maps.value"][update] == pytest.approx(expected, rel=0.05)
        means = updates["checkpoints"][update + 1]["changes"]
        assert means == pytest.approx({name: array[update].mean() for name, array in changes.items()}, rel=1e-4)
    first, second = ((name, chunk(location, name)) for name in updates["frames"])
    np.testing.assert_array_equal(read_frame(*first, 63), probed()[63])
    np.testing.assert_array_equal(read_frame(*second, 5), probed()[69])


def test_checkpoints_are_labeled_with_the_step_at_which_they_first_acted(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    with Recorder(location, name=None, on_error="raise", checkpoint_every=1) as recorder:
        recorder.probe(probed())
        for step in range(40):
            if step % 15 == 0:
                recorder.agent(partial(save, step))
            values = step_values(0, step)
            computed = agent(step // 15 * 15).forward(values["observation"][None])
            assert computed.policy_logits is not None
            logits = computed.policy_logits[0]
            recorder.add(
                **{**values, "value": None, "logits": logits}, terminated=step == 39, training_step=500 + 8 * step
            )
    explain(location)
    assert [one["step"] for one in section(location)["checkpoints"]] == [500, 620, 740]


def test_changes_are_computed_only_for_new_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = tmp_path / "recording"
    record(location)
    explain(location)
    files = {path: path.stat().st_mtime_ns for path in (location / "explained/updates").glob("0*.js")}
    record(location, (7,))
    explain(location)
    assert [one["name"] for one in section(location)["checkpoints"]] == [f"checkpoint {number}" for number in range(5)]
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_explain_with_watch_compares_checkpoints_as_they_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "recording"
    record(location, SEEDS[:2])
    counts = []

    def grow() -> None:
        counts.append(len(section(location)["checkpoints"]))
        if len(counts) == 3:
            raise KeyboardInterrupt
        record(location, (5 + len(counts),))

    monkeypatch.setattr(recordings, "wait", grow)
    monkeypatch.setattr(recordings, "WATCHED_CHECKPOINTS", 1)
    monkeypatch.setattr("os.nice", lambda niceness: 0)
    rl_clarity.explain_recording(location, load, methods=["jacobian"], embeddings=[], watch=True)
    assert counts == [2, 3, 4]


def test_no_changes_are_computed_without_probe_or_checkpoints(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)
    explain(location, agent=agent(0), other_agent=True)
    assert read(location).updates is None
    (location / "probe.bin").unlink()
    explain(location)
    assert read(location).updates is None


def test_a_checkpoint_that_cannot_be_loaded_is_left_out(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)
    (location / "agents/00001.txt").write_text("no number")
    explain(location)
    assert [one["name"] for one in section(location)["checkpoints"]] == ["checkpoint 0", "checkpoint 2", "checkpoint 3"]


def test_a_continued_recording_keeps_its_first_probe_observations(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)
    with Recorder(location, name=None, on_error="raise") as recorder:
        recorder.probe(probed(3))
    stored = StoredRecording(location).probe()
    assert stored is not None
    np.testing.assert_array_equal(stored["observations"], probed())


def test_probe_observations_are_stored_channels_last_as_uint8(tmp_path: Path) -> None:
    """Channels come last, and images are scaled."""
    location = tmp_path / "recording"
    images = probed(4)
    states = np.arange(8, dtype=np.float32).reshape(4, 2)
    with Recorder(location, name=None, on_error="raise", channels_first=True, value_range=(0, 1)) as recorder:
        recorder.probe(np.moveaxis(images, -1, 1) / 255, states)
    stored = StoredRecording(location).probe()
    assert stored is not None
    np.testing.assert_array_equal(stored["observations"], images)
    np.testing.assert_array_equal(stored["states.0"], states)


@pytest.mark.parametrize(("count", "states"), [(0, None), (257, None), (4, np.zeros((3, 2)))])
def test_too_few_or_too_many_probe_observations_are_refused(tmp_path: Path, count: int, states: Any) -> None:
    with Recorder(tmp_path) as recorder, pytest.raises(OptionError, match="has shape"):
        recorder.probe(probed(count), states)


def test_damaged_probe_observations_are_named_in_the_error(tmp_path: Path) -> None:
    location = tmp_path / "recording"
    record(location)
    path = location / "probe.bin"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SamplesError, match=r"probe\.bin is damaged"):
        StoredRecording(location).probe()

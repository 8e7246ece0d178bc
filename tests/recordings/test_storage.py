"""Samples on disk: round trips, damaged files, interruption, paths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import SamplesError
from rl_clarity.pages.options import LoadOptions
from rl_clarity.recordings.array_stores import release
from rl_clarity.recordings.rollouts import collect_observations, collect_trajectories
from rl_clarity.recordings.samples import Observations, Trajectories, from_arrays, to_arrays
from rl_clarity.recordings.storage import (
    INDEX,
    SamplesWriter,
    load_facts,
    load_metadata,
    load_observations,
    load_trajectories,
    sample_paths,
    save_metadata,
)
from tests.fakes import TinyAgent, TinyEnvironment
from tests.sample_files import save_samples

AGENT = TinyAgent("recurrent", observation_shape=(16, 16, 1), num_actions=3, patch=4)


def make_trajectories(seed: int = 0, num_steps: int = 6, **arguments: Any) -> Any:
    rng = np.random.default_rng(seed)
    return collect_trajectories(AGENT, TinyEnvironment((5, 3)), num_steps, rng, **arguments)


def make_observations() -> Observations:
    return collect_observations(AGENT, TinyEnvironment((5, 3)), 3, 4, np.random.default_rng(0))


def assert_equal(actual: Any, expected: Any) -> None:
    arrays, others = to_arrays(actual), to_arrays(expected)
    assert arrays.keys() == others.keys()
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], others[name])
        assert arrays[name].dtype == others[name].dtype


def test_saved_samples_survive_a_round_trip(tmp_path: Path) -> None:
    trajectories, observations = make_trajectories(), make_observations()
    save_samples(tmp_path / "t", trajectories, {"seed": np.int64(3), "args": {"gamma": np.float32(0.5)}})
    save_samples(tmp_path / "o", observations)
    assert_equal(load_trajectories(tmp_path / "t"), trajectories)
    assert_equal(load_observations(tmp_path / "o"), observations)
    assert load_facts(tmp_path / "t") == {"seed": 3, "args": {"gamma": 0.5}}
    assert isinstance(load_trajectories(tmp_path / "t").observations, np.memmap)


def test_samples_are_written_while_they_are_collected(tmp_path: Path) -> None:
    with SamplesWriter(tmp_path / "t") as writer:
        trajectories = make_trajectories(store=writer.store)
        writer.commit(trajectories)
    assert_equal(load_trajectories(tmp_path / "t"), make_trajectories())
    assert_equal(trajectories, make_trajectories())


def test_saving_samples_replaces_old_ones(tmp_path: Path) -> None:
    save_samples(tmp_path, make_trajectories())
    save_samples(tmp_path, make_trajectories(num_steps=9))
    assert load_trajectories(tmp_path).rewards.shape == (2, 9)
    assert len(list(tmp_path.glob("arrays-*"))) == 1


def test_an_error_while_saving_keeps_the_old_samples(tmp_path: Path) -> None:
    old = make_trajectories()
    save_samples(tmp_path, old)

    def write_and_fail() -> None:
        with SamplesWriter(tmp_path) as writer:
            make_trajectories(seed=1, store=writer.store)
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_and_fail()
    assert_equal(load_trajectories(tmp_path), old)
    assert len(list(tmp_path.glob("arrays-*"))) == 1


def test_a_killed_writer_keeps_old_samples_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    old = make_trajectories()
    save_samples(tmp_path, old)
    program = (
        "import sys, time; from rl_clarity.recordings.storage import SamplesWriter; from tests.recordings.test_storage "
        "import make_trajectories\n"
        "with SamplesWriter(sys.argv[1]) as w:\n"
        "    make_trajectories(1, store=w.store); print('ready', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    with pytest.raises(SamplesError, match=r"another run is writing .*temp_files.: True.*--load\.temp-files"):
        save_samples(tmp_path, old)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert_equal(load_trajectories(tmp_path), old)
    assert len(list(tmp_path.glob("arrays-*"))) == 2
    save_samples(tmp_path, make_trajectories(2))
    assert_equal(load_trajectories(tmp_path), make_trajectories(2))
    assert len(list(tmp_path.glob("arrays-*"))) == 1


def array_file(folder: Path, name: str = "observations") -> Path:
    return folder / json.loads((folder / INDEX).read_text())["arrays"][name]["file"]


def truncate(folder: Path) -> None:
    with array_file(folder).open("r+b") as file:
        file.truncate(200)


def remove(folder: Path) -> None:
    array_file(folder).unlink()


def empty_index(folder: Path) -> None:
    (folder / INDEX).write_text("")


def other_version(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({**index, "version": 99}))


def other_shape(folder: Path) -> None:
    np.save(array_file(folder, "actions"), np.load(array_file(folder, "actions")).T)


def pickled_array(folder: Path) -> None:
    size = array_file(folder, "actions").stat().st_size
    with array_file(folder, "actions").open("wb") as file:
        np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
        file.truncate(size)


def path_outside(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["arrays"]["actions"]["file"] = "../../secret.npy"
    (folder / INDEX).write_text(json.dumps(index))


def without_arrays(folder: Path) -> None:
    (folder / INDEX).write_text(json.dumps({"format": "rl_clarity samples", "version": 1, "kind": "trajectories"}))


def facts_as_list(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({**index, "facts": [1]}))


def file_as_number(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["arrays"]["actions"]["file"] = 7
    (folder / INDEX).write_text(json.dumps(index))


def deeply_nested(folder: Path) -> None:
    (folder / INDEX).write_text("[" * 200_000)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "observations.npy is missing or damaged"),
        (remove, "observations.npy is missing or damaged"),
        (empty_index, "samples.json is missing or damaged"),
        (other_version, "version 99"),
        (other_shape, "actions.npy is missing or damaged"),
        (pickled_array, "actions.npy is missing or damaged"),
        (path_outside, r"'\.\./\.\./secret\.npy'"),
        (without_arrays, "does not list its arrays"),
        (file_as_number, "does not list its arrays"),
        (facts_as_list, "facts are not a JSON object"),
        (deeply_nested, "samples.json is missing or damaged"),
    ],
)
def test_damaged_samples_are_rejected(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    save_samples(tmp_path, make_trajectories())
    damage(tmp_path)
    with pytest.raises(SamplesError, match=rf"(?s){message}.*resample=True"):
        load_trajectories(tmp_path)


def test_missing_samples_and_samples_of_another_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=r"no saved samples in .*; collect new samples with resample=True"):
        load_trajectories(tmp_path / "nothing")
    save_samples(tmp_path, make_observations())
    with pytest.raises(SamplesError, match="contains observations, not trajectories"):
        load_trajectories(tmp_path)


def test_unwritable_sample_paths_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SamplesError, match="cannot write samples"):
        save_samples(tmp_path / "file" / "t", make_trajectories())
    with pytest.raises(SamplesError, match="cannot write metadata"):
        save_metadata(tmp_path / "file" / "m.json", {})


def test_saving_samples_on_a_full_disk_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SamplesError, match="No space left on device"):
        save_samples(tmp_path, make_trajectories())
    assert not list(tmp_path.glob("arrays-*"))
    assert not (tmp_path / INDEX).exists()


def test_metadata_are_saved_as_json_and_checked_when_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a" / "m.json"
    save_metadata(path, {"env_name": "coinrun", "gamma": np.float64(0.999), "levels": np.arange(2)})
    assert load_metadata(path) == {"env_name": "coinrun", "gamma": 0.999, "levels": [0, 1]}
    assert [other.name for other in path.parent.iterdir()] == ["m.json"]
    path.write_text("[1")
    with pytest.raises(SamplesError, match=r"m\.json is missing or damaged"):
        load_metadata(path)


def test_missing_and_unknown_arrays_are_rejected() -> None:
    with pytest.raises(SamplesError, match="lack actions, firsts, rewards"):
        from_arrays(Trajectories, {"observations": np.zeros(1)})
    with pytest.raises(SamplesError, match="unknown arrays: seeds"):
        from_arrays(Observations, {"observations": np.zeros(1), "seeds": np.zeros(1)})


def test_recurrent_state_arrays_keep_their_order() -> None:
    arrays = {f"states.{i}": np.array(i) for i in range(12)}
    samples: Any = from_arrays(Observations, {"observations": np.zeros(1), **dict(sorted(arrays.items()))})
    assert [int(part) for part in samples.states] == list(range(12))


def test_sample_paths_are_next_to_the_checkpoint(tmp_path: Path) -> None:
    paths = sample_paths(tmp_path / "best.model.jd", LoadOptions(trajectories_path=Path("my/t")))
    assert paths.model == tmp_path / "rl-clarity" / "best.model.model.jd"
    assert paths.metadata == tmp_path / "rl-clarity" / "best.model.metadata.json"
    assert paths.observations == tmp_path / "rl-clarity" / "best.model.observations"
    assert paths.trajectories == Path("my/t")
    assert not (tmp_path / "rl-clarity").exists()


def test_sample_paths_of_read_only_or_remote_folders_are_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    remote = sample_paths("gs://bucket/a/c.jd", LoadOptions())
    assert remote.observations.parent.parent == tmp_path / "cache" / "rl-clarity" / "samples"
    assert remote.observations != sample_paths("gs://bucket/b/c.jd", LoadOptions()).observations
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert tmp_path / "cache" in sample_paths(tmp_path / "c.jd", LoadOptions()).metadata.parents


def test_temporary_sample_paths_are_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    paths, others = (sample_paths("c.jd", LoadOptions(temp_files=True)) for _ in range(2))
    assert paths.trajectories != others.trajectories
    assert tmp_path in paths.trajectories.parents


MEASURE = """
import resource, sys, numpy as np
from rl_clarity.recordings.array_stores import release
from rl_clarity.recordings.rollouts import collect_trajectories
from rl_clarity.recordings.storage import SamplesWriter, load_trajectories
from tests.fakes import TinyAgent, TinyEnvironment
environment = TinyEnvironment((50,) * 4)
environment.render = lambda: np.zeros((4, 256, 256, 3), np.uint8)
agent = TinyAgent(observation_shape=(16, 16, 1), num_actions=3, patch=4)
with SamplesWriter(sys.argv[1]) as writer:
    rng = np.random.default_rng(0)
    steps, store = int(sys.argv[2]), writer.store
    writer.commit(collect_trajectories(agent, environment, steps, rng, full_resolution=True, store=store))
for row in (frames := load_trajectories(sys.argv[1]).observations_full):
    for step in range(0, len(row), 16):
        row[step : step + 16].sum()
        release(frames)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def test_memory_use_does_not_grow_with_the_number_of_steps(tmp_path: Path) -> None:
    def peak(num_steps: int) -> float:
        arguments = [sys.executable, "-c", MEASURE, str(tmp_path / str(num_steps)), str(num_steps)]
        return float(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)

    short, long = peak(64), peak(512)  # 48 and 384 MiB of frames
    assert long - short < 60, f"{short:.0f} MiB became {long:.0f}"


def test_releasing_memory_maps_keeps_array_contents(tmp_path: Path) -> None:
    save_samples(tmp_path, make_trajectories())
    observations = load_trajectories(tmp_path).observations
    before = observations.copy()
    release(observations[1:, ::2])
    np.testing.assert_array_equal(observations, before)
    release(before)

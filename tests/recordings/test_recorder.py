"""Recording of episodes: rules, appending, and what is refused."""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.conversion import recorded_episodes
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from tests.pipeline.small import REPOSITORY
from tests.recordings.episodes import SHAPE, add_episode, make_recording, step_values
from tests.test_structure import HEAVY


def test_all_recorded_fields_survive_a_round_trip(tmp_path: Path) -> None:
    make_recording(tmp_path, (3, 70))
    episode = open_recording(tmp_path)[1]
    rows = [step_values(1, step) for step in range(70)]
    for name, key in {
        "observations": "observation",
        "actions": "action",
        "rewards": "reward",
        "policy_logits": "logits",
        "values": "value",
    }.items():
        np.testing.assert_array_equal(getattr(episode, name), [row[key] for row in rows])
    assert episode.states is not None
    for part, states in enumerate(episode.states):
        np.testing.assert_array_equal(states, [row["state"][part] for row in rows])
        assert states.dtype == rows[0]["state"][part].dtype
    np.testing.assert_array_equal(episode.info["lives"], np.full(70, 3.0))
    assert episode.firsts.tolist() == [True] + [False] * 69
    assert not episode.truncated.any()


def test_recordings_store_whether_episodes_ended_truncated_or_stopped(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    add_episode(recorder, 0, 2)
    add_episode(recorder, 1, 2, terminated=False, truncated=True)
    recorder.add(**step_values(2, 0), terminated=False)
    recorder.close()
    recording = open_recording(tmp_path)
    assert [episode.end for episode in recording] == ["done", "time limit", "stopped"]
    assert recording[1].truncated.tolist() == [False, True]


def test_causes_of_episode_ends_are_kept_in_trajectories(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for number, cause in enumerate(("saw", None, "\u00a0" + "x" * 300)):
            add_episode(recorder, number, 2, cause=cause)
    recording = open_recording(tmp_path)
    long = "\\xa0" + "x" * 196
    assert [episode.cause for episode in recording] == ["saw", None, long]
    assert recorded_episodes(recording).causes == ((0, 1, "saw"), (2, 1, long))
    assert recording.to_trajectories(1, 5).causes == ((0, 1, "saw"),)
    assert recorded_episodes(recording).select(2).causes == ((0, 1, long),)


def test_the_table_has_a_row_for_each_episode(tmp_path: Path) -> None:
    with Recorder(tmp_path, seed=7, metadata={"name": "test"}) as recorder:
        for episode in range(2):
            for step in range(4):
                values = step_values(episode, step) | {"level_seed": 100 + episode, "training_step": 5}
                recorder.add(**values, terminated=step == 3)
    recording = open_recording(tmp_path)
    row = recording.table()[1]
    assert row.pop("start_time") >= recording.metadata["begun"]
    assert 0 < row.pop("entropy") < np.log(5)
    assert row == {
        "episode": 1,
        "number": 1,
        "environment": 0,
        "seed": 7,
        "level_seed": 101,
        "start_step": 4,
        "training_step": 5,
        "agent": None,
        "end": "done",
        "steps": 4,
        "return": 6.0,
    }


def test_every_nth_episode_is_recorded(tmp_path: Path) -> None:
    make_recording(tmp_path, (2,) * 7, every=3)
    assert [episode.number for episode in open_recording(tmp_path)] == [0, 3, 6]


def test_a_function_can_select_episodes_to_record(tmp_path: Path) -> None:
    make_recording(tmp_path, (2,) * 5, every=lambda number: number in (1, 4))
    assert [row["number"] for row in open_recording(tmp_path).table()] == [1, 4]


def test_the_option_every_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="every=0 must be at least 1"):
        Recorder(tmp_path, every=0)


def test_frames_are_rendered_only_for_recorded_steps(tmp_path: Path) -> None:
    calls = []

    def render() -> np.ndarray:
        calls.append(1)
        return np.full((20, 24, 3), len(calls), np.uint8)

    with Recorder(tmp_path, every=2) as recorder:
        for episode in range(4):
            for step in range(3):
                recorder.add(**step_values(episode, step), frame=render, terminated=step == 2)
    assert len(calls) == 6
    frames = open_recording(tmp_path)[1].frames
    assert frames is not None
    assert frames[:, 0, 0, 0].tolist() == [4, 5, 6]


def stacks(steps: int, channels: int, count: int = 4) -> np.ndarray:
    """Frames (steps, 16, 12, count * channels), of which each step adds one."""
    frames = np.random.default_rng(2).integers(0, 256, (steps + count - 1, *SHAPE[:2], channels), np.uint8)
    return np.stack([np.concatenate([*frames[step : step + count]], axis=-1) for step in range(steps)])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("broken", [None, 40], ids=["stacked", "not everywhere"])
def test_stacked_frames_are_stored_once(tmp_path: Path, channels: int, broken: int | None) -> None:
    seen = stacks(70, channels)
    if broken is not None:
        seen[broken] ^= 255
    with Recorder(tmp_path, name=None, on_error="raise") as recorder:
        for step, observation in enumerate(seen):
            recorder.add(observation=observation, action=0, reward=0.0, terminated=step == len(seen) - 1)
    np.testing.assert_array_equal(open_recording(tmp_path)[0].observations, seen)
    size = (tmp_path / "data-00000.bin").stat().st_size
    whole = seen[0].nbytes * len(seen)  # of noise, which does not compress
    assert size < whole * (0.33 if broken is None else 0.66)


def test_a_recording_of_an_earlier_format_version_can_be_continued(tmp_path: Path) -> None:
    """Its readers would not know how stacked frames are stored now."""
    make_recording(tmp_path, (3,))
    path = tmp_path / "recording.json"
    path.write_text(path.read_text().replace('"version": 3', '"version": 2'))
    assert len(open_recording(tmp_path)) == 1
    assert '"version": 2' in path.read_text()
    make_recording(tmp_path, (4,))
    assert '"version": 3' in path.read_text()
    assert [len(episode) for episode in open_recording(tmp_path)] == [3, 4]


def test_the_recorder_copies_the_values_passed_to_it(tmp_path: Path) -> None:
    observation = np.zeros(SHAPE, np.uint8)
    with Recorder(tmp_path) as recorder:
        for step in range(3):
            observation[:] = step
            recorder.add(observation=observation, action=0, reward=0, terminated=step == 2)
    assert open_recording(tmp_path)[0].observations[:, 0, 0, 0].tolist() == [0, 1, 2]


def test_a_new_recorder_appends_episodes(tmp_path: Path) -> None:
    make_recording(tmp_path, (3, 40), metadata={"name": "test"})
    make_recording(tmp_path, (5,), metadata={"name": "test"})
    recording = open_recording(tmp_path)
    assert [len(episode) for episode in recording] == [3, 40, 5]
    np.testing.assert_array_equal(recording[2].observations[4], step_values(0, 4)["observation"])


def test_a_continued_recording_continues_its_episode_numbers(tmp_path: Path) -> None:
    for _ in range(2):
        with Recorder(tmp_path, every=2, on_error="raise") as recorder:
            for number in range(5):
                add_episode(recorder, number, 2)
    assert [row["number"] for row in open_recording(tmp_path).table()] == [0, 2, 4, 6, 8]


def test_a_continued_recording_refuses_different_metadata(tmp_path: Path) -> None:
    make_recording(tmp_path, (3,), metadata={"name": "test"})
    with pytest.raises(SamplesError, match="different metadata \\(name\\); use a different directory"):
        Recorder(tmp_path, metadata={"name": "other"})


def test_a_recording_refuses_a_second_writer(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        add_episode(recorder, 0, 2)
        with pytest.raises(SamplesError, match="another process is writing"):
            Recorder(tmp_path)


def test_fields_must_be_the_same_at_all_steps(tmp_path: Path) -> None:
    with Recorder(tmp_path, on_error="raise") as recorder:
        recorder.add(**step_values(0, 0), terminated=False)
        values = step_values(0, 1)
        del values["value"]
        with pytest.raises(SamplesError, match="must have the same fields; this one differs in values"):
            recorder.add(**values, terminated=False)
        with pytest.raises(SamplesError, match=r"observations has shape \(2, 2\); it had \(16, 12, 3\)"):
            recorder.add(**{**step_values(0, 1), "observation": np.zeros((2, 2), np.uint8)}, terminated=False)
        with pytest.raises(SamplesError, match="actions has type float64; it had int64"):
            recorder.add(**{**step_values(0, 1), "action": 0.5}, terminated=False)


@pytest.mark.parametrize("value", ["text", object(), 1j])
def test_values_that_are_not_numbers_are_refused(tmp_path: Path, value: Any) -> None:
    with Recorder(tmp_path, on_error="raise") as recorder, pytest.raises(SamplesError, match=r"info\.x has type"):
        recorder.add(**{**step_values(0, 0), "info": {"x": value}}, terminated=True)


def test_field_names_that_could_escape_the_directory_are_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path, on_error="raise") as recorder, pytest.raises(SamplesError, match="invalid field name"):
        recorder.add(**{**step_values(0, 0), "info": {"../x": 1}}, terminated=True)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SamplesError, match=r"cannot write to .*file/recording"):
        Recorder(tmp_path / "file" / "recording")


def record_on_a_full_disk(directory: Path, **options: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with Recorder(directory, **options) as recorder:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
            for episode in range(9):
                add_episode(recorder, episode, 5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_the_written_episodes(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=f"cannot write to {tmp_path}"):
        record_on_a_full_disk(tmp_path, on_error="raise")
    make_recording(tmp_path / "plugins/rl_clarity/training", (4,))
    recording = open_recording(tmp_path)
    assert len(recording) > 4
    assert {row["end"] for row in recording.table()} == {"done"}
    for read in recording:
        assert (np.asarray(read.observations) > 0).any()


def test_recording_the_same_steps_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        make_recording(tmp_path / name)
    for file in ("data-00000.bin", "blocks.bin"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_recordings_are_stored_in_the_tensorboard_plugin_directory(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder:
        add_episode(recorder, 0, 2)
    assert recorder.location == f"{tmp_path}/plugins/rl_clarity/training"
    assert open_recording(tmp_path).location == recorder.location
    with Recorder(recorder.location) as same:
        add_episode(same, 0, 2)
    assert len(open_recording(tmp_path)) == 2
    with Recorder(tmp_path, name="evaluation") as recorder:
        add_episode(recorder, 0, 2)
    with pytest.raises(SamplesError, match=r"has 2 recordings; open one of them: .*/evaluation, .*/training"):
        open_recording(tmp_path)
    with pytest.raises(OptionError, match=r"name='\.\./x' must be a printable folder name"):
        Recorder(tmp_path, name="../x")


def test_an_error_stops_recording_with_one_warning(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="stopped recording to .*: observations has shape") as warnings:  # noqa: PT031, SIM117
        with Recorder(tmp_path) as recorder:
            add_episode(recorder, 0, 2)
            recorder.add(**step_values(1, 0), terminated=False)
            for _ in range(3):
                recorder.add(**{**step_values(1, 1), "observation": np.zeros((2, 2), np.uint8)}, terminated=False)
            assert not recorder.recording
    assert len(warnings) == 1
    assert open_recording(tmp_path)[0].end == "done"


def test_a_full_disk_stops_recording_with_one_warning(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="stopped recording") as warnings:
        record_on_a_full_disk(tmp_path)
    assert len(warnings) == 1


def test_output_functions_are_called_only_for_recorded_steps(tmp_path: Path) -> None:
    calls = []
    with Recorder(tmp_path, every=2) as recorder:
        for episode in range(4):
            for step in range(3):
                assert recorder.recording == (episode % 2 == 0)

                def logits(row: tuple[int, int] = (episode, step)) -> np.ndarray:
                    calls.append(row)
                    return np.zeros(5)

                recorder.add(**step_values(episode, step) | {"logits": logits}, terminated=step == 2)
    assert calls == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2)]


def test_the_recorder_imports_no_framework(tmp_path: Path) -> None:
    program = f"""
import sys
import rl_clarity
with rl_clarity.Recorder({str(tmp_path)!r}) as recorder:
    recorder.agent(lambda path: open(path, "w").close())
    for step in range(70):
        recorder.add(observation=[[[1]]], action=0, reward=1.0, terminated=step == 69, value=0.5)
heavy = {(*HEAVY, "tensorboard", "stable_baselines3")}
print(*[name for name in heavy if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
    assert len(open_recording(tmp_path)[0]) == 70


@pytest.mark.slow  # importing them
@pytest.mark.parametrize("library", ["torch", "jax", "tensorflow"])
def test_the_recorder_accepts_tensors(tmp_path: Path, library: str) -> None:
    module = pytest.importorskip("jax.numpy" if library == "jax" else library)
    make = {"torch": "as_tensor", "jax": "asarray", "tensorflow": "convert_to_tensor"}[library]
    tensor = getattr(module, make)
    values = {
        "observation": np.full((2, 4, 4, 3), 7, np.uint8),
        "action": np.array([2, 3]),
        "reward": np.array([0.5, 1.5], np.float32),
        "logits": np.ones((2, 3), np.float32),
    }
    tensors = {name: tensor(value) for name, value in values.items()}
    with Recorder(tmp_path, on_error="raise", envs=(1,)) as recorder:
        for done in (False, True):
            value = tensor([1.0, 2.0], dtype=module.bfloat16)
            recorder.add(**tensors, terminated=tensor(np.array([False, done])), value=value)
    (episode,) = open_recording(tmp_path)
    assert episode.actions[:].tolist() == [3, 3]
    assert episode.observations[0, 0, 0, 0] == 7
    assert episode.values is not None
    assert episode.values[:].tolist() == [2.0, 2.0]
    assert np.asarray(episode.policy_logits).dtype == np.float32


def test_channels_first_observations_are_stored_channels_last(tmp_path: Path) -> None:
    observation = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    with Recorder(tmp_path, channels_first=True, on_error="raise") as recorder:
        recorder.add(observation=observation, action=0, reward=0, terminated=True, final_observation=observation + 1)
    (episode,) = open_recording(tmp_path)
    np.testing.assert_array_equal(episode.observations[0], observation.transpose(1, 2, 0))
    assert episode.final_observation is not None
    np.testing.assert_array_equal(episode.final_observation, observation.transpose(1, 2, 0) + 1)


@pytest.mark.parametrize("name", ["x\0y", "a\nb", "", "a/b", ".hidden", 5])
def test_recording_names_that_are_not_folder_names_are_refused(tmp_path: Path, name: Any) -> None:
    with pytest.raises(OptionError, match=r"name=.* must be a printable folder name"):
        Recorder(tmp_path, name=name)
    with pytest.raises(OptionError, match=r"directory='x\\x00y' must be a path"):
        Recorder("x\0y")


def test_a_forked_process_records_nothing_and_warns_once(tmp_path: Path) -> None:
    program = f"""
import os, warnings
from rl_clarity.recordings.recorder import Recorder
from tests.recordings.episodes import add_episode
recorder = Recorder({str(tmp_path)!r}, on_error="raise")
add_episode(recorder, 0, 40)
child = os.fork()
if not child:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        add_episode(recorder, 1, 70)
        recorder.close()
    assert [str(one.message).partition(" belongs")[0] for one in caught] == [f"the recorder of {{recorder.location}}"]
    Recorder({str(tmp_path / "own")!r}).close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
add_episode(recorder, 2, 50)
recorder.close()
with Recorder({str(tmp_path)!r}) as recorder:
    add_episode(recorder, 0, 3)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60, cwd=REPOSITORY)
    assert [len(episode) for episode in open_recording(tmp_path / "plugins/rl_clarity/training")] == [40, 50, 3]


def test_closing_a_recorder_releases_the_lock_despite_forked_processes(tmp_path: Path) -> None:
    program = f"""
import os, time
from rl_clarity.recordings.recorder import Recorder
recorder = Recorder({str(tmp_path)!r})
child = os.fork()
if not child:
    time.sleep(60)
recorder.close()
Recorder({str(tmp_path)!r}).close()
os.kill(child, 9)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60, cwd=REPOSITORY)


def record_with_agent(directory: Path, checkpoint: Path) -> str:
    """Record an episode; return the error, if it cannot be recorded."""
    try:
        with Recorder(directory, name=None) as recorder:
            recorder.agent(checkpoint)
            with warnings.catch_warnings(record=True) as caught:
                add_episode(recorder, 0, 3)
    except SamplesError as error:
        return str(error)
    return "".join(str(one.message) for one in caught)


@pytest.mark.parametrize("name", ["blocks.bin", "episodes.bin", "data-00000.bin", "agents"])
def test_the_recorder_writes_nothing_through_symbolic_links(tmp_path: Path, name: str) -> None:
    foreign = tmp_path / "foreign"
    if name == "agents":
        foreign.mkdir()
    else:
        foreign.write_bytes(b"foreign")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(foreign)
    checkpoint = tmp_path / "agent.zip"
    checkpoint.write_bytes(b"agent")
    assert f"{name} is a link" in record_with_agent(tmp_path / "run", checkpoint)
    assert not list(foreign.iterdir()) if name == "agents" else foreign.read_bytes() == b"foreign"


@pytest.mark.parametrize("name", ["blocks.bin", "episodes.bin", "data-00000.bin"])
def test_foreign_files_are_not_treated_as_a_recording(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"mine" * 99)
    with pytest.raises(SamplesError, match=rf"contains {name}, but no recording\.json"):
        Recorder(tmp_path, name=None)
    assert (tmp_path / name).read_bytes() == b"mine" * 99


def test_a_dangling_symbolic_link_creates_no_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "episodes.bin").symlink_to(tmp_path / "new")
    with pytest.raises(SamplesError, match=r"episodes\.bin is a link"):
        Recorder(tmp_path / "run", name=None)
    assert not (tmp_path / "new").exists()


# --- ranges of images ------------------------------------------------------------------------------------------------


def record_images(location: Path, images: np.ndarray, **options: Any) -> np.ndarray:
    """Record an episode of images; return those that are stored."""
    with Recorder(location, name=None, on_error="raise", **options) as recorder:
        for step, image in enumerate(images):
            recorder.add(observation=image, action=0, reward=0.0, terminated=step == len(images) - 1)
    return np.asarray(open_recording(location)[0].observations)


def test_images_with_only_values_0_and_1_are_refused_without_a_range(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 2, (4, 8, 8, 3), np.uint8)
    with pytest.raises(
        SamplesError, match=r"0 and 1 both look black.*value_range=\(0, 1\).*are right, pass .*\(0, 255\)"
    ):
        record_images(tmp_path / "refused", images)
    np.testing.assert_array_equal(record_images(tmp_path / "white", images, value_range=(0, 1)), images * 255)
    np.testing.assert_array_equal(record_images(tmp_path / "kept", images, value_range=(0, 255)), images)
    np.testing.assert_array_equal(record_images(tmp_path / "image", images * 255), images * 255)


def test_float_observations_are_stored_as_images_scaled_to_their_range(tmp_path: Path) -> None:
    images = np.random.default_rng(0).uniform(-1, 1, (4, 8, 8, 3)).astype(np.float32)
    stored = record_images(tmp_path / "images", images, value_range=(-1, 1))
    assert stored.dtype == np.uint8
    np.testing.assert_allclose(stored / 127.5 - 1, images, atol=1 / 255)
    with pytest.raises(SamplesError, match="values outside this range are clipped"):
        record_images(tmp_path / "outside", images * 3, value_range=(-1, 1))

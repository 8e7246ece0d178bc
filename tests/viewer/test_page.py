"""What the page of recordings lists: explanations, damaged and newer recordings, directories; and imports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from rl_clarity.base.errors import SamplesError
from rl_clarity.base.statistics import entropy, softmax
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.recordings.step_arrays import StepArray
from rl_clarity.viewer import page, runs
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory
from tests.explaining.recordings import explain, record
from tests.pipeline.small import REPOSITORY, record_calls
from tests.recordings.episodes import SHAPE, add_episode, make_recording

HEAVY = ("tensorflow", "torch", "keras", "jax", "gymnasium", "sklearn", "scipy")


class Reader:
    """A page, read as the browser does."""

    def __init__(self, *places: Path | str) -> None:
        directories = [LogDirectory.at(str(place)) for place in places]
        self.page = RecordingsPage(directories, ", ".join(map(str, places)))

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads(self.page.manifest().data)

    def section(self, kind: str, number: int = 0) -> dict[str, Any]:
        found = [one["data"] for one in self.manifest["sections"] if one["kind"] == kind]
        return found[number]

    @property
    def episodes(self) -> list[dict[str, Any]]:
        return self.section("episodes")["episodes"]

    def entry(self, index: int) -> dict[str, Any]:
        name = self.section("trajectories")["trajectories"][index]["entry"]
        return json.loads(self.read(name))

    def read(self, name: str) -> bytes:
        found = self.page.file(name)
        assert found is not None, name
        return found.data

    def chunk(self, name: str) -> dict[str, np.ndarray]:
        chunk = parse_script(self.read(name), name)
        assert chunk.name == name
        return decode_chunk(chunk)


def corrupt(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 255
    path.write_bytes(data)


def test_the_page_of_recordings_serves_explanations(tmp_path: Path) -> None:
    location = tmp_path / "plugins/rl_clarity/training"
    record(location, (30, 12))
    reader = Reader(tmp_path)
    assert [row["explained"] for row in reader.episodes] == [False, False]
    assert ["totals" in row for row in reader.episodes] == [False, False]
    logits = np.asarray(StoredRecording(location)[0].policy_logits)
    assert reader.episodes[0]["entropy"] == pytest.approx(entropy(softmax(logits)).mean(), rel=1e-5)
    before = reader.section("trajectories")["trajectories"][0]["entry"]
    explain(location, embeddings=["pca"])
    assert [row["explained"] for row in reader.episodes] == [True, True]
    assert reader.section("trajectories")["trajectories"][0]["entry"] != before
    (method,) = reader.section("saliency")["methods"]
    assert method["name"] == "jacobian"
    assert method["maps"] == []
    agreement = reader.section("saliency")["agreement"]
    assert re.fullmatch(
        r"recomputed outputs differ from the recorded ones by at most .* \(\d+ steps compared\)", agreement
    )
    (section,) = reader.entry(0)["sections"]
    (own,) = section["data"]["methods"]
    assert set(own["scales"]) == set(method["scales"]) == {"policy", "value"}
    (names,) = own["maps"]
    maps = reader.chunk(names[0])
    assert maps["codes.policy"].shape == (15, method["rows"], method["columns"])
    totals = {output: maps[f"totals.{output}"].mean() for output in ("policy", "value")}
    assert reader.episodes[0]["totals"]["jacobian"] == pytest.approx(totals)
    points = reader.chunk(reader.section("state_map")["maps"][0]["chunk"])
    assert {0, 1} == {*points["trajectory"].tolist()}
    name = names[0]
    assert reader.page.file(name.replace("maps-1.js", "../../recording.json")) is None
    (location / "explained/00000/saliency/jacobian/1/maps-1.js").unlink()
    (location / "explained/00000/saliency/jacobian/1/maps-1.js").symlink_to(tmp_path / "elsewhere.js")
    (tmp_path / "elsewhere.js").write_text("secret")
    assert Reader(tmp_path).page.file(name) is None


def test_a_damaged_episode_is_named_and_other_episodes_are_shown(tmp_path: Path) -> None:
    make_recording(tmp_path, (10, 40, 20), name="training")
    folder = tmp_path / "plugins/rl_clarity/training"
    reader = Reader(tmp_path)
    assert [row["error"] for row in reader.episodes] == [None, None, None]
    size = (folder / "data-00000.bin").stat().st_size
    with (folder / "data-00000.bin").open("r+b") as file:
        file.truncate(size - 10)
    reader = Reader(tmp_path)
    assert [row["error"] is None for row in reader.episodes] == [True, True, False]
    assert "data-00000.bin is damaged" in reader.episodes[2]["error"]
    assert "entry" not in reader.section("trajectories")["trajectories"][2]
    assert reader.entry(1)["trajectory"]["steps"] == 40


def test_damage_found_while_reading_an_episode_is_listed_afterwards(tmp_path: Path) -> None:
    make_recording(tmp_path, (10, 20), name="training")
    reader = Reader(tmp_path)
    name = reader.section("trajectories")["trajectories"][0]["entry"]
    corrupt(tmp_path / "plugins/rl_clarity/training/data-00000.bin", 30)
    etag = reader.page.manifest().etag
    with pytest.raises(SamplesError, match="is damaged at byte 0"):
        reader.page.file(name)
    assert reader.page.manifest().etag != etag
    assert [row["error"] is None for row in reader.episodes] == [False, True]
    assert reader.entry(1)["trajectory"]["steps"] == 20


def test_damaged_and_newer_recordings_are_named_with_the_reason(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_recording(tmp_path / name, (3,), name="training")
    metadata = tmp_path / "b/plugins/rl_clarity/training/recording.json"
    metadata.write_text(metadata.read_text().replace('"version": 3', '"version": 4'))
    corrupt(tmp_path / "c/plugins/rl_clarity/training/episodes.bin", 20)
    listed = Reader(tmp_path).section("episodes")
    assert [run["name"] for run in listed["runs"]] == ["a", "b", "c"]
    first, second, third = (run["error"] for run in listed["runs"])
    assert first is None
    assert "has version 4; this version of rl-clarity reads versions 2 and 3" in second
    assert "episodes.bin is damaged" in third
    assert [row["run"] for row in listed["episodes"]] == [0]


def test_a_page_without_recordings_names_the_log_directory(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "not yet"):
        reader = Reader(place)
        assert not reader.page.exists()
        listed = reader.section("episodes")
        assert (listed["runs"], listed["episodes"], listed["logdir"]) == ([], [], str(place))


def test_new_runs_are_added_and_deleted_runs_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SECONDS_BETWEEN_SCANS", 0)
    monkeypatch.setattr(runs, "SCAN_RATIO", 0)
    reader = Reader(tmp_path)
    for name in ("exp2", "exp1"):
        make_recording(tmp_path / name, (3,), name="training")
        reader.page.manifest()
    make_recording(tmp_path / "exp1", (3,), name="evaluation")
    listed = reader.section("episodes")["runs"]
    assert [run["name"] for run in listed] == ["exp1", "exp1/evaluation", "exp2"]
    assert {run["recording"] for run in listed} == {"recording-1", "recording-2", "recording-3"}
    assert listed[2]["recording"] == "recording-1"  # as before
    (tmp_path / "exp2/plugins/rl_clarity/training/recording.json").unlink()
    assert [run["name"] for run in reader.section("episodes")["runs"]] == ["exp1", "exp1/evaluation"]


def test_a_new_episode_updates_only_the_entry_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("exp1", "exp2", "exp3"):
        record(tmp_path / name, (3, 3, 3), name="training")
    reader = Reader(tmp_path)
    etag = reader.page.manifest().etag
    described = record_calls(monkeypatch, page, "_describe")
    record(tmp_path / "exp1", (3,), first=3, name="training")
    change = json.loads(reader.page.manifest(etag).data)["change"]
    assert [run.name for run, _ in described] == ["exp1"]
    text = json.dumps(change)
    assert text.count('"episode": ') == 1
    assert len(text) < 600


def test_episode_indices_stay_the_same_when_others_are_removed(tmp_path: Path) -> None:
    with Recorder(tmp_path, max_episodes=4) as recorder:
        for episode in range(12):
            add_episode(recorder, episode, 40)
    reader = Reader(tmp_path)
    assert len(reader.episodes) == 4
    for row in reader.episodes:
        assert row["trajectory"] == row["episode"]
        assert reader.entry(row["trajectory"])["trajectory"]["episodes"][0]["return"] == row["return"]
    removed = {*range(12)} - {row["trajectory"] for row in reader.episodes}
    listed = reader.section("trajectories")["trajectories"]
    assert all(listed[index] == {"steps": 0} for index in removed if index < len(listed))


def test_an_episode_of_a_killed_recorder_stops_being_shown_as_live(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for step in range(100):
        recorder.add(observation=np.zeros(SHAPE, np.uint8), action=0, reward=0.0, terminated=step < 0)
    recorder._thread.submit(lambda: None).result()
    assert Reader(tmp_path).episodes[0]["end"] == "live"
    for path in (tmp_path / "plugins/rl_clarity/training").glob("*.bin"):
        os.utime(path, (time.time() - 10**6,) * 2)
    assert Reader(tmp_path).episodes[0]["end"] == "stopped"
    recorder.close()


def test_vector_observations_and_continuous_actions_become_tracks(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for step in range(5):
            values: dict[str, Any] = {"observation": np.arange(4.0), "action": np.array([0.5, step]), "reward": 1.0}
            recorder.add(**values, terminated=step == 4, info={"speed": step, "matrix": np.eye(2)})
    reader = Reader(tmp_path)
    trajectory = reader.entry(0)["trajectory"]
    assert (trajectory["frames"], trajectory["scrub"]) == ([], [])
    series = reader.chunk(trajectory["series"])
    assert set(series) == {"rewards", "firsts", "info.action.0", "info.action.1", "info.speed"}
    np.testing.assert_array_equal(series["info.action.1"], range(5))
    assert reader.manifest["agents"][0]["num_actions"] == 0


def test_served_stacked_frames_include_the_newest_and_the_whole_stack(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for step in range(3):
            observation = np.stack([np.full((8, 8), 10 * step + k, np.uint8) for k in range(4)], -1)
            recorder.add(observation=observation, action=1, reward=0.0, terminated=step == 2, q_values=np.arange(3.0))
    reader = Reader(tmp_path)
    agent = reader.manifest["agents"][0]
    assert (agent["observation"]["stack"], agent["kind"], agent["num_actions"]) == (4, "action_values", 3)
    arrays = reader.chunk(reader.entry(0)["trajectory"]["frames"][0])
    assert {"pixels", "stack_pixels"} == set(arrays)
    series = reader.chunk(reader.entry(0)["trajectory"]["series"])
    np.testing.assert_allclose(series["advantages"], -1)


def test_a_read_only_log_directory_is_shown(tmp_path: Path) -> None:
    make_recording(tmp_path, (3,), name="training")
    folders = [tmp_path, *(path for path in tmp_path.rglob("*"))]
    for path in folders:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in folders}
    try:
        reader = Reader(tmp_path)
        assert reader.entry(0)["trajectory"]["steps"] == 3
        assert {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.rglob("*")]} == before
    finally:
        for path in folders:
            path.chmod(0o755)


def test_a_remote_log_directory_is_shown(tmp_path: Path) -> None:
    make_recording("memory://viewer/exp1", (5,), name="training")
    reader = Reader("memory://viewer/exp1")
    assert [row["length"] for row in reader.episodes] == [5]
    assert reader.entry(0)["trajectory"]["steps"] == 5
    fsspec.filesystem("memory").rm("/viewer", recursive=True)


def test_listing_episodes_reads_the_data_of_only_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_recording(tmp_path, (5, 4, 3))
    page = RecordingsPage([LogDirectory.at(str(tmp_path))], "")
    read = record_calls(monkeypatch, StoredRecording, "_arrays")
    page.manifest()
    assert [episode for _, episode, _ in read] == [0]  # its fields describe the agent
    monkeypatch.delattr(StoredRecording, "listing")  # what has not changed is not read again
    assert len(json.loads(page.manifest().data)["sections"][0]["data"]["episodes"]) == 3


def test_describing_an_episode_reads_none_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_recording(tmp_path, (5, 40), name="training")
    reader = Reader(tmp_path)
    returns = reader.episodes[1]["return"]
    read = record_calls(monkeypatch, StepArray, "_read")
    episodes = reader.entry(1)["trajectory"]["episodes"]
    assert not read
    assert episodes == [{"frame": 0, "steps": 40, "return": returns, "end": "done"}]


def test_serving_a_file_does_not_search_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("exp1", "exp2", "exp3"):
        make_recording(tmp_path / name, (3,), name="training")
    reader = Reader(tmp_path)
    name = reader.section("trajectories", 1)["trajectories"][0]["entry"]
    looked = record_calls(monkeypatch, runs.Run, "current")
    assert json.loads(reader.read(name))["trajectory"]["steps"] == 3
    assert len(looked) == 1
    assert Reader(tmp_path).read(name)  # a viewer that was started again knows the address, too
    assert reader.page.file("0" * 16 + "/0/entry-000000000000.json") is None


def test_the_viewer_imports_no_framework() -> None:
    pytest.importorskip("tensorboard")
    modules = ("publishing", "server", "tensorboard_plugin")
    program = (
        f"import sys; from rl_clarity.viewer import {', '.join(modules)}; print([*{{*{HEAVY}}} & {{*sys.modules}}])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert result.stdout == "[]\n"

"""A good item beside a bad one, for each reader and each kind of damage: the good one works, the bad one is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

import rl_clarity
from rl_clarity.agents.output_check import check_outputs
from rl_clarity.base.errors import CheckpointError, ClarityError, SamplesError
from rl_clarity.cli import main
from rl_clarity.explaining import recordings
from rl_clarity.explaining.reports import ExplainedRecording
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages import gallery
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.sources.curves import read_curve
from rl_clarity.viewer.publishing import publish
from tests.fakes import TinyAgent
from tests.pages.pages import write_small_page
from tests.recordings.episodes import SHAPE, make_recording

TRAINING = "plugins/rl_clarity/training"
LENGTHS = (4, 6)
OPTIONS: dict[str, Any] = {"methods": ["jacobian"], "embeddings": [], "other_agent": True}
AGENT = TinyAgent(observation_shape=SHAPE, num_actions=5, patch=4)
Damage = Callable[[Path, pytest.MonkeyPatch], None]


def replaced(text: str) -> Damage:
    """Other content of `recording.json`."""

    def damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "recording.json").write_text(text)

    return damage


def newer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))


def wrong_types(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "environment": "Breakout", "checkpoint": ["ppo.zip"]}))


def truncated(name: str) -> Damage:
    def damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return damage


def corrupted(name: str) -> Damage:
    def damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(bytes(255 - byte for byte in data))

    return damage


def replaced_by(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / name).unlink()
        make(folder / name)

    return damage


def unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions, which do not hold back root."""
    info = LocalFileSystem.info

    def refuse(self: LocalFileSystem, path: Any, **options: Any) -> Any:
        if "/bad/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return info(self, path, **options)

    monkeypatch.setattr(LocalFileSystem, "info", refuse)


def raising(error: Exception) -> Damage:
    """A reader with a defect."""

    def damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        refresh = StoredRecording.refresh

        def fail(self: StoredRecording) -> StoredRecording:
            if "/bad/" in self.location:
                raise error
            return refresh(self)

        monkeypatch.setattr(StoredRecording, "refresh", fail)

    return damage


RUNS: dict[str, tuple[Damage, str]] = {
    "a future version": (newer, "has version 99"),
    "truncated metadata": (truncated("recording.json"), "is damaged"),
    "metadata that are no JSON": (replaced("?"), "is damaged"),
    "metadata that are no object": (replaced("[]"), "is damaged"),
    "metadata with a NUL": (replaced('{"format": "\\u0000"}'), "has the format"),
    "damaged records": (corrupted("episodes.bin"), "is damaged"),
    "no permission": (unreadable, "Permission denied"),
    "a folder": (replaced_by("recording.json", Path.mkdir), "is not a file"),
    "a named pipe": (replaced_by("recording.json", os.mkfifo), "is not a file"),
    "a named pipe of episodes": (replaced_by("episodes.bin", os.mkfifo), "is not a file"),
    "a broken link": (replaced_by("recording.json", lambda path: path.symlink_to("gone")), "a link to gone"),
    "an unexpected RuntimeError": (raising(RuntimeError("defect")), "unexpected error: RuntimeError: defect"),
    "an unexpected KeyError": (raising(KeyError("defect")), "unexpected error: KeyError: 'defect'"),
    "an unexpected MemoryError": (raising(MemoryError("defect")), "unexpected error: MemoryError: defect"),
}
EPISODES: dict[str, tuple[Damage, str]] = {
    "truncated blocks": (truncated("data-00000.bin"), "is damaged: it is too short"),
    "corrupted blocks": (corrupted("data-00000.bin"), "is damaged"),
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A log directory with the runs `bad` and `good`."""
    for name in ("bad", "good"):
        make_recording(tmp_path / "runs" / name, LENGTHS, name="training")
    return tmp_path / "runs"


@pytest.fixture(params=RUNS)
def message(request: pytest.FixtureRequest, runs: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Damages the run `bad`; what its error says."""
    damage, message = RUNS[request.param]
    damage(runs / "bad" / TRAINING, monkeypatch)
    return message


def read_page(*places: Path | str) -> tuple[dict[str, str | None], list[dict[str, Any]]]:
    """Errors of runs by name, and rows of episodes, as the application serves them."""
    pytest.importorskip("werkzeug")
    from werkzeug.test import Client

    from rl_clarity.viewer.application import Application
    from rl_clarity.viewer.page import RecordingsPage
    from rl_clarity.viewer.runs import LogDirectory

    client = Client(Application(RecordingsPage([LogDirectory.at(str(place)) for place in places], "runs")))
    response = client.get("/data/manifest.json")
    assert response.status_code == 200, response.text
    sections = response.get_json()["sections"]
    listing = sections[0]["data"]
    rows = listing["episodes"]
    trajectories = [section["data"]["trajectories"] for section in sections if section["kind"] == "trajectories"]
    for row in rows:
        entry = trajectories[row["run"]][row["trajectory"]].get("entry")
        if entry is not None:
            answer = client.get(f"/data/{entry}")
            row["error"] = None if answer.status_code == 200 else answer.text
    return {run["name"]: run["error"] for run in listing["runs"]}, rows


def test_the_viewer_shows_intact_runs_beside_a_damaged_one(runs: Path, message: str) -> None:
    errors, rows = read_page(runs)
    assert errors["good"] is None
    assert message in str(errors["bad"])
    assert [(row["length"], row["error"]) for row in rows] == [(4, None), (6, None)]


def test_the_viewer_shows_intact_runs_beside_invalid_metadata(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_types(runs / "bad" / TRAINING, monkeypatch)
    errors, rows = read_page(runs)
    assert errors["good"] is None
    assert errors["bad"] is not None
    assert [(row["length"], row["error"]) for row in rows] == [(4, None), (6, None)]


def test_the_viewer_shows_intact_runs_beside_an_unexpected_error(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rl_clarity.viewer import page

    show = page._show

    def fail(run: Any, problems: Any) -> Any:
        if run.name == "bad":
            raise KeyError("defect")
        return show(run, problems)

    monkeypatch.setattr(page, "_show", fail)
    errors, rows = read_page(runs)
    assert errors == {"bad": "unexpected error: KeyError: 'defect'", "good": None}
    assert len(rows) == 2


def test_the_viewer_shows_a_directory_beside_an_unsearchable_one(runs: Path) -> None:
    errors, _ = read_page(runs, "nosuchprotocol://bucket/runs")
    assert errors["good"] is None
    assert "Protocol not known" in str(errors["."])


@pytest.mark.parametrize("kind", EPISODES)
def test_the_viewer_shows_intact_episodes_beside_damaged_ones(
    runs: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, message = EPISODES[kind]
    damage(runs / "bad" / TRAINING, monkeypatch)
    errors, rows = read_page(runs)
    assert errors["good"] is None
    assert [row["error"] for row in rows if row["run"] == 1] == [None, None]
    assert message in str([errors["bad"], *(row["error"] for row in rows if row["run"] == 0)])


def explain_good(runs: Path, **options: Any) -> ExplainedRecording:
    """Explain the runs; the report on `bad`."""
    bad, good = rl_clarity.explain_recording(runs, AGENT, **{**OPTIONS, **options})
    assert (good.explained, good.skipped, good.problem) == (2, {}, None)
    assert rl_clarity.read_explanations(runs / "good" / TRAINING) is not None
    return bad


def test_explain_explains_intact_runs_beside_a_damaged_one(
    runs: Path, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = explain_good(runs)
    assert message in str(bad)
    assert f"{runs}/bad/{TRAINING} is not explained: " in str(bad)


def test_explain_with_watch_names_a_damaged_run_once_and_continues(
    runs: Path, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []

    def wait() -> None:
        passes.append(1)
        if len(passes) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(recordings, "wait", wait)
    monkeypatch.setattr(os, "nice", lambda niceness: None)
    assert message in str(explain_good(runs, watch=True))
    assert capsys.readouterr().err.count(message) == 1


def test_explain_with_watch_explains_a_run_repaired_meanwhile(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = runs / "bad" / TRAINING / "recording.json"
    content = metadata.read_text()
    metadata.write_text("?")

    def wait() -> None:
        if metadata.read_text() == content:
            raise KeyboardInterrupt
        metadata.write_text(content)

    monkeypatch.setattr(recordings, "wait", wait)
    monkeypatch.setattr(os, "nice", lambda niceness: None)
    repaired = explain_good(runs, watch=True)
    assert (repaired.problem, repaired.explained) == (None, 2)


@pytest.mark.parametrize("kind", EPISODES)
def test_explain_skips_damaged_episodes(runs: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    damage, message = EPISODES[kind]
    damage(runs / "bad" / TRAINING, monkeypatch)
    assert message in str(explain_good(runs))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "it is not a regular file"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("gone"), "No such file"),
    ],
)
def test_explain_skips_episodes_with_an_unreadable_checkpoint(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    from tests.explaining.recordings import explain, record

    record(tmp_path / "recording", LENGTHS)
    checkpoint = tmp_path / "recording/agents/00000.txt"
    checkpoint.unlink()
    make(checkpoint)
    report = explain(tmp_path / "recording", embeddings=[])
    assert report.explained == 1
    assert [*report.skipped] == [0]
    assert message in report.skipped[0] or "regular" in report.skipped[0]


def test_publish_publishes_intact_runs_beside_a_damaged_one(
    runs: Path, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = publish(runs, tmp_path / "page").results().section("episodes")
    assert [(run["name"], run["error"] is None) for run in listing["runs"]] == [("bad", False), ("good", True)]
    assert [row["length"] for row in listing["episodes"]] == [4, 6]
    assert message in listing["runs"][0]["error"]
    assert message in capsys.readouterr().err
    assert str(tmp_path) not in (tmp_path / "page/interface.html").read_text()


def test_a_log_directory_of_several_recordings_names_them_all(runs: Path) -> None:
    replaced_by("recording.json", Path.mkdir)(runs / "bad" / TRAINING, pytest.MonkeyPatch())
    (runs / "good" / TRAINING).rename(runs / "bad/plugins/rl_clarity/good")
    with pytest.raises(SamplesError, match=r"has 2 recordings; open one of them: .*/good, .*/training"):
        rl_clarity.open_recording(runs / "bad")


def test_inspect_describes_intact_episodes_beside_a_damaged_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recording(tmp_path, LENGTHS, name="training")
    folder = tmp_path / TRAINING
    data = (folder / "data-00000.bin").read_bytes()
    (folder / "data-00000.bin").write_bytes(data[:-3])
    assert main(["inspect", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "recording of 1 episodes, 4 steps" in printed
    assert "episode 1 is left out: " in printed


def test_verify_checks_found_runs_and_names_links_it_does_not_follow(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "bad").rename(tmp_path / "elsewhere")
    (runs / "bad").symlink_to(tmp_path / "elsewhere")
    assert main(["verify", str(runs)]) == 1
    printed = capsys.readouterr().out
    assert f"{runs}/good/{TRAINING}" in printed
    assert f"{runs}/bad was not read: a link to {tmp_path}/elsewhere, not followed" in printed


def damage_page(folder: Path, make: Callable[[Path], object]) -> None:
    (folder / "interface.html").unlink()
    make(folder / "interface.html")


PAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: path.write_text("<html"), "not a page"),
    "a folder": (Path.mkdir, "is not a regular file"),
    "a named pipe": (os.mkfifo, "is not a regular file"),
    "a broken link": (lambda path: path.symlink_to("gone"), "No such file"),
}


@pytest.mark.parametrize("kind", PAGES)
def test_the_gallery_reports_only_the_damaged_page(tmp_path: Path, kind: str) -> None:
    for name in ("bad", "good"):
        write_small_page(LocalDirectory(tmp_path / name))
    make, message = PAGES[kind]
    damage_page(tmp_path / "bad", make)
    listed = rl_clarity.gallery(tmp_path)
    assert listed.pages == 2
    assert message in listed.problems["bad"]
    assert [*listed.problems] == ["bad"]


@pytest.mark.parametrize("error", [RuntimeError("defect"), KeyError("defect"), RecursionError("defect")])
def test_the_gallery_lists_other_pages_beside_an_unexpected_error(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        write_small_page(LocalDirectory(tmp_path / name))
    read = gallery._date

    def fail(directory: Any) -> Any:
        if directory.location.endswith("bad"):
            raise error
        return read(directory)

    monkeypatch.setattr(gallery, "_date", fail)
    listed = rl_clarity.gallery(tmp_path)
    assert listed.pages == 2
    assert "defect" in listed.problems["bad"]


@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_curve(path),
        lambda path: check_outputs(AGENT, path, CheckpointError),
        lambda path: rl_clarity.load_states(path.parent),
    ],
    ids=["a log", "outputs to check", "states"],
)
def test_named_pipes_are_refused_without_waiting_for_them(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "states.json")
    with pytest.raises(ClarityError, match="is not a regular file"):
        read(tmp_path / "states.json")


def test_a_named_pipe_in_a_page_does_not_block_the_gallery(tmp_path: Path) -> None:
    for name in ("bad", "good"):
        write_small_page(LocalDirectory(tmp_path / name))
        os.mkfifo(tmp_path / name / "run-log.json")
    assert rl_clarity.gallery(tmp_path).problems == {}

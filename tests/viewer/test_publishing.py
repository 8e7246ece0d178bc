"""`rl-clarity publish`: chosen episodes as a static page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from rl_clarity.base.errors import OptionError, OutputError, SamplesError
from rl_clarity.cli import main
from rl_clarity.jobs.job import Job
from rl_clarity.pages.results import open_results
from rl_clarity.pages.verification import verify
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from rl_clarity.viewer.publishing import publish
from tests.browser.pages import Visitor, read_canvas
from tests.explaining.recordings import explain, record
from tests.recordings.episodes import make_recording, step_values


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one of which is explained."""
    runs = tmp_path_factory.mktemp("publish") / "runs"
    location = runs / "exp1/plugins/rl_clarity/training"
    record(location, (30, 70, 12), first=10)
    explain(location, embeddings=["pca"])
    make_recording(runs / "exp2", (5, 6), name="training")
    return runs


def test_selected_episodes_are_published_as_a_complete_page(logdir: Path, tmp_path: Path) -> None:
    results = publish(logdir, tmp_path / "page", ["exp1~1", "0"]).results()
    manifest = results.manifest
    assert (manifest["kind"], manifest["complete"], manifest["missing"]) == ("recordings", True, [])
    listing = results.section("episodes")
    assert (listing["live"], "logdir" in listing) == (False, False)
    rows = [(row["run"], row["trajectory"], row["episode"], row["explained"]) for row in listing["episodes"]]
    assert rows == [(0, 0, 0, True), (0, 1, 1, True), (1, 0, 0, False)]
    started = [round(row["time"]) for row in listing["episodes"][:2]]
    table = open_recording(logdir / "exp1/plugins/rl_clarity/training").table()
    assert started == [int(row["start_time"]) for row in table[:2]]
    sections = [one["kind"] for one in manifest["sections"]]
    assert sections == ["episodes", "trajectories", "saliency", "state_map", "trajectories"]
    entry = results.section("trajectories")["trajectories"][1]
    assert entry["steps"] == 70
    np.testing.assert_allclose(results.chunk(entry["series"])["rewards"], range(70))
    (method,) = results.section("saliency")["methods"]
    assert [len(maps) for maps in method["maps"]] == [1, 2]
    assert all(scale > 0 for scales in method["scales"].values() for scale in scales)
    assert results.chunk(method["maps"][1][1])["steps"][0] == 64
    for one in results.section("state_map")["maps"]:
        points = results.chunk(one["chunk"])
        assert {*points["trajectory"].tolist()} == {0, 1}
        assert points["frame"].max() == 68
    assert not list(verify(tmp_path / "page").problems())


@pytest.mark.browser
def test_a_published_page_works_without_a_server(logdir: Path, tmp_path: Path, chromium_browser: Browser) -> None:
    publish(logdir, tmp_path, ["exp1~1", "exp1~2"])
    context = chromium_browser.new_context(viewport={"width": 1366, "height": 768})
    visitor = Visitor(context.new_page(), tmp_path)
    visitor.goto("?episode=exp1~1&step=68", wait=False)
    frame = visitor.by("training-observation")
    expect(frame).to_have_attribute("data-frame", "0/67")
    np.testing.assert_array_equal(read_canvas(frame)[..., :3], step_values(11, 67)["observation"])
    maps = visitor.by("saliency-canvas")
    expect(maps).to_have_attribute("data-step", "66")
    assert read_canvas(maps)[..., 3].max() > 0
    expect(visitor.by("state-map")).to_have_attribute("data-points", "41")  # every second step of both episodes
    assert read_canvas(visitor.by("state-map-points"))[..., 3].max() == 255
    context.close()
    assert visitor.messages == []


def test_published_state_maps_show_only_points_of_their_episodes(logdir: Path, tmp_path: Path) -> None:
    results = publish(logdir / "exp1", tmp_path / "page", ["2"]).results()
    for one in results.section("state_map")["maps"]:
        points = results.chunk(one["chunk"])
        assert (points["trajectory"] == 0).all()
        assert points["frame"].max() == 10


def test_episodes_can_be_published_as_a_single_file(logdir: Path, tmp_path: Path) -> None:
    page = publish(logdir / "exp2", tmp_path / "page", single_file=True, title="Two episodes")
    assert [path.name for path in (tmp_path / "page").iterdir() if path.suffix == ".html"] == ["interface.html"]
    assert not (tmp_path / "page/run-1").exists()
    results = page.results()
    assert results.manifest["title"] == "Two episodes"
    series = results.chunk(results.section("trajectories")["trajectories"][1]["series"])
    np.testing.assert_array_equal(series["actions"], [step_values(1, step)["action"] for step in range(6)])


def test_publishing_the_same_episodes_again_writes_nothing(logdir: Path, tmp_path: Path) -> None:
    first, second = (publish(logdir, tmp_path / name, ["0", "1"]).path for name in ("a", "b"))
    assert Path(first).read_bytes() == Path(second).read_bytes()
    changed = Path(first).stat().st_mtime_ns
    publish(logdir, tmp_path / "a", ["0", "1"])
    assert Path(first).stat().st_mtime_ns == changed
    with pytest.raises(OutputError, match="already holds a page"):
        publish(logdir, tmp_path / "a", ["0"])
    assert len(publish(logdir, tmp_path / "a", ["0"], overwrite=True).results().section("episodes")["episodes"]) == 2
    assert not list(verify(tmp_path / "a").problems())


def test_an_interrupted_publish_is_resumed(logdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[str] = []

    def stop(self: Job, name: str, seconds: float) -> None:
        finished.append(name)
        if len(finished) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Job, "_finished", stop)
    with pytest.raises(KeyboardInterrupt):
        publish(logdir, tmp_path / "page")
    monkeypatch.setattr(Job, "_finished", lambda self, name, seconds: finished.append(name))
    publish(logdir, tmp_path / "page")
    assert len(finished) == len({*finished}) == 6


def test_missing_and_unfinished_episodes_cannot_be_published(logdir: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"has no finished episodes 99; episodes by run: exp1: 3, exp2: 2"):
        publish(logdir, tmp_path / "page", ["0", "99"])
    with pytest.raises(OptionError, match=r"has no finished episodes exp2~2"):
        publish(logdir, tmp_path / "page", ["exp2~2"])
    with Recorder(tmp_path / "going") as recorder:
        recorder.add(**step_values(0, 0), terminated=False)
        with pytest.raises(OptionError, match="has no finished episodes; episodes by run: "):
            publish(tmp_path / "going", tmp_path / "page")
    with pytest.raises(OptionError, match="episodes by run: none"):
        publish(tmp_path / "nothing", tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_the_title_of_a_published_page_is_the_name_of_the_run(tmp_path: Path) -> None:
    make_recording(tmp_path / "runs" / "exp1", (5,), name="training")
    assert publish(tmp_path / "runs", tmp_path / "a").results().manifest["title"] == "exp1"
    assert publish(tmp_path / "runs" / "exp1", tmp_path / "b").results().manifest["title"] == "exp1"


def test_a_damaged_episode_is_skipped_unless_it_was_requested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recording(tmp_path / "runs/exp1", (4, 5), name="training")
    data = tmp_path / "runs/exp1/plugins/rl_clarity/training/data-00000.bin"
    data.write_bytes(data.read_bytes()[:-3])
    with pytest.raises(SamplesError, match="is damaged"):
        publish(tmp_path / "runs", tmp_path / "page", ["1"])
    assert published(tmp_path) == [0]
    assert capsys.readouterr().err.startswith(f"exp1~1 is left out: {data} is damaged: it is too short")
    page = (tmp_path / "page/interface.html").read_text()
    assert "exp1/data-00000.bin is damaged: it is too short" in page
    assert str(tmp_path) not in page
    assert not list(verify(tmp_path / "page").problems())


def test_a_repaired_recording_can_be_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "runs/exp1/plugins/rl_clarity/training", (12, 30), first=0)
    explain(tmp_path / "runs/exp1/plugins/rl_clarity/training", embeddings=["pca"])
    data = tmp_path / "runs/exp1/plugins/rl_clarity/training/data-00000.bin"
    content = data.read_bytes()
    data.write_bytes(bytes([content[30] ^ 255, *content[1:30], content[30] ^ 255, *content[31:]]))
    assert published(tmp_path) == [1]
    assert "exp1~0 is left out: " in capsys.readouterr().err
    results = open_results(tmp_path / "page")
    points = results.chunk(results.section("state_map")["maps"][0]["chunk"])
    assert {*points["trajectory"].tolist()} == {0}
    assert points["frame"].max() == 28
    data.write_bytes(content)
    assert published(tmp_path) == [0, 1]
    results = open_results(tmp_path / "page")
    assert [len(results.series(i)["rewards"]) for i in range(2)] == [12, 30]
    points = results.chunk(results.section("state_map")["maps"][0]["chunk"])
    assert {*points["trajectory"].tolist()} == {0, 1}
    assert not list(verify(tmp_path / "page").problems())


def published(folder: Path) -> list[int]:
    """Publish `runs`; return the numbers of the episodes on the page."""
    rows = publish(folder / "runs", folder / "page").results().section("episodes")["episodes"]
    return [row["episode"] for row in rows]


def test_the_publish_command_writes_a_page(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", str(logdir / "exp2"), str(tmp_path / "page"), "--episodes", "1"]) == 0
    assert capsys.readouterr().out == f"The page is {tmp_path / 'page/interface.html'}\n"
    rows = open_results(tmp_path / "page").section("episodes")["episodes"]
    assert [row["episode"] for row in rows] == [1]

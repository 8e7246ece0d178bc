"""`rl_clarity.debug`: from an agent to findings, their page and their file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import rl_clarity
from rl_clarity.analyses.debugging import goals
from rl_clarity.base.errors import OptionError
from rl_clarity.cli import main
from rl_clarity.commands.debug import Debug
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.tasks import Piece
from rl_clarity.pages.results import Page
from tests.debugging.field import Field, Player, field_spec, read, scattered

SETUP = scattered("coin", "mine", "mine", "mine", "stone")
FEW: dict[str, Any] = {
    "trajectories": {"num_envs": 4, "num_steps": 80},
    "failures": {"count": 6, "window": 8, "horizon": 8, "points": 2},
    "goals": {"states": 48},
}
SURVIVAL: dict[str, Any] = {
    "verdict": "survives more often",
    "unedited": 0.25,
    "ablated": 0.5,
    "difference": 0.25,
    "interval": "0.10 to 0.40",
    "p": 0.01,
}


def found(agent: Player, output_dir: Path | None = None, **options: Any) -> Debug:
    return rl_clarity.debug(agent, output_dir, environment=field_spec(SETUP), **{**FEW, **options})


def keys(result: Debug) -> set[tuple[str, str]]:
    return {one.key for one in result.findings}


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> tuple[Debug, Path]:
    """An agent that does not see mines, and its page."""
    folder = tmp_path_factory.mktemp("debug") / "page"
    return found(Player(avoided=()), folder), folder


def test_findings_say_why_an_agent_fails(blind: tuple[Debug, Path]) -> None:
    result, _ = blind
    assert result.findings[0].key == ("failure_cause", "mine: no reaction")
    assert {("pursues", "coin"), ("no_reaction", "mine"), ("no_reaction", "stone"), ("value", "coin")} <= keys(result)
    (mine,) = [one for one in result.findings if one.key == ("no_reaction", "mine")]
    assert (
        "No reaction to mine, which ends episodes, on average over all that were placed (mean effect below 0.03"
        in mine.statement
    )
    assert {row["verdict"] for row in result.failures} == {"no reaction"}
    assert "failures: 6 of 6 failures" in str(result)


def test_the_debug_page_begins_with_the_findings(blind: tuple[Debug, Path]) -> None:
    result, folder = blind
    assert isinstance(result.page, Page)
    results = result.page.results()
    assert results.manifest["kind"] == "debug"
    slots = results.manifest["page"]["slots"]
    assert slots["main"][0] == "findings"
    assert "survival" not in slots["main"]  # the page has no such section
    assert "failures" in slots["main"]
    assert results.manifest["title"].startswith("Field, ")
    rows = results.section("findings")["rows"]
    assert [row["statement"] for row in rows] == [one.statement for one in result.findings]
    assert all({"trajectory", "frame"} <= row.keys() for row in rows)
    report = json.loads((folder / "findings" / "findings.json").read_text())
    assert [one["statement"] for one in report["findings"]] == [one.statement for one in result.findings]
    assert results.section("verdicts")["bars"][0]["label"] == "mine: no reaction"


def test_the_debug_page_shows_a_continuation_that_survives(blind: tuple[Debug, Path]) -> None:
    result, folder = blind
    assert isinstance(result.page, Page)
    results = result.page.results()
    clips = results.section("failure_clips")["images"]
    assert {(clip["trajectory"], clip["frame"]) for clip in clips} <= {
        (row["trajectory"], row["frame"]) for row in result.failures
    }
    with PIL.Image.open(folder / clips[0]["image"]) as clip:
        assert clip.size == (2 * 36 + 4, 36)
        assert getattr(clip, "n_frames", 1) > 2
        clip.seek(getattr(clip, "n_frames", 1) - 1)
        last = np.asarray(clip.convert("RGB"))
    places = [read(np.ascontiguousarray(half))["player"] for half in (last[:, :36], last[:, 40:])]
    assert places[0] != places[1]  # the one stands before the mine, the other has survived
    images = results.section("goal_images")["images"]
    assert {image["label"].partition(",")[0] for image in images} == {"coin", "mine", "stone"}
    (coin,) = [image["image"] for image in images if image["label"].startswith("coin")]
    with PIL.Image.open(folder / coin) as image:
        empty, placed = (read(np.ascontiguousarray(np.asarray(image)[:, part])) for part in (slice(36), slice(36, 72)))
    assert (len(empty["coin"]), len(placed["coin"])) == (0, 1)


def test_tracks_show_measurements_in_the_steps_before_a_failure(blind: tuple[Debug, Path]) -> None:
    result, _ = blind
    assert isinstance(result.page, Page)
    results = result.page.results()
    section = results.section("failure_tracks")
    assert [line["key"] for line in section["series"]] == ["effect", "avoidable", "survives", "without"]
    for row in result.failures:
        tracks = results.chunk(section["trajectories"][row["trajectory"]])
        last = row["frame"] + row["until"]
        known = np.flatnonzero(np.isfinite(tracks["effect"][: last + 1]))
        assert last - row["seen"] in known
        assert last in known
        assert (tracks["effect"][known] < 0.03).all(), "it does not see mines"
        assert tracks["avoidable"][row["frame"] : last + 1].tolist() == [1] + [0] * row["until"]
        assert tracks["avoidable"][known[0]] == 1, "an end is avoidable up to the last avoidable step"
        assert np.isfinite(tracks["survives"][row["frame"]])


def test_debug_is_reproducible_with_the_same_arguments(blind: tuple[Debug, Path]) -> None:
    result, folder = blind
    again = found(Player(avoided=()))
    assert again.findings == result.findings
    assert again.page is None
    written = (folder / "interface.html").read_bytes()
    assert found(Player(avoided=()), folder).findings == result.findings
    assert (folder / "interface.html").read_bytes() == written


@pytest.mark.slow
def test_debug_reports_missing_expected_findings_of_another_agent(blind: tuple[Debug, Path]) -> None:
    _, folder = blind
    expect = folder / "findings" / "findings.json"
    same = found(Player(avoided=()), expect=expect)
    assert same.as_expected
    assert "exactly the expected findings were found" in str(same)
    other = found(Player(), expect=expect)
    assert not other.as_expected
    assert ("no_reaction", "mine") in other.missing
    assert ("avoids", "mine") in other.new
    assert "expected, but not found: no_reaction: mine" in str(other)


def test_expect_refuses_files_without_findings(tmp_path: Path) -> None:
    for content in ("[]", "{", '{"findings": [{"kind": 1}]}'):
        (tmp_path / "expect.json").write_text(content)
        with pytest.raises(OptionError, match="is not a findings file"):
            found(Player(), expect=tmp_path / "expect.json")
    with pytest.raises(OptionError, match="is not a findings file"):
        found(Player(), expect=tmp_path / "none.json")


def test_debug_reports_tests_that_need_an_editable_environment() -> None:
    class Plain(Field):
        state_editor = None  # type: ignore[assignment]

    spec = EnvironmentSpec("gymnasium", "Plain", {"factory": lambda: Plain(SETUP)})
    result = rl_clarity.debug(Player(avoided=()), environment=spec, **FEW)
    assert {row["verdict"] for row in result.failures} == {"not tested"}
    reasons = {one.family: one.reason for one in result.untested}
    assert "state_editor" in reasons["goals"]
    assert result.findings[0].key == ("failure_cause", "mine: not tested")


def test_a_dry_run_of_debug_returns_a_forecast(tmp_path: Path) -> None:
    forecast = rl_clarity.debug(Player(), tmp_path / "page", environment=field_spec(SETUP), dry_run=True, **FEW)
    assert isinstance(forecast, Forecast)
    assert forecast.seconds > 0
    assert not (tmp_path / "page").exists()
    with pytest.raises(OptionError, match="dry_run needs output_dir"):
        found(Player(), dry_run=True)


@pytest.fixture
def pieces(measured_forecasts: None, monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """Receives the pieces that are measured for the forecast of goals."""
    pieces: list[Piece] = []

    def recorded(*arguments: Any) -> Piece:
        pieces.append(Piece(*arguments))
        return pieces[-1]

    monkeypatch.setattr(goals, "Piece", recorded)
    return pieces


def test_the_forecast_of_goals_counts_only_available_states(tmp_path: Path, pieces: list[Piece]) -> None:
    found(Player(), tmp_path / "page", dry_run=True, goals={"states": 10_000, "episodes": 0})
    (piece,) = pieces
    assert isinstance(piece.work, partial)
    assert piece.times * piece.work.args[1].states == 4 * 80
    assert piece.warm_up is piece.work, "other numbers of states would leave functions to be compiled"


def test_the_forecast_of_moved_goals_counts_the_expected_episodes(
    tmp_path: Path, pieces: list[Piece], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(Player(), tmp_path / "page", dry_run=True)
    _, search, follow = pieces
    assert search.times == len(follow.work.args[0]) == 1, "of 4 + 4 * 80 / 100 episodes, a part has one"  # type: ignore[attr-defined]
    pieces.clear()
    monkeypatch.setattr(goals, "move_object", lambda *arguments: None)
    found(Player(), tmp_path / "page", dry_run=True)
    assert len(pieces) == 1, "nothing is moved"


def test_the_debug_command_passes_its_options_and_reports_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[Any, ...]] = []

    def debug(checkpoint: str, output_dir: str, **options: Any) -> Debug:
        calls.append((options["expect"], options["page"], options["failures"].count, options["goals"].near))
        assert (checkpoint, output_dir) == ("a.jd", "out")
        missing = [("pursues", "coin")] if options["expect"] else []
        rows = [{**SURVIVAL, "feature": 1}, {**SURVIVAL, "feature": 2, "name": "coin"}] if options["page"] else []
        page = Page(Path("out/debug/interface.html"))
        return Debug([], [], [], page, missing, [], bool(missing), rows, options["page"])

    monkeypatch.setattr(rl_clarity, "debug", debug)
    assert main(["debug", "a.jd", "out", "--failures.count", "7", "--goals.near", "2"]) == 0
    assert "without feature" not in capsys.readouterr().out
    assert main(["debug", "a.jd", "out", "--page", "out/agent"]) == 0
    printed = capsys.readouterr().out
    line = "survives more often, 50% instead of 25% (+0.25, 0.10 to 0.40), p 0.01\n"
    assert f"\nwithout feature 1: {line}without feature 2 (coin): {line}" in printed
    assert "features, numbers and names are those of the page out/agent\n" in printed
    assert main(["debug", "a.jd", "out", "--expect", "findings.json", "--json"]) == 1
    assert calls == [(None, None, 7, 2), (None, "out/agent", 50, 1), ("findings.json", None, 50, 1)]
    assert '"missing": [["pursues", "coin"]]' in capsys.readouterr().out


def test_debug_of_a_checkpoint_refuses_an_environment_argument() -> None:
    with pytest.raises(OptionError, match="for a checkpoint, give env_name"):
        rl_clarity.debug("models:coinrun", environment=field_spec())

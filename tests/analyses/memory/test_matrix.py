"""The memory matrix of a page, and the windows that follow from it, of agents whose memory is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.pages.results import Results
from rl_clarity.recordings.recording import Recording
from tests import memory_systems as systems
from tests.memory_systems import record_frames

OPTIONS: dict[str, Any] = {
    "states": {"method": "pca", "count": 2, "clusters": 2, "lags": (1,), "maps": ("pca",), "replay_steps": 0},
    "interventions": {"episodes": 0},
}
STATES = {**OPTIONS["states"], "influence_samples": 0}


def page(agent: Agent, recording: Recording, folder: Path, **options: Any) -> Results:
    chosen: dict[str, Any] = {**OPTIONS, "states": STATES, **options}
    return rl_clarity.explain_memory(agent, folder / "page", recording=recording, **chosen).results()


@pytest.fixture(scope="module")
def register(tmp_path_factory: pytest.TempPathFactory) -> tuple[Agent, Recording]:
    agent, folder = systems.shift_register(), tmp_path_factory.mktemp("register")
    return agent, record_frames(agent, systems.noise_frames(12, 24), folder / "recording")


def test_the_memory_matrix_section_has_the_numbers_of_memory_matrix(
    register: tuple[Agent, Recording], tmp_path: Path
) -> None:
    results = page(*register, tmp_path, windows={"count": 0}, matrix={"episodes": 8, "exchanges": 30})
    section = results.section("memory_matrix")
    expected = rl_clarity.memory_matrix(*register, episodes=8, exchanges=30, partners=3)
    reach = expected.reach()
    assert (section["reach"]["steps"], section["reach"]["effect"]) == (5, pytest.approx(reach.effect.mean, rel=1e-4))
    assert section["reach"]["interval"] == pytest.approx([reach.effect.low, reach.effect.high], rel=1e-4)
    assert [one["trajectory"] for one in section["episodes"]] == expected.episodes.tolist()
    for e, one in enumerate(section["episodes"]):
        chunk = results.chunk(one["chunk"])
        assert chunk["exchanged"].tolist() == list(range(1, 24))
        np.testing.assert_array_equal(chunk["policy"], expected.policy[e, 1:])
        np.testing.assert_array_equal(chunk["value"], expected.value[e, 1:])
    strongest = section["strongest"]
    assert strongest["policy"] == pytest.approx(np.nanmax(expected.policy), rel=1e-4)
    assert strongest["frame"] - strongest["begins"] <= 5


def test_windows_of_decisions_begin_at_the_first_step_they_depend_on(
    register: tuple[Agent, Recording], tmp_path: Path
) -> None:
    results = page(*register, tmp_path, windows={"count": 20, "horizon": 2}, matrix={"exchanges": 30})
    windows = results.section("windows")["windows"]
    decisions = [one for one in windows if {"kind": "decision"} in one["why"]]
    assert windows[: len(decisions)] == decisions
    assert len(decisions) == 4
    for one in decisions:
        assert one["first"] == min(one["begins"], one["frame"] - 1)
    assert [one["frame"] - one["begins"] for one in decisions].count(5) > 2
    strongest = results.section("memory_matrix")["strongest"]
    assert (decisions[0]["trajectory"], decisions[0]["frame"]) == (strongest["trajectory"], strongest["frame"])
    maps = results.window(0).maps["memory"]
    strength = np.abs(maps[results.window(0).targets.index("action")]).sum(axis=(1, 2))
    assert strength[0] > 0.99 * strength.sum()  # the frame 5 steps before
    others = [one for one in windows if one not in decisions]
    assert any(one["begins"] < one["first"] for one in others if "begins" in one)  # these are marked as cut
    assert {"end"} <= {reason["kind"] for one in windows for reason in one["why"]}


def test_windows_are_cut_to_the_longest_allowed_length(register: tuple[Agent, Recording], tmp_path: Path) -> None:
    windows = {"count": 5, "horizon": 1, "longest": 3}
    chosen = page(*register, tmp_path, windows=windows, matrix={"exchanges": 30}).section("windows")["windows"]
    assert chosen[0]["frame"] - chosen[0]["first"] == 2
    assert chosen[0]["begins"] < chosen[0]["first"]


def test_no_decision_of_a_step_counter_depends_on_observations(tmp_path: Path) -> None:
    agent = systems.counter()
    recording = record_frames(agent, systems.noise_frames(10, 12), tmp_path / "recording")
    results = page(agent, recording, tmp_path, windows={"count": 6})
    section = results.section("memory_matrix")
    assert (section["strongest"], section["reach"]["steps"], section["reach"]["effect"]) == (None, 0, 0)
    assert section["reach"]["detectable"] == pytest.approx(1 - 0.05**0.1, rel=1e-4)
    windows = results.section("windows")["windows"]
    assert not any("begins" in one or {"kind": "decision"} in one["why"] for one in windows)


def test_lags_longer_than_every_episode_are_dropped_alone(register: tuple[Agent, Recording], tmp_path: Path) -> None:
    states = {**STATES, "lags": (1, 2, 400)}
    results = page(*register, tmp_path, windows={"count": 0}, matrix={"episodes": 0}, states=states)
    causes = results.section("states")["causes"]
    assert causes["lags"] == [1, 2]
    assert results.chunk(causes["chunk"])["correlation"].shape == (2, 2, 2)
    assert "memory_matrix" not in [one["kind"] for one in results.manifest["sections"]]


def test_a_memory_matrix_needs_at_least_two_episodes(tmp_path: Path) -> None:
    agent = systems.shift_register()
    recording = record_frames(agent, systems.noise_frames(1, 60), tmp_path / "recording")
    results = page(agent, recording, tmp_path, windows={"count": 4})
    section = results.section("memory_matrix")
    assert section["reach"] is None
    assert "at least 2 are needed" in section["skipped"]
    assert len(results.section("windows")["windows"]) == 4


@pytest.fixture(scope="module")
def cue_page(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The page, with the defaults, of an agent whose decision depends on the frame 21 steps before."""
    return rl_clarity.explain_memory(systems.cue_agent(20), tmp_path_factory.mktemp("cue") / "page").results()


@pytest.mark.slow
def test_default_options_find_a_cue_remembered_for_twenty_steps(cue_page: Results) -> None:
    results = cue_page
    section = results.section("memory_matrix")
    strongest, reach = section["strongest"], section["reach"]
    assert (strongest["frame"], strongest["begins"], reach["steps"]) == (21, 0, 21)
    assert reach["count"] == reach["episodes"] == 16
    assert reach["interval"][0] > 0.3
    window = results.window(0)
    assert (window.trajectory, window.frames) == (strongest["trajectory"], range(22))
    strength = np.abs(window.maps["memory"][window.targets.index("action")]).sum(axis=(1, 2))
    assert strength[:21].argmax() == 0
    assert strength[0] > 10 * strength[1:21].max()


@pytest.mark.slow
def test_memory_matrix_window_and_replaced_cue_agree_within_20_percent(cue_page: Results) -> None:
    """They agree within 20 %: the matrix and the replaced cue in nats; the estimate, the map, and the cue of the other
    episode and of several others in its place in units of the target.
    """
    section = cue_page.section("memory_matrix")
    rows = {one["trajectory"]: cue_page.chunk(one["chunk"])["policy"][0] for one in section["episodes"]}
    windows = [one for one in cue_page.section("windows")["windows"] if one.get("begins") == one["first"] == 0]
    switches = 0
    for window in windows:
        arrays, action = cue_page.chunk(window["chunk"]), window["targets"].index("action")
        cause = arrays["replaced.frames"][action].tolist().index(0)  # of the three largest causes
        changed = float(arrays["replaced.partner.policy"][action, cause])
        in_matrix = rows[window["trajectory"]][window["frame"]]  # exchanged after the first step
        assert changed == pytest.approx(in_matrix, rel=0.2)
        estimated, measured, partners = (
            float(arrays[name][action, i])
            for name, i in (("memory.sums", 0), ("replaced.change", cause), ("replaced.partner", cause))
        )
        if abs(partners) < 1:  # the action that was taken is to press no switch
            continue
        switches += 1
        assert measured == pytest.approx(partners, rel=0.2)
        assert estimated == pytest.approx(measured, rel=0.2)
        codes, scale = arrays["memory"][action, 0].astype(float), float(arrays["memory.scale"][action])
        assert codes.sum() / 127 * scale == pytest.approx(estimated, rel=0.2)
    assert switches >= 8

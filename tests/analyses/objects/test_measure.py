"""Measured effects of objects on trajectories with known answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses import Subject
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.measure import chunk_name, steps_before_ends
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.objects.section import ObjectsSection
from rl_clarity.base.errors import OptionError
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.tasks import Work
from rl_clarity.pages.files import PageFiles
from tests.analyses.objects.dots import Dot, dot_subject
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent

COIN: Dot = ("coin", 1, 1, 51)  # a fifth of the full brightness
SAW: Dot = ("saw", 3, 2, 102)
WALL: Dot = ("wall", 5, 5, 255)


def measure(subject: Subject, folder: Any) -> tuple[dict[str, np.ndarray], dict[str, Any], ObjectsSection]:
    """Run the task of the only trajectory, and return its chunk, its facts and the section."""
    subject = replace(subject, files=PageFiles(open_directory(str(folder))))
    analysis, options = ObjectsAnalysis(), subject.options_of(ObjectsOptions)
    (task,) = analysis.tasks(subject, options)
    facts = task.run(Work(64, lambda share: None, {})).facts
    (section,) = analysis.sections(subject, options, {task.name: facts})
    analysis.checked(section)
    return subject.files.read_chunk(chunk_name(0)), dict(facts), section


def test_effects_on_outputs_are_measured_for_each_object(tmp_path: Any) -> None:
    chunk, facts, section = measure(dot_subject([[[COIN, SAW, WALL]]], attribution={"policy": True}), tmp_path)
    assert facts["types"] == ["coin", "saw"]
    assert chunk["type"].tolist() == [0, 1]
    np.testing.assert_allclose(chunk["effect.value"], [0.2, 0.4], atol=1e-6)
    np.testing.assert_allclose(chunk["effect.action-2"], [0.4, 0.8], atol=1e-6)
    np.testing.assert_allclose(chunk["logits"], np.outer([0.2, 0.4], [0, 1, 2]), atol=1e-6)
    weights = np.exp(np.outer([1.6, 1.4, 1.2], [0, 1, 2]))  # of the policy with both, and without each
    policies = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chunk["policy"], np.abs(policies[1:] - policies[0]).sum(axis=1) / 2, atol=1e-6)
    np.testing.assert_array_equal(chunk["box"], [[4, 4, 8, 8], [12, 8, 16, 12]])
    np.testing.assert_array_equal(chunk["offset"], [[1, 1], [3, 2]])
    masks = np.unpackbits(chunk["mask"], axis=-1).astype(bool)
    for mask, (left, top, right, bottom) in zip(masks, chunk["box"].astype(int), strict=True):
        assert mask[top:bottom, left:right].all()
        assert mask.sum() == 16
    assert chunk["without"].tolist() == [[0]] * 32
    assert [one.name for one in section.types if one.moves] == ["saw"]
    assert section.value_range == 0
    assert section.exact


def test_objects_of_a_type_are_removed_at_once(tmp_path: Any) -> None:
    chunk, _, section = measure(dot_subject([[[COIN, ("coin", 2, 2, 102), SAW]]]), tmp_path)
    np.testing.assert_allclose(chunk["value"], [0.2, 0.4, 0.4], atol=1e-6)
    assert chunk["together.count"].tolist() == [2, 1]
    np.testing.assert_allclose(chunk["together.value"], [0.6, 0.4], atol=1e-6)
    (coins,) = (one for one in section.types if one.name == "coin")
    assert coins.value is not None
    assert coins.together_value is not None
    assert coins.value.mean == pytest.approx(0.3)
    assert coins.together_value.mean == pytest.approx(0.6)
    assert (coins.count, coins.tracks, coins.frames, coins.episodes) == (2, 2, 1, 1)


def test_covered_and_out_of_view_objects_are_not_measured(tmp_path: Any) -> None:
    hidden, away = ("coin", 3, 2, 51), ("coin", -3, 2, 51)
    chunk, facts, _ = measure(dot_subject([[[hidden, SAW, away]]]), tmp_path)
    assert facts["types"] == ["saw"]
    assert len(chunk["frame"]) == 1


def test_terrain_is_removed_only_if_its_type_is_requested(tmp_path: Any) -> None:
    chunk, facts, _ = measure(dot_subject([[[COIN, WALL]]], objects={"types": ("wall",)}), tmp_path)
    assert facts["types"] == ["wall"]
    np.testing.assert_allclose(chunk["value"], [1], atol=1e-6)


def test_object_tracks_follow_objects_and_restart_with_each_episode(tmp_path: Any) -> None:
    first: Any = [[("saw", x, 2, 102), COIN] if x % 2 else [COIN, ("saw", x, 2, 102)] for x in range(4)]
    second: Any = [[("saw", 3, 2, 102)]] * 2
    chunk, facts, _ = measure(dot_subject([first, second], objects={"every": 1}), tmp_path)
    tracks = {(int(frame), facts["types"][kind]): int(track) for frame, kind, track in zip(
        chunk["frame"], chunk["type"], chunk["track"], strict=True
    )}  # fmt: skip
    assert len({tracks[frame, "saw"] for frame in range(4)}) == 1
    assert len({tracks[frame, "coin"] for frame in range(4)}) == 1
    assert tracks[4, "saw"] == tracks[5, "saw"] not in {tracks[0, "saw"], tracks[0, "coin"]}
    assert {*tracks.values()} == {0, 1, 2}


def test_an_object_that_reappears_gets_a_new_track(tmp_path: Any) -> None:
    chunk, _, _ = measure(dot_subject([[[SAW], [], [SAW], [SAW]]], objects={"every": 1}), tmp_path)
    assert chunk["track"].tolist() == [0, 1, 1]


def test_measured_frames_are_every_nth_and_the_last_of_each_episode(tmp_path: Any) -> None:
    episodes: Any = [[[COIN]] * 12, [[COIN]] * 12]
    chunk, facts, section = measure(dot_subject(episodes, objects={"every": 5, "last_steps": 3}), tmp_path)
    assert chunk["frames"].tolist() == [0, 5, 9, 10, 11, 15, 20]
    assert (section.every, section.last_steps, section.frames, facts["skipped"]) == (5, 3, 7, 0)


@pytest.mark.parametrize("dones", [np.array([0, 0, 1, 0, 0, 1], bool), None])
def test_the_last_steps_before_each_episode_end_are_selected(dones: np.ndarray | None) -> None:
    firsts = np.array([0, 0, 0, 1, 0, 0], bool)
    assert steps_before_ends(firsts, dones, 2) == ([1, 2, 4, 5] if dones is not None else [1, 2])
    assert steps_before_ends(firsts, dones, 9) == ([0, 1, 2, 3, 4, 5] if dones is not None else [0, 1, 2])


def test_fewer_frames_are_measured_if_there_are_many_objects(tmp_path: Any) -> None:
    away = ("coin", -3, 2, 51)  # out of view, so that it does not count
    steps: Any = [[COIN, SAW, away]] * 20
    chunk, facts, section = measure(dot_subject([steps], objects={"every": 1, "most": 10}), tmp_path)
    assert chunk["frames"].tolist() == [0, 5, 10, 14, 19]
    assert len(chunk["frame"]) == 10
    assert facts["skipped"] == section.skipped == 15


def test_frames_whose_state_renders_differently_are_left_out(tmp_path: Any) -> None:
    episode: Any = [[COIN]] * 3
    subject = dot_subject([episode], observed=[[COIN], [SAW], [COIN]], objects={"every": 1})
    chunk, facts, section = measure(subject, tmp_path)
    assert chunk["frames"].tolist() == [0, 2]
    assert facts["undrawn"] == section.undrawn == 1


def test_a_recurrent_agent_keeps_its_state_before_the_step(tmp_path: Any) -> None:
    chunk, _, _ = measure(dot_subject([[[COIN, SAW]]], "recurrent", memory=0.5), tmp_path)
    np.testing.assert_allclose(chunk["logits"][:, 0], 10 * 0.5 * np.array([0.2, 0.4]), atol=1e-6)


def test_effects_are_measured_for_agents_with_logits_or_q_values_alone(tmp_path: Any) -> None:
    chunk, _, section = measure(dot_subject([[[COIN, SAW]]], "logits"), tmp_path / "logits")
    assert "value" not in chunk
    np.testing.assert_allclose(chunk["effect.greedy"], [0.4, 0.8], atol=1e-6)
    assert (section.unit, section.noise, section.types[0].value) == ("logit", None, None)
    chunk, _, section = measure(dot_subject([[[COIN, SAW]]], "q"), tmp_path / "q")
    np.testing.assert_allclose(chunk["value"], [0.4, 0.8], atol=1e-6)
    np.testing.assert_array_equal(chunk["policy"], [0, 0])  # the same action stays best
    assert section.unit == "action value"
    assert section.types[0].value is not None


def test_a_trajectory_without_objects_has_an_empty_chunk(tmp_path: Any) -> None:
    chunk, facts, section = measure(dot_subject([[[], []]], objects={"every": 1}), tmp_path)
    assert chunk["frames"].tolist() == [0, 1]
    assert chunk["mask"].shape == (0, 24, 3)
    assert facts["types"] == []
    assert not section.types


def test_object_effects_need_saved_states_and_can_be_switched_off() -> None:
    analysis = ObjectsAnalysis()
    subject = dot_subject([[[COIN]]])
    assert [*analysis.tasks(subject, ObjectsOptions())]
    assert not [*analysis.tasks(subject, ObjectsOptions(every=None))]
    assert not [*analysis.sections(subject, ObjectsOptions(every=None), {})]
    assert not [*analysis.tasks(make_subject(), ObjectsOptions())]
    assert not [*analysis.sections(make_subject(), ObjectsOptions(), {})]


def test_cache_keys_include_options_and_code_of_the_state_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**options: Any) -> str:
        subject = dot_subject([[[COIN]]], objects=options)
        (task,) = ObjectsAnalysis().tasks(subject, subject.options_of(ObjectsOptions))
        return task.key

    keys = {key(), key(every=2), key(last_steps=3), key(types=("coin",)), key(most=9)}
    assert len(keys) == 5
    monkeypatch.setattr("rl_clarity.analyses.objects.analysis.source_key", lambda spec: "changed")
    assert key() not in keys


def test_unknown_object_types_are_refused() -> None:
    pytest.importorskip("procgen")
    with pytest.raises(
        OptionError, match=r"objects.types=\['dragon'\] do not occur in the environment, which has .*saw"
    ):
        ObjectsAnalysis().check(TinyAgent(), ObjectsOptions(types=("saw", "dragon")), dot_subject([[[COIN]]]).options)
    ObjectsAnalysis().check(TinyAgent(), ObjectsOptions(types=("saw",)), dot_subject([[[COIN]]]).options)

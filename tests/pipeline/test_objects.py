"""Effects of objects on the small run's page, and when they are measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses import Subject
from rl_clarity.analyses.objects.measure import measure_trajectory
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.environments.kinds import make_world
from rl_clarity.jobs.forecast import CountingDirectory
from rl_clarity.jobs.tasks import TaskResult, Work
from rl_clarity.pages.options import ORIGINAL
from rl_clarity.recordings.storage import load_trajectories
from tests.pipeline.small import STEPS, SmallRun, read_files, record_environments, record_tasks


def test_object_effects_on_the_page_equal_recomputed_ones(small_run: SmallRun) -> None:
    """Remove objects again by the world alone, and compare single passes."""
    results, spec = small_run.results, EnvironmentSpec(name="coinrun")
    section = results.section("objects")
    samples = load_trajectories(small_run.checkpoint.parent / "rl-clarity" / "agent.trajectories", spec)
    states = samples.world_states
    assert states is not None
    world = make_world(spec)
    checked = 0
    for trajectory in range(len(section["trajectories"])):
        chunk = results.objects(trajectory)
        assert {*range(0, STEPS, 4)} <= {*chunk["frames"].tolist()}
        for row in range(0, len(chunk["frame"]), 3):
            frame, name = int(chunk["frame"][row]), chunk["type"][row]
            (state,) = states.read(trajectory, [frame])
            offset = chunk["offset"][row]
            items = [
                item
                for item in world.objects(state)
                if item.type == name and np.abs(np.subtract(item.offset, offset)).max() < 1e-4
            ]
            before = np.asarray(samples.observations[trajectory, [frame]])
            after = world.draw([world.without(state, items[:1])])
            with_object, without = small_run.agent.forward(before), small_run.agent.forward(after)
            assert with_object.values is not None
            assert without.values is not None
            assert with_object.policy_logits is not None
            assert without.policy_logits is not None
            logits = (with_object.policy_logits - without.policy_logits)[0]
            assert chunk["effect.value"][row] == pytest.approx((with_object.values - without.values)[0], abs=1e-4)
            np.testing.assert_allclose(chunk["logits"][row], logits, atol=1e-3)
            np.testing.assert_allclose(chunk["effect.action-3"][row], logits[3], atol=1e-3)
            group = results.agent["action_groups"][0]["actions"]
            np.testing.assert_allclose(chunk["effect.group-0"][row], logits[group].sum(), atol=1e-2)
            np.testing.assert_array_equal(chunk["mask"][row], (before != after).any(axis=(0, 3)))
            checked += 1
    world.close()
    assert checked > 5
    assert section["undrawn"] == section["skipped"] == 0
    assert not {*chunk["together.type"]} - {one["name"] for one in section["types"]}
    assert {one["name"] for one in section["types"]} <= {"coin", "crate", "saw", "enemy", "lava"}


def test_switching_off_object_effects_changes_no_other_files(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = {"baseline": "blur"}  # which effects would choose otherwise
    directory = run_short("page", objects={"every": None}, attribution=fixed)
    without = read_files(directory)
    assert not any(name.startswith("objects/") for name in without)
    with record_tasks(monkeypatch) as done:
        run_short("page", overwrite=True, attribution=fixed)
    assert {name.partition("/")[0] for name in done} == {"objects", "agreement", "findings"}
    files = read_files(directory)
    same = {name for name in without if name.startswith(("attribution", "trajectories", "features", "ablation"))}
    assert same
    assert all(files[name] == without[name] for name in same)


@pytest.mark.usefixtures("one_task_at_a_time")
def test_a_resumed_run_measures_only_missing_object_effects(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_files(run_short("uninterrupted"))

    def stop(subject: Subject, trajectory: int, work: Work) -> TaskResult:
        if trajectory == 1 and not isinstance(subject.files.directory, CountingDirectory):
            raise KeyboardInterrupt
        return measure_trajectory(subject, trajectory, work)

    with monkeypatch.context() as patch:
        patch.setattr("rl_clarity.analyses.objects.analysis.measure_trajectory", stop)
        with pytest.raises(KeyboardInterrupt):
            run_short("killed")
    with record_tasks(monkeypatch) as done:
        directory = run_short("killed")
    assert [name for name in done if name.startswith("objects/")] == ["objects/2"]
    assert read_files(directory) == expected


@pytest.mark.slow
def test_samples_are_collected_again_only_if_saved_states_are_missing(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(directory: str, **options: Any) -> Any:
        return rl_clarity.run(
            small_run.checkpoint,
            tmp_path / directory,
            trajectories={"num_envs": 2, "num_steps": 16},
            observations={"num_envs": 8, "num_obs": 4, "obs_every": 3},
            layers={"name_contains_one_of": ["Relu_2"]},
            load={"trajectories_path": tmp_path / "t", "observations_path": tmp_path / "o",
                  "model_path": tmp_path / "m", "metadata_path": tmp_path / "d", **options.pop("load", {})},
            **options,
        ).results()  # fmt: skip

    made = record_environments(monkeypatch)
    run("off", objects={"every": None})
    assert len(made) == 2
    first = load_trajectories(tmp_path / "t", EnvironmentSpec(name="coinrun"))
    assert first.world_states is None
    run("on")
    assert len(made) == 3  # trajectories only
    second = load_trajectories(tmp_path / "t", EnvironmentSpec(name="coinrun"))
    assert second.world_states is not None
    np.testing.assert_array_equal(first.observations, second.observations)
    run("off-again", objects={"every": None}, title="Another")
    assert len(made) == 3
    saved = run("saved", load={"resample": False})
    assert len(made) == 3
    assert saved.section("objects")["frames"] > 0


def test_settings_of_the_original_measure_no_object_effects() -> None:
    assert ORIGINAL["objects"]["every"] is None

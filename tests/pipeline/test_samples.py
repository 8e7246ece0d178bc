"""Where samples are saved, and when they are collected again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.errors import CheckpointError, ClarityError, SamplesError
from rl_clarity.pages.results import Results, open_results
from rl_clarity.recordings import source
from rl_clarity.recordings.samples import Trajectories, from_arrays, to_arrays
from rl_clarity.recordings.storage import load_trajectories, save_metadata
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun, counted_plays, files_of
from tests.sample_files import save_samples

Run = Callable[..., Results]


@pytest.fixture
def copied(small_run: SmallRun, tmp_path: Path) -> Path:
    """A copy of the small run's checkpoint in its own folder."""
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    return Path(shutil.copyfile(small_run.checkpoint, path))


@pytest.fixture
def run(copied: Path, tmp_path: Path) -> Run:
    """Run it on one layer."""

    def ran(directory: str = "page", **load_kwargs: Any) -> Results:
        page = rl_clarity.run(
            copied,
            tmp_path / directory,
            load_kwargs=load_kwargs,
            trajectories_kwargs={"num_envs": 2, "num_steps": 20},
            observations_kwargs=OBSERVATIONS,
            layer_kwargs=LAST_LAYER,
        )
        return open_results(page.path)

    return ran


# --- paths --------------------------------------------------------------------------------------------------------


def test_samples_are_beside_the_checkpoint(run: Run, copied: Path) -> None:
    run()
    kept = sorted(path.name for path in (copied.parent / "rl-clarity").iterdir())
    assert kept == ["agent.metadata.json", "agent.model.jd", "agent.observations", "agent.trajectories"]
    assert (copied.parent / "rl-clarity" / "agent.model.jd").read_bytes() == copied.read_bytes()
    metadata = json.loads((copied.parent / "rl-clarity" / "agent.metadata.json").read_text())
    assert metadata["environment"]["name"] == "coinrun"
    assert len(metadata["action_combos"]) == 15


def test_custom_paths(run: Run, copied: Path, tmp_path: Path) -> None:
    places = {
        name: str(tmp_path / "kept" / name)
        for name in ("model_path", "metadata_path", "trajectories_path", "observations_path")
    }
    first = run(**places)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == sorted(places)
    assert not (copied.parent / "rl-clarity").exists()
    again = run("again", resample=False, **places)
    assert again.manifest == first.manifest


def test_temporary_paths(run: Run, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    calls = counted_plays(monkeypatch)
    run(temp_files=True)
    assert len(calls) == 2
    run(temp_files=True)  # nothing to do
    copied.write_bytes(b"broken")
    with pytest.raises(ClarityError):
        run("other", temp_files=True)
    assert not any((tmp_path / "temporary").iterdir())
    assert not (copied.parent / "rl-clarity").exists()


def test_checkpoint_in_a_read_only_folder(
    run: Run, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != copied.parent and access(path, mode))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    first = run()
    assert [path.name for path in copied.parent.iterdir()] == ["agent.jd"]
    (kept,) = (tmp_path / "cache" / "rl-clarity" / "samples").iterdir()
    assert load_trajectories(kept / "agent.trajectories").actions.shape == (2, 20)
    assert run("again", resample=False).manifest == first.manifest


def test_full_resolution(copied: Path, small_run: SmallRun, tmp_path: Path) -> None:
    page = rl_clarity.run(
        copied,
        tmp_path / "page",
        load_kwargs={"full_resolution": True},
        trajectories_kwargs={"num_envs": 2, "num_steps": 9},
        observations_kwargs={**OBSERVATIONS, "num_obs": 2},
        layer_kwargs=LAST_LAYER,
        nmf_features=2,
        vis_thumbnail_num_mult=2,
    )
    results = page.results()
    observation = results.agent["observation"]
    assert (observation["height"], observation["frame_height"], observation["frame_width"]) == (64, 512, 512)
    frames = results.frames(0, range(3))
    assert frames.shape == (3, 512, 512, 3)
    # The rendered frame, averaged down, is close to the observation.
    small = small_run.trajectories.observations[0, :3].astype(float)
    averaged = frames.reshape(3, 64, 8, 64, 8, 3).mean(axis=(2, 4))
    assert np.abs(averaged - small).mean() < 25
    atlas = results.section("features")["observations"]
    assert (atlas["height"], atlas["columns"]) == (512, 4)
    assert results.image(results.layer(results.layers[0])["features"]["thumbnails"][0]).shape == (2 * 512, 2 * 512, 4)


# --- reuse --------------------------------------------------------------------------------------------------------


def test_samples_are_reused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    calls = counted_plays(monkeypatch)
    run("again", resample=False)
    assert calls == []
    assert files_of(tmp_path / "again") == files_of(tmp_path / "page")
    rl_clarity.run(
        tmp_path / "checkpoints" / "agent.jd",
        tmp_path / "shorter",
        trajectories_kwargs={"num_envs": 3, "num_steps": 5},
        load_kwargs={"resample": False},
        layer_kwargs=LAST_LAYER,
    )
    assert len(open_results(tmp_path / "shorter").section("trajectories")["trajectories"]) == 2  # the saved ones
    assert calls == []


def test_missing_samples(run: Run) -> None:
    with pytest.raises(SamplesError, match=r"no saved samples in .*; collect new samples with resample=True"):
        run(resample=False)


def test_saved_samples_keep_their_agent(run: Run, copied: Path, tmp_path: Path, monkeypatch: Any) -> None:
    first = run()
    copied.write_bytes(b"another agent")
    assert run("again", resample=False).manifest == first.manifest


def test_samples_of_another_agent(run: Run, copied: Path, small_run: SmallRun) -> None:
    run()
    wrong = replace(small_run.observations, observations=np.zeros((4, 32, 32, 3), np.uint8))
    save_samples(copied.parent / "rl-clarity" / "agent.observations", wrong)
    with pytest.raises(SamplesError, match=r"agent\.observations: .* shape \(4, 32, 32, 3\); .*\(64, 64, 3\); collect"):
        run("other", resample=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": np.full((2, 5), 99)}, "actions ranges from 99 to 99, but the agent has 15 actions"),
        ({"rewards": np.full((2, 5), np.nan, np.float32)}, r"rewards\[0, 0\] is nan; it must be finite"),
        ({"firsts": np.full((2, 5), 5)}, r"firsts\[0, 0\] is 5; it must be 0 or 1"),
        ({"values": np.full((2, 5), np.inf, np.float32)}, r"values\[0, 0\] is inf"),
    ],
)
def test_saved_samples_are_checked(
    changes: dict[str, Any], message: str, run: Run, copied: Path, small_run: SmallRun, tmp_path: Path
) -> None:
    folder = copied.parent / "rl-clarity"
    arrays = {name: array[:2, :5] for name, array in to_arrays(small_run.trajectories).items()}
    save_samples(folder / "agent.trajectories", from_arrays(Trajectories, {**arrays, **changes}))
    save_samples(folder / "agent.observations", small_run.observations)
    save_metadata(folder / "agent.metadata.json", {})
    with pytest.raises(SamplesError, match=f"(?s)agent.trajectories: .*{message}.*; collect new samples"):
        run(resample=False)
    assert not (tmp_path / "page").exists()


def test_other_samples_make_another_page(run: Run, copied: Path, small_run: SmallRun) -> None:
    folder = copied.parent / "rl-clarity" / "agent.observations"
    ids = set()
    for index in (0, 1):
        if index == 0:
            run()
        save_samples(folder, replace(small_run.observations, observations=small_run.observations.observations[index:]))
        ids.add(run(f"page-{index}", resample=False).manifest["id"])
    assert len(ids) == 2


def test_samples_replaced_by_another_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = source._collect_observations

    def collect_others(own: source.Source, spec: Any) -> None:
        collect(replace(own, observations_key="another key"), spec)

    monkeypatch.setattr(source, "_collect_observations", collect_others)
    with pytest.raises(SamplesError, match="another run has replaced the samples"):
        run()
    assert not (tmp_path / "page").exists()


def test_the_checkpoint_changes_during_the_run(run: Run, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training may replace it at any time: the agent is the one that was read, and the saved copy is of that one."""
    content = copied.read_bytes()
    collect = source._collect_observations

    def collect_and_replace(*arguments: Any) -> None:
        collect(*arguments)
        copied.write_bytes(b"another agent")

    monkeypatch.setattr(source, "_collect_observations", collect_and_replace)
    first = run()
    assert copied.read_bytes() == b"another agent"
    assert (copied.parent / "rl-clarity" / "agent.model.jd").read_bytes() == content
    assert run("again", resample=False).manifest == first.manifest


def test_the_checkpoint_changes_while_it_is_read(run: Run, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, contents = source._copy, []

    def copy_then_replace(path: Path, content: Any) -> str | None:
        """The first copies are of other contents than those that are then read as a checkpoint."""
        original = path.read_bytes()
        if contents:
            path.write_bytes(contents.pop())
        sha256 = copy(path, content)
        path.write_bytes(original)
        return sha256

    monkeypatch.setattr(source, "_copy", copy_then_replace)
    contents += [b"another agent"] * 100
    with pytest.raises(CheckpointError, match="changed while it was being read; run again"):
        run()
    contents[:] = [b"another agent"] * 2
    run()
    assert not contents
    assert (copied.parent / "rl-clarity" / "agent.model.jd").read_bytes() == copied.read_bytes()


def test_metadata_that_a_checkpoint_lacks(run: Run, tmp_path: Path) -> None:
    first = run()
    with pytest.raises(ClarityError, match="already holds a page"):
        run(metadata={"gamma": 0.1})
    other = run("other", metadata={"gamma": 0.1})
    assert (other.series(0)["advantages"] != first.series(0)["advantages"]).any()

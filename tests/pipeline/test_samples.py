"""Where samples are saved, and when they are collected again."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError, SamplesError
from rl_clarity.pages.results import Results, open_results
from rl_clarity.recordings.rollouts import collect_observations
from rl_clarity.recordings.samples import Observations, Trajectories, from_arrays, to_arrays
from rl_clarity.recordings.storage import load_observations, load_trajectories, save_metadata
from rl_clarity.sources import checkpoint as source
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun, read_files, record_environments
from tests.sample_files import save_samples

Run = Callable[..., Results]


@pytest.fixture
def checkpoint_copy(small_run: SmallRun, tmp_path: Path) -> Path:
    """A copy of the small run's checkpoint in its own folder."""
    path = tmp_path / "checkpoints" / "agent.jd"
    path.parent.mkdir()
    return Path(shutil.copyfile(small_run.checkpoint, path))


@pytest.fixture
def run(checkpoint_copy: Path, tmp_path: Path) -> Run:
    """Make a page of the checkpoint's last layer."""

    def generate(
        directory: str = "page", env_name: str | None = None, agent: Any = None, **load_kwargs: Any
    ) -> Results:
        page = rl_clarity.run(
            agent or checkpoint_copy,
            tmp_path / directory,
            env_name=env_name,
            load_kwargs=load_kwargs,
            trajectories_kwargs={"num_envs": 2, "num_steps": 20},
            observations_kwargs=OBSERVATIONS,
            layer_kwargs=LAST_LAYER,
        )
        return open_results(page.path)

    return generate


# --- collecting ---------------------------------------------------------------------------------------------------


def record_threads(monkeypatch: pytest.MonkeyPatch, calls: int) -> list[int]:
    """Let agents be called by so many threads; returns the list of threads that collect samples."""
    used: list[int] = []
    for name in ("collect_trajectories", "collect_observations"):
        collect = getattr(source, name)

        def recorded(*arguments: Any, collect: Any = collect, **options: Any) -> Any:
            used.append(threading.get_ident())
            return collect(*arguments, **options)

        monkeypatch.setattr(source, name, recorded)
    monkeypatch.setattr(source, "parallel_calls", lambda agent: calls)
    return used


def test_samples_collected_in_parallel_threads_are_the_same(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, samples = checkpoint_copy.parent / "rl-clarity", []
    for calls in (1, 2):
        with monkeypatch.context() as patch:
            used = record_threads(patch, calls)
            run(f"page-{calls}")
        assert len(set(used)) == calls
        assert calls > 1 or used[0] == threading.get_ident()
        parts = load_trajectories(folder / "agent.trajectories"), load_observations(folder / "agent.observations")
        samples.append([{name: array.tobytes() for name, array in to_arrays(part).items()} for part in parts])
        shutil.rmtree(folder)
    assert samples[0] == samples[1]


def test_an_error_ends_both_collections_and_leaves_no_samples(
    run: Run, checkpoint_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    ended = []

    def fail(*arguments: Any, **options: Any) -> Any:
        begun.wait(60)
        raise SamplesError("the environment failed")

    def endless(*arguments: Any, progress: Callable[[int, int], None], **options: Any) -> Any:
        begun.set()
        try:
            while True:
                progress(1, 2)
        finally:
            ended.append(True)

    record_threads(monkeypatch, 2)
    monkeypatch.setattr("rl_clarity.pages.builder.PageBuilder._forecast", lambda *arguments: None)
    monkeypatch.setattr(source, "collect_trajectories", fail)
    monkeypatch.setattr(source, "collect_observations", endless)
    with pytest.raises(SamplesError, match="the environment failed"):
        run()
    assert ended
    left = read_files(checkpoint_copy.parent / "rl-clarity")
    assert {name.rpartition("/")[2] for name in left} == {".lock"}


@pytest.mark.slow
@pytest.mark.parametrize("left", [None, {"environment": {"name": "another"}}], ids=["none", "of earlier samples"])
def test_a_run_killed_before_writing_metadata_reuses_saved_samples(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch, left: dict[str, Any] | None
) -> None:
    run()
    path = checkpoint_copy.parent / "rl-clarity" / "agent.metadata.json"
    expected = path.read_bytes()
    path.unlink()
    if left is not None:
        save_metadata(path, left)
    environments = record_environments(monkeypatch)
    run("resumed")
    assert path.read_bytes() == expected
    assert not environments, "the saved samples are not collected again"


# --- paths --------------------------------------------------------------------------------------------------------


def test_samples_are_saved_beside_the_checkpoint(run: Run, checkpoint_copy: Path) -> None:
    run()
    names = sorted(path.name for path in (checkpoint_copy.parent / "rl-clarity").iterdir())
    assert names == ["agent.metadata.json", "agent.model.jd", "agent.observations", "agent.trajectories"]
    assert (checkpoint_copy.parent / "rl-clarity" / "agent.model.jd").read_bytes() == checkpoint_copy.read_bytes()
    metadata = json.loads((checkpoint_copy.parent / "rl-clarity" / "agent.metadata.json").read_text())
    assert metadata["environment"]["name"] == "coinrun"
    assert len(metadata["action_combos"]) == 15


def test_extra_observations_are_collected_in_bfloat16_where_supported(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: dict[bool, list[Any]] = {}
    trajectories = {}
    for supported in (False, True):
        monkeypatch.setattr("rl_clarity.recordings.options.computes_in_bfloat16", lambda supported=supported: supported)
        monkeypatch.setattr("rl_clarity.recordings.options.gpu_count", lambda: 0)
        agents = played[supported] = []

        def collect(agent: Any, *arguments: Any, agents: list[Any] = agents, **options: Any) -> Any:
            agents.append(agent)
            return collect_observations(agent, *arguments, **options)

        monkeypatch.setattr(source, "collect_observations", collect)
        provenance = {group["group"]: dict(group["items"]) for group in run(str(supported)).manifest["provenance"]}
        assert json.loads(provenance["Sampling"]["observations"])["bfloat16"] is supported
        trajectories[supported] = read_files(checkpoint_copy.parent / "rl-clarity" / "agent.trajectories")
    dtypes = {key: {layer.compute_dtype for layer in agents[0].network.model.layers} for key, agents in played.items()}
    assert dtypes == {False: {"float32"}, True: {"bfloat16"}}
    assert trajectories[True] == trajectories[False]


def test_extra_observations_of_an_edited_agent_keep_its_edits(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl_clarity.recordings.options.computes_in_bfloat16", lambda: True)
    monkeypatch.setattr("rl_clarity.recordings.options.gpu_count", lambda: 0)
    players: list[Any] = []

    def collect(agent: Any, *arguments: Any, **options: Any) -> Any:
        players.append(agent)
        return collect_observations(agent, *arguments, **options)

    monkeypatch.setattr(source, "collect_observations", collect)
    edited: Any = rl_clarity.edit(rl_clarity.load_agent(checkpoint_copy), rl_clarity.Ablate("Relu_2", unit=3))
    run(agent=edited)
    (player,) = players
    assert {layer.compute_dtype for layer in player.network.model.layers} == {"bfloat16"}
    assert player.edits == edited.edits


def test_env_name_overrides_the_environment_of_the_checkpoint(run: Run, checkpoint_copy: Path, tmp_path: Path) -> None:
    manifest = run(env_name="fruitbot").manifest
    assert manifest["title"] == "fruitbot, nature"
    metadata = json.loads((checkpoint_copy.parent / "rl-clarity" / "agent.metadata.json").read_text())
    assert metadata["environment"]["name"] == "fruitbot"
    # The samples of Fruitbot are never titled CoinRun, whatever the checkpoint or the caller says.
    assert run("saved", resample=False).manifest["recordings"][0]["env_name"] == "fruitbot"
    for call in ({"env_name": "coinrun"}, {"metadata": {"env_name": "coinrun"}}):
        with pytest.raises(SamplesError, match=r"env_name='coinrun', but the samples in .* are from fruitbot"):
            run("other", resample=False, **call)
    assert not (tmp_path / "other").exists()


def test_contradictory_environment_names_are_refused(run: Run) -> None:
    with pytest.raises(OptionError, match="env_name='fruitbot' and env_id='procgen-coinrun-v0' in metadata contradict"):
        run(env_name="fruitbot", metadata={"env_id": "procgen-coinrun-v0"})


def test_samples_are_saved_at_custom_paths(run: Run, checkpoint_copy: Path, tmp_path: Path) -> None:
    paths = {
        name: str(tmp_path / "saved" / name)
        for name in ("model_path", "metadata_path", "trajectories_path", "observations_path")
    }
    first = run(**paths)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == sorted(paths)
    assert not (checkpoint_copy.parent / "rl-clarity").exists()
    second = run("second", resample=False, **paths)
    assert second.manifest == first.manifest


def test_temp_files_stores_samples_only_temporarily(
    run: Run, checkpoint_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    calls = record_environments(monkeypatch)
    run(temp_files=True)
    assert len(calls) == 2
    run(temp_files=True)  # nothing to do
    checkpoint_copy.write_bytes(b"broken")
    with pytest.raises(ClarityError):
        run("other", temp_files=True)
    assert not any((tmp_path / "temporary").iterdir())
    assert not (checkpoint_copy.parent / "rl-clarity").exists()


def test_samples_of_a_read_only_checkpoint_folder_are_saved_in_the_cache(
    run: Run, checkpoint_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != checkpoint_copy.parent and access(path, mode))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    first = run()
    assert [path.name for path in checkpoint_copy.parent.iterdir()] == ["agent.jd"]
    (folder,) = (tmp_path / "cache" / "rl-clarity" / "samples").iterdir()
    assert load_trajectories(folder / "agent.trajectories").actions.shape == (2, 20)
    assert run("second", resample=False).manifest == first.manifest


def test_full_resolution_frames_are_collected_and_shown(
    checkpoint_copy: Path, small_run: SmallRun, tmp_path: Path
) -> None:
    page = rl_clarity.run(
        checkpoint_copy,
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
    # The rendered frame, averaged over blocks of pixels, is close to the observation.
    small = small_run.trajectories.observations[0, :3].astype(float)
    averaged = frames.reshape(3, 64, 8, 64, 8, 3).mean(axis=(2, 4))
    assert np.abs(averaged - small).mean() < 25
    atlas = results.section("features")["observations"]
    assert (atlas["height"], atlas["columns"]) == (512, 4)
    assert results.image(results.layer(results.layers[0])["features"]["thumbnails"][0]).shape == (2 * 512, 2 * 512, 4)


# --- reuse --------------------------------------------------------------------------------------------------------


def test_saved_samples_are_reused_without_resampling(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    calls = record_environments(monkeypatch)
    run("second", resample=False)
    assert calls == []
    assert read_files(tmp_path / "second") == read_files(tmp_path / "page")
    rl_clarity.run(
        tmp_path / "checkpoints" / "agent.jd",
        tmp_path / "shorter",
        trajectories_kwargs={"num_envs": 3, "num_steps": 5},
        load_kwargs={"resample": False},
        layer_kwargs=LAST_LAYER,
    )
    assert len(open_results(tmp_path / "shorter").section("trajectories")["trajectories"]) == 2  # the saved ones
    assert calls == []


def test_missing_samples_are_an_error_without_resampling(run: Run) -> None:
    with pytest.raises(SamplesError, match=r"no saved samples in .*; collect new samples with resample=True"):
        run(resample=False)


def test_saved_samples_are_explained_with_the_agent_saved_beside_them(run: Run, checkpoint_copy: Path) -> None:
    first = run()
    checkpoint_copy.write_bytes(b"another agent")
    assert run("second", resample=False).manifest == first.manifest


def test_saved_samples_of_another_observation_shape_are_refused(
    run: Run, checkpoint_copy: Path, small_run: SmallRun
) -> None:
    run()
    wrong = replace(small_run.observations, observations=np.zeros((4, 32, 32, 3), np.uint8))
    save_samples(checkpoint_copy.parent / "rl-clarity" / "agent.observations", wrong)
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
def test_invalid_saved_samples_are_refused(
    changes: dict[str, Any], message: str, run: Run, checkpoint_copy: Path, small_run: SmallRun, tmp_path: Path
) -> None:
    folder = checkpoint_copy.parent / "rl-clarity"
    arrays = {name: array[:2, :5] for name, array in to_arrays(small_run.trajectories).items()}
    save_samples(folder / "agent.trajectories", from_arrays(Trajectories, {**arrays, **changes}))
    save_samples(folder / "agent.observations", small_run.observations)
    save_metadata(folder / "agent.metadata.json", {})
    with pytest.raises(SamplesError, match=f"(?s)agent.trajectories: .*{message}.*; collect new samples"):
        run(resample=False)
    assert not (tmp_path / "page").exists()


def test_different_samples_give_a_different_page_id(run: Run, checkpoint_copy: Path, small_run: SmallRun) -> None:
    folder = checkpoint_copy.parent / "rl-clarity" / "agent.observations"
    ids = set()
    for index in (0, 1):
        if index == 0:
            run()
        arrays = {name: array[index:] for name, array in to_arrays(small_run.observations).items()}
        save_samples(folder, from_arrays(Observations, arrays))
        ids.add(run(f"page-{index}", resample=False).manifest["id"])
    assert len(ids) == 2


def test_samples_replaced_by_another_run_are_an_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = source._collect_observations

    def collect_others(this: source.CheckpointSource, *arguments: Any) -> None:
        collect(replace(this, observations_key="another key"), *arguments)

    monkeypatch.setattr(source, "_collect_observations", collect_others)
    with pytest.raises(SamplesError, match="another run has replaced the samples"):
        run()
    assert not (tmp_path / "page").exists()


def test_a_run_uses_the_checkpoint_as_first_read(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training may replace it at any time: the run uses and saves the agent that it has read."""
    content = checkpoint_copy.read_bytes()
    collect = source._collect_observations

    def collect_and_replace(*arguments: Any) -> None:
        collect(*arguments)
        checkpoint_copy.write_bytes(b"another agent")

    monkeypatch.setattr(source, "_collect_observations", collect_and_replace)
    first = run()
    assert checkpoint_copy.read_bytes() == b"another agent"
    assert (checkpoint_copy.parent / "rl-clarity" / "agent.model.jd").read_bytes() == content
    assert run("second", resample=False).manifest == first.manifest


def test_a_checkpoint_that_changes_while_it_is_read_is_read_again(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = source._copy
    contents: list[bytes] = []

    def copy_then_replace(path: Path, content: Any) -> str | None:
        """The first copies differ from the contents that are then read as a checkpoint."""
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
    assert (checkpoint_copy.parent / "rl-clarity" / "agent.model.jd").read_bytes() == checkpoint_copy.read_bytes()


def test_a_checkpoint_that_vanishes_while_it_is_read_is_reported_as_missing(
    run: Run, checkpoint_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access

    def access_then_remove(path: Path, mode: int) -> bool:
        allowed = access(path, mode)
        if path == checkpoint_copy:
            path.unlink()
        return allowed

    monkeypatch.setattr("os.access", access_then_remove)
    message = rf"cannot read the checkpoint {re.escape(str(checkpoint_copy))}: No such file or directory"
    with pytest.raises(CheckpointError, match=message):
        run()


def test_metadata_of_the_checkpoint_can_be_overridden(run: Run, tmp_path: Path) -> None:
    first = run()
    with pytest.raises(ClarityError, match="already holds a page"):
        run(metadata={"gamma": 0.1})
    other = run("other", metadata={"gamma": 0.1})
    assert (other.series(0)["advantages"] != first.series(0)["advantages"]).any()

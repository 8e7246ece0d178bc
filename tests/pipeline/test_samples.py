"""Where samples are kept, when they are made anew, and pages of samples that are given as arrays."""

from __future__ import annotations

import copy
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
from rl_clarity.errors import ClarityError, OptionError, SamplesError
from rl_clarity.interface.results import Results, open_results
from rl_clarity.sampling.storage import load_trajectories
from rl_clarity.stages.given import as_trajectories
from tests.fakes import TinyAgent
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun, files_of
from tests.saved import save_samples

Run = Callable[..., Results]


@pytest.fixture
def copied(small_run: SmallRun, tmp_path: Path) -> Path:
    """A copy of the small run's checkpoint, in a folder of its own."""
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


def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows when an agent plays."""
    from rl_clarity.stages import samples

    calls: list[int] = []
    make = samples.make
    monkeypatch.setattr(samples, "make", lambda *a, **k: calls.append(1) or make(*a, **k))
    return calls


# --- where they are kept -------------------------------------------------------------------------------------------


def test_samples_lie_beside_the_checkpoint(run: Run, copied: Path) -> None:
    run()
    kept = sorted(path.name for path in (copied.parent / "rl-clarity").iterdir())
    assert kept == ["agent.metadata.json", "agent.model.jd", "agent.observations", "agent.trajectories"]
    assert (copied.parent / "rl-clarity" / "agent.model.jd").read_bytes() == copied.read_bytes()
    metadata = json.loads((copied.parent / "rl-clarity" / "agent.metadata.json").read_text())
    assert metadata["environment"]["name"] == "coinrun"
    assert len(metadata["action_combos"]) == 15


def test_samples_in_places_of_the_users_own(run: Run, copied: Path, tmp_path: Path) -> None:
    places = {
        name: str(tmp_path / "kept" / name)
        for name in ("model_path", "metadata_path", "trajectories_path", "observations_path")
    }
    first = run(**places)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == sorted(places)
    assert not (copied.parent / "rl-clarity").exists()
    again = run("again", resample=False, **places)
    assert again.manifest == first.manifest


def test_samples_in_a_temporary_place(run: Run, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    calls = played(monkeypatch)
    run(temp_files=True)
    assert len(calls) == 2
    run(temp_files=True)  # there is nothing to do
    copied.write_bytes(b"broken")
    with pytest.raises(ClarityError):
        run("other", temp_files=True)
    assert not any((tmp_path / "temporary").iterdir())
    assert not (copied.parent / "rl-clarity").exists()


def test_samples_of_a_checkpoint_in_a_place_that_cannot_be_written(
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
    observation = results.manifest["observation"]
    assert (observation["height"], observation["frame_height"], observation["frame_width"]) == (64, 512, 512)
    frames = results.frames(0, range(3))
    assert frames.shape == (3, 512, 512, 3)
    # The same moment as the agent saw it: averaged, the large picture is near the small one.
    small = small_run.trajectories.observations[0, :3].astype(float)
    averaged = frames.reshape(3, 64, 8, 64, 8, 3).mean(axis=(2, 4))
    assert np.abs(averaged - small).mean() < 25
    atlas = results.manifest["observations"]
    assert (atlas["height"], atlas["columns"]) == (512, 4)
    assert results.picture(results.manifest["layers"][0]["thumbnails"][0]).shape == (2 * 512, 2 * 512, 4)


# --- made anew, or not ---------------------------------------------------------------------------------------------


def test_samples_are_used_again(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    calls = played(monkeypatch)
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
    assert len(open_results(tmp_path / "shorter").manifest["trajectories"]) == 2  # those that were kept
    assert calls == []


def test_samples_that_are_missing(run: Run) -> None:
    with pytest.raises(SamplesError, match=r"there are no saved samples in .*; sample anew with resample=True"):
        run(resample=False)


def test_the_agent_is_the_one_that_played(run: Run, copied: Path, tmp_path: Path, monkeypatch: Any) -> None:
    first = run()
    copied.write_bytes(b"another agent")
    assert run("again", resample=False).manifest == first.manifest


def test_samples_of_another_agent_are_refused(run: Run, copied: Path, small_run: SmallRun) -> None:
    run()
    wrong = replace(small_run.observations, observations=np.zeros((4, 32, 32, 3), np.uint8))
    save_samples(copied.parent / "rl-clarity" / "agent.observations", wrong)
    with pytest.raises(SamplesError, match=r"shape \(32, 32, 3\), the agent sees \(64, 64, 3\)"):
        run("other", resample=False)


def test_other_samples_in_the_same_place_make_another_page(run: Run, copied: Path, small_run: SmallRun) -> None:
    folder = copied.parent / "rl-clarity" / "agent.observations"
    ids = set()
    for index in (0, 1):
        if index == 0:
            run()
        save_samples(folder, replace(small_run.observations, observations=small_run.observations.observations[index:]))
        ids.add(run(f"page-{index}", resample=False).manifest["id"])
    assert len(ids) == 2


def test_samples_that_another_run_replaced_meanwhile(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rl_clarity.stages import samples

    sample = samples._sample_observations
    monkeypatch.setattr(samples, "_sample_observations", lambda *given: sample(*given[:-1], "the other's key"))
    with pytest.raises(SamplesError, match="another run has replaced the samples"):
        run()
    assert not (tmp_path / "page").exists()


# --- given as arrays -----------------------------------------------------------------------------------------------


def given_arrays(steps: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    dones = np.zeros((2, steps), bool)
    dones[0, [3, 7]] = True
    return {
        "observations": rng.integers(0, 256, (2, steps, 64, 64, 3), np.uint8),
        "actions": rng.integers(0, 15, (2, steps)),
        "rewards": rng.normal(size=(2, steps)),
        "dones": dones,
    }


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Results]:
    """A page of a small agent in NumPy that satisfies the protocol and is no network of ours."""
    varied = np.random.default_rng(1).integers(0, 256, (9, 64, 64, 3), np.uint8)

    def made(directory: str = "page", agent: TinyAgent | None = None, **given: Any) -> Results:
        options = {key: given.pop(key) for key in ("observations_full", "attr_policy", "overwrite") if key in given}
        observations = given.pop("varied", varied)
        arrays = {**given_arrays(), **given}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        page = rl_clarity.generate(agent or TinyAgent(), arrays, observations, tmp_path / directory, **options)
        return page.results()

    return made


def test_arrays_with_dones(tiny: Callable[..., Results]) -> None:
    series = tiny().series(0)
    assert np.flatnonzero(series["firsts"]).tolist() == [0, 4, 8]
    arrays, agent = given_arrays(), TinyAgent()
    outputs = agent.forward(arrays["observations"][0])
    np.testing.assert_allclose(series["values"], outputs.values, rtol=1e-5)
    advantages = rl_clarity.generalized_advantage_estimation(
        arrays["rewards"][:1], outputs.values[None], arrays["dones"][:1], gamma=0.999, lam=0.95
    )
    np.testing.assert_allclose(series["advantages"], advantages[0], rtol=1e-4, atol=1e-5)


def test_arrays_with_firsts_are_the_same(tiny: Callable[..., Results]) -> None:
    dones = given_arrays()["dones"]
    firsts = np.concatenate([np.ones((2, 1), bool), dones[:, :-1]], axis=1)
    with_dones, with_firsts = tiny("a"), tiny("b", dones=None, firsts=firsts)
    assert with_dones.manifest == with_firsts.manifest


def test_an_episode_that_time_cut_is_bootstrapped(tiny: Callable[..., Results]) -> None:
    truncated = np.zeros((2, 12), bool)
    truncated[0, 5] = True
    final_values = np.where(truncated, 9, 0)
    series = tiny(truncated=truncated, final_values=final_values).series(0)
    assert np.flatnonzero(series["firsts"]).tolist() == [0, 4, 6, 8]
    given, plain = given_arrays(), tiny("plain").series(0)
    reached = given["rewards"][0, 5] + 0.999 * 9 - series["values"][5]
    np.testing.assert_allclose(series["advantages"][5], reached, rtol=1e-4)
    np.testing.assert_allclose(series["advantages"][6:], plain["advantages"][6:], rtol=1e-5)


def test_values_of_states_in_which_nothing_was_cut(tiny: Callable[..., Results]) -> None:
    with pytest.raises(SamplesError, match="no truncated that says"):
        tiny(final_values=np.ones((2, 12)))
    with pytest.raises(SamplesError, match=r"truncated has the shape \(2, 3\)"):
        tiny(truncated=np.zeros((2, 3), bool), dones=None, firsts=given_arrays()["dones"])


def test_any_agent_that_satisfies_the_protocol(tiny: Callable[..., Results]) -> None:
    results = tiny(attr_policy=True)
    assert results.layers == ["1a", "2a"]
    whole = rl_clarity.integrated_gradients(
        TinyAgent(), given_arrays()["observations"][1], "2a", 3, 5, "graded-midpoint"
    )
    gap = results.totals("2a", 1)["action-3"].gap
    np.testing.assert_allclose(gap[:, 0], whole.sum(axis=(1, 2, 3)), rtol=1e-3, atol=1e-5)


def test_arrays_given_to_run(small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = played(monkeypatch)
    arrays, varied = given_arrays(), small_run.observations.observations
    options = {"layer_kwargs": LAST_LAYER, "nmf_features": 2}
    page = rl_clarity.run(small_run.checkpoint, tmp_path / "a", trajectories=arrays, observations=varied, **options)
    assert calls == []
    same = rl_clarity.generate(small_run.agent, arrays, varied, tmp_path / "b", **options)
    found, plain = page.results().manifest, same.results().manifest
    assert found["layers"] == plain["layers"]
    group = next(group for group in found["provenance"] if group["group"] == "Checkpoint")
    assert ["file", small_run.checkpoint.name] in group["items"]
    assert not any(group["group"] == "Checkpoint" for group in plain["provenance"])
    with pytest.raises(OptionError, match="arrays are given, but no observations: give both"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "c", trajectories=arrays)
    with pytest.raises(OptionError, match="no trajectories and no observations"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "c", observations_full=varied)
    given = {"trajectories": arrays, "observations": varied, "trajectories_kwargs": {"num_envs": 2}}
    with pytest.raises(OptionError, match="trajectories_kwargs say how the agent plays; it does not"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "c", **given)


def test_what_a_checkpoint_does_not_say(run: Run, tmp_path: Path) -> None:
    first = run()
    with pytest.raises(ClarityError, match="already holds a page"):
        run(metadata={"gamma": 0.1})
    other = run("other", metadata={"gamma": 0.1})
    assert (other.series(0)["advantages"] != first.series(0)["advantages"]).any()


def test_recurrent_agents_are_played_through(tiny: Callable[..., Results]) -> None:
    agent = TinyAgent("recurrent")
    results = tiny(agent=agent)
    assert results.manifest["agent"]["recurrent"]
    arrays = given_arrays()
    state, values = agent.initial_state(2), []
    firsts = np.concatenate([np.ones((2, 1), bool), arrays["dones"][:, :-1]], axis=1)
    for t in range(12):
        outputs, state = agent.step(arrays["observations"][:, t], state, firsts[:, t])
        values.append(outputs.values[0])
    np.testing.assert_allclose(results.series(0)["values"], values, rtol=1e-4)
    np.testing.assert_allclose(results.totals("1a", 0)["value"].gap[:, 2], values, rtol=1e-3, atol=1e-5)


def test_agents_with_action_values(tiny: Callable[..., Results]) -> None:
    agent = TinyAgent("q")
    results = tiny(agent=agent)
    assert results.outputs == ["greedy"]
    q_values = agent.forward(given_arrays()["observations"][0]).q_values
    np.testing.assert_allclose(results.totals("2a", 0)["greedy"].gap[:, 2], q_values.max(axis=1), rtol=1e-3, atol=1e-5)


def test_human_scale_frames_are_shown(tiny: Callable[..., Results]) -> None:
    rng = np.random.default_rng(2)
    shown = rng.integers(0, 256, (2, 12, 96, 80, 3), np.uint8)
    atlas = rng.integers(0, 256, (9, 96, 80, 3), np.uint8)
    results = tiny(trajectories_full=None, **{"observations_full": atlas})
    assert results.manifest["observations"]["height"] == 96
    assert results.manifest["observation"]["frame_height"] == 64
    arrays = {**given_arrays(), "observations_full": shown}
    page = rl_clarity.generate(
        TinyAgent(), arrays, np.zeros((9, 64, 64, 3), np.uint8), Path(results._directory.location), overwrite=True
    )
    np.testing.assert_array_equal(page.results().frames(1), shown[1])
    assert page.results().manifest["observation"]["frame_width"] == 80


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reward": np.zeros((2, 12))}, "trajectories.reward.*did you mean 'rewards'"),
        ({"actions": None}, "trajectories lack actions"),
        ({"dones": None}, r"trajectories lack firsts \(or dones\)"),
        ({"observations": np.zeros((2, 12, 32, 32, 3), np.uint8)}, r"\(2, 12, 32, 32, 3\).*\(64, 64, 3\)"),
        ({"observations": np.zeros((2, 12, 64, 64, 3), np.float32)}, "float32.*uint8"),
        ({"observations": np.zeros((2, 0, 64, 64, 3), np.uint8)}, "empty"),
        ({"rewards": np.zeros((2, 11))}, r"rewards has the shape \(2, 11\)"),
        ({"actions": np.full((2, 12), 15)}, "actions reach from 15 to 15; the agent has 15"),
        ({"actions": np.full((2, 12), 0.5)}, "actions have the type float64"),
        ({"varied": np.zeros((9, 64, 64, 4), np.uint8)}, r"observations have the shape \(9, 64, 64, 4\)"),
        ({"varied": np.zeros((0, 64, 64, 3), np.uint8)}, "empty"),
        ({"rewards": np.where(np.eye(2, 12), np.nan, 0)}, r"rewards\[0, 0\] is nan; they must be finite"),
        ({"observations_full": np.zeros((8, 96, 96, 3), np.uint8)}, r"observations_full has the shape \(8, "),
        ({"observations_full": np.zeros((9, 96, 96, 3))}, "observations_full has the type float64"),
    ],
)
def test_arrays_that_do_not_fit_write_nothing(
    given: dict[str, Any], message: str, tiny: Callable[..., Results], tmp_path: Path
) -> None:
    with pytest.raises((SamplesError, OptionError), match=message):
        tiny(**given)
    assert not (tmp_path / "page").exists()


def test_samples_as_they_are_collected(explain: Explain, small_run: SmallRun) -> None:
    results = explain(trajectories=small_run.trajectories, observations=small_run.observations)
    assert results.manifest["trajectories"][0]["steps"] == 72
    np.testing.assert_allclose(results.series(1)["values"], small_run.trajectories.values[1])


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_play_of_another_agent_is_explained_by_this_one(kind: str, tmp_path: Path) -> None:
    """Two checkpoints on the same play: what is shown and the page itself are the second one's."""
    first, second = TinyAgent(kind), TinyAgent(kind, seed=1)
    played = as_trajectories(first, given_arrays())
    varied = given_arrays()["observations"][1]
    pages = [rl_clarity.generate(agent, played, varied, tmp_path / "page", overwrite=True) for agent in (first, second)]
    anew = rl_clarity.generate(second, given_arrays(), varied, tmp_path / "anew").results()
    assert pages[1].results().manifest == anew.manifest
    np.testing.assert_array_equal(pages[1].results().series(0)["values"], anew.series(0)["values"])
    assert as_trajectories(first, played) is played


def test_an_agent_from_elsewhere_makes_another_page(explain: Explain, small_run: SmallRun, tmp_path: Path) -> None:
    agent = copy.copy(small_run.agent)
    agent.metadata = {**agent.metadata, "gamma": 0.5}
    samples = {name: getattr(small_run.trajectories, name)[:, :8] for name in ("observations", "actions", "rewards")}
    samples["firsts"] = small_run.trajectories.firsts[:, :8]
    first = explain(trajectories=samples)
    page = rl_clarity.generate(
        agent, samples, small_run.observations.observations[:16], tmp_path / "b", layer_kwargs=LAST_LAYER
    )
    assert page.results().manifest["id"] != first.manifest["id"]
    assert (page.results().series(0)["advantages"] != first.series(0)["advantages"]).any()

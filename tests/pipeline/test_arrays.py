"""Pages of samples that are passed as arrays, and of agents that are not checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.pages.results import Results
from rl_clarity.recordings.arrays import as_trajectories
from tests.fakes import TinyAgent
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER, SmallRun, completeness, record_environments


def make_arrays(steps: int = 12) -> dict[str, np.ndarray]:
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
    """Make a page of a small NumPy agent that follows the protocol."""
    default = np.random.default_rng(1).integers(0, 256, (9, 64, 64, 3), np.uint8)

    def make_page(directory: str = "page", agent: TinyAgent | None = None, **changes: Any) -> Results:
        options = {key: changes.pop(key) for key in ("observations_full", "attr_policy", "overwrite") if key in changes}
        observations = changes.pop("varied", default)
        arrays = {name: array for name, array in {**make_arrays(), **changes}.items() if array is not None}
        page = rl_clarity.generate(agent or TinyAgent(), arrays, observations, tmp_path / directory, **options)
        return page.results()

    return make_page


def test_trajectories_can_be_passed_as_arrays_with_dones(tiny: Callable[..., Results]) -> None:
    series = tiny().series(0)
    assert np.flatnonzero(series["firsts"]).tolist() == [0, 4, 8]
    arrays = make_arrays()
    values = TinyAgent().forward(arrays["observations"][0]).values
    assert values is not None
    np.testing.assert_allclose(series["values"], values, rtol=1e-5)
    advantages = rl_clarity.generalized_advantage_estimation(
        arrays["rewards"][:1], values[None], arrays["dones"][:1], gamma=0.999, lam=0.95
    )
    np.testing.assert_allclose(series["advantages"], advantages[0], rtol=1e-4, atol=1e-5)


def test_arrays_with_firsts_give_the_same_page_as_with_dones(tiny: Callable[..., Results]) -> None:
    dones = make_arrays()["dones"]
    firsts = np.concatenate([np.ones((2, 1), bool), dones[:, :-1]], axis=1)
    with_dones, with_firsts = tiny("a"), tiny("b", dones=None, firsts=firsts)
    assert with_dones.manifest | {"id": ""} == with_firsts.manifest | {"id": ""}


def test_truncated_episodes_are_bootstrapped_from_their_final_values(tiny: Callable[..., Results]) -> None:
    truncated = np.zeros((2, 12), bool)
    truncated[0, 5] = True
    final_values = np.where(truncated, 9, 0)
    series = tiny(truncated=truncated, final_values=final_values).series(0)
    assert np.flatnonzero(series["firsts"]).tolist() == [0, 4, 6, 8]
    plain = tiny("plain").series(0)
    expected = make_arrays()["rewards"][0, 5] + 0.999 * 9 - series["values"][5]
    np.testing.assert_allclose(series["advantages"][5], expected, rtol=1e-4)
    np.testing.assert_allclose(series["advantages"][6:], plain["advantages"][6:], rtol=1e-5)


def test_invalid_truncation_arrays_are_refused(tiny: Callable[..., Results]) -> None:
    with pytest.raises(SamplesError, match="final_values need truncated"):
        tiny(final_values=np.ones((2, 12)))
    with pytest.raises(SamplesError, match=r"truncated has shape \(2, 3\)"):
        tiny(truncated=np.zeros((2, 3), bool), dones=None, firsts=make_arrays()["dones"])


def test_generate_explains_a_custom_agent(tiny: Callable[..., Results]) -> None:
    results = tiny(attr_policy=True)
    assert results.layers == ["1a", "2a"]
    attribution = rl_clarity.integrated_gradients(
        TinyAgent(),
        make_arrays()["observations"][1],
        "2a",
        3,
        5,
        "graded-midpoint",
        error_limit=results.error_limit("action-3"),
    )
    gap = completeness(results, "2a", 1, "action-3")
    np.testing.assert_allclose(gap[:, 0], attribution.sum(axis=(1, 2, 3)), rtol=1e-3, atol=1e-5)


def test_run_accepts_trajectories_and_observations_as_arrays(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_environments(monkeypatch)
    arrays, varied = make_arrays(), small_run.observations.observations
    options: dict[str, Any] = {"layer_kwargs": LAST_LAYER, "nmf_features": 2}
    page = rl_clarity.run(small_run.checkpoint, tmp_path / "a", trajectories=arrays, observations=varied, **options)
    assert calls == []
    same = rl_clarity.generate(small_run.agent, arrays, varied, tmp_path / "b", **options)
    manifest, plain = page.results().manifest, same.results().manifest
    assert manifest["sections"] == plain["sections"]
    group = next(group for group in manifest["provenance"] if group["group"] == "Checkpoint")
    assert ["file", small_run.checkpoint.name] in group["items"]
    assert not any(group["group"] == "Checkpoint" for group in plain["provenance"])
    with pytest.raises(OptionError, match="samples are passed without observations: pass both"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "c", trajectories=arrays)
    with pytest.raises(OptionError, match="without trajectories and observations"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "c", observations_full=varied)
    combined: dict[str, Any] = {"trajectories_kwargs": {"num_envs": 2}}
    with pytest.raises(OptionError, match="trajectories_kwargs cannot be combined with trajectories"):
        rl_clarity.run(small_run.checkpoint, tmp_path / "c", trajectories=arrays, observations=varied, **combined)


def test_metadata_override_those_of_a_loaded_agent(small_run: SmallRun, tmp_path: Path) -> None:
    options: dict[str, Any] = {"layer_kwargs": LAST_LAYER, "nmf_features": 2, "ablation_every": None}
    samples: dict[str, Any] = {"trajectories": make_arrays(), "observations": small_run.observations.observations}
    overridden: dict[str, Any] = {"load_kwargs": {"metadata": {"gamma": 0.5}}}
    agent: Any = rl_clarity.load_agent(small_run.checkpoint)
    pages = [
        rl_clarity.run(checkpoint, tmp_path / name, **samples, **overridden, **options)
        for name, checkpoint in (("path", small_run.checkpoint), ("agent", agent))
    ]
    by_path, by_agent = (page.results() for page in pages)
    group = next(group for group in by_agent.manifest["provenance"] if group["group"] == "Agent")
    assert ["gamma", "0.5"] in group["items"]
    np.testing.assert_array_equal(by_agent.series(0)["advantages"], by_path.series(0)["advantages"])


def test_states_and_outputs_of_recurrent_agents_are_computed(tiny: Callable[..., Results]) -> None:
    agent = TinyAgent("recurrent")
    results = tiny(agent=agent)
    assert results.agent["recurrent"]
    arrays = make_arrays()
    state, values = agent.initial_state(2), []
    firsts = np.concatenate([np.ones((2, 1), bool), arrays["dones"][:, :-1]], axis=1)
    for t in range(12):
        outputs, state = agent.step(arrays["observations"][:, t], state, firsts[:, t])
        assert outputs.values is not None
        values.append(outputs.values[0])
    np.testing.assert_allclose(results.series(0)["values"], values, rtol=1e-4)
    np.testing.assert_allclose(completeness(results, "1a", 0, "value")[:, 2], values, rtol=1e-3, atol=1e-5)


def test_generate_explains_agents_with_action_values(tiny: Callable[..., Results]) -> None:
    agent = TinyAgent("q")
    results = tiny(agent=agent)
    assert results.outputs == ["greedy"]
    q_values = agent.forward(make_arrays()["observations"][0]).q_values
    assert q_values is not None
    np.testing.assert_allclose(
        completeness(results, "2a", 0, "greedy")[:, 2], q_values.max(axis=1), rtol=1e-3, atol=1e-5
    )


def test_the_page_shows_rendered_frames_passed_as_arrays(tiny: Callable[..., Results]) -> None:
    rng = np.random.default_rng(2)
    shown = rng.integers(0, 256, (2, 12, 96, 80, 3), np.uint8)
    atlas = rng.integers(0, 256, (9, 96, 80, 3), np.uint8)
    results = tiny(observations_full=atlas)
    assert results.section("features")["observations"]["height"] == 96
    assert results.agent["observation"]["frame_height"] == 64
    arrays = {**make_arrays(), "observations_full": shown}
    page = rl_clarity.generate(
        TinyAgent(), arrays, np.zeros((9, 64, 64, 3), np.uint8), Path(results._directory.location), overwrite=True
    )
    np.testing.assert_array_equal(page.results().frames(1), shown[1])
    assert page.results().agent["observation"]["frame_width"] == 80


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros((2, 12))}, "trajectories.reward.*did you mean 'rewards'"),
        ({"actions": None}, "trajectories lack actions"),
        ({"dones": None}, r"trajectories lack firsts \(or dones\)"),
        ({"observations": np.zeros((2, 12, 32, 32, 3), np.uint8)}, r"\(2, 12, 32, 32, 3\).*\(64, 64, 3\)"),
        ({"observations": np.zeros((2, 12, 64, 64, 3), np.float32)}, "float32.*uint8"),
        ({"observations": np.zeros((2, 0, 64, 64, 3), np.uint8)}, "empty"),
        ({"rewards": np.zeros((2, 11))}, r"rewards has shape \(2, 11\); expected \(2, 12\)"),
        ({"rewards": np.full((2, 12), 1 + 2j)}, "rewards has type complex128; it must hold real numbers"),
        ({"rewards": np.full((2, 12), "1")}, "rewards has type <U1"),
        ({"firsts": np.zeros((2, 12), bool)}, r"firsts\[0, 4\] is False, which contradicts dones\[0, 3\]"),
        ({"firsts": np.ones((2, 12), bool)}, r"firsts\[0, 1\] is True, which contradicts dones\[0, 0\]"),
        ({"firsts": np.full((2, 12), np.nan), "dones": None}, r"firsts\[0, 0\] is nan; it must be 0 or 1"),
        ({"firsts": np.full((2, 12), 5), "dones": None}, r"firsts\[0, 0\] is 5; it must be 0 or 1"),
        ({"firsts": np.eye(2, 12), "truncated": np.eye(2, 12), "dones": None}, r"contradicts truncated\[0, 0\]"),
        ({"actions": np.full((2, 12), 15)}, "actions ranges from 15 to 15, but the agent has 15 actions"),
        ({"actions": np.full((2, 12), 0.5)}, "actions has type float64"),
        ({"varied": np.zeros((9, 64, 64, 4), np.uint8)}, r"observations has shape \(9, 64, 64, 4\)"),
        ({"varied": np.zeros((0, 64, 64, 3), np.uint8)}, "empty"),
        ({"rewards": np.where(np.eye(2, 12), np.nan, 0)}, r"rewards\[0, 0\] is nan; it must be finite"),
        ({"observations_full": np.zeros((8, 96, 96, 3), np.uint8)}, r"observations_full has shape \(8, "),
        ({"observations_full": np.zeros((9, 96, 96, 3))}, "observations_full has type float64"),
    ],
)
def test_invalid_arrays_write_nothing(
    changes: dict[str, Any], message: str, tiny: Callable[..., Results], tmp_path: Path
) -> None:
    with pytest.raises((SamplesError, OptionError), match=message):
        tiny(**changes)
    assert not (tmp_path / "page").exists()


def test_generate_explains_samples_returned_by_collect(explain: Explain, small_run: SmallRun) -> None:
    results = explain(trajectories=small_run.trajectories, observations=small_run.observations)
    assert results.section("trajectories")["trajectories"][0]["steps"] == 72
    assert small_run.trajectories.values is not None
    np.testing.assert_allclose(results.series(1)["values"], small_run.trajectories.values[1])


@pytest.mark.parametrize("kind", ["policy", "recurrent"])
def test_recorded_outputs_of_another_agent_are_recomputed(kind: str, tmp_path: Path) -> None:
    """Two agents on the same trajectories: the second page shows the second agent."""
    first, second = TinyAgent(kind), TinyAgent(kind, seed=1)
    recorded = as_trajectories(first, make_arrays())
    varied = make_arrays()["observations"][1]
    pages = [
        rl_clarity.generate(agent, recorded, varied, tmp_path / "page", overwrite=True) for agent in (first, second)
    ]
    fresh = rl_clarity.generate(second, make_arrays(), varied, tmp_path / "fresh").results()
    assert pages[1].results().manifest == fresh.manifest
    np.testing.assert_array_equal(pages[1].results().series(0)["values"], fresh.series(0)["values"])
    assert as_trajectories(first, recorded) is recorded


def test_different_metadata_give_a_different_page_id(explain: Explain, small_run: SmallRun, tmp_path: Path) -> None:
    agent: Any = copy.copy(small_run.agent)
    agent.metadata = {**agent.metadata, "gamma": 0.5}
    samples = {name: getattr(small_run.trajectories, name)[:, :8] for name in ("observations", "actions", "rewards")}
    samples["firsts"] = small_run.trajectories.firsts[:, :8]
    first = explain(trajectories=samples)
    page = rl_clarity.generate(
        agent, samples, small_run.observations.observations[:16], tmp_path / "b", layer_kwargs=LAST_LAYER
    )
    assert page.results().manifest["id"] != first.manifest["id"]
    assert (page.results().series(0)["advantages"] != first.series(0)["advantages"]).any()

"""`explain_memory`: what is on the page of an agent without gradients, which is quick; resumed, shared, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.memory import states as memory_states
from rl_clarity.base.errors import ClarityError, EnvironmentSetupError, OptionError
from rl_clarity.pages.builder import RECORDINGS
from rl_clarity.pages.results import Results
from rl_clarity.states.parts import removal_effects
from tests.pipeline.small import record_tasks, unrecorded_files
from tests.ranks import run_ranks
from tests.tiny_series import register, write_checkpoint

register()

STATES: dict[str, Any] = {
    **{"method": "pca", "count": 3, "clusters": 3, "lags": (1, 2), "maps": ("pca",)},
    **{"replay_steps": 4, "replay_samples": 8},
}
OPTIONS = {**STATES, "episodes": 3, "intervention_episodes": 0}
ARGUMENTS = [
    word
    for name, value in OPTIONS.items()
    for word in (f"--{name.replace('_', '-')}", *(map(str, value) if isinstance(value, tuple) else [str(value)]))
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("agent") / "agent.pt", 1, kind="recurrent")


@pytest.fixture(scope="module")
def page(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of three episodes; tests do not change it."""
    directory = tmp_path_factory.mktemp("page") / "page"
    rl_clarity.explain_memory(checkpoint, directory, **OPTIONS)
    return directory


@pytest.fixture(scope="module")
def results(page: Path) -> Results:
    return rl_clarity.open_results(page)


@pytest.fixture(scope="module")
def analysis(page: Path, checkpoint: Path) -> rl_clarity.StateAnalysis:
    return rl_clarity.analyze_states(rl_clarity.load_agent(checkpoint), page / RECORDINGS / "play", **STATES)


def test_a_page_of_an_agent_without_gradients_omits_influence(results: Results) -> None:
    manifest = results.manifest
    assert (manifest["kind"], manifest["title"]) == ("memory", "tiny, tiny: memory")
    assert [section["kind"] for section in manifest["sections"]] == [
        "trajectories",
        "memory_matrix",
        "states",
        "state_map",
    ]
    states = results.section("states")
    assert list(states["skipped"]) == ["influence"]
    assert [one["name"] for one in states["directions"]] == ["PCA 1", "PCA 2", "PCA 3"]
    assert states["memory"]["changes"] == ["reset", "frozen", "swapped", *(f"removed PCA {i}" for i in (1, 2, 3))]


def test_saliency_on_a_memory_page_uses_its_own_options(checkpoint: Path, tmp_path: Path) -> None:
    saliency = {"methods": ("perturbation",), "every": 32}
    page = rl_clarity.explain_memory(checkpoint, tmp_path / "page", **OPTIONS, analyses={"saliency": saliency})
    results = page.results()
    assert results.section("saliency")["every"] == 32
    steps = results.trajectory(0)["steps"]
    assert results.saliency(0).steps.tolist() == list(range(0, steps, 32))


def test_each_trajectory_of_a_memory_page_is_one_episode(results: Results) -> None:
    entries = results.section("trajectories")["trajectories"]
    assert sorted(entry["steps"] for entry in entries) == [43, 90, 90]
    assert [len(entry["episodes"]) for entry in entries] == [1, 1, 1]


def test_the_states_section_has_the_numbers_of_analyze_states(
    results: Results, analysis: rl_clarity.StateAnalysis
) -> None:
    states = results.section("states")
    chunks = [results.chunk(name) for name in states["coordinates"]]
    coordinates = np.concatenate([chunk["coordinates"] for chunk in chunks])
    later = analysis.arrays["time"] > 0  # means are those without initial states
    expected = analysis.arrays["coordinates"] - analysis.arrays["coordinates"][later].mean(axis=0)
    np.testing.assert_allclose(coordinates, expected, atol=1e-5)
    np.testing.assert_array_equal(np.concatenate([c["cluster"] for c in chunks]), analysis.arrays["cluster.kmeans"])
    behavior = np.concatenate([chunk["behaviour"] for chunk in chunks])
    np.testing.assert_array_equal(behavior[analysis.arrays["behaviour.rows"]], analysis.arrays["behaviour.labels"])
    cards, causes = results.chunk(states["cards"]), results.chunk(states["causes"]["chunk"])
    np.testing.assert_allclose(cards["correlation.time"], analysis.arrays["card.correlation.time"], rtol=1e-5)
    np.testing.assert_allclose(causes["correlation"], analysis.arrays["correlation"], atol=1e-6)
    memory = results.chunk(states["memory"]["chunk"])
    np.testing.assert_allclose(memory["policy"], analysis.arrays["replay.policy"], rtol=1e-5)
    assert [one["scale"] for one in states["directions"]] == pytest.approx(coordinates[later].std(axis=0), rel=1e-4)
    effects = [(one["effect"], *one["effect_interval"]) for one in states["directions"]]
    expected = removal_effects(analysis.directions, analysis.arrays)
    assert expected is not None
    np.testing.assert_allclose(effects, expected, rtol=1e-5)


def test_examples_of_state_components_refer_to_steps_of_trajectories(
    results: Results, analysis: rl_clarity.StateAnalysis
) -> None:
    states = results.section("states")
    top = results.chunk(states["cards"])["top"]
    rows = analysis.arrays["card.top"]
    for direction in range(3):
        for (trajectory, frame), row in zip(top[direction], rows[direction], strict=True):
            if row < 0:
                assert (trajectory, frame) == (-1, -1)
                continue
            coordinates = results.chunk(states["coordinates"][trajectory])["coordinates"]
            later = analysis.arrays["time"] > 0
            expected = analysis.arrays["coordinates"][row] - analysis.arrays["coordinates"][later].mean(axis=0)
            np.testing.assert_allclose(coordinates[frame], expected, atol=1e-5)


def test_a_page_without_windows_shows_a_message(results: Results) -> None:
    with pytest.raises(ClarityError, match="no section 'windows'"):
        results.window(0)


def test_the_state_map_has_the_positions_and_colors_of_analyze_states(
    results: Results, analysis: rl_clarity.StateAnalysis
) -> None:
    state_map = results.state_map("pca")
    rows = analysis.arrays["map.rows"]
    assert state_map.positions.shape == (220, 2)  # of 223 steps, 3 of which are the first of an episode
    np.testing.assert_allclose(state_map.positions, analysis.arrays["map.pca"], atol=1e-5)
    np.testing.assert_array_equal(state_map.colors["cluster"], analysis.arrays["cluster.kmeans"][rows])
    np.testing.assert_array_equal(state_map.colors["strongest"], analysis.arrays["map.color.strongest"])
    keys = {color["key"] for color in results.section("state_map")["colors"]}
    assert keys >= {"cluster", "behaviour", "entropy", "largest_log_probability", "length", "share", "end", "rewarded"}


def test_load_states_reads_the_state_components_of_a_page(page: Path, analysis: rl_clarity.StateAnalysis) -> None:
    found = rl_clarity.load_states(page / "states")
    np.testing.assert_array_equal(found.directions.basis, analysis.directions.basis)
    np.testing.assert_array_equal(found.arrays["coordinates"], analysis.arrays["coordinates"])


def test_a_recording_is_explained_instead_of_new_episodes(page: Path, checkpoint: Path, tmp_path: Path) -> None:
    recording = page / RECORDINGS / "play"
    rl_clarity.explain_memory(checkpoint, tmp_path / "page", recording=recording, **STATES, intervention_episodes=0)
    first, second = (rl_clarity.open_results(directory) for directory in (page, tmp_path / "page"))
    assert first.section("states") == second.section("states")
    assert not (tmp_path / "page" / RECORDINGS).exists()
    groups = {group["group"]: dict(group["items"]) for group in second.manifest["provenance"]}
    assert "recomputed outputs differ from the recorded ones by at most" in groups["Recording"]["outputs"]


def test_an_interrupted_explain_memory_is_resumed(
    page: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(memory_states._WRITERS, "memory", interrupt)
        with pytest.raises(KeyboardInterrupt):
            rl_clarity.explain_memory(checkpoint, tmp_path / "page", **OPTIONS)
    assert not rl_clarity.open_results(tmp_path / "page").manifest["complete"]
    with record_tasks(monkeypatch) as tasks:
        rl_clarity.explain_memory(checkpoint, tmp_path / "page", **OPTIONS)
    assert "states/memory" in tasks
    assert "states/fit" not in tasks
    assert "playing/play" not in tasks
    assert unrecorded_files(tmp_path / "page") == unrecorded_files(page)


def test_a_single_file_page_holds_the_same_numbers(results: Results, checkpoint: Path) -> None:
    single = rl_clarity.explain_memory(checkpoint, "memory://memory/page", single_file=True, **OPTIONS).results()
    assert single.section("states") == results.section("states")
    for name in (results.section("states")["cards"], results.section("state_map")["maps"][0]["chunk"]):
        for key, array in results.chunk(name).items():
            np.testing.assert_array_equal(single.chunk(name)[key], array)


def test_a_dry_run_writes_nothing(checkpoint: Path, tmp_path: Path) -> None:
    forecast = rl_clarity.explain_memory(checkpoint, tmp_path / "page", dry_run=True, **OPTIONS)
    assert not (tmp_path / "page").exists()
    assert {"playing", "trajectories", "states", "state_map"} <= set(forecast.stages)


def test_the_page_shows_why_interventions_could_not_be_played(
    page: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise EnvironmentSetupError("this game is not installed")

    for name in ("intervene", "make"):
        monkeypatch.setattr(f"rl_clarity.analyses.memory.interventions.{name}", fail)
    options = {**STATES, "interventions": 1, "intervention_episodes": 2, "recording": page / RECORDINGS / "play"}
    section = rl_clarity.explain_memory(checkpoint, tmp_path / "page", **options).results().section("interventions")
    assert (section["interventions"], section["skipped"]) == ([], "this game is not installed")


@pytest.mark.slow
def test_the_memory_page_does_not_depend_on_the_number_of_mpi_ranks(
    page: Path, checkpoint: Path, tmp_path: Path
) -> None:
    for ranks in (1, 2, 3):
        run_ranks(ranks, "memory", str(checkpoint), str(tmp_path / f"{ranks}"), *ARGUMENTS)
        assert unrecorded_files(tmp_path / f"{ranks}") == unrecorded_files(page)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_an_agent_without_a_state_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "agent.pt", 1)
    with pytest.raises(OptionError, match=r"agent\.pt has no recurrent state"):
        rl_clarity.explain_memory(path, tmp_path / "page", **OPTIONS)


def test_a_recording_without_states_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    recording = rl_clarity.record(write_checkpoint(tmp_path / "agent.pt", 1), tmp_path / "recording", episodes=1)
    with pytest.raises(OptionError, match="no recurrent states"):
        rl_clarity.explain_memory(checkpoint, tmp_path / "page", recording=recording, **OPTIONS)


def test_a_recording_of_another_agent_is_refused_unless_allowed(page: Path, tmp_path: Path) -> None:
    other = write_checkpoint(tmp_path / "agent.pt", 2, kind="recurrent")
    for explain in (rl_clarity.explain_memory, rl_clarity.run):
        with pytest.raises(OptionError, match=r"not the one that played episode 0.*other_agent=True"):
            explain(other, tmp_path / "page", recording=page / RECORDINGS / "play")
    options: dict[str, Any] = {**STATES, "recording": page / RECORDINGS / "play", "intervention_episodes": 0}
    made = rl_clarity.explain_memory(other, tmp_path / "page", other_agent=True, **options)
    groups = {group["group"]: dict(group["items"]) for group in made.results().manifest["provenance"]}
    assert groups["Recording"]["outputs"].startswith("deliberately not the agent that played")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"interventions": {"swap_from": (4,), "swap_to": (None,)}},
            "4 is not a direction: directions are counted from 1 to 3",
        ),
        ({"interventions": {"swap_from": (1,), "swap_to": (0,)}}, "0 is not a direction"),
        ({"swap_directions_from": (3,), "swap_directions_to": (None,)}, "4 is not a direction"),
        ({"swap_directions_from": (1,)}, "interventions.swap_to"),
        ({"states": {"part": 0}}, "part"),
        ({"count": 0}, "count"),
        ({"intervention_episodes": 1}, "interventions.episodes"),
        ({"episodes": 3, "max_steps": 1}, r"max_steps=1 times episodes=3 must be at least 4 steps"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    checkpoint: Path, tmp_path: Path, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(OptionError, match=error):
        rl_clarity.explain_memory(checkpoint, tmp_path / "page", **{**OPTIONS, **options})
    assert not (tmp_path / "page").exists()


def test_a_recording_with_too_few_steps_is_refused_before_any_work(checkpoint: Path, tmp_path: Path) -> None:
    recording = rl_clarity.record(checkpoint, tmp_path / "recording", episodes=1, steps=3)
    with pytest.raises(OptionError, match=r"recording has 3 steps; at least 4 are needed"):
        rl_clarity.explain_memory(checkpoint, tmp_path / "page", recording=recording, **OPTIONS)
    assert not (tmp_path / "page").exists()


def test_a_simulator_needs_an_agent_on_keras(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a simulator needs an agent on Keras"):
        rl_clarity.explain_memory(checkpoint, tmp_path / "page", simulator=tmp_path / "none.safetensors", **OPTIONS)

"""Pages of the light switch's agent: the cue of the first frame is found in memory; interventions and simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.pages.builder import RECORDINGS
from rl_clarity.pages.results import Results
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.memory_path import memory_gradients, outputs_at
from rl_clarity.world_models.files import save_simulator
from rl_clarity.world_models.gradients import saliency_through_time
from rl_clarity.world_models.options import Size
from rl_clarity.world_models.quality import measure_quality
from rl_clarity.world_models.simulation import simulate
from rl_clarity.world_models.simulator import Simulator, new_world
from tests.light_switch import checkpoint

SIZE = Size(latent=6, deterministic=12, variables=3, classes=4, hidden=10, channels=(4, 4))
LAMP = (slice(2, 6), slice(6, 10))
SWITCHES = 9
"""The step with the switches."""
STATES: dict[str, Any] = {
    **{"count": 3, "method": "pca", "clusters": 3, "lags": (1, 2), "maps": ("pca",), "replay_steps": 0},
    **{"influence_samples": 8},
}


@pytest.fixture(scope="module")
def agent() -> Any:
    return rl_clarity.load_agent(checkpoint("memory"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 episodes, whose last step is in a window; two directions are exchanged."""
    directory = tmp_path_factory.mktemp("page") / "page"
    swap: dict[str, Any] = {"interventions": {"swap_from": (1,), "swap_to": (2,), "count": 1, "episodes": 6}}
    rl_clarity.explain_memory(checkpoint("memory"), directory, episodes=12, windows=40, **STATES, **swap)
    return directory


@pytest.fixture(scope="module")
def results(page: Path) -> Results:
    return rl_clarity.open_results(page)


@pytest.fixture(scope="module")
def data(page: Path) -> StateData:
    return read_states(rl_clarity.open_recording(page / RECORDINGS / "play"))


@pytest.fixture(scope="module")
def simulator(agent: Any) -> Simulator:
    """An untrained one, of the smallest size."""
    return Simulator(agent, new_world(agent, SIZE), {"fit": {"context": 2, "horizon": 4}})


@pytest.fixture(scope="module")
def simulated(page: Path, simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("simulated")
    path = save_simulator(simulator, folder / "simulator.safetensors")
    options: dict[str, Any] = {"intervention_episodes": 0, "windows": 6, "quality_windows": 8}
    return rl_clarity.explain_memory(
        checkpoint("memory"), folder / "page", simulator=path, recording=page / RECORDINGS / "play", clips=2,
        horizon=5, **STATES, **options,
    ).results()  # fmt: skip


@pytest.mark.slow
def test_the_lamp_in_the_first_frame_causes_the_action_at_the_switches(results: Results) -> None:
    numbers = [n for n, one in enumerate(results.section("windows")["windows"]) if one["frame"] == SWITCHES]
    assert len(numbers) >= 3
    for number in numbers:
        window = results.window(number)
        assert window.frames == range(SWITCHES + 1)
        earlier = np.abs(window.maps["memory"][window.targets.index("action"), :SWITCHES])
        assert earlier[0].sum() > 10 * earlier[1:].sum(axis=(1, 2)).max()
        assert earlier[0][LAMP].sum() > 0.6 * earlier[0].sum()


@pytest.mark.slow
def test_windows_store_gradient_times_frame_and_component_coordinates(
    results: Results, agent: Any, data: StateData
) -> None:
    directions = rl_clarity.load_states(Path(results._directory.location) / "states").directions
    number = next(n for n, one in enumerate(results.section("windows")["windows"]) if one["frame"] == SWITCHES)
    window = results.window(number)
    row = int(data.starts[window.trajectory]) + SWITCHES
    rows, steps = np.array([row]), np.arange(row - SWITCHES, row + 1)
    assert window.partner not in (None, window.trajectory)
    baseline = data.observations(data.starts[window.partner] + np.arange(SWITCHES + 1))
    weights = directions.readout.T[[int(one.removeprefix("direction-")) for one in window.targets[2:]]][None]
    scores = list(outputs_at(agent, data, rows).values())
    frames, states = memory_gradients(agent, data, rows, scores, weights, SWITCHES + 1, baseline=baseline[None])
    maps = (frames[:, 0] * (data.observations(steps) / 255 - baseline / 255)).sum(axis=-1)
    coordinates = directions.to(data.states)
    components = directions.pull(states[:, 0]) * (coordinates - coordinates[data.changed].mean(axis=0))[steps]
    np.testing.assert_allclose(window.components["memory"], components, rtol=1e-3, atol=1e-5)
    scale = np.abs(maps).max(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(window.maps["memory"] / scale, maps / scale, atol=1 / 127)


@pytest.mark.slow
def test_the_page_stores_what_ended_each_episode(results: Results) -> None:
    episodes = [one["episodes"][0] for one in results.section("trajectories")["trajectories"]]
    causes = {one["cause"] for one in episodes}
    assert causes <= {"right switch", "wrong switch", "no switch"}
    assert all((one["cause"] == "right switch") == (one["return"] > 0) for one in episodes)
    color = next(one for one in results.section("state_map")["colors"] if one["key"] == "end")
    assert {*color["names"]} == causes


@pytest.mark.slow
def test_windows_cover_state_components_behaviors_and_episode_ends(results: Results) -> None:
    windows = results.section("windows")["windows"]
    assert len(windows) == 40
    reasons = [reason for one in windows for reason in one["why"]]
    ends = {(reason["direction"], reason["end"]) for reason in reasons if reason["kind"] == "direction"}
    extremes = {(direction, end) for direction in range(3) for end in ("top", "middle", "bottom")}
    assert ends == extremes  # the initial state, before which there is no step, is no example
    assert {reason["kind"] for reason in reasons} >= {"decision", "end", "direction", "behaviour", "episode"}
    places = [(one["trajectory"], one["frame"]) for one in windows]
    assert len(set(places)) == 40
    for one in windows:
        named = {f"direction-{reason['direction']}" for reason in one["why"] if reason["kind"] == "direction"}
        assert named <= set(one["targets"])


@pytest.mark.slow
def test_interventions_on_the_page_equal_those_of_intervene(results: Results, agent: Any, page: Path) -> None:
    section = results.section("interventions")
    assert section["episodes"] == 6
    collapsed, exchanged = section["interventions"]
    assert collapsed["swap"][0][1] is None
    assert (exchanged["swap"], exchanged["label"]) == ([[0, 1]], "PCA 1 and PCA 2 exchanged")
    analysis = rl_clarity.load_states(page / "states")
    swap = rl_clarity.SwapDirections({0: 1}, directions=analysis.directions)
    expected = rl_clarity.intervene(agent, swap, analysis=analysis, episodes=6, max_steps=256)
    for row, other in zip(exchanged["rows"], expected, strict=True):
        assert row["measure"] == other["measure"]
        assert row["difference"] == pytest.approx(other["difference"], rel=1e-4)
    assert results.image(exchanged["clip"]).shape[2] == 3


@pytest.mark.slow
def test_a_simulator_adds_its_quality_and_effects_through_the_world(
    simulated: Results, simulator: Simulator, page: Path
) -> None:
    recording = rl_clarity.open_recording(page / RECORDINGS / "play")
    section = simulated.section("simulator")
    quality = measure_quality(simulator, recording, windows=8, horizon=4, context=2).to_dict()
    assert section["quality"]["errors"]["frame"]["prior"][0] == pytest.approx(
        quality["errors"]["frame"]["prior"][0], rel=1e-4
    )
    assert section["compass"]["actions"] == quality["compass"]["actions"]
    assert len(section["clips"]) == 2
    assert simulated.section("windows")["paths"] == ["memory", "whole"]
    causes = simulated.chunk(simulated.section("states")["causes"]["chunk"])
    assert causes["influence.world"].shape == causes["influence"].shape == (2, 3, 3)
    data = read_states(recording)
    directions = rl_clarity.load_states(Path(simulated._directory.location) / "states").directions
    # samples of the world depend on which windows are computed together
    window, next_window = simulated.window(0), simulated.window(1)
    assert (window.frames, window.targets) == (next_window.frames, next_window.targets)
    steps = len(window.frames)
    firsts = data.starts[[window.trajectory, next_window.trajectory]] + window.frames[0]
    frames = np.stack([data.observations(firsts - 2 + i) for i in range(2)], axis=1)
    state = [np.asarray(part) for part in simulator.split_state(data.states[firsts])]
    start = simulator.start(frames, state=state, action=data.actions[firsts - 1])
    first = int(firsts[0])
    coordinates = directions.to(data.states)
    coordinates = (coordinates - coordinates[data.changed].mean(axis=0))[first : first + steps]
    others = data.starts[[one.partner or 0 for one in (window, next_window)]] + window.frames[0]
    baseline = np.stack([data.observations(others + i) for i in range(steps)], axis=1)
    found = saliency_through_time(simulator, start, ["value"], steps - 1, baseline=baseline)
    expected = directions.pull(found.states[0][0, 0]) * coordinates
    np.testing.assert_allclose(window.components["whole"][0], expected, rtol=1e-2, atol=1e-5)
    row = np.array([first + steps - 1])
    _, states = memory_gradients(
        simulator.agent, data, row, ["value"], np.zeros((1, 0, 16)), steps, baseline=baseline[:1]
    )
    expected = directions.pull(states[0, 0]) * coordinates  # the same as without a simulator
    np.testing.assert_allclose(window.components["memory"][0], expected, rtol=1e-3, atol=1e-6)
    arrays = simulated.chunk(simulated.section("windows")["windows"][0]["chunk"])
    ends: list[Any] = [
        np.asarray(simulate(simulator, start, steps, see=see).values)[0, -1]
        for see in (None, lambda step, frame: baseline[:, step].astype(np.float32) / 255)
    ]
    assert arrays["whole.change"][0] == pytest.approx(ends[0] - ends[1], abs=1e-5)
    assert arrays["whole.sums"].shape == arrays["memory.sums"].shape == (len(window.targets), steps)


@pytest.mark.slow
def test_a_simulator_of_another_agent_is_refused(simulator: Simulator, page: Path, tmp_path: Path) -> None:
    for given in (simulator, save_simulator(simulator, tmp_path / "simulator.safetensors")):
        with pytest.raises(OptionError, match="a different agent"):
            rl_clarity.explain_memory(checkpoint("world"), tmp_path / "page", simulator=given)
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
def test_explain_memory_explains_a_recurrent_procgen_agent(shared_formats: Path, tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    (path,) = (shared_formats / "procgen-pytorch-recurrent").glob("*.pth")
    metadata = {"env_name": "coinrun", "distribution_mode": "easy", "use_backgrounds": False}
    page = rl_clarity.explain_memory(
        path, tmp_path / "page", metadata=metadata, episodes=2, max_steps=64, windows=4, horizon=4,
        intervention_episodes=2, interventions=1, **STATES,
    )  # fmt: skip
    kinds = [section["kind"] for section in page.results().manifest["sections"]]
    assert kinds == ["trajectories", "memory_matrix", "states", "state_map", "windows", "interventions"]
    assert page.results().window(0).maps["memory"].shape[2:] == (32, 32)


@pytest.mark.slow
def test_interventions_collapse_components_of_the_whole_lstm_state(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    page = rl_clarity.explain_memory(
        "models:starpilot-lstm", tmp_path / "page", episodes=2, max_steps=24, windows=0, intervention_episodes=2,
        interventions=1, **{**STATES, "influence_samples": 0},
    )  # fmt: skip
    section = page.results().section("interventions")
    assert section["skipped"] is None
    assert section["interventions"][0]["label"].endswith("collapsed")


@pytest.mark.slow
def test_the_memory_demo_shows_that_the_agent_uses_the_lamp(tmp_path: Path) -> None:
    from rl_clarity.commands.demo import MEMORY, demo

    results = demo(tmp_path / "page", page="memory").results()
    strongest = results.section("memory_matrix")["strongest"]
    assert (strongest["begins"], strongest["frame"]) == (0, SWITCHES)
    window = results.window(0)
    assert (window.trajectory, window.frames) == (strongest["trajectory"], range(SWITCHES + 1))
    earlier = np.abs(window.maps["memory"][window.targets.index("action"), :SWITCHES]).sum(axis=(1, 2))
    assert earlier[0] > 10 * earlier[1:].max()
    section = results.section("interventions")
    assert 2 ** (1 - section["episodes"]) < 0.01 / 30  # the smallest possible p, corrected for the number of measures
    effects = [one["effect"] for one in results.section("states")["directions"]]
    first, second = (one["rows"][0] for one in section["interventions"])
    assert section["interventions"][0]["swap"] == [[int(np.argmax(effects)), None]]
    assert (first["measure"], first["adjusted_p"] < 0.01, first["edited"] < 0.75) == ("return", True, True)
    assert second["adjusted_p"] > 0.05
    assert section["episodes"] == MEMORY["interventions"]["episodes"]
    assert results.section("probes")["caption"] == "Known; used: cue@1."

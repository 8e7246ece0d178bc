"""Forecasts of pages about memory, which are made before the agent has played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.jobs.forecast import SECONDS_PER_TASK, Forecast
from rl_clarity.recordings.agent_play import Lengths
from rl_clarity.sources import recorded_play
from rl_clarity.world_models.options import Size
from rl_clarity.world_models.simulator import Simulator, new_world
from tests.light_switch import checkpoint
from tests.tiny_series import register, write_checkpoint

register()

OPTIONS: dict[str, Any] = {
    **{"method": "pca", "count": 3, "clusters": 3, "lags": (1, 2), "maps": ("pca",), "episodes": 20, "max_steps": 100},
    **{"replay_steps": 4, "replay_samples": 8, "intervention_episodes": 0},
}
SIZE = Size(latent=6, deterministic=12, variables=3, classes=4, hidden=10, channels=(4, 4))


@pytest.fixture(autouse=True)
def whole_episodes(measured_forecasts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all episodes be as long as they may be."""
    monkeypatch.setattr(recorded_play, "expected_lengths", lambda agent, spec, record, most, _: Lengths(most, most))


def forecast(agent: Path, directory: Path, **options: Any) -> Forecast:
    return rl_clarity.explain_memory(agent, directory / "page", dry_run=True, **{**OPTIONS, **options})


@pytest.mark.slow
@pytest.mark.usefixtures("even_clock")
def test_the_memory_forecast_extrapolates_each_stage_from_a_few_steps(tmp_path: Path) -> None:
    agent = write_checkpoint(tmp_path / "agent.pt", 1, kind="recurrent")
    plain = forecast(agent, tmp_path)
    assert plain.notes == ()
    fits, cards, correlation, replay = 2000 / 500 * 2, 1, 1, 4 / 2
    assert plain.stages["states"] == pytest.approx(fits + cards + correlation + replay + 6 * SECONDS_PER_TASK)
    assert forecast(agent, tmp_path, episodes=40).stages["states"] == pytest.approx(plain.stages["states"] + fits)
    assert forecast(agent, tmp_path, replay_steps=8).stages["states"] == pytest.approx(plain.stages["states"] + replay)
    maps = [forecast(agent, tmp_path, maps=("pca", "tsne"), episodes=n).stages["state_map"] for n in (10, 20, 80)]
    assert 2 * maps[0] < maps[1] < 2.5 * maps[0]
    assert maps[2] < 3 * maps[1]  # t-SNE is fitted on 5000 points at most


@pytest.mark.usefixtures("even_clock")
def test_the_forecast_of_probes_assumes_that_all_labels_are_known(tmp_path: Path) -> None:
    agent = write_checkpoint(tmp_path / "agent.pt", 1, kind="recurrent")
    without, one = forecast(agent, tmp_path), forecast(agent, tmp_path, probes={"labels": ("reward+1",)})
    assert "probes" not in without.stages
    assert one.notes == ()
    steps = 99  # after the last step nothing is decided
    share, orders, replays = 20 * steps / 1024, (199 - 1) / 64, 2 * (steps + 1) / 4
    assert one.stages["probes"] == pytest.approx(3 * share + orders + replays + SECONDS_PER_TASK, abs=0.01)
    more = forecast(agent, tmp_path, episodes=40, probes={"labels": ("reward+1", "cue")})
    share, orders, replays = 40 * steps / 1024, 2 * (199 - 1) / 64, 2 * 2 * (steps + 1) / 4
    assert more.stages["probes"] == pytest.approx(5 * share + orders + replays + SECONDS_PER_TASK, abs=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("even_clock")
def test_the_forecast_includes_windows_interventions_and_the_simulator(tmp_path: Path) -> None:
    path = checkpoint("memory")
    agent: Any = rl_clarity.load_agent(path)
    simulator = Simulator(agent, new_world(agent, SIZE), {"fit": {"context": 2, "horizon": 4}})
    options: dict[str, Any] = {"windows": 10, "quality_windows": 16, "influence_samples": 16, "clips": 0}
    plain, more = (
        forecast(path, tmp_path, simulator=simulator, interventions=1, **chosen)
        for chosen in (
            {**options, "intervention_episodes": 10},
            {"windows": 20, "quality_windows": 32, "influence_samples": 32, "clips": 1, "intervention_episodes": 100},
        )
    )
    assert plain.notes == ()
    windows = 10 / 2 * 16 / 2
    assert plain.stages["windows"] == pytest.approx(windows + 2 * SECONDS_PER_TASK)
    assert more.stages["windows"] == pytest.approx(2 * windows + 3 * SECONDS_PER_TASK)
    assert plain.stages["interventions"] == pytest.approx(1 + 2 * 2 * 100 / 8 + SECONDS_PER_TASK)
    assert more.stages["interventions"] == pytest.approx(1 + 2 * 3 * 100 / 8 + SECONDS_PER_TASK)
    errors, compass, deletion, film = 16 / 8 * 4 / 2, 16 / 8 * 8 / 2, 16 / 8 * 9 / 2, 4 / 2
    simulated = errors + compass + deletion
    assert plain.stages["simulator"] == pytest.approx(simulated + 2 * SECONDS_PER_TASK)
    assert more.stages["simulator"] == pytest.approx(2 * errors + compass + 2 * deletion + film + 2 * SECONDS_PER_TASK)
    influence = 2 * 2  # over the largest lag, through memory and through the world
    assert more.stages["states"] == pytest.approx(plain.stages["states"] + influence)

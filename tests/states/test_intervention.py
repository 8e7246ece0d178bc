"""Interventions: paired episodes with and without the cue in the agent's memory."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import compare
from rl_clarity.recordings.recording import Recording
from rl_clarity.states.data import read_states
from rl_clarity.states.intervention import Intervention
from tests.light_switch import Game, checkpoint


def cut_cue(recording: Recording) -> rl_clarity.SwapDirections:
    """Collapse the direction of the state that tells the cues apart."""
    data = read_states(recording)
    first = np.flatnonzero(data.time == 0)
    orange = data.observations(first)[:, 3, 7, 0] > 100
    after = data.time > 0
    labels = np.repeat(orange, 10)[after]
    directions = rl_clarity.fit_directions(data.states[after], "classifier", labels=labels)
    return rl_clarity.SwapDirections({0: None}, directions=directions)


def test_interventions_report_changes_in_visits_to_state_clusters(
    light_switch_recordings: dict[Game, Recording],
) -> None:
    recording = light_switch_recordings["memory"]
    agent: Any = rl_clarity.load_agent(checkpoint("memory"))
    options: dict[str, Any] = {"count": 16, "clusters": 5, "lags": (1,), "maps": (), "replay_steps": 0}
    analysis = rl_clarity.analyze_states(agent, recording, method="units", influence_samples=0, **options)
    directions = analysis.directions
    collapsed = rl_clarity.SwapDirections(dict.fromkeys(range(len(directions))), directions=directions)
    report = rl_clarity.intervene(agent, collapsed, analysis=analysis, episodes=48)
    rows = [row for row in report if row["measure"].startswith("cluster ")]
    assert [row["measure"] for row in rows] == [f"cluster {i}" for i in range(5)]
    sizes = np.array(analysis.facts["clusters"][0]["sizes"])
    # Unedited, the agent visits them as in the recording, of other levels. All units collapsed, states are the mean,
    # and the nearest cluster to the first state is the same.
    np.testing.assert_allclose([row["unedited"] for row in rows], sizes / sizes.sum(), atol=0.2)
    edited = np.sort([row["edited"] for row in rows])
    np.testing.assert_allclose(edited, [0, 0, 0, 0, 1], atol=1e-9)
    assert len(list(rl_clarity.intervene(agent, collapsed, episodes=2))) == len(list(report)) - 5


def test_the_intervention_report_has_the_smallest_detectable_change() -> None:
    before, after = np.random.default_rng(0).normal(size=(2, 100, 2))
    after[:, 1] = before[:, 1]
    compared = compare(before, after)
    rows = [{"measure": name, **asdict(compared[i])} for i, name in enumerate(("return", "length"))]
    for row in rows:
        row["edited"] = row.pop("ablated")
    agents: Any = ()
    report = str(Intervention(rows, np.stack([before[:, 0], after[:, 0]], axis=1), agents, (), 1))
    (least,) = re.findall(r"No change was found; a true change of ([\d.]+) or more would have been found", report)
    error = (after - before)[:, 0].std() / 10
    assert float(least) == pytest.approx((1.96 + 0.84) * error, rel=0.05)
    (corrected,) = re.findall(r"return .* found from ([\d.]+)$", report, re.MULTILINE)
    assert float(corrected) == pytest.approx((2.24 + 0.84) * error, rel=0.05)  # two tests
    assert re.search(r"length .*, no two episodes of a pair differed$", report, re.MULTILINE)


def test_removing_the_cue_from_memory_matters_only_if_memory_holds_it(
    light_switch_recordings: dict[Game, Recording], tmp_path: Path
) -> None:
    lost = {}
    for game, recording in light_switch_recordings.items():
        agent: Any = rl_clarity.load_agent(checkpoint(game))
        report = rl_clarity.intervene(agent, cut_cue(recording), episodes=60)
        rows = {row["measure"]: row for row in report}
        lost[game] = rows["return"]
        assert rows["length"]["difference"] == 0
        assert rows["return"]["unedited"] > 0.9
        report.write_clip(tmp_path / f"{game}.png")
        assert Image.open(tmp_path / f"{game}.png").size == (2 * 16 + 4, 16)
    assert lost["memory"]["interval"][1] < -0.2
    assert lost["memory"]["adjusted_p"] < 0.01
    assert lost["world"]["difference"] == 0
    assert "No change was found; no two episodes of a pair differed." in str(report)  # of the world
    few = str(rl_clarity.intervene(agent, cut_cue(recording), episodes=4))
    assert "So few pairs cannot show a change: the smallest possible p is 0.12." in few
    with pytest.raises(OptionError, match="episodes=1 must be at least 2"):
        rl_clarity.intervene(agent, cut_cue(recording), episodes=1)

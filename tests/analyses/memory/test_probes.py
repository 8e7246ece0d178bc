"""Pages of memory show probes of the labels that are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from tests.light_switch import checkpoint

OPTIONS: dict[str, Any] = {
    **{"method": "pca", "count": 2, "clusters": 2, "lags": (1, 2), "maps": ("pca",), "replay_steps": 2, "windows": 2},
    **{"influence_samples": 8, "intervention_episodes": 0, "matrix": {"episodes": 2, "partners": 1, "exchanges": 2}},
    "play": {"episodes": 24, "info": ("cue",)},
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    probes = {"labels": ("cue@1", "reward+30")}
    folder: Path = tmp_path_factory.mktemp("memory")
    return rl_clarity.explain_memory(checkpoint("memory"), folder / "page", probes={"labels": ("cue@1",)}, **OPTIONS), (
        rl_clarity.explain_memory(checkpoint("memory"), folder / "other", probes=probes, **OPTIONS)
    )


def test_the_page_reports_labels_that_the_state_encodes_and_the_agent_uses(page: Any) -> None:
    section = page[0].results().section("probes")
    (row,) = section["rows"]
    assert row["label"] == "cue@1"
    assert row["verdict"].endswith("; used")
    assert row["dose_1"] > 0.5
    assert section["caption"].endswith("; used: cue@1.")
    assert {"trajectory", "frame"} < row.keys()
    (probe,) = section["probes"]
    assert probe["use"]["exchanged"][-1]["flipped"] > 0.9
    assert {one["key"] for one in section["columns"]} >= {"dose_0.25", "removed", "random", "whole", "untrained"}


def test_a_label_that_cannot_be_probed_is_named_on_the_page(page: Any) -> None:
    section = page[1].results().section("probes")
    assert not section["rows"]
    assert section["caption"].startswith("Nothing was probed: label 'reward+30' is not known at any probed step")

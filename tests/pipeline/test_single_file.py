"""A page in a single file: its size is estimated beforehand, and no other files remain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun


@pytest.mark.slow
def test_the_forecast_includes_the_size_of_a_single_file_page(small_run: SmallRun, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "trajectories_kwargs": {"num_envs": 2, "num_steps": 64},
        "observations_kwargs": OBSERVATIONS,
        "layer_kwargs": LAST_LAYER,
        "single_file": True,
    }
    checkpoint = tmp_path / "agent.jd"
    checkpoint.write_bytes(small_run.checkpoint.read_bytes())
    forecast = str(rl_clarity.run(checkpoint, tmp_path / "page", dry_run=True, **options))
    match = re.search(r"The page will be a single file of about (\d+) MB\.", forecast)
    assert match
    assert "single file" not in str(
        rl_clarity.run(checkpoint, tmp_path / "page", dry_run=True, **options | {"single_file": False})
    )
    page = rl_clarity.run(checkpoint, tmp_path / "page", **options)
    others = {path.name for path in page.path.parent.iterdir()} - {"interface.html"}
    assert others <= {"run-log.json"}
    assert int(match[1]) * 1e6 == pytest.approx(page.path.stat().st_size, rel=0.5, abs=1e6)

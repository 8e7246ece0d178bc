"""A page of one file: how large it will be is said before it is made, and nothing is left beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun


def test_its_size_is_said_beforehand(small_run: SmallRun, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "trajectories_kwargs": {"num_envs": 2, "num_steps": 64},
        "observations_kwargs": OBSERVATIONS,
        "layer_kwargs": LAST_LAYER,
        "single_file": True,
    }
    checkpoint = tmp_path / "agent.jd"
    checkpoint.write_bytes(small_run.checkpoint.read_bytes())
    said = str(rl_clarity.run(checkpoint, tmp_path / "page", dry_run=True, **options))
    found = re.search(r"The page will be a single file of about (\d+) MB\.", said)
    assert found
    assert "single file" not in str(
        rl_clarity.run(checkpoint, tmp_path / "page", dry_run=True, **options | {"single_file": False})
    )
    page = rl_clarity.run(checkpoint, tmp_path / "page", **options)
    beside = {path.name for path in page.path.parent.iterdir()} - {"interface.html"}
    assert beside <= {"run-log.json"}, "the log of the run at most"
    assert int(found[1]) * 1e6 == pytest.approx(page.path.stat().st_size, rel=0.5, abs=1e6)

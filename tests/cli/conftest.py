"""A checkpoint, and a page that the command line makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.cli import main
from tests.cli.calls import SMALL
from tests.pipeline.small import ARGS, write_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    args = {**ARGS, "num_levels": np.int64(3), "learning_rate": np.float32(5e-4), "timesteps": float("inf")}
    return write_checkpoint(tmp_path_factory.mktemp("agents") / "agent.jd", args)


@pytest.fixture(scope="session")
def page(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page made on the command line."""
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    directory = tmp_path_factory.mktemp("pages") / "page"
    assert main(["run", str(checkpoint), str(directory), *SMALL, "--title", "A page"]) == 0
    return directory

"""The script that trains and ships simulators of included agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.world_models import fitting
from scripts import train_simulator
from tests.light_switch import checkpoint
from tests.world_models.conftest import SMALLEST


@pytest.mark.slow
def test_the_script_resumes_training_and_publishes_a_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SIZES", {"tiny": SMALLEST})
    name, folder = str(checkpoint("memory")), tmp_path / "fit"
    command = ["train", name, str(folder), "--episodes", "4", "--size", "tiny", "--steps", "2"]
    record: Any = rl_clarity.record

    def interrupted(*arguments: Any, **options: Any) -> Any:
        record(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(rl_clarity, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_simulator.main(command)
    monkeypatch.setattr(rl_clarity, "record", record)
    train_simulator.main(command)
    train_simulator.main(["ship", name, str(folder), "--models", str(tmp_path)])
    quality = json.loads((folder / "quality.json").read_text())
    agent = rl_clarity.load_agent(checkpoint("memory"))
    shipped = rl_clarity.load_simulator(tmp_path / "memory-simulator.safetensors", agent)
    assert shipped.metadata["quality"] == quality

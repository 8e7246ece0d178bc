"""Fit a simulator and write a report of its quality beside it, for `rl-clarity simulate`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.files import write_atomically
from rl_clarity.recordings.recording import open_recording
from rl_clarity.world_models.files import save_simulator
from rl_clarity.world_models.fitting import QUALITY, SIMULATOR, fit_simulator
from rl_clarity.world_models.quality import Quality, measure_quality


def fit_and_measure(
    agent: Agent,
    recording: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    checked: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    **options: Any,
) -> Quality:
    """Fit a simulator to a recording, measure its quality on the recording `checked`, and write the results.

    The quality is written to `quality.json`, and as `quality` to the metadata of `simulator.safetensors`.
    """
    simulator = fit_simulator(agent, recording, directory, overwrite=overwrite, **options)
    fit = simulator.metadata["fit"]
    quality = measure_quality(
        simulator, open_recording(checked), horizon=fit["horizon"], context=fit["context"], seed=fit["seed"]
    )
    folder = Path(directory)
    simulator.metadata["quality"] = quality.to_dict()
    save_simulator(simulator, folder / SIMULATOR, overwrite=True)
    write_atomically(folder / QUALITY, json.dumps(quality.to_dict(), indent=1, sort_keys=True).encode())
    return quality

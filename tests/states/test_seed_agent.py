"""An agent of train-procgen-pytorch with a GRU, as other programs save it, is recorded and analyzed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.states.data import read_states


@pytest.mark.slow
def test_analyze_states_analyzes_a_recurrent_procgen_agent(shared_formats: Path, tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    (path,) = (shared_formats / "procgen-pytorch-recurrent").glob("*.pth")
    metadata: dict[str, Any] = {"env_name": "coinrun", "distribution_mode": "easy", "use_backgrounds": False}
    recording = rl_clarity.record(path, tmp_path / "recording", metadata=metadata, steps=192)
    agent = rl_clarity.load_agent(path, **metadata)
    data = read_states(recording)
    assert data.states.shape[1] == 64
    episode = recording[0]
    assert episode.states is not None
    state = (np.asarray(episode.states[0][:1]),)
    for t in range(min(len(episode), 12)):
        np.testing.assert_allclose(episode.states[0][t], state[0][0], atol=1e-5)
        outputs = agent.forward(np.asarray(episode.observations[t])[None], state)
        np.testing.assert_allclose(episode.policy_logits[t], outputs.policy_logits[0], atol=1e-4)  # type: ignore[index]
        state = outputs.state  # type: ignore[assignment]
    analysis = rl_clarity.analyze_states(
        agent, recording, count=4, clusters=3, lags=(1, 2), maps=("pca",), influence_samples=8, replay_steps=2,
        replay_samples=4,
    )  # fmt: skip
    assert analysis.arrays["influence"].shape == (2, 4, 4)
    assert analysis.arrays["card.readout"].shape == (4, 16)
    assert not analysis.facts["skipped"]

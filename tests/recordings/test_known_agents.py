"""An agent that others trained plays as well here as where it was trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_clarity import formats
from rl_clarity.environments import spec_from_metadata
from rl_clarity.recordings.evaluation import evaluate

LOGGED = (150, 205)
"""Mean returns in the last hour of its program's log, as it learnt on; 400 games here: 150 (standard error 5)."""


@pytest.mark.slow
def test_baby_a3cs_breakout_agent_plays_as_in_its_log(shared_formats: Path) -> None:
    """Within what few games can tell: two standard errors. The best action instead of a drawn one would get 330."""
    pytest.importorskip("ale_py", reason="the agent plays Breakout")
    path = shared_formats / "baby-a3c" / "breakout-v4" / "model.80.tar"
    checkpoint = formats.read(path, env_name="Breakout-v4")
    agent = formats.build_agent(checkpoint)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    played = evaluate(agent, spec, episodes=32, seed=0)
    low, high = LOGGED
    margin = 2 * played.standard_error
    assert margin < 60
    assert low - margin < played.mean < high + margin
    assert not played.truncated.any()
    assert 1500 < played.lengths.mean() < 2600  # 2,100 in its log

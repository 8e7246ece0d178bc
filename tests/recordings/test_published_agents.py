"""A published agent has the same returns as in its training log."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_clarity import formats
from rl_clarity.commands.evaluate import AGENT, evaluate
from rl_clarity.environments import spec_from_metadata

LOGGED = (150, 205)
"""Mean returns during the last hour of its training log; 400 games here: 150 (standard error 5)."""


@pytest.mark.slow
def test_the_published_baby_a3c_agent_reaches_the_returns_of_its_log(shared_formats: Path) -> None:
    """Within two standard errors. The most likely action instead of a sampled one would reach 330."""
    pytest.importorskip("ale_py", reason="the agent plays Breakout")
    path = shared_formats / "baby-a3c" / "breakout-v4" / "model.80.tar"
    checkpoint = formats.read(path, env_name="Breakout-v4")
    agent = formats.build_agent(checkpoint)
    spec = spec_from_metadata(checkpoint.metadata, num_actions=agent.num_actions)
    evaluation = evaluate(agent, spec, episodes=16)[AGENT]
    low, high = LOGGED
    margin = 2 * evaluation.standard_error
    assert margin < 60
    assert low - margin < evaluation.mean < high + margin
    assert not evaluation.truncated.any()
    assert 1500 < evaluation.lengths.mean() < 2600  # 2,100 in its log

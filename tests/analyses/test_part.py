"""Names of tasks on a page of several agents."""

from __future__ import annotations

from rl_clarity.analyses.part import OwnResults


def test_an_agent_sees_only_the_results_of_its_own_tasks() -> None:
    results = {"saliency/agent-1/1": {"of": 1}, "saliency/agent-2/1": {"of": 2}, "atlas/agent-2": {}, "numbers": {}}
    own = OwnResults(results, "agent-2")
    assert dict(own) == {"saliency/1": {"of": 2}, "atlas": {}}
    assert len(own) == 2
    assert own.get("saliency/2") is None
    assert "numbers" not in own

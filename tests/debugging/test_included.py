"""Findings of included agents are those that their cards list."""

from __future__ import annotations

import pytest

import rl_clarity
from rl_clarity.base.resources import models_directory


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coinrun", "starpilot-lstm"])
def test_the_findings_of_an_agent_are_those_of_its_card(name: str) -> None:
    pytest.importorskip("procgen")
    pytest.importorskip("tensorflow")
    result = rl_clarity.debug(f"models:{name}", expect=models_directory() / "findings" / f"{name}.json")
    assert result.as_expected, str(result)

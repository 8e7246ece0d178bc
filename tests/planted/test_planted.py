"""Planted causes are the first finding of their family, and clean agents have no suspicious findings."""

from __future__ import annotations

from typing import Any

import pytest

import rl_clarity
from rl_clarity.commands.debug import Debug
from tests.debugging.field import Player, Setup, field_spec
from tests.planted.agents import CLEAN, PLANTED

QUICK = ("blind to a type", "ignores the upper half", "left-right bias")
FEW: dict[str, Any] = {
    "trajectories": {"num_envs": 8, "num_steps": 96},
    "failures": {"count": 8, "window": 12, "horizon": 10, "points": 2},
    "goals": {"states": 96},
}


def found(agent: Player, setup: Setup, seed: int) -> Debug:
    return rl_clarity.debug(agent, environment=field_spec(setup), seed=seed, **FEW)


def first_of(result: Debug, family: str) -> tuple[str, str] | None:
    return next((one.key for one in result.findings if one.family == family), None)


@pytest.mark.parametrize("name", QUICK)
def test_planted_causes_come_first(name: str) -> None:
    planted = PLANTED[name]
    assert first_of(found(planted.agent, planted.setup, 1), planted.family) == planted.key


def test_a_clean_agent_has_no_suspicious_findings() -> None:
    assert [one for one in found(*CLEAN["careful"], seed=1).findings if one.suspicious] == []

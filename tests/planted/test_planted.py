"""Planted causes are the first finding of their family, and clean agents have no suspicious findings."""

from __future__ import annotations

import pytest

from tests.planted.agents import CLEAN, PLANTED
from tests.planted.measure import debug, first_key, suspicious


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blind to a type", "ignores the upper half", "left-right bias"])
def test_the_first_finding_is_the_planted_defect_of_a_scripted_player(name: str) -> None:
    planted = PLANTED[name]
    assert first_key(debug(planted.player, planted.world, 1), planted.family) == planted.key


@pytest.mark.slow
def test_a_scripted_player_without_defects_has_no_suspicious_findings() -> None:
    assert suspicious(debug(*CLEAN["careful"], seed=1)) == []

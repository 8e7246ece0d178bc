"""Findings of an included agent are those that its card lists."""

from __future__ import annotations

import pytest

import rl_clarity
from rl_clarity.base.resources import models_directory


@pytest.mark.slow
def test_the_findings_of_coinrun_are_those_of_its_card() -> None:
    pytest.importorskip("procgen")
    pytest.importorskip("tensorflow")
    result = rl_clarity.debug("models:coinrun", expect=models_directory() / "findings" / "coinrun.json")
    assert result.as_expected, str(result)

"""Findings of an included agent are those that its card lists."""

from __future__ import annotations

import pytest

import rl_clarity
from rl_clarity.base.resources import models_directory


@pytest.mark.slow
def test_findings_of_an_included_agent_equal_those_on_its_model_card() -> None:
    pytest.importorskip("procgen")
    pytest.importorskip("tensorflow")
    expected = models_directory() / "findings" / "starpilot-lstm.json"
    result = rl_clarity.debug("models:starpilot-lstm", expect=expected)
    assert result.as_expected, str(result)

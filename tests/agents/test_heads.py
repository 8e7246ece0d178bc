"""Heads of a network, by the names and widths of its outputs."""

from __future__ import annotations

import pytest

from rl_clarity.agents.heads import check_heads, find_heads
from rl_clarity.base.errors import OptionError


@pytest.mark.parametrize(
    ("names", "widths", "heads"),
    [
        (["policy_logits", "value"], [15, 1], ("policy_logits", "values")),
        (["value", "policy_logits"], [1, 15], ("values", "policy_logits")),
        (["vf", "pi"], [1, 1], ("values", "policy_logits")),
        (["critic", "actor"], [None, 4], ("values", "policy_logits")),
        (["body/state_value", "body/action_logits"], [1, 4], ("values", "policy_logits")),
        (["dense_7", "dense_8"], [4, 1], ("policy_logits", "values")),
        ([None, None], [None, 4], ("values", "policy_logits")),
        (["q_values"], [6], ("q_values",)),
    ],
)
def test_policy_and_value_heads_are_recognized_by_name_or_width(
    names: list[str | None], widths: list[int | None], heads: tuple[str, ...]
) -> None:
    assert find_heads(names, widths) == heads


@pytest.mark.parametrize(
    ("names", "widths"),
    [
        (["a", "b"], [4, 4]),
        (["a", "b"], [1, 1]),
        (["policy"], [4]),
        (["a", "b", "c"], [4, 1, 1]),
        ([], []),
        (["v"], [1]),
    ],
)
def test_error_for_ambiguous_outputs_names_the_option(names: list[str | None], widths: list[int | None]) -> None:
    with pytest.raises(OptionError, match=r"heads=\('(policy_logits', 'values'|q_values',)\)"):
        find_heads(names, widths)


@pytest.mark.parametrize("name", [None, "dense_3", "policy"])
def test_a_single_output_without_a_known_name_is_refused_with_choices(name: str | None) -> None:
    choices = r"of width 6;.*heads=\('q_values',\) for action values.*heads=\('policy_logits',\) for .* without a value"
    with pytest.raises(OptionError, match=choices):
        find_heads([name], [6])


def test_the_heads_option_is_validated() -> None:
    assert check_heads(["values", "policy_logits"], 2) == ("values", "policy_logits")
    assert check_heads(["policy_logits", None], 2) == ("policy_logits", None)
    for wrong, count in (
        *((["values"], 1), (["q_values", "values"], 2), (["policy_logits"] * 2, 2)),
        *(([], 0), (["q_values"], 2), (["policy_logits"], 2)),
    ):
        with pytest.raises(OptionError, match="heads="):
            check_heads(wrong, count)

"""Names of features given by the caller."""

from __future__ import annotations

from typing import Any

import pytest

from rl_clarity.analyses.feature_names import FeatureNameOptions, check_feature_names, layer_feature_names
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.base.errors import OptionError
from rl_clarity.cli.option_types import parse_feature_names
from tests.page_options import page_options

LAYERS = (
    PageLayer("input", "input", "input", (8, 8, 3), 3, is_input=True),
    PageLayer("2 b", "2-b", "conv/2 b/Relu", (4, 4, 16), 3),
)


def parsed(names: Any) -> FeatureNameOptions:
    return page_options(feature_names=names).features


@pytest.mark.parametrize("layer", ["2 b", "2-b", "conv/2 b/Relu"])
def test_feature_names_are_assigned_by_layer_and_number(layer: str) -> None:
    options = parsed({layer: {1: "coin", "3": "<b>saw</b>, “quoted” 👩‍🚀"}})  # JSON has texts as keys
    check_feature_names(options, LAYERS)
    assert layer_feature_names(options, LAYERS[1]) == ["coin", None, "<b>saw</b>, “quoted” 👩‍🚀"]


def test_features_have_no_names_by_default() -> None:
    options = FeatureNameOptions()
    check_feature_names(options, LAYERS)
    assert layer_feature_names(options, LAYERS[1]) == [None] * 3


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"2 b": {1: "x" * 61}}, r"features.names\['2 b'\]\[1\]='xxxxxxxxxxxxxxxxxxxx...' has 61 characters"),
        ({"2 b": {1: "a\nb"}}, r"features.names\['2 b'\]\[1\]='a\\nb' contains control characters"),
        ({"2 b": {1: "a\u202eb"}}, "contains control characters"),
        ({"2 b": {1: " "}}, r"features.names\['2 b'\]\[1\]=' ' must be a string that is not blank"),
        ({"2 b": {1: 3}}, r"features.names\['2 b'\]\[1\]=3 must be a string that is not blank"),
        ({"2 b": ["coin"]}, r"features.names\['2 b'\]=\['coin'\] must be a dict"),
        ({"2 b": {0: "coin"}}, "layer 2 b has features 1 to 3, not 0"),
        ({"2 b": {4: "coin"}}, "layer 2 b has features 1 to 3, not 4"),
        ({"2 b": {"one": "coin"}}, "layer 2 b has features 1 to 3, not 'one'"),
        ({"9z": {1: "coin"}}, "the page explains no layer '9z'; its layers are 2 b"),
        ({"input": {1: "coin"}}, "the page explains no layer 'input'; its layers are 2 b"),
        ("coin", "features.names='coin' must be a dict"),
    ],
)
def test_invalid_feature_names_are_refused_with_a_one_line_error(names: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message) as error:
        check_feature_names(parsed(names), LAYERS)
    assert "\n" not in str(error.value)


def test_feature_names_are_parsed_from_the_command_line() -> None:
    assert parse_feature_names(["2b.1=coin", "2b.3=a=b", "a.b.2=saw"]) == {
        "2b": {1: "coin", 3: "a=b"},
        "a.b": {2: "saw"},
    }
    for word in ("2b", "2b=coin", "2b.one=coin"):
        with pytest.raises(OptionError, match=rf"--features.names {word}: write LAYER.NUMBER=NAME"):
            parse_feature_names([word])

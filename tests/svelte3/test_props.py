"""Python values are serialized as JSON for a script element."""

from __future__ import annotations

import json

import numpy as np
import pytest

from svelte3.props import to_json


def test_arrays_and_numpy_scalars_are_serialized_as_json() -> None:
    value = {
        "a": np.arange(4).reshape(2, 2),
        "b": np.float32(0.5),
        "c": np.int64(3),
        "d": (True, None),
        "e": np.bool_(False),
    }
    assert json.loads(to_json(value)) == {"a": [[0, 1], [2, 3]], "b": 0.5, "c": 3, "d": [True, None], "e": False}


def test_precision_is_counted_in_significant_figures() -> None:
    assert to_json([1 / 3, 123456.789, 1e-9 / 7, 2.0], 3) == "[0.333,123000,1.43e-10,2]"
    assert json.loads(to_json(1 / 3)) == 1 / 3


def test_nan_and_infinity_are_serialized_as_null() -> None:
    assert to_json([float("nan"), np.inf, -np.inf]) == "[null,null,null]"


@pytest.mark.parametrize("text", ["</script>", "<!--", "&amp;", "\u2028\u2029", "'\"\\", "\u202e🪙", "\ud83e"])
def test_text_is_escaped_and_decoded_unchanged(text: str) -> None:
    written = to_json({text: text})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {text: text}


def test_unsupported_types_raise_type_error() -> None:
    with pytest.raises(TypeError, match="not set"):
        to_json({"a": {1}})

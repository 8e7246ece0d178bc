"""Names of metadata: similar names are suggested, other names are kept for custom environments."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rl_clarity import formats
from rl_clarity.environments import KINDS, option_names
from rl_clarity.errors import OptionError
from rl_clarity.models import path_of


def test_options_of_all_kinds_are_metadata() -> None:
    names = {field.name for kind in KINDS for field in dataclasses.fields(KINDS.get(kind).options)}
    assert names - option_names({}) == {"num_threads", "factory"}  # only set by callers


@pytest.mark.parametrize(
    ("name", "suggestion"), [("env_nam", "env_name"), ("num_level", "num_levels"), ("gama", "gamma")]
)
def test_a_similar_name_is_suggested(name: str, suggestion: str) -> None:
    with pytest.raises(OptionError, match=rf"unknown metadata {name!r}; did you mean {suggestion!r}\?"):
        formats.read(path_of("coinrun"), **{name: 1})


def test_custom_names_are_kept() -> None:
    checkpoint = formats.read(Path(path_of("coinrun")), wind=3)
    assert checkpoint.metadata["wind"] == 3

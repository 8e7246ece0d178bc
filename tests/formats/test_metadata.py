"""Metadata of checkpoints: values are checked, similar names are suggested, other names are kept."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError, OptionError
from rl_clarity.environments import KINDS, option_names
from rl_clarity.formats.included import path_of
from tests.formats.hostile_files import policy_file


def test_options_of_all_environment_types_are_known_metadata() -> None:
    names = {field.name for kind in KINDS for field in dataclasses.fields(KINDS.get(kind).options)}
    assert names - option_names({}) == {"num_threads", "factory"}  # only set by callers


@pytest.mark.parametrize(
    ("name", "suggestion"), [("env_nam", "env_name"), ("num_level", "num_levels"), ("gama", "gamma")]
)
def test_a_similar_metadata_name_is_suggested(name: str, suggestion: str) -> None:
    with pytest.raises(OptionError, match=rf"unknown metadata {name!r}; did you mean {suggestion!r}\?"):
        formats.read(path_of("coinrun"), **{name: 1})


def test_custom_metadata_names_are_kept() -> None:
    checkpoint = formats.read(Path(path_of("coinrun")), wind=3)
    assert checkpoint.metadata["wind"] == 3


INVALID: list[tuple[str, Any]] = [
    ("gamma", "0.99"),
    ("gamma", float("nan")),
    ("lambda", 2),
    ("reward_scale", float("nan")),
    ("reward_scale", float("inf")),
    ("reward_scale", 10**400),
    ("epsilon_greedy", -0.1),
    ("frame_stack", 10**9),
    ("frame_stack", -1),
    ("frame_stack", 2.5),
    ("emb_size", 0),
    ("observation_shape", [64, -64, 3]),
    ("observation_shape", [64, 64]),
    ("observation_shape", 64),
    ("env_name", "coinrun\ud800"),
    ("env_name", "coin\x1b[2Jrun"),
    ("env_name", ["coinrun"]),
    ("env_kind", "x" * 1000),
    ("input_divisor", 0),
    ("use_lstm", "no"),
    ("of another program", 1 << 100),
    ("of another program", {"a": ["\udfff"]}),
]


@pytest.mark.parametrize(("name", "value"), INVALID)
def test_invalid_metadata_values_are_refused_and_can_be_overridden(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "policy.jd"
    path.write_bytes(policy_file({name: value}))
    with pytest.raises(CheckpointError, match=rf"policy\.jd: its metadata {name}=.* must be .*--metadata {name} VALUE"):
        formats.read(path)
    assert formats.read(path, **{name: None}).metadata[name] is None
    with pytest.raises(OptionError, match=rf"metadata {name}=.* must be "):
        formats.read(path_of("coinrun"), **{name: value})


def test_too_many_metadata_fields_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.jd"
    path.write_bytes(policy_file({f"k{i}": i for i in range(2000)}))
    with pytest.raises(CheckpointError, match="2003 metadata fields"):
        formats.read(path)


def test_a_named_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.jd"
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match=r"policy\.jd: is a named pipe"):
        formats.read(path)
    with pytest.raises(CheckpointError, match="/dev/zero: is a device"):
        formats.read("/dev/zero")

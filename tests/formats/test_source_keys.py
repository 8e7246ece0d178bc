"""Source keys of networks and formats: empty for built-in ones, different after a redefinition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rl_clarity import formats
from rl_clarity.formats.architectures import ARCHITECTURES
from rl_clarity.formats.included import path_of
from rl_clarity.pages.options import LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.sources import checkpoint as source


@pytest.fixture
def checkpoint() -> formats.Checkpoint:
    return formats.read(path_of("coinrun"))


@pytest.fixture(autouse=True)
def restore_registries() -> Iterator[None]:
    yield
    ARCHITECTURES.unregister("clear")
    formats.FORMATS.unregister("baselines")


def sample_keys() -> list[object]:
    plan = source.SamplingPlan(TrajectoriesOptions(), ObservationsOptions(), full_resolution=False, seed=0)
    return source.predict_identity(path_of("coinrun"), LoadOptions(), plan, 15)


def test_built_in_code_has_no_source_key(checkpoint: formats.Checkpoint) -> None:
    assert formats.source_key(checkpoint) == ""


def test_redefining_a_network_changes_its_source_key(checkpoint: formats.Checkpoint) -> None:
    before = sample_keys()
    clear = ARCHITECTURES.get("clear")

    def body(builder: Any, x: Any, options: Mapping[str, Any]) -> Any:
        return clear.body(builder, x, options)

    ARCHITECTURES.register("clear", replace(clear, body=body))
    assert formats.source_key(checkpoint) != ""
    assert sample_keys() != before
    ARCHITECTURES.unregister("clear")
    assert sample_keys() == before


def test_metadata_that_change_the_network_change_the_source_key(checkpoint: formats.Checkpoint) -> None:
    keys = [
        formats.source_key(replace(checkpoint, metadata={**checkpoint.metadata, **metadata}))
        for metadata in ({}, {"gamma": 0.5}, {"activation": "elu"}, {"activation": "tanh"}, {"input_divisor": 1})
    ]
    assert keys[0] == keys[1] == ""
    assert len(set(keys)) == 4


def test_redefining_a_network_does_not_change_keys_of_others(checkpoint: formats.Checkpoint) -> None:
    nature = replace(checkpoint, metadata={**checkpoint.metadata, "cnn": "nature"})
    ARCHITECTURES.register("clear", ARCHITECTURES.get("nature"))
    assert formats.source_key(nature) == ""


def test_redefining_a_format_changes_the_source_key(checkpoint: formats.Checkpoint) -> None:
    before = sample_keys()
    built_in = formats.FORMATS.get("baselines")
    formats.FORMATS.register("baselines", replace(built_in, read=lambda file: built_in.read(file)))
    assert formats.source_key(checkpoint) != ""
    assert sample_keys() != before

"""A slip of the pen in metadata is told; an environment of one's own may ask for anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_clarity import checkpoints
from rl_clarity.checkpoints.metadata_names import NAMES
from rl_clarity.environments import metadata
from rl_clarity.environments.coinrun_old import OPTIONS as COINRUN_OLD_OPTIONS
from rl_clarity.environments.procgen import DEFAULT_OPTIONS as PROCGEN_OPTIONS
from rl_clarity.errors import OptionError
from rl_clarity.models import path_of


def test_names_of_every_environment_are_known() -> None:
    asked = {*metadata._COMMON, *metadata._ATARI, *metadata._GYMNASIUM, *PROCGEN_OPTIONS, *COINRUN_OLD_OPTIONS}
    assert asked - {"rand_seed"} <= set(NAMES)


@pytest.mark.parametrize(("given", "meant"), [("env_nam", "env_name"), ("num_level", "num_levels"), ("gama", "gamma")])
def test_a_name_that_is_nearly_known_is_told(given: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"{given!r} is not known; did you mean {meant!r}"):
        checkpoints.read(path_of("coinrun"), **{given: 1})


def test_names_of_ones_own_are_kept() -> None:
    checkpoint = checkpoints.read(Path(path_of("coinrun")), wind=3)
    assert checkpoint.metadata["wind"] == 3

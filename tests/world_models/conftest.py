"""A small agent, a recording of it and simulators, shared by the tests of this folder."""

from __future__ import annotations

import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.options import Size
from rl_clarity.world_models.simulator import Simulator, new_world
from tests.world_models.dots import dot_agent, record_dots

SMALLEST = Size(latent=6, deterministic=12, variables=3, classes=4, hidden=10, channels=(4, 4))


@pytest.fixture(scope="package")
def agent() -> KerasAgent:
    return dot_agent()


@pytest.fixture(scope="package")
def recording(agent: KerasAgent, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record_dots(tmp_path_factory.mktemp("dots") / "recording", agent)


@pytest.fixture(scope="package")
def simulator(agent: KerasAgent) -> Simulator:
    """An untrained one, of the smallest size."""
    return Simulator(agent, new_world(agent, SMALLEST), {"action_combos": [["LEFT"], [], ["RIGHT"]]})

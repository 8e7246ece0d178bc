"""The hint test: saliency of an agent that was trained with hints lies on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid
from rl_clarity.analyses.checks.methods import find_methods
from rl_clarity.analyses.saliency import pixel_maps
from rl_clarity.base.errors import SamplesError
from rl_clarity.base.statistics import bootstrap_interval
from tests.analyses import hint_agents

FRAMES = 48


@pytest.fixture(scope="module")
def agents() -> dict[bool, tuple[Any, float]]:
    """The agent that was trained with the expert's hints (False), and the one with random hints (True)."""
    pytest.importorskip("torch")
    return {random: hint_agents.train(random) for random in (False, True)}


@pytest.mark.slow
def test_agents_with_and_without_expert_hints_learn_the_expert_policy(agents: dict[bool, tuple[Any, float]]) -> None:
    assert agents[False][1] > 0.99
    assert agents[True][1] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        *("perturbation", "jacobian", "smooth_gradients", "input_integrated_gradients"),
        *("integrated_gradients body.1", "integrated_gradients body.3"),
    ],
)
def test_only_the_agent_trained_with_expert_hints_has_saliency_on_them(
    agents: dict[bool, tuple[Any, float]], method: str
) -> None:
    shares = {}
    for random, (agent, _) in agents.items():
        environment = hint_agents.hinted(random, FRAMES, seed=2)
        found = find_methods(agent, [method])[method]
        values = found.values(agent, environment.reset().observations, ["policy"])
        maps = pixel_maps(agent, found, values)[0]
        share = rl_clarity.hint_share(maps, environment.region)
        shares[random] = bootstrap_interval(share, np.random.default_rng(0))
    assert shares[False].low > shares[True].high
    assert shares[False].mean > 2 * environment.region.mean()


def test_hint_share_is_the_fraction_of_saliency_on_the_hints() -> None:
    region = np.zeros((80, 80), bool)
    region[:10] = True
    maps = np.zeros((3, 80, 80))
    maps[0, :10], maps[1, :20] = -2, 1  # the third has no mass anywhere
    np.testing.assert_allclose(rl_clarity.hint_share(maps, region), [1, 0.5, 0])
    np.testing.assert_allclose(rl_clarity.hint_share(maps[..., None], region), [1, 0.5, 0])
    grid = np.zeros((1, *PerturbationGrid.for_shape(80, 80).shape))
    grid[:, 0] = 1  # 1 in row 0, 0 in row 5 and below
    np.testing.assert_allclose(rl_clarity.hint_share(grid, region), [1])
    with pytest.raises(SamplesError, match=r"maps have the shape \(3, 40, 80\)"):
        rl_clarity.hint_share(maps[:, :40], region)

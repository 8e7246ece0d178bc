"""All outputs of a frame are explained along the same paths."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.analyses.attribution import attribute, multi_path_attributions
from rl_clarity.reduction import ChannelReduction
from rl_clarity.stages.attribution import _explain
from rl_clarity.stages.batches import ALONG_PATHS, PATHS, held_scores
from rl_clarity.stages.plan import outputs_to_compute
from tests.fakes import TinyAgent
from tests.stages.test_plan import plan

PATHS_OF_A_PAGE = {"attr_max_paths": 2, "attr_integrate_steps": 3}
COMBOS = [("LEFT",), ("LEFT", "UP"), ("RIGHT",), ()]
SEED = [0, 0, 0]


class Counting(TinyAgent):
    """Counts how often it is differentiated."""

    calls: list[int]

    def _gradients(self, site, values, selection, state):
        self.calls.append(selection.shape[1])
        return super()._gradients(site, values, selection, state)


@pytest.fixture
def agent() -> Counting:
    made = Counting(num_actions=4, observation_shape=(32, 32, 3))
    object.__setattr__(made, "calls", [])
    return made


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), np.uint8)


def reduction(agent: TinyAgent) -> ChannelReduction:
    return ChannelReduction.fit(attribute(agent, pictures(4), "2a").values[0], 4)


def test_a_group_is_the_sum_of_its_logits_along_the_same_paths(agent):
    page = plan(agent, attr_policy=True, action_combos=COMBOS, **PATHS_OF_A_PAGE)
    (layer,) = [layer for layer in page.layers if layer.name == "2a"]
    reduced = reduction(agent)
    agent.calls.clear()
    found = _explain(agent, page, layer, reduced, pictures(2), None, SEED, 10**10)
    scores = outputs_to_compute(page)
    assert agent.calls == [len(scores)] * (1 + 2 * 3)  # the straight path; one pass a point of the others
    options = {"steps": 3, "max_paths": 2}
    for output in page.outputs:
        actions = [output.action] if output.group is None else page.groups[output.group].actions
        wanted = ["value"] if output.kind == "value" else actions
        alone = sum(
            multi_path_attributions(
                agent, pictures(2), layer.full_name, reduced, [score], rng=np.random.default_rng(SEED), **options
            )[0]
            for score in wanted
        )
        channels, residual = reduced.signed_transform(alone)
        assert np.allclose(found[output.id].channels, channels, atol=1e-5)
        assert np.allclose(found[output.id].residual, residual, atol=1e-5)
        assert np.allclose(found[output.id].gap[:, 0], alone.sum(axis=(1, 2, 3)), atol=1e-4)
    assert any(output.group is not None and len(page.groups[output.group].actions) > 1 for output in page.outputs)


def test_frames_in_parts_follow_the_same_paths(agent):
    page = plan(agent, attr_policy=True, **PATHS_OF_A_PAGE)
    layer, seen, reduced = page.layers[-1], pictures(ALONG_PATHS + 3), reduction(agent)
    whole, last = (
        _explain(agent, page, layer, reduced, observations, None, SEED, 10**10)["action-1"].channels
        for observations in (seen, seen[-2:])
    )
    assert np.allclose(whole[-2:], last, atol=1e-6)


def test_paths_take_memory_for_each_score(agent):
    counts = [
        held_scores(plan(agent, attr_policy=policy, **PATHS_OF_A_PAGE)) - held_scores(plan(agent, attr_policy=policy))
        for policy in (False, True)
    ]
    assert counts[0] == PATHS
    assert counts[1] > counts[0]

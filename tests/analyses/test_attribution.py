"""Attribution along several paths, which all outputs of a frame share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.protocol import State
from rl_clarity.analyses.attribution import attribute, multi_path_attributions
from rl_clarity.analyses.attribution.analysis import (
    PATH_FRAMES,
    PATH_SCORES,
    explain,
    held_scores,
)
from rl_clarity.analyses.attribution.outputs import attributed_outputs, scores_to_compute
from rl_clarity.analyses.layers import page_layers
from rl_clarity.reduction import ChannelReduction
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent

PATHS: dict[str, Any] = {"attr_max_paths": 2, "attr_integrate_steps": 3}
COMBOS = [("LEFT",), ("LEFT", "UP"), ("RIGHT",), ()]
SEED = [0, 0, 0]


class Counting(TinyAgent):
    """Records how many scores each gradient has."""

    calls: list[int]

    def _gradients(self, site: str, values: np.ndarray, selection: np.ndarray, state: State) -> np.ndarray:
        self.calls.append(selection.shape[1])
        return super()._gradients(site, values, selection, state)


@pytest.fixture
def agent() -> Counting:
    agent = Counting(num_actions=4, observation_shape=(32, 32, 3))
    object.__setattr__(agent, "calls", [])
    return agent


def observations(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), np.uint8)


def reduction(agent: TinyAgent) -> ChannelReduction:
    return ChannelReduction.fit(attribute(agent, observations(4), "2a").values[0], 4)


def test_attribution_of_an_action_group_sums_its_logits_on_shared_paths(agent: Any) -> None:
    subject = make_subject(agent, attr_policy=True, action_combos=COMBOS, **PATHS)
    (layer,) = [layer for layer in page_layers(agent, subject.options) if layer.name == "2a"]
    reduced = reduction(agent)
    agent.calls.clear()
    attributed: Any = explain(subject, layer, reduced, observations(2), None, SEED, 64)
    scores = scores_to_compute(subject)
    assert agent.calls == [len(scores)] * (1 + 2 * 3)  # the straight path; one pass per point of the others
    options: dict[str, Any] = {"steps": 3, "max_paths": 2}
    for output in attributed_outputs(subject):
        if output.kind == "value":
            summed: Sequence[Any] = ["value"]
        else:
            summed = [output.action] if output.group is None else subject.info.action_groups[output.group].actions
        alone = [
            multi_path_attributions(
                agent, observations(2), layer.full_name, reduced, [score], rng=np.random.default_rng(SEED), **options
            )[0]
            for score in summed
        ]
        channels, residual = (sum(parts) for parts in zip(*map(reduced.signed_transform, alone), strict=True))
        assert np.allclose(attributed[output.id].channels, channels, atol=1e-5)
        assert np.allclose(attributed[output.id].residual, residual, atol=1e-5)
        assert np.allclose(attributed[output.id].gap[:, 0], sum(alone).sum(axis=(1, 2, 3)), atol=1e-4)
    assert any(len(group.actions) > 1 for group in subject.info.action_groups)


def test_multi_path_attribution_does_not_depend_on_the_batch(agent: Any) -> None:
    subject = make_subject(agent, attr_policy=True, **PATHS)
    layer, frames, reduced = page_layers(agent, subject.options)[-1], observations(PATH_FRAMES + 3), reduction(agent)
    together, last = (
        explain(subject, layer, reduced, part, None, SEED, 64)["action-1"].channels for part in (frames, frames[-2:])
    )
    assert np.allclose(together[-2:], last, atol=1e-6)


def test_memory_use_of_multi_path_attribution_grows_with_outputs(agent: Any) -> None:
    counts = [
        held_scores(make_subject(agent, attr_policy=policy, **PATHS))
        - held_scores(make_subject(agent, attr_policy=policy))
        for policy in (False, True)
    ]
    assert counts[0] == PATH_SCORES
    assert counts[1] > counts[0]

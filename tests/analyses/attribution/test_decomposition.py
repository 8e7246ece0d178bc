"""An output is the sum of baseline, features, residual, memory and completeness error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import State
from rl_clarity.analyses.attribution import attribute
from rl_clarity.analyses.attribution.analysis import explain
from rl_clarity.analyses.attribution.baselines import Baseline
from rl_clarity.analyses.layers import page_layers
from rl_clarity.reduction import ChannelReduction
from rl_clarity.visualization.totals import output_decomposition
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent

FRAMES = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
COMBOS = [("LEFT",), ("LEFT", "UP"), ("RIGHT",), ()]
STATE: State = (np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32),)


def decompositions(agent: TinyAgent, state: State = None, baseline: Baseline = "zero-layer", **options: Any) -> Any:
    subject = make_subject(agent, attr_policy=True, action_combos=COMBOS, **options)
    layer = page_layers(agent, subject.options)[-1]
    reduction = ChannelReduction.fit(attribute(agent, FRAMES, "2a", [subject.output_kind], state=state).values[0], 4)
    explained = explain(subject, layer, reduction, FRAMES, state, [0, 0, 0], 64, baseline)
    return {
        output: output_decomposition(one.sums["totals"], one.sums["gap"], one.sums.get("memory"))
        for output, one in explained.items()
    }


def total(terms: dict[str, np.ndarray]) -> np.ndarray:
    parts = [values for name, values in terms.items() if name not in ("output", "features")]
    return np.sum([*parts, terms["features"].sum(axis=1)], axis=0)


def agent_of_kind(kind: str = "policy") -> TinyAgent:
    return TinyAgent(kind, num_actions=4, observation_shape=(32, 32, 3))


@pytest.mark.parametrize("options", [{}, {"attr_max_paths": 2, "attr_integrate_steps": 3}], ids=["straight", "paths"])
@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input", "mean"])
@pytest.mark.parametrize("kind", ["policy", "recurrent", "q"])
def test_the_terms_of_a_decomposition_add_up_to_the_output(kind: str, baseline: str, options: dict[str, Any]) -> None:
    agent, state = agent_of_kind(kind), STATE if kind == "recurrent" else None
    outputs = agent.forward(FRAMES, state)
    actions = outputs.q_values if kind == "q" else outputs.policy_logits
    assert actions is not None
    decomposed = decompositions(agent, state, baseline, **options)
    assert "action-3" in decomposed
    assert ("group-0" in decomposed) == (kind != "q")
    for output, terms in decomposed.items():
        np.testing.assert_allclose(total(terms), terms["output"], rtol=1e-5, atol=1e-5)
        if output.startswith("action"):
            np.testing.assert_allclose(terms["output"], actions[:, int(output[-1])], rtol=1e-5)
        assert (terms["memory"] != 0).all() == (kind == "recurrent")


@pytest.mark.parametrize("baseline", ["zero-layer", "zero-input"])
def test_the_memory_term_is_the_effect_of_the_state_at_the_baseline(baseline: str) -> None:
    agent = agent_of_kind("recurrent")
    values = np.zeros((5, 4, 4, 10)) if baseline == "zero-layer" else agent.activations(np.zeros_like(FRAMES), "2a")
    with_state, without = (agent.forward(FRAMES, state, write={"2a": values}) for state in (STATE, None))
    assert with_state.values is not None
    assert without.values is not None
    decomposed = decompositions(agent, STATE, baseline)
    np.testing.assert_allclose(decomposed["value"]["memory"], with_state.values - without.values, atol=1e-5)
    np.testing.assert_allclose(decomposed["value"]["baseline"], without.values, atol=1e-5)
    logits = [outputs.policy_logits for outputs in (with_state, without)]
    np.testing.assert_allclose(decomposed["action-2"]["memory"], (logits[0] - logits[1])[:, 2], atol=1e-5)  # type: ignore[operator]


def test_the_memory_term_is_zero_in_the_initial_state() -> None:
    agent = agent_of_kind("recurrent")
    terms = decompositions(agent, agent.initial_state(5))["value"]
    np.testing.assert_allclose(terms["memory"], 0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coinrun", "fruitbot", "starpilot-lstm"])
def test_no_connection_bypasses_the_default_layers_of_included_agents(name: str) -> None:
    agent = rl_clarity.load_agent(f"models:{name}")
    frames = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), np.uint8)
    for layer, shape in agent.layers.items():
        values = agent.forward(frames, write={layer: np.zeros((4, *shape))}).values
        assert values is not None
        np.testing.assert_allclose(values, values[0], atol=1e-5, err_msg=layer)


@pytest.mark.slow
def test_skip_connections_bypass_activations_inside_residual_blocks() -> None:
    agent = rl_clarity.load_agent("models:fruitbot")
    frames = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), np.uint8)
    values = agent.forward(frames, write={"Relu_4": np.zeros((4, 16, 16, 32))}).values
    assert values is not None
    assert np.ptp(values) > 1e-3

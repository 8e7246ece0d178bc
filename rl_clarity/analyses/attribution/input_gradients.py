"""The plain gradient with respect to the input."""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.checks import check_agent
from rl_clarity.agents.protocol import Agent, Output, State


def input_gradients(
    agent: Agent, observations: np.ndarray, output: Output = "value", state: State = None
) -> np.ndarray:
    """Gradient (B, H, W, C) of a score with respect to the network's input, `observations / 255`.

    `output` and `state` are as for `integrated_gradients`. Raises OptionError for an agent, an output or a state that
    is none; SamplesError for observations of another shape or range.
    """
    check_agent(agent, ("gradients",))
    return agent.gradients(observations, None, None, [output], state)[0]

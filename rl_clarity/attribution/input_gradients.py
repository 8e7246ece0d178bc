"""The plain gradient with respect to the input."""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.protocol import Agent, Output, State


def input_gradients(
    agent: Agent, observations: np.ndarray, output: Output = "value", state: State = None
) -> np.ndarray:
    """Gradient (B, H, W, C) of a score with respect to the network's input, `observations / 255`."""
    return agent.gradients(observations, None, None, [output], state)[0]

"""Plain gradients with respect to the input."""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, Score, State


def input_gradients(agent: Agent, observations: np.ndarray, output: Score = "value", state: State = None) -> np.ndarray:
    """Return the gradient (B, H, W, C) of a score with respect to the network's input, `observations / 255`.

    See `integrated_gradients` for `output` and `state`. Raises OptionError for an object that is not an agent, an
    unknown output or an invalid state; SamplesError for observations of the wrong shape or range.
    """
    agent = require(agent, "gradients", for_="input_gradients")
    return agent.gradients(observations, "input", [output], state=state)[0]

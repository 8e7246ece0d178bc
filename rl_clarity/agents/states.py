"""States of recurrent agents, where episodes begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.agents.protocol import State


def before_step(agent: Any, state: State, firsts: np.ndarray) -> State:
    """The state that `agent.step(observations, state, firsts)` starts from: what attribution holds fixed.

    Agents may have a method `reset(state, firsts)` that gives it; others start every episode from their initial state.
    """
    reset = getattr(agent, "reset", None)
    if reset is not None:
        return reset(state, firsts)
    return reset_state(state, agent.initial_state(len(firsts)), firsts)


def reset_state(state: State, initial: State, firsts: np.ndarray, later: State = None) -> State:
    """Put the initial state, or `later` if it is given, where an episode begins.

    With `later`, an agent that has not yet taken a step keeps the state it starts from: its state is still `initial`.
    """
    if initial is None or state is None:
        return initial
    firsts = np.asarray(firsts, bool)
    if not firsts.any():
        return state
    if later is not None:
        untouched = [
            np.all(np.reshape(old == new, (len(firsts), -1)), axis=1) for old, new in zip(state, initial, strict=True)
        ]
        firsts = firsts & ~np.all(untouched, axis=0)
    return tuple(
        np.where(firsts.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)
        for old, new in zip(state, initial if later is None else later, strict=True)
    )

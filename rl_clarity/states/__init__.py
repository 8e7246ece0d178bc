"""Analyze what recurrent agents remember: directions, clusters and behaviors of states, and influence through
memory.
"""

from rl_clarity.states.analysis import StateAnalysis, analyze_states, load_states
from rl_clarity.states.correlation import Consistency, consistency, correlation_intervals, lagged_correlation
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.influence import influence
from rl_clarity.states.intervention import Intervention, intervene
from rl_clarity.states.replay import ReplayCurves, replay

__all__ = [
    "Consistency",
    "Intervention",
    "ReplayCurves",
    "StateAnalysis",
    "StateData",
    "analyze_states",
    "consistency",
    "correlation_intervals",
    "influence",
    "intervene",
    "lagged_correlation",
    "load_states",
    "read_states",
    "replay",
]

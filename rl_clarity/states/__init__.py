"""What recurrent agents remember: directions, clusters and behaviours of states, influence through memory."""

from rl_clarity.states.correlation import Consistency, consistency, correlation_intervals, lagged_correlation
from rl_clarity.states.influence import influence

__all__ = ["Consistency", "consistency", "correlation_intervals", "influence", "lagged_correlation"]

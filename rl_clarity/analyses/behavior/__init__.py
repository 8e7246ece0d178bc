"""Ablation in play: compare the returns and ends of episodes with and without a feature."""

from rl_clarity.analyses.behavior.analysis import BehaviorAnalysis
from rl_clarity.analyses.behavior.options import BehaviorOptions

__all__ = ["BehaviorAnalysis", "BehaviorOptions"]

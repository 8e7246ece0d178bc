"""Objects: what the agent's outputs are without each object that it sees, measured in worlds that can be edited."""

from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.options import ObjectsOptions

__all__ = ["ObjectsAnalysis", "ObjectsOptions"]

"""Reduce a layer's channels to a few features, and recurrent states to directions."""

from rl_clarity.reduction.methods import REDUCTIONS, Reduction
from rl_clarity.reduction.nmf import ChannelReduction

__all__ = ["REDUCTIONS", "ChannelReduction", "Reduction"]

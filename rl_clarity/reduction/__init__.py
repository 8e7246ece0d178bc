"""Reduction of a layer's channels to a few that people can look at."""

from rl_clarity.reduction.nmf import ChannelReduction

__all__ = ["ChannelReduction"]

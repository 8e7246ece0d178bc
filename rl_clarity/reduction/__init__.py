"""Reduction of a layer's channels to a few features."""

from rl_clarity.reduction.nmf import ChannelReduction

__all__ = ["ChannelReduction"]

"""Explain agents trained by reinforcement learning: from a checkpoint to an interactive page."""

__version__ = "0.1.0"

"""The protocol `Agent`, and agents on Keras models and PyTorch modules."""

from rl_clarity.agents.protocol import Agent, Edit, Outputs, Score, Site, State, Tail, Tensor

__all__ = ["Agent", "Edit", "Outputs", "Score", "Site", "State", "Tail", "Tensor"]

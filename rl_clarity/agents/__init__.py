"""The protocol `Agent`, and agents on Keras models and PyTorch modules."""

from rl_clarity.agents.protocol import Agent, Outputs, Score, Site, State, Tail, Tensor, Written

__all__ = ["Agent", "Outputs", "Score", "Site", "State", "Tail", "Tensor", "Written"]

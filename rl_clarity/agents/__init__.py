"""The protocol `Agent`, and implementations of it for Keras models, PyTorch modules and JAX functions."""

from rl_clarity.agents.protocol import Agent, Outputs, Score, Site, State, Tail, Tensor, Written

__all__ = ["Agent", "Outputs", "Score", "Site", "State", "Tail", "Tensor", "Written"]

"""What the rest of the program needs of an agent (`Agent`), and agents whose network is a Keras model."""

from rl_clarity.agents.protocol import Agent, Operation, Output, Outputs, PathGradients, State

__all__ = ["Agent", "Operation", "Output", "Outputs", "PathGradients", "State"]

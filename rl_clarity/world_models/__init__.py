"""A differentiable simulator of a frozen agent and its environment."""

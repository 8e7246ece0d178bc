"""Effects of objects: how the agent's outputs change without each object, measured in worlds that can be edited."""

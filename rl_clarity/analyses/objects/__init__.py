"""Objects: what the agent's outputs are without each object that it sees, measured in worlds that can be edited."""

"""Sources provide an agent's episodes: from arrays, by collecting samples, or by recording the agent's play."""

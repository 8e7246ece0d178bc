"""Sources provide the episodes of an agent, from arrays, from a checkpoint that collects samples, or by recording."""

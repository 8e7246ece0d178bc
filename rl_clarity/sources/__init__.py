"""Sources: where the episodes of an agent come from. One source per module."""

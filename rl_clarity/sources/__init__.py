"""Sources provide the episodes of an agent. Each module has one kind of source."""

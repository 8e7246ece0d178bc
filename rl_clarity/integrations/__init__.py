"""Use agents and environments of other libraries, as they are in memory: one library per module."""

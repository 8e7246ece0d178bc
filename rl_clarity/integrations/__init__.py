"""Use agents and environments of other libraries that are in memory, with a module for each library."""

"""Use agents and environments that other libraries have in memory. There is a module for each library."""

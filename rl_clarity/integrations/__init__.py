"""Use in-memory agents and environments of other libraries, with one module for each library."""

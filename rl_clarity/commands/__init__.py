"""Functions that run a whole command, such as `run` and `compare`: one module for each."""

"""Base modules, which every package may use."""

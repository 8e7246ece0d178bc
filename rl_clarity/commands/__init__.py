"""The commands: a module for each, with its options, sources and kind of page."""

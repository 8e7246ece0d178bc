"""Samples of an agent at play: collecting and keeping them, advantages, bookmarks, and how well it plays."""

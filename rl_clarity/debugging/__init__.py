"""Test why episodes fail and what an agent pursues, by continuing from saved and edited states of its environment."""

"""Why episodes fail and what an agent pursues, tested by continuing from saved and edited states of its environment."""

"""Everything about an agent's play: recordings of episodes, samples for a page, advantages, and evaluation."""

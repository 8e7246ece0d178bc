"""Play of an agent: recordings of episodes, samples for a page, advantages, and how well it plays."""

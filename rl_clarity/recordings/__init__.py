"""Record episodes, collect samples for a page, compute advantages, and evaluate agents."""

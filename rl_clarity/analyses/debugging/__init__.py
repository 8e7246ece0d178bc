"""The analyses of the debugger: failures, survival without a feature, goals, and findings."""

"""The analyses of the debugger: failures, goals, and findings, which are made from what all tests measured."""

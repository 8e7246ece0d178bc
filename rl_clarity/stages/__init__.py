"""The stages between an agent and its page: what is planned, computed and written, one stage a module."""

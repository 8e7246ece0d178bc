"""What can be computed about an agent and shown on a page: one analysis a module or folder."""

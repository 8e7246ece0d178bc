"""Analyses of recurrent agents: the contents of their states, how far back memory reaches, and which earlier step
caused an action.
"""

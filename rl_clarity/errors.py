"""Errors a user can act on: each says what was wrong, with the value, and what to do."""

from __future__ import annotations


class ClarityError(ValueError):
    """Base of every error that is about the user's input rather than about a defect of the program."""


class OptionError(ClarityError):
    """An unknown option, or a value it cannot have."""


class CheckpointError(ClarityError):
    """A checkpoint that cannot be read, or does not fit its network."""


class EnvironmentSetupError(ClarityError):
    """An environment that cannot be made: unknown name, missing package, unsupported spaces."""


class SamplesError(ClarityError):
    """Saved or given samples that are missing, damaged, or do not fit the agent."""


class OutputError(ClarityError):
    """An output directory that must not or cannot be written."""

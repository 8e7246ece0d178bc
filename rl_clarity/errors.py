"""Errors that a user can act on: each says what was wrong, with the value, and what to do."""

from __future__ import annotations


class ClarityError(ValueError):
    """Base of all errors that concern the user's input rather than a defect of the program."""


class OptionError(ClarityError):
    """An unknown option, or a value that it cannot have."""


class DependencyError(ClarityError):
    """An optional package is needed and not installed."""


class CheckpointError(ClarityError):
    """A checkpoint that cannot be read, or does not fit its network."""


class EnvironmentSetupError(ClarityError):
    """An environment that cannot be made: unknown name, missing package, unsupported spaces."""


class SamplesError(ClarityError):
    """Samples that are missing, damaged, or do not fit the agent."""


class OutputError(ClarityError):
    """An output directory that must not or cannot be written."""


class EvaluationError(ClarityError):
    """An agent whose return is not the expected one."""

"""Environments that agents play in, with a module for each kind, behind a vectorized protocol.

To add a kind, write an `EnvironmentKind` with its options and `make`, and register it: `KINDS.register(name, kind)`, or
an entry point of the group `rl_clarity.environments`.
"""

from rl_clarity.environments.kinds import (
    KINDS,
    EnvironmentKind,
    EnvironmentSpec,
    check_environment,
    frame_shape,
    make,
    option_names,
    override_name,
    set_untrusted_aside,
    source_key,
    spec_from_metadata,
)
from rl_clarity.environments.protocol import Combo, Step, VectorEnvironment

__all__ = [
    "KINDS",
    "Combo",
    "EnvironmentKind",
    "EnvironmentSpec",
    "Step",
    "VectorEnvironment",
    "check_environment",
    "frame_shape",
    "make",
    "option_names",
    "override_name",
    "set_untrusted_aside",
    "source_key",
    "spec_from_metadata",
]

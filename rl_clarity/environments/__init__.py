"""Environments in which agents play. Each kind of environment has a module, and all kinds implement the same vectorized
protocol.

To add a kind, create an `EnvironmentKind` with its options and its function `make`, and register it with
`KINDS.register(name, kind)` or as an entry point of the group `rl_clarity.environments`.
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

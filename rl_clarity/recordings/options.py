"""Options of sampling: where samples are kept, and how much the agent plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rl_clarity.parsing import check_minimum


@dataclass(frozen=True)
class LoadOptions:
    """Where samples of the agent's play are stored, and whether they are reused."""

    resample: bool = True
    """Collect samples, rather than reuse those that an earlier run saved."""
    model_path: Path | None = None
    """Copy of the checkpoint; in `rl-clarity/` beside the checkpoint by default."""
    metadata_path: Path | None = None
    """Metadata of agent and samples (JSON)."""
    trajectories_path: Path | None = None
    """The trajectories."""
    observations_path: Path | None = None
    """The extra observations."""
    full_resolution: bool = False
    """Also record frames at the environment's full resolution, and show those."""
    temp_files: bool = False
    """Store samples in a temporary directory, which is removed at the end."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Metadata that overrides the checkpoint's: env_kind, env_name, gamma, frame_stack, ..."""


@dataclass(frozen=True)
class TrajectoriesOptions:
    """The trajectories that the page shows."""

    num_envs: int = 8
    """Number of trajectories, one per environment."""
    num_steps: int = 512
    """Steps of each."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "num_envs", "num_steps")


@dataclass(frozen=True)
class ObservationsOptions:
    """The extra observations that features are computed from."""

    num_envs: int = 32
    """Environments; long play in a few is more like the agent's experience than short play in many."""
    num_obs: int = 128
    """Observations of each."""
    obs_every: int = 24
    """Steps between them."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "num_envs", "num_obs", "obs_every")

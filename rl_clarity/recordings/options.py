"""Options of sampling: where samples are kept, and how much the agent plays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.base.quiet import keras_backend
from rl_clarity.jobs.machine import computes_in_bfloat16, gpu_count


@dataclass(frozen=True)
class LoadOptions:
    """Where samples of the agent's play are stored, and whether they are reused."""

    resample: bool = True
    """Collect new samples instead of reusing those that an earlier run saved."""
    model_path: Path | None = None
    """Path of the copy of the checkpoint; by default in `rl-clarity/` beside the checkpoint."""
    metadata_path: Path | None = None
    """Path of the metadata of agent and samples (JSON)."""
    trajectories_path: Path | None = None
    """Path of the trajectories."""
    observations_path: Path | None = None
    """Path of the extra observations."""
    full_resolution: bool = False
    """Also record frames at the environment's full resolution, and show those."""
    temp_files: bool = False
    """Store samples in a temporary directory, which is removed at the end."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Metadata that override the checkpoint's: env_kind, env_name, gamma, frame_stack, ..."""
    check: Any = None
    """Outputs that the agent must reproduce: a dict of arrays or an .npz file, with `observations`, and the `logits`,
    `values` or `q_values` that the network's original program computed for them."""


@dataclass(frozen=True)
class TrajectoriesOptions:
    """The trajectories that the page shows."""

    num_envs: int = 8
    """Number of trajectories, one per environment."""
    num_steps: int = 512
    """Number of steps of each trajectory."""
    discard_first: bool = False
    """Leave out the first step of the first episode, as understanding-rl-vision does."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "num_envs", "num_steps")


@dataclass(frozen=True)
class ObservationsOptions:
    """The extra observations that features are computed from."""

    num_envs: int = 32
    """Number of environments. Long play in a few environments is more like the agent's experience than short play in
    many."""
    num_obs: int = 128
    """Number of observations collected from each environment."""
    obs_every: int = 24
    """Number of steps from one observation to the next."""
    bfloat16: bool | None = None
    """Play in bfloat16 instead of float32. This takes about half the time on a processor with bfloat16 instructions,
    and changes the policy's probabilities by less than 0.01. By default it is on for such processors, with TensorFlow.
    """

    def __post_init__(self) -> None:
        check_minimum(self, 1, "num_envs", "num_obs", "obs_every")

    def resolved(self) -> ObservationsOptions:
        """Return these options with the defaults for this machine."""
        if self.bfloat16 is not None:
            return self
        fast = computes_in_bfloat16() and not gpu_count()
        return replace(self, bfloat16=fast and keras_backend() == "tensorflow")


@dataclass(frozen=True)
class RecordOptions:
    """Options of a recording: the number of episodes or steps that an agent plays, and how it chooses actions."""

    episodes: int | None = None
    """Total number of episodes, divided as equally as possible among the environments. Default: 100, unless steps are
    given."""
    steps: int | None = None
    """Total number of steps of all environments. Unfinished episodes are stopped at the end."""
    whole_games: bool = False
    """Count whole games instead of episodes, if a game has several (one per life of an Atari game, with
    episodic_life)."""
    seed: int = 0
    """Seed of levels and actions."""
    temperature: float = 1.0
    """Divides the logits of the policy: below 1 for more likely actions, above 1 for more random ones."""
    greedy: bool = False
    """Take the most likely action instead of sampling one. Actions are then random only if action_noise is set."""
    action_noise: float | None = None
    """Probability of taking a uniformly random action instead. Default: as in training (epsilon_greedy), or 0 if
    greedy."""
    full_resolution: bool = False
    """Also record frames at the environment's full resolution, and show those."""
    info: tuple[str, ...] = ()
    """Names of numbers in Gymnasium's info to record at each step. The name `objects` records where the nearest object
    of each type is, in games whose objects are known."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "episodes", "steps")
        check_minimum(self, 0, "seed")


@dataclass(frozen=True)
class GamesOptions:
    """How many games each checkpoint of a training run plays."""

    episodes: int = 1
    """Number of games that the page shows for each checkpoint: those with the returns nearest to the median, the
    nearest first."""
    candidates: int = 5
    """Number of games that each checkpoint plays, from which the shown games are chosen. All checkpoints play games
    with the same seeds."""
    max_steps: int = 1000
    """Number of steps after which one of these games is cut off."""
    greedy: bool = False
    """Take the most likely action instead of sampling one, and never take a random action."""
    return_episodes: int = 16
    """Number of additional games that each checkpoint plays, which are used only for the mean return."""
    full_resolution: bool = False
    """Also record frames at the environment's full resolution, and show those."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "episodes", "candidates", "max_steps", "return_episodes")


@dataclass(frozen=True)
class EvaluationOptions:
    """How many episodes an agent plays to estimate its mean return, and how."""

    episodes: int = 500
    """Total number of episodes, divided as equally as possible among the environments."""
    seed: int = 0
    """Seed of levels and actions."""
    unseen: bool = True
    """Also play levels that the agent was not trained on, if training was limited to some levels (Procgen)."""
    random: bool = False
    """Also play a random policy."""
    deterministic: bool = False
    """Take the most likely action instead of sampling one, and never take a random action (epsilon_greedy)."""
    max_steps: int = 27_000
    """Number of steps after which an episode is cut off: half an hour of an Atari game, longer than any episode of
    Procgen."""
    expect_return: float | None = None
    """Fail unless the 95 % interval of the agent's mean return contains this return."""
    tolerance: float = 0.0
    """Amount by which the interval for expect_return is extended on both sides."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "episodes", "max_steps")
        check_minimum(self, 0, "seed")
        expected = self.expect_return
        check_option(self, "expect_return", expected is None or math.isfinite(expected), "must be a finite number")
        check_option(self, "tolerance", 0 <= self.tolerance < math.inf, "must be a finite number of at least 0")

"""Training options. Names and defaults are those with which the agents of understanding-rl-vision were trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import parse, unknown_option
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.environments.procgen import KIND as PROCGEN

REWARD_PROCESSING = ("none", "clip", "normalize")
PRECISIONS = ("float32", "bfloat16")
ALIASES = {"lambda": "lambda_", "lam": "lambda_"}
PROCGEN_OPTIONS = {name: getattr(PROCGEN.options(), name) for name in PROCGEN.option_names()}
KIND_OPTIONS = {**PROCGEN_OPTIONS, "use_sticky_actions": False}
"""Options that only some kinds of environment have, with their defaults."""


@dataclass(frozen=True)
class TrainOptions:
    """Training options. Either `env_name` or `env_id` is required."""

    env_name: str | None = None
    """Name of the environment, such as `coinrun` or `breakout`."""
    env_id: str | None = None
    """Environment id instead of a name, such as `procgen:procgen-coinrun-v0` or `BreakoutNoFrameskip-v4`."""
    env_kind: str = "procgen"
    """Kind of environment: `procgen`, `coinrun_old`, `atari`, `gymnasium`, `light_switch`."""
    num_envs: int = 64
    """Number of parallel environments in each MPI process."""
    learning_rate: float = 5e-4
    """Learning rate of Adam."""
    entropy_coeff: float = 0.01
    """Coefficient of the entropy in the loss."""
    gamma: float = 0.999
    """Discount factor."""
    lambda_: float = 0.95
    """Lambda of generalized advantage estimation (`lambda` in a checkpoint)."""
    num_steps: int = 256
    """Number of steps in each environment per update."""
    num_minibatches: int = 8
    """Number of minibatches per epoch; each is one optimizer step."""
    ppo_epochs: int = 3
    """Number of epochs per update."""
    clip_range: float = 0.2
    """Clipping range of the probability ratio."""
    clip_vf: bool = True
    """Also clip the change of the value estimate, to at most `clip_range`."""
    timesteps_per_proc: float = 1e9
    """Total number of environment steps in each MPI process."""
    cnn: str = "clear"
    """Network: `clear`, `impala`, `nature`."""
    use_lstm: bool = False
    """Add an LSTM of 256 units after the network's body."""
    gru_units: int = 0
    """Number of units of a GRU with a learned initial state, after the network's body; 0 for no GRU."""
    stack_channels: str = "16_32_32"
    """Channels of the residual blocks of `impala`."""
    emb_size: int = 256
    """Width of the dense layer of `impala`."""
    epsilon_greedy: float = 0.0
    """Probability of replacing an action by a random one."""
    reward_scale: float = 1.0
    """Factor by which rewards are multiplied; reported returns are not scaled."""
    frame_stack: int = 1
    """Number of frames that are stacked into an observation."""
    use_sticky_actions: bool | None = None
    """Atari: repeat the last action with probability 0.25. By default, only if the version in `env_id` does."""
    reward_processing: Literal["none", "clip", "normalize"] = "none"
    """`clip`: use the sign of rewards; `normalize`: divide by the running standard deviation of the return."""
    save_interval: int = 10
    """Number of updates between two checkpoints. With 0, only the first and the last update are saved."""
    save_all: bool = False
    """Keep every checkpoint, as `checkpoint-<update>.jd`."""
    tensorboard: bool = True
    """Write TensorBoard event files to `tensorboard/`."""
    record_every: int = 0
    """Record every n-th episode of the first environment in `tensorboard/`, with its checkpoint; 0 to record none."""
    value_loss_coeff: float = 0.5
    """Coefficient of the value loss."""
    max_grad_norm: float = 0.5
    """Maximum norm of the gradient."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of convolutions and matrix products; `bfloat16` needs support by the CPU. GPUs always use float32."""
    seed: int = 0
    """Seed of parameters, environments, actions and the order of minibatches."""
    num_levels: int | None = None
    """Procgen: number of levels; 0 for an unlimited number."""
    start_level: int | None = None
    """Procgen: first level."""
    distribution_mode: str | None = None
    """Procgen: `easy`, `hard`, `extreme`, `memory`, `exploration`."""
    use_sequential_levels: bool | None = None
    """Procgen: continue with the next level on success instead of ending the episode."""
    use_backgrounds: bool | None = None
    """Procgen: draw backgrounds."""
    restrict_themes: bool | None = None
    """Procgen: use a single theme."""
    use_monochrome_assets: bool | None = None
    """Procgen: draw colored rectangles instead of images."""
    use_generated_assets: bool | None = None
    """Procgen: use generated images."""
    center_agent: bool | None = None
    """Procgen: center the view on the agent."""
    paint_vel_info: bool | None = None
    """Procgen: draw the agent's velocity in a corner."""
    debug_mode: int | None = None
    """Procgen: debug mode."""

    def __post_init__(self) -> None:
        if (self.env_name is None) == (self.env_id is None):
            raise OptionError(
                f"env_name={self.env_name!r}, env_id={self.env_id!r}: pass exactly one of the two, such as "
                "env_name='coinrun'"
            )
        self._check_numbers()
        for name, choices in (("reward_processing", REWARD_PROCESSING), ("precision", PRECISIONS)):
            self._require(name, getattr(self, name) in choices, f"must be one of {', '.join(choices)}")
        self._require("gru_units", not (self.use_lstm and self.gru_units), "and use_lstm=True: choose one of them")
        self._check_minibatches()
        self._check_kind()

    def _check_numbers(self) -> None:
        for name in ("num_envs", "num_steps", "num_minibatches", "ppo_epochs", "frame_stack"):
            self._require(name, getattr(self, name) >= 1, "must be at least 1")
        for name in ("gamma", "lambda_", "epsilon_greedy"):
            self._require(name, 0 <= getattr(self, name) <= 1, "must be from 0 to 1")
        for name in ("learning_rate", "clip_range", "max_grad_norm", "timesteps_per_proc"):
            self._require(name, 0 < getattr(self, name) < math.inf, "must be above 0 and finite")
        for name in ("gru_units", "record_every", "save_interval", "seed"):
            self._require(name, getattr(self, name) >= 0, "must not be negative")
        self._require("value_loss_coeff", 0 <= self.value_loss_coeff < math.inf, "must be finite and not negative")
        self._require("entropy_coeff", math.isfinite(self.entropy_coeff), "must be finite")
        scales = math.isfinite(self.reward_scale) and self.reward_scale != 0
        self._require("reward_scale", scales, "must be finite and not 0")

    def _check_minibatches(self) -> None:
        if self.steps_per_update % self.num_minibatches:
            raise OptionError(
                f"num_minibatches={self.num_minibatches} does not divide num_envs x num_steps = {self.steps_per_update}"
            )
        if (self.use_lstm or self.gru_units) and self.num_envs % self.num_minibatches:
            raise OptionError(
                f"num_minibatches={self.num_minibatches} does not divide num_envs={self.num_envs}: a minibatch "
                "for a recurrent agent must contain all steps of its environments"
            )

    def _check_kind(self) -> None:
        """Raise OptionError for options that the kind of environment, `env_kind`, does not have."""
        spec = self.environment()
        for name, default in KIND_OPTIONS.items():
            known = name in spec.options or getattr(self, name) in (None, default)
            self._require(name, known, f"is not an option for environments of the kind {spec.kind!r}: leave it out")

    def _require(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise OptionError(f"{name.rstrip('_')}={getattr(self, name)!r} {what}")

    @property
    def steps_per_update(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        return max(1, int(self.timesteps_per_proc) // self.steps_per_update)

    def environment(self) -> EnvironmentSpec:
        """Return the environments to train in. They do not scale rewards, so that the reported returns are unscaled."""
        return replace(spec_from_metadata(self.checkpoint_args()), reward_scale=1.0)

    def checkpoint_args(self) -> dict[str, Any]:
        """Return the checkpoint's metadata, with the names of understanding-rl-vision."""
        args = {key: value for key, value in asdict(self).items() if value is not None}
        args["lambda"] = args.pop("lambda_")
        args["library"] = "baselines"
        if self.env_kind == "procgen" and self.env_id is not None:
            args["env_name"] = _game(args.pop("env_id"))
        return args


def train_options(kwargs: Mapping[str, Any]) -> TrainOptions:
    """Parse keyword arguments including `lambda`. Flags may be 0 or 1, as in Baselines.

    Raises OptionError for unknown options, with the nearest known one, and for wrong values.
    """
    kinds = {field.name: str(field.type) for field in fields(TrainOptions)}
    options: dict[str, Any] = {}
    for key, value in kwargs.items():
        name = ALIASES.get(key, key)
        if name not in kinds:
            raise unknown_option(key, [*kinds, *ALIASES])
        if name in options:
            raise OptionError(f"option {key!r} is given twice, also as {name!r}")
        is_flag = kinds[name].startswith("bool") and not isinstance(value, bool) and value in (0, 1)
        options[name] = bool(value) if is_flag else value
    return parse(TrainOptions, options)


def _game(env_id: str) -> str:
    """Return the name of the game in an environment id of Procgen: `coinrun` for `procgen:procgen-coinrun-v0`."""
    name = env_id.removeprefix("procgen:").removeprefix("procgen-")
    return name.rpartition("-v")[0] or name

"""Options of training, with the names and defaults of the agents that `understanding-rl-vision` explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from rl_clarity.environments.metadata import spec_from_metadata
from rl_clarity.environments.procgen import DEFAULT_OPTIONS as PROCGEN_OPTIONS
from rl_clarity.environments.protocol import EnvironmentSpec
from rl_clarity.errors import OptionError
from rl_clarity.parsing import parse, unknown_option

REWARD_PROCESSING = ("none", "clip", "normalize")
PRECISIONS = ("float32", "bfloat16")
ALIASES = {"lambda": "lambda_", "lam": "lambda_"}
OF_ONE_KIND = {**PROCGEN_OPTIONS, "use_sticky_actions": False}
"""Options that other kinds of environment do not have, and what they come to where nobody gives them."""


@dataclass(frozen=True)
class TrainOptions:
    """How an agent is trained. One of `env_name` and `env_id` is required."""

    env_name: str | None = None
    """Game of the kind: `coinrun`, `breakout`."""
    env_id: str | None = None
    """The same as an id: `procgen:procgen-coinrun-v0`, `BreakoutNoFrameskip-v4`, `CarRacing-v3`."""
    env_kind: str = "procgen"
    """Kind of environment: `procgen`, `coinrun_old`, `atari`, `gymnasium`."""
    num_envs: int = 64
    """Environments that play side by side, in each MPI process."""
    learning_rate: float = 5e-4
    """Step size of Adam."""
    entropy_coeff: float = 0.01
    """Weight of the policy's entropy in the loss."""
    gamma: float = 0.999
    """Discount of rewards."""
    lambda_: float = 0.95
    """Generalised advantage estimation: how far advantages look beyond one step (`lambda` in a checkpoint)."""
    num_steps: int = 256
    """Steps each environment plays between two updates."""
    num_minibatches: int = 8
    """Parts that an update's steps are cut into; each makes one step of the optimiser."""
    ppo_epochs: int = 3
    """Times an update goes over its steps."""
    clip_range: float = 0.2
    """How far the probability of an action may move in one update, as a ratio, before its gradient is cut."""
    clip_vf: bool = True
    """Clip changes of the value by `clip_range` as well."""
    timesteps_per_proc: float = 1e9
    """Environment steps in all, of each MPI process."""
    cnn: str = "clear"
    """Network: `clear`, `impala`, `nature`."""
    use_lstm: bool = False
    """Put an LSTM of 256 units behind the network's body."""
    stack_channels: str = "16_32_32"
    """Channels of the blocks of `impala`."""
    emb_size: int = 256
    """Width of the dense layer of `impala`."""
    epsilon_greedy: float = 0.0
    """Share of actions replaced by random ones."""
    reward_scale: float = 1.0
    """Factor of the rewards that are learnt from; reported returns are the game's own."""
    frame_stack: int = 1
    """Frames that an observation is made of."""
    use_sticky_actions: bool | None = None
    """Atari: repeat the last action with probability 0.25. By default as the id's version says, else never."""
    reward_processing: Literal["none", "clip", "normalize"] = "none"
    """`clip`: the rewards' signs; `normalize`: divided by the running standard deviation of the return."""
    save_interval: int = 10
    """Updates between two checkpoints; 0 saves at the end only."""
    save_all: bool = False
    """Keep every checkpoint, as `checkpoint-<update>.jd`."""
    tensorboard: bool = True
    """Also write TensorBoard's event files, in `tensorboard/`."""
    value_loss_coeff: float = 0.5
    """Weight of the value's loss."""
    max_grad_norm: float = 0.5
    """Norm that the gradient of all parameters is cut to."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16`: convolutions and matrix products of learning and acting in it, on processors that have it; parameters
    stay float32. A GPU computes in float32."""
    seed: int = 0
    """Of parameters, environments, actions and the order of minibatches."""
    num_levels: int | None = None
    """Procgen: levels that are played; 0 is all there are."""
    start_level: int | None = None
    """Procgen: the first of them."""
    distribution_mode: str | None = None
    """Procgen: `easy`, `hard`, `extreme`, `memory`, `exploration`."""
    use_sequential_levels: bool | None = None
    """Procgen: play the next level on success, rather than end the episode."""
    use_backgrounds: bool | None = None
    """Procgen: draw backgrounds."""
    restrict_themes: bool | None = None
    """Procgen: one theme only."""
    use_monochrome_assets: bool | None = None
    """Procgen: rectangles of one colour instead of pictures."""
    use_generated_assets: bool | None = None
    """Procgen: generated pictures."""
    center_agent: bool | None = None
    """Procgen: keep the agent in the middle of the picture."""
    paint_vel_info: bool | None = None
    """Procgen: paint the agent's velocity in a corner."""
    debug_mode: int | None = None
    """Procgen's own."""

    def __post_init__(self) -> None:
        if (self.env_name is None) == (self.env_id is None):
            raise OptionError(
                f"env_name={self.env_name!r}, env_id={self.env_id!r}: give one of them, such as 'coinrun'"
            )
        self._check_numbers()
        self._require(
            "reward_processing", self.reward_processing in REWARD_PROCESSING, f"is none of {REWARD_PROCESSING}"
        )
        self._require("precision", self.precision in PRECISIONS, f"is none of {PRECISIONS}")
        self._check_minibatches()
        self._check_kind()

    def _check_numbers(self) -> None:
        for name in ("num_envs", "num_steps", "num_minibatches", "ppo_epochs", "frame_stack"):
            self._require(name, getattr(self, name) >= 1, "must be at least 1")
        for name in ("gamma", "lambda_", "epsilon_greedy"):
            self._require(name, 0 <= getattr(self, name) <= 1, "must be from 0 to 1")
        for name in ("learning_rate", "clip_range", "max_grad_norm", "timesteps_per_proc"):
            self._require(name, 0 < getattr(self, name) < math.inf, "must be above 0 and finite")
        for name in ("save_interval", "seed"):
            self._require(name, getattr(self, name) >= 0, "must not be negative")
        self._require("value_loss_coeff", 0 <= self.value_loss_coeff < math.inf, "must be finite and not negative")
        self._require("entropy_coeff", math.isfinite(self.entropy_coeff), "must be finite")
        scales = math.isfinite(self.reward_scale) and self.reward_scale != 0
        self._require("reward_scale", scales, "must be finite and not 0, or there is nothing to learn from")

    def _check_minibatches(self) -> None:
        if self.steps_per_update % self.num_minibatches:
            raise OptionError(
                f"num_minibatches={self.num_minibatches} does not divide num_envs x num_steps = {self.steps_per_update}"
            )
        if self.use_lstm and self.num_envs % self.num_minibatches:
            raise OptionError(
                f"num_minibatches={self.num_minibatches} does not divide num_envs={self.num_envs}: with use_lstm a "
                "minibatch holds whole environments"
            )

    def _check_kind(self) -> None:
        """Refuse options that this kind of environment would not hear of."""
        spec = self.environment()
        for name, default in OF_ONE_KIND.items():
            heard = name in spec.options or getattr(self, name) in (None, default)
            self._require(name, heard, f"is no option of the kind of environment {spec.kind!r}: leave it out")

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
        """The environments to play in. Rewards are scaled by training itself, so that returns stay the game's own."""
        return replace(spec_from_metadata(self.checkpoint_args()), reward_scale=1.0)

    def checkpoint_args(self) -> dict[str, Any]:
        """What a checkpoint says of its origin, under the names of `understanding-rl-vision`."""
        args = {key: value for key, value in asdict(self).items() if value is not None}
        args["lambda"] = args.pop("lambda_")
        args["library"] = "baselines"
        if self.env_kind == "procgen" and self.env_id is not None:
            args["env_name"] = _game(args.pop("env_id"))
        return args


def train_options(kwargs: Mapping[str, Any]) -> TrainOptions:
    """Options from keyword arguments, `lambda` among them, and 0 and 1 for flags as Baselines wrote them.

    Raises OptionError for an unknown one, naming the nearest known, and for a value that it cannot have.
    """
    kinds = {field.name: str(field.type) for field in fields(TrainOptions)}
    given: dict[str, Any] = {}
    for key, value in kwargs.items():
        name = ALIASES.get(key, key)
        if name not in kinds:
            raise unknown_option(key, [*kinds, *ALIASES])
        if name in given:
            raise OptionError(f"option {key!r} is given twice, under two names")
        is_flag = kinds[name].startswith("bool") and not isinstance(value, bool) and value in (0, 1)
        given[name] = bool(value) if is_flag else value
    return parse(TrainOptions, given)


def _game(env_id: str) -> str:
    """`coinrun`, of Procgen's Gym id `procgen:procgen-coinrun-v0`."""
    name = env_id.removeprefix("procgen:").removeprefix("procgen-")
    return name.rpartition("-v")[0] or name

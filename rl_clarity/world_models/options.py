"""Sizes of the simulator's networks, weights of its losses, and options for fitting it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rl_clarity.base.errors import OptionError
from rl_clarity.ppo.options import PRECISIONS


@dataclass(frozen=True)
class Size:
    """Widths of the world model's networks."""

    latent: int
    """Number of dimensions of the latent b, a point on the unit sphere, from which a simulation starts."""
    deterministic: int
    """Number of units of the deterministic part of the world's state."""
    variables: int
    """Number of categorical variables in the stochastic part."""
    classes: int
    """Number of classes of each variable."""
    hidden: int
    """Number of units of the hidden dense layers."""
    channels: tuple[int, ...]
    """Channels of the encoder's stages, each of which halves the resolution, down to 4 positions."""


SIZES: Mapping[str, Size] = {
    "tiny": Size(latent=32, deterministic=128, variables=8, classes=8, hidden=64, channels=(8, 16, 16, 16)),
    "small": Size(latent=64, deterministic=256, variables=16, classes=16, hidden=256, channels=(16, 32, 64, 64)),
    "paper": Size(latent=128, deterministic=512, variables=32, classes=32, hidden=512, channels=(32, 64, 128, 128)),
}

LOSSES = ("frame", "state", "reward", "end", "kl", "slowness", "uniformity", "first_state", "first_action")
"""Names of the losses, in the order of logs; `losses.simulator_losses` defines them."""


@dataclass(frozen=True)
class FitOptions:
    """Options for `fit_simulator`."""

    size: Literal["tiny", "small", "paper"] = "small"
    """Size of the world model: `tiny` for tests, `small` for machines without a GPU, or `paper`."""
    steps: int = 20_000
    """Training steps, each on one batch."""
    batch_size: int = 16
    """Windows per batch."""
    context: int = 3
    """Number of frames from which a simulation starts."""
    horizon: int = 32
    """Number of steps that are simulated after the context."""
    learning_rate: float = 3e-4
    """Learning rate of Adam."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of convolutions and matrix products; `bfloat16` needs a processor that supports it."""
    max_grad_norm: float = 100.0
    """Maximum norm of the gradient, which excludes the agent's parameters."""
    frame: float = 1.0
    """Weight of the loss for decoded frames."""
    state: float = 1.0
    """Weight of the loss for the agent's state after it gets decoded frames."""
    reward: float = 1.0
    """Weight of the loss for rewards."""
    end: float = 1.0
    """Weight of the loss for the ends of episodes."""
    kl: float = 12.0
    """Weight of the divergence between posterior and prior."""
    kl_balance: float = 0.8
    """Share of that divergence's gradient that trains the prior. The remaining share regularizes the posterior."""
    slowness: float = 0.5
    """Weight of the penalty on changes of the world's deterministic state."""
    uniformity: float = 1.0
    """Weight of the penalty on latents that are not uniformly distributed on the sphere."""
    first_state: float = 1.0
    """Weight of the loss for the agent's first state."""
    first_action: float = 1.0
    """Weight of the loss for the last action before a simulation."""
    save_interval: int = 200
    """Steps between two saved states of training."""
    clip_interval: int = 2000
    """Steps between two clips; 0 for a clip at the end only."""
    log_interval: int = 20
    """Steps between two rows of the logs, which hold means over these steps."""
    tensorboard: bool = True
    """Write TensorBoard event files to `tensorboard/`."""
    seed: int = 0
    """Seed of parameters, batches and samples."""

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise OptionError(f"size={self.size!r} must be one of {', '.join(SIZES)}")
        if self.precision not in PRECISIONS:
            raise OptionError(f"precision={self.precision!r} must be one of {', '.join(PRECISIONS)}")
        for name in ("steps", "batch_size", "context", "horizon", "save_interval", "log_interval"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)!r} must be at least 1")
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise OptionError(f"{name}={getattr(self, name)!r} must be above 0 and finite")
        for name in (*LOSSES, "clip_interval", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise OptionError(f"{name}={getattr(self, name)!r} must be finite and not negative")
        if not 0 <= self.kl_balance <= 1:
            raise OptionError(f"kl_balance={self.kl_balance!r} must be from 0 to 1")

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the losses by name."""
        return {name: float(getattr(self, name)) for name in LOSSES}

    def fixed(self) -> dict[str, Any]:
        """Return the options that must stay the same when training is resumed."""
        return {name: value for name, value in asdict(self).items() if name not in CHANGEABLE}


CHANGEABLE = frozenset(("clip_interval", "learning_rate", "save_interval", "steps", "tensorboard"))
"""Options that may change when training is resumed."""

"""Training agents whose checkpoints `rl_clarity.run` explains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.errors import OutputError

if TYPE_CHECKING:
    from rl_clarity.training.session import TrainingSummary


def train(save_dir: str | Path | None = None, **kwargs: Any) -> TrainingSummary:
    """Train an agent by PPO; `kwargs` are the fields of `TrainOptions`, `lambda` too.

    With `save_dir`, a checkpoint and the state of training are saved there, and training that was interrupted goes on
    when called again.

    Raises OptionError for options that are unknown or cannot be, OutputError where `save_dir` is a file,
    DivergenceError where the numbers stop being finite.
    """
    from rl_clarity.training.options import train_options
    from rl_clarity.training.session import run

    if save_dir is not None and Path(save_dir).is_file():
        raise OutputError(f"{save_dir} is a file, not a directory to train in")
    return run(None if save_dir is None else Path(save_dir), train_options(kwargs))

"""Train agents with PPO."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.base.errors import OutputError

if TYPE_CHECKING:
    from rl_clarity.ppo.session import TrainingSummary


def train(save_dir: str | Path | None = None, *, overwrite: bool = False, **kwargs: Any) -> TrainingSummary:
    """Train an agent with PPO. Keyword arguments are the fields of `TrainOptions`; `lambda_` may be called `lambda`.

    With `save_dir`, a checkpoint and the state of training are saved there, and the same call resumes interrupted
    training. `overwrite` allows replacing an agent that was saved there without a state of training.

    Raises OptionError for unknown options and invalid values, OutputError if `save_dir` is a file, is in use or
    contains an agent without a state of training, CheckpointError if the state is damaged, and DivergenceError if the
    loss is not finite.
    """
    from rl_clarity.ppo.options import train_options
    from rl_clarity.ppo.session import run

    if save_dir == "":
        raise OutputError("save_dir is empty: pass a directory, such as '.' for the current one")
    if save_dir is not None and Path(save_dir).is_file():
        raise OutputError(f"{save_dir} is a file, not a directory to train in")
    return run(None if save_dir is None else Path(save_dir), train_options(kwargs), overwrite=overwrite)

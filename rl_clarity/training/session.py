"""A whole training, from options to checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from rl_clarity.environments import make
from rl_clarity.errors import DependencyError, OptionError
from rl_clarity.files import UNFINISHED
from rl_clarity.jobs import locked
from rl_clarity.quiet import import_keras
from rl_clarity.training import state as training_state
from rl_clarity.training.options import TrainOptions
from rl_clarity.training.parallel import Ranks, ranks
from rl_clarity.training.progress import Bar, CsvLog, EventLog, Log, Logs
from rl_clarity.training.state import TrainingState
from rl_clarity.training.trainer import CHECKPOINT, COLUMNS, STATE, Trainer, environment_seed

CHANGEABLE = frozenset(
    {
        "clip_range",
        "clip_vf",
        "entropy_coeff",
        "learning_rate",
        "max_grad_norm",
        "num_minibatches",
        "ppo_epochs",
        "precision",
        "save_all",
        "save_interval",
        "tensorboard",
        "timesteps_per_proc",
        "value_loss_coeff",
    }
)
"""Options that may differ when training goes on: they say how to learn, not what."""


@dataclass(frozen=True)
class TrainingSummary:
    """How training ended."""

    updates: int
    timesteps: int
    seconds: float
    """Of training itself, over all its parts."""
    mean_return: float
    """Over the last 100 episodes played while training; NaN without one."""
    checkpoint: Path | None


def run(save_dir: Path | None, options: TrainOptions) -> TrainingSummary:
    """Train until `timesteps_per_proc`, from the state in `save_dir` where there is one.

    Raises OutputError where another process trains in that directory.
    """
    _require_tensorflow()
    together = ranks()
    try:
        return _run(save_dir, options, together)
    except BaseException as error:
        together.fail(error, "training")
        raise


def _run(save_dir: Path | None, options: TrainOptions, together: Ranks) -> TrainingSummary:
    with ExitStack() as stack:
        if save_dir is not None and together.rank == 0:
            stack.enter_context(_held(save_dir))
        saved = together.broadcast(_saved_state(save_dir, options) if together.rank == 0 else None)
        updates = 0 if saved is None else int(saved.values["updates"])
        stack.enter_context(compute_precision(options.precision))
        seed = environment_seed(options, updates, together.rank)
        environment = stack.enter_context(closing(make(options.environment(), options.num_envs, seed)))
        trainer = Trainer(options, environment, together)
        if saved is not None:
            trainer.restore(saved)
        log = stack.enter_context(_log(save_dir, trainer)) if together.rank == 0 else None
        while trainer.updates < options.num_updates:
            row = trainer.update()
            if log is not None:
                log.write(row)
            if save_dir is not None and _saves(options, trainer.updates):
                trainer.save(save_dir)
    checkpoint = None if save_dir is None else save_dir / CHECKPOINT
    return TrainingSummary(trainer.updates, trainer.timesteps, trainer.seconds, trainer.mean_return, checkpoint)


@contextmanager
def _held(save_dir: Path) -> Iterator[None]:
    """The directory kept from other processes, and free of what one that was killed had begun to write."""
    with locked(str(save_dir)):
        for name in (Path(CHECKPOINT).stem, STATE):
            for path in save_dir.glob(f".{name}*{UNFINISHED}"):
                path.unlink(missing_ok=True)
        yield


@contextmanager
def _log(save_dir: Path | None, trainer: Trainer) -> Iterator[Logs]:
    """What tells how training goes: the terminal, and files in `save_dir`."""
    options = trainer.options
    with ExitStack() as stack:
        total = options.num_updates * options.steps_per_update
        logs: list[Log] = [stack.enter_context(Bar(total, trainer.timesteps))]
        if save_dir is not None:
            save_dir.mkdir(parents=True, exist_ok=True)
            logs.append(CsvLog(save_dir / "progress.csv", COLUMNS, updates=trainer.updates))
            if options.tensorboard:
                logs.append(stack.enter_context(closing(EventLog(save_dir / "tensorboard"))))
        yield Logs(logs)


def _require_tensorflow() -> None:
    import_keras()
    import keras

    if find_spec("tensorflow") is None:
        raise DependencyError('training needs TensorFlow: pip install "rl-clarity[tensorflow]"')
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise OptionError(f"KERAS_BACKEND={backend}: training needs TensorFlow; set KERAS_BACKEND=tensorflow")


def _saves(options: TrainOptions, updates: int) -> bool:
    return updates == options.num_updates or bool(options.save_interval and updates % options.save_interval == 0)


def _saved_state(save_dir: Path | None, options: TrainOptions) -> TrainingState | None:
    if save_dir is None or not (save_dir / STATE).exists():
        return None
    state = training_state.load(save_dir / STATE)
    before = state.values["options"]
    for name, value in asdict(options).items():
        if name not in CHANGEABLE and name in before and before[name] != value:
            raise OptionError(
                f"{name.rstrip('_')}={value!r}, but the training in {save_dir} had {before[name]!r}: "
                "use another save_dir, or the same value"
            )
    return state


@contextmanager
def compute_precision(precision: str) -> Iterator[None]:
    """Functions compiled meanwhile compute their convolutions and matrix products in this precision."""
    import tensorflow as tf

    before = tf.config.optimizer.get_experimental_options()
    name = "auto_mixed_precision_onednn_bfloat16"
    tf.config.optimizer.set_experimental_options({name: precision == "bfloat16"})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({name: before.get(name, False)})

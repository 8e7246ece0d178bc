"""Run training, from options to checkpoints."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from rl_clarity.base.errors import CheckpointError, ClarityError, DependencyError, OptionError, OutputError
from rl_clarity.base.files import UNFINISHED
from rl_clarity.base.quiet import import_keras
from rl_clarity.environments import VectorEnvironment, make
from rl_clarity.jobs import Communicator, communicator, locked
from rl_clarity.ppo.logs import CsvLog, EventLog, Log, ProgressLog, is_foreign_log, read_csv
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.trainer import CHECKPOINT, COLUMNS, DAMAGED, STATE, Trainer, TrainingState, environment_seed
from rl_clarity.recordings.recorder import Recorder

PROGRESS = "progress.csv"
EVENTS = "tensorboard"
"""Directory of TensorBoard's event files and of the recording."""
CHANGEABLE = frozenset(
    (
        *("clip_range", "clip_vf", "entropy_coeff", "learning_rate", "max_grad_norm", "num_minibatches", "ppo_epochs"),
        *("precision", "record_every", "save_all", "save_interval", "tensorboard", "timesteps_per_proc"),
        "value_loss_coeff",
    )
)
"""Options that may change when training is resumed."""


@dataclass(frozen=True)
class TrainingSummary:
    """The result of training."""

    updates: int
    timesteps: int
    seconds: float
    """Seconds of training, over all runs."""
    mean_return: float
    """Mean return of the last 100 episodes of training, or NaN if no episode has ended."""
    checkpoint: Path | None


Wrap = Callable[[VectorEnvironment], VectorEnvironment]


def run(
    save_dir: Path | None, options: TrainOptions, *, overwrite: bool = False, wrap: Wrap | None = None
) -> TrainingSummary:
    """Train for `timesteps_per_proc` steps, or resume from the state in `save_dir` if there is one.

    `wrap` is called with the environment that the options describe, and returns the environment to train in.

    Training that is interrupted by Ctrl-C or SIGTERM is saved as it was after the last complete update.

    Raises OutputError if another process trains in `save_dir`, or if the directory contains an agent whose training
    cannot be resumed and `overwrite` is false.
    """
    require_tensorflow("training")
    ranks = communicator()
    try:
        with _sigterm_interrupts():
            return _run(save_dir, options, ranks, overwrite, wrap)
    except BaseException as error:
        ranks.fail(error, "training")
        raise


def _run(
    save_dir: Path | None, options: TrainOptions, ranks: Communicator, overwrite: bool, wrap: Wrap | None
) -> TrainingSummary:
    with ExitStack() as stack:
        saved = None
        if save_dir is not None and ranks.rank == 0:
            stack.enter_context(_locked(save_dir))
            saved = _saved_state(save_dir, options, overwrite)
        saved = ranks.broadcast(saved)
        updates = 0 if saved is None else saved.values["updates"]
        stack.enter_context(compute_precision(options.precision))
        seed = environment_seed(options, updates, ranks.rank)
        environment = stack.enter_context(closing(make(options.environment(), options.num_envs, seed)))
        environment = wrap(environment) if wrap else environment
        recorder = _recorder(save_dir, options, environment) if ranks.rank == 0 else None
        if recorder is not None:
            stack.enter_context(recorder)
        trainer = Trainer(options, environment, ranks, recorder)
        if saved is not None and save_dir is not None:
            _restore(trainer, saved, save_dir / STATE)
            if ranks.rank == 0 and not (save_dir / CHECKPOINT).exists():
                trainer.save(save_dir, saved)
        _train(trainer, _Saver(trainer, save_dir), _logs(stack, save_dir, trainer) if ranks.rank == 0 else [])
    checkpoint = None if save_dir is None else save_dir / CHECKPOINT
    return TrainingSummary(trainer.updates, trainer.timesteps, trainer.seconds, trainer.mean_return, checkpoint)


def _restore(trainer: Trainer, saved: TrainingState, path: Path) -> None:
    try:
        trainer.restore(saved)
    except ClarityError:
        raise
    except DAMAGED as error:
        raise CheckpointError(
            f"{path} does not fit this training ({error}): choose another directory, or remove the file and start "
            "again with overwrite=True (--force), which replaces the agent"
        ) from error


def _train(trainer: Trainer, saver: _Saver, logs: list[Log]) -> None:
    try:
        while trainer.updates < trainer.options.num_updates:
            row = trainer.update()
            if trainer.updates == 1:
                saver.keep()
                saver.save()  # do this before the logs of an earlier training are replaced
            for log in logs:
                log.write(row)
            saver.keep()
            if saver.is_due():
                saver.save()
    except KeyboardInterrupt as interruption:
        saver.save()
        interruption.args = (saver.hint(),)
        raise


class _Saver:
    """Keeps the state after the last update in memory, and writes it to `save_dir` if that is given."""

    def __init__(self, trainer: Trainer, save_dir: Path | None) -> None:
        self._trainer, self._save_dir = trainer, save_dir
        self._unsaved: TrainingState | None = None
        self._saved = trainer.updates

    def is_due(self) -> bool:
        """Return whether to save now, because the interval has passed or training ends."""
        options, updates = self._trainer.options, self._trainer.updates
        return updates == options.num_updates or (options.save_interval > 0 and updates % options.save_interval == 0)

    def keep(self) -> None:
        """Keep the current state, unless it is saved already. All ranks call it together."""
        if self._save_dir is not None and self._trainer.updates != self._saved:
            self._unsaved = self._trainer.state()

    def save(self) -> None:
        """Write the last state that was kept, on rank 0, unless it is saved already."""
        if self._save_dir is None or self._unsaved is None:
            return
        if self._trainer.ranks.rank == 0:
            self._trainer.save(self._save_dir, self._unsaved)
        self._saved, self._unsaved = self._unsaved.values["updates"], None

    def hint(self) -> str:
        """Return a message that says what has been saved when training is interrupted."""
        if self._save_dir is None:
            return "nothing is saved without save_dir"
        if not (self._save_dir / STATE).exists():
            return "nothing is saved before the first update"
        return "training is saved, and resumes when it is started again"


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM, which job schedulers send, interrupt the block like Ctrl-C, unless the caller handles SIGTERM."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _locked(save_dir: Path) -> Iterator[None]:
    """Lock the directory in the block, and delete unfinished files of a killed process first."""
    with locked(str(save_dir)):
        for name in (Path(CHECKPOINT).stem, STATE):
            for path in save_dir.glob(f".{name}*{UNFINISHED}"):
                path.unlink(missing_ok=True)
        yield


def _saved_state(save_dir: Path, options: TrainOptions, overwrite: bool) -> TrainingState | None:
    """Return the state from which to resume, or None to start from scratch."""
    path = save_dir / STATE
    if not path.exists():
        left = [CHECKPOINT] if (save_dir / CHECKPOINT).exists() else []
        left += [PROGRESS] if is_foreign_log(save_dir / PROGRESS) else []
        if left and not overwrite:
            raise OutputError(
                f"{save_dir} contains {' and '.join(left)}, but no {STATE} to resume from: choose another directory, "
                "or start again with overwrite=True (--force), which replaces the agent and its log"
            )
        return None
    try:
        state = TrainingState.load(path)
    except CheckpointError:
        if not overwrite:
            raise
        return None
    before = state.values["options"]
    for name, value in asdict(options).items():
        if name not in CHANGEABLE and name in before and before[name] != value:
            raise OptionError(
                f"{name.rstrip('_')}={value!r}, but the training in {save_dir} has {before[name]!r}: use the same "
                "value, or another directory"
            )
    progress = save_dir / PROGRESS
    logged = {row.get("update") for row in read_csv(progress)} if progress.exists() else set()
    if state.values["updates"] == 1 and "1" not in logged:
        return None  # The first state is saved before its update is logged. If it was not logged, repeat the update.
    return state


def _logs(stack: ExitStack, save_dir: Path | None, trainer: Trainer) -> list[Log]:
    """Return the logs: progress on the terminal, and files in `save_dir`."""
    total = trainer.options.num_updates * trainer.options.steps_per_update
    logs: list[Log] = [stack.enter_context(ProgressLog(total, trainer.timesteps))]
    if save_dir is not None:
        save_dir.mkdir(parents=True, exist_ok=True)
        logs.append(CsvLog(save_dir / PROGRESS, COLUMNS))
        if trainer.options.tensorboard:
            logs.append(stack.enter_context(closing(EventLog(save_dir / EVENTS))))
    return logs


def _recorder(save_dir: Path | None, options: TrainOptions, environment: VectorEnvironment) -> Recorder | None:
    if save_dir is None or not options.record_every:
        return None
    metadata = {
        "name": options.environment().name,
        "environment": options.environment(),
        "action_combos": environment.action_combos,
        "gamma": options.gamma,
        "lambda": options.lambda_,
    }
    return Recorder(save_dir / EVENTS, every=options.record_every, seed=options.seed, metadata=metadata)


def require_tensorflow(what: str) -> None:
    """Raise DependencyError if TensorFlow is not installed, or OptionError if Keras runs on another backend. The
    message says that `what` needs TensorFlow.
    """
    import_keras()
    import keras

    if find_spec("tensorflow") is None:
        raise DependencyError(f'{what} needs TensorFlow: pip install "rl-clarity[tensorflow]"')
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise OptionError(f"KERAS_BACKEND is {backend}, but {what} needs TensorFlow: set KERAS_BACKEND=tensorflow")


@contextmanager
def compute_precision(precision: str) -> Iterator[None]:
    """Compile functions in the block with convolutions and matrix products in this precision."""
    import tensorflow as tf

    before = tf.config.optimizer.get_experimental_options()
    name = "auto_mixed_precision_onednn_bfloat16"
    tf.config.optimizer.set_experimental_options({name: precision == "bfloat16"})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({name: before.get(name, False)})

"""`rl_clarity.fit_simulator` trains the world model on a recording, with the frozen agent in the loop."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.protocol import Agent, Tensor
from rl_clarity.base.adam import Adam
from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError, OutputError
from rl_clarity.base.files import UNFINISHED
from rl_clarity.base.parsing import parse
from rl_clarity.base.progress import progress_bar
from rl_clarity.jobs import locked
from rl_clarity.ppo.logs import CsvLog, EventLog, Log, is_foreign_log
from rl_clarity.ppo.session import compute_precision
from rl_clarity.ppo.trainer import DAMAGED, DivergenceError, TrainingState
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.world_models.clips import clip_frames, write_clip
from rl_clarity.world_models.files import save_simulator
from rl_clarity.world_models.losses import Batch, simulator_losses, total_loss
from rl_clarity.world_models.networks import gumbel
from rl_clarity.world_models.options import LOSSES, SIZES, FitOptions
from rl_clarity.world_models.rollouts import follow
from rl_clarity.world_models.simulator import Simulator, agent_fingerprint, check_agent, new_world, split_state
from rl_clarity.world_models.windows import Windows

SIMULATOR = "simulator.safetensors"
STATE = "training-state.npz"
QUALITY = "quality.json"
PROGRESS = "progress.csv"
CLIP_WINDOWS = 4
COLUMNS = ("update", "timesteps", "seconds", *LOSSES, "loss", "gradient_norm")
BATCHES, NOISE, CLIP = 1, 2, 3
"""Streams of random numbers. Each step has its own seed, so no generator state is needed to resume training."""


def fit_simulator(
    agent: Agent,
    recording: Recording | str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> Simulator:
    """Train a simulator of the agent and its environment on a recording.

    With a directory, `simulator.safetensors`, the state of training, `progress.csv`, TensorBoard event files and clips
    (from left to right: truth, posterior, prior with the true actions, agent in the loop) are written there. The same
    call then resumes interrupted training, with the same result as without the interruption. The agent is frozen: its
    parameters are neither optimized nor counted in the gradient's norm.

    Args:
        agent: an agent whose network runs on Keras with TensorFlow
        recording: episodes of this agent with its states, as `rl_clarity.record` writes them, with some noise in the
            actions (`action_noise`), so that the simulator also learns the effects of actions that the agent would not
            choose
        directory: where to save; nothing is saved without it
        overwrite: start again in a directory whose training cannot be resumed
        options: see `FitOptions`: `size`, `steps`, `batch_size`, `horizon`, weights of the losses, ...

    Raises:
        OptionError: Options are invalid, the agent is not on Keras, or options or agent differ from those of the
            training that is resumed.
        SamplesError: The recording does not fit the agent.
        CheckpointError: The saved state of training is damaged.
        OutputError: The directory contains other files with these names, or cannot be written.
        DivergenceError: A loss is not finite.
    """
    chosen = parse(FitOptions, options)
    network = check_agent(agent)
    if not isinstance(recording, Recording):
        recording = open_recording(recording)
    fitter = Fitter(network, recording, chosen)
    with ExitStack() as stack:
        stack.enter_context(compute_precision(chosen.precision))
        logs: list[Log] = []
        folder = None if directory is None else Path(directory)
        if folder is not None:
            stack.enter_context(_prepared(folder))
            _resume(fitter, folder, overwrite)
            logs.append(CsvLog(folder / PROGRESS, COLUMNS))
            if chosen.tensorboard:
                logs.append(stack.enter_context(closing(EventLog(folder / "tensorboard"))))
        report = stack.enter_context(progress_bar("Fitting the simulator"))
        complete: TrainingState | None = None
        try:
            while fitter.steps < chosen.steps:
                row = fitter.step()
                if row is not None:
                    for log in logs:
                        log.write(row)
                report(fitter.steps / chosen.steps)
                if folder is not None:
                    complete = fitter.state()  # an interruption may occur in the middle of the next step
                    _write(fitter, complete, folder)
        except KeyboardInterrupt as interruption:
            if folder is not None and complete is not None:
                complete.save(folder / STATE)
                interruption.args = ("training is saved, and resumes when it is started again",)
            raise
    return fitter.simulator()


class Fitter:
    """Trains a simulator step by step. `state()` returns everything that changes between steps."""

    def __init__(self, agent: KerasAgent, recording: Recording, options: FitOptions) -> None:
        import tensorflow as tf

        self.agent, self.options = agent, options
        self._fingerprint = agent_fingerprint(agent)
        self.windows = Windows(recording, agent, options.context, options.horizon)
        self.world = new_world(agent, SIZES[options.size], options.seed)
        self.steps, self.seconds = 0, 0.0
        self._facts = {"action_combos": recording.metadata.get("action_combos"), "recorded_steps": len(self.windows)}
        self._variables = [variable.value for variable in self.world.variables.values()]
        sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        self._ends = np.cumsum(sizes)[:-1]
        self._adam = Adam((sum(sizes),), options.learning_rate, dtype=np.float32)
        self._agent_step = agent.differentiable_step()
        self._gradient = tf.function(self._trace_gradient)
        self._sums = np.zeros(len(LOSSES) + 2)  # sums since the last row of the logs
        self._count = 0

    def step(self) -> dict[str, Any] | None:
        """Learn from a batch. Return a row of `COLUMNS` every `log_interval` steps."""
        start = time.perf_counter()
        batch = self.windows.batch(self._rng(BATCHES), self.options.batch_size)
        values = self.learn(batch, self._noise())
        self.steps += 1
        self.seconds += time.perf_counter() - start
        self._sums += values
        self._count += 1
        if self.steps % self.options.log_interval and self.steps != self.options.steps:
            return None
        means = (self._sums / self._count).tolist()
        self._sums, self._count = np.zeros_like(self._sums), 0
        windows = self.steps * self.options.batch_size
        about = {"update": self.steps, "timesteps": windows * self.options.horizon, "seconds": self.seconds}
        return {**about, **dict(zip(COLUMNS[len(about) :], means, strict=True))}

    def learn(self, batch: Batch, noise: np.ndarray) -> np.ndarray:
        """Take a step of the optimizer. Return the losses, their weighted sum, and the gradient's norm before
        clipping.
        """
        losses, gradient = (tensor.numpy() for tensor in self._gradient(*batch.arrays(), noise))
        norm = float(np.linalg.norm(gradient))
        if not (np.isfinite(norm) and np.isfinite(losses).all()):
            raise DivergenceError(
                f"step {self.steps + 1}: the gradient's norm is {norm}, the losses are "
                f"{dict(zip((*LOSSES, 'loss'), losses.tolist(), strict=True))}; a smaller learning_rate than "
                f"{self.options.learning_rate} may help"
            )
        gradient *= self.options.max_grad_norm / max(norm, self.options.max_grad_norm)
        for variable, part in zip(self._variables, np.split(self._adam.step(gradient), self._ends), strict=True):
            variable.assign_sub(part.reshape(variable.shape))
        return np.array([*losses, norm])

    def simulator(self) -> Simulator:
        """Return the simulator with the current parameters."""
        facts = {"fit": asdict(self.options), "fitted_steps": self.steps, **self._facts}
        return Simulator(self.agent, self.world, facts)

    def clip(self) -> np.ndarray:
        """Return the frames of a clip of a few windows. The windows are the same at every call."""
        rng = np.random.default_rng([self.options.seed, CLIP])
        batch = self.windows.batch(rng, CLIP_WINDOWS)
        return clip_frames(batch, follow(self.simulator(), batch))

    def state(self) -> TrainingState:
        """Return everything that the next step depends on."""
        arrays = {f"world/{name}": array for name, array in self.world.parameters().items()}
        arrays |= {f"adam/{name}": array for name, array in self._adam.state().items()}
        arrays["log"] = np.array([*self._sums, self._count])
        values = {"updates": self.steps, "seconds": self.seconds, "options": self.options.fixed()}
        return TrainingState(arrays, {**values, "agent": self._fingerprint})

    def restore(self, state: TrainingState) -> None:
        """Continue from a state. Raises OptionError for a state from a different agent or with different options."""
        if state.values["agent"] != self._fingerprint:
            raise OptionError("the training in this directory is for a different agent: choose another directory")
        before = state.values["options"]
        for name, value in self.options.fixed().items():
            if before.get(name) != value:
                raise OptionError(
                    f"{name}={value!r}, but the training in this directory has {before.get(name)!r}: use the same "
                    "value, or another directory"
                )
        self.world.assign(state.part("world"))
        self._adam.restore(state.part("adam"))
        *sums, count = state.arrays["log"].tolist()
        self._sums, self._count = np.array(sums), int(count)
        self.steps, self.seconds = state.values["updates"], float(state.values["seconds"])

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.options.seed, stream, self.steps])

    def _noise(self) -> np.ndarray:
        size = self.world.size
        shape = (self.options.horizon + 1, self.options.batch_size, size.variables, size.classes)
        return gumbel(self._rng(NOISE), shape)

    def _trace_gradient(self, *arrays: Tensor) -> tuple[Tensor, Tensor]:
        import tensorflow as tf

        *parts, noise = arrays
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            losses = simulator_losses(
                self.world,
                self._agent_step,
                lambda flat: split_state(self.agent, flat),
                len(self.agent.heads),
                Batch(*parts),
                noise,
                self.options.kl_balance,
            )
            loss = total_loss(losses, self.options.weights)
        zero = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(loss, self._variables, unconnected_gradients=zero)
        flat = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)
        return tf.stack([*(losses[name] for name in LOSSES), loss]), flat


@contextmanager
def _prepared(folder: Path) -> Iterator[None]:
    """Lock the directory, and delete the unfinished files of a killed process."""
    with locked(str(folder)):
        for name in (SIMULATOR, STATE):
            for path in folder.glob(f".{name}*{UNFINISHED}"):
                path.unlink(missing_ok=True)
        yield


def _resume(fitter: Fitter, folder: Path, overwrite: bool) -> None:
    path = folder / STATE
    if not path.exists():
        if not overwrite:
            _check_foreign(folder)
        return
    try:
        fitter.restore(TrainingState.load(path))
        if not (folder / SIMULATOR).exists():
            save_simulator(fitter.simulator(), folder / SIMULATOR)
    except OptionError:
        if not overwrite:
            raise
    except (ClarityError, *DAMAGED) as error:
        if not overwrite:
            raise CheckpointError(
                f"{path} cannot be resumed ({error}): choose another directory, or start again with overwrite=True "
                "(--force)"
            ) from error


def _check_foreign(folder: Path) -> None:
    """Raise OutputError if a folder without a state of training contains files that an interrupted fit cannot have
    left.
    """
    foreign = [name for name in (SIMULATOR, QUALITY) if os.path.lexists(folder / name)]
    foreign += [PROGRESS] if is_foreign_log(folder / PROGRESS) else []
    if foreign:
        raise OutputError(
            f"{folder} contains {', '.join(foreign)}, but no {STATE} to resume from: choose another directory, or "
            "replace them with overwrite=True (--force)"
        )


def _write(fitter: Fitter, state: TrainingState, folder: Path) -> None:
    """Write the files that are due after a step: a clip, the simulator, the state of training."""
    options, steps = fitter.options, fitter.steps
    last = steps == options.steps
    if last or (options.clip_interval and steps % options.clip_interval == 0):
        write_clip(folder / "clips" / f"{steps:07}.apng", fitter.clip())
    if last or steps % options.save_interval == 0:
        is_first = not (folder / STATE).exists()
        if is_first:  # a simulator without a state cannot be resumed
            (folder / SIMULATOR).unlink(missing_ok=True)
            state.save(folder / STATE)
        save_simulator(fitter.simulator(), folder / SIMULATOR, overwrite=True)
        if not is_first:  # write the state last, because a resumed training does not repeat what precedes it
            state.save(folder / STATE)

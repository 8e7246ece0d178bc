"""Proximal policy optimization as in PPO2 of OpenAI Baselines: play, estimate advantages, learn, save."""

from __future__ import annotations

import io
import json
import time
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError
from rl_clarity.base.files import write_atomically
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.formats import baselines
from rl_clarity.formats.architectures import build
from rl_clarity.jobs import Communicator, SingleProcess
from rl_clarity.ppo.learner import STATISTICS, Learner, LossOptions, Minibatch, normalize
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.rollout import Episode, RewardProcessor, Rollout, Runner, Timer, advantages
from rl_clarity.recordings.recorder import Recorder

RECENT_EPISODES = 100
TIMERS = ("environment", "acting", "learning")
COLUMNS = (
    *("update", "timesteps", "seconds", "steps_per_second", "episodes", "mean_return", "mean_length"),
    *STATISTICS,
    *("gradient_norm", "explained_variance"),
    *(f"seconds_{name}" for name in TIMERS),
)
CHECKPOINT = "checkpoint.jd"
STATE = "training-state.npz"
VALUE_HEAD = "ppo2_model/vf/"


STATE_VALUES = "json"
"""Name of the array that contains the plain values of a `TrainingState`, as JSON."""


class DivergenceError(ClarityError):
    """Raised if the gradient or a loss is not finite. Saved checkpoints are from earlier updates."""


DAMAGED = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Errors that a damaged state file can cause."""


@dataclass(frozen=True)
class TrainingState:
    """Everything on which the next update depends: arrays by name, and plain values."""

    arrays: Mapping[str, np.ndarray]
    values: Mapping[str, Any]

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays whose names begin with `prefix/`, by their names without the prefix."""
        start = f"{prefix}/"
        return {name.removeprefix(start): array for name, array in self.arrays.items() if name.startswith(start)}

    def save(self, path: Path) -> None:
        """Write the state to a file, which is replaced atomically."""
        values = np.frombuffer(json.dumps(dict(self.values), sort_keys=True).encode(), np.uint8)
        content = io.BytesIO()
        arrays: dict[str, Any] = {STATE_VALUES: values, **self.arrays}
        np.savez(content, **arrays)
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> TrainingState:
        """Read a state from a file. Raises CheckpointError if the file is damaged."""
        try:
            with np.load(path, allow_pickle=False) as content:
                arrays = {name: content[name] for name in content.files}
            values = json.loads(arrays.pop(STATE_VALUES).tobytes())
            return cls(arrays, {**values, "updates": int(values["updates"]), "options": dict(values["options"])})
        except DAMAGED as error:
            raise CheckpointError(
                f"{path} is not a training state, or is damaged ({error}): choose another directory, or start again "
                "with overwrite=True (--force), which replaces the agent"
            ) from error


class Trainer:
    """Trains an agent, one update at a time. Between updates, training depends only on what `state()` returns.

    With several MPI ranks, each rank has a trainer, and all ranks call the same methods together.
    """

    def __init__(
        self,
        options: TrainOptions,
        environment: VectorEnvironment,
        ranks: Communicator | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.options = options
        self.ranks = ranks or SingleProcess()
        self.observation_shape = environment.observation_shape
        self.rng = np.random.default_rng([options.seed, 1, self.ranks.rank])
        self.timer = Timer()
        self.rewards = RewardProcessor(
            options.reward_processing, environment.num_envs, options.gamma, options.reward_scale
        )
        network = build(
            options.cnn,
            environment.observation_shape,
            environment.num_actions,
            options.checkpoint_args(),
            seed=options.seed,
        )
        self.learner = Learner(
            network,
            LossOptions(options.clip_range, options.clip_vf, options.entropy_coeff, options.value_loss_coeff),
            learning_rate=options.learning_rate,
            max_grad_norm=options.max_grad_norm,
            sequence=options.num_steps,
            average=self.ranks.average,
        )
        self.recorder = recorder
        self.runner = Runner(environment, self.rewards, self.rng, self.timer, recorder)
        self.updates = 0
        self.episodes = 0
        self.seconds = 0.0
        self.recent: deque[Episode] = deque(maxlen=RECENT_EPISODES)

    def update(self) -> dict[str, Any]:
        """Play a rollout and learn from it. Return a row for the logs, by `COLUMNS`."""
        start = time.perf_counter()
        if self.recorder is not None:
            self.recorder.agent(lambda path: self.save_checkpoint(Path(f"{path}.jd")))
        rollout = self.runner.play(self.learner, self.options.num_steps, first_step=self.timesteps)
        with self.timer.time("learning"):
            statistics = self._learn(rollout)
        elapsed = time.perf_counter() - start
        self.updates += 1
        self.seconds += elapsed
        for episodes in self.ranks.all_gather(rollout.episodes):
            self.episodes += len(episodes)
            self.recent.extend(episodes)
        seconds = self.timer.take()
        return {
            "update": self.updates,
            "timesteps": self.timesteps,
            "seconds": self.seconds,
            "steps_per_second": self.options.steps_per_update / elapsed,
            "episodes": self.episodes,
            "mean_return": self.mean_return,
            "mean_length": float(np.mean([e.length for e in self.recent])) if self.recent else float("nan"),
            **statistics,
            **{f"seconds_{name}": seconds.get(name, 0.0) for name in TIMERS},
        }

    @property
    def mean_return(self) -> float:
        """Mean return of the last 100 episodes, or NaN if no episode has ended."""
        return float(np.mean([episode.reward for episode in self.recent])) if self.recent else float("nan")

    @property
    def timesteps(self) -> int:
        """Number of environment steps of this process so far."""
        return self.updates * self.options.steps_per_update

    def _learn(self, rollout: Rollout) -> dict[str, float]:
        estimated = advantages(rollout, self.options.gamma, self.options.lambda_)
        returns = estimated + rollout.values
        results = []
        for batch in minibatches(rollout, estimated, self.options, self.rng):
            statistics, norm = self.learner.learn(batch)
            if not (np.isfinite(norm) and np.all(np.isfinite(statistics))):
                raise DivergenceError(
                    f"update {self.updates + 1}: the gradient's norm is {norm}, the losses are "
                    f"{dict(zip(STATISTICS, statistics.tolist(), strict=True))}; a smaller learning_rate than "
                    f"{self.options.learning_rate} may help"
                )
            results.append([*statistics, norm])
        means = self.ranks.average(np.mean(results, axis=0))
        return {
            **dict(zip((*STATISTICS, "gradient_norm"), map(float, means), strict=True)),
            "explained_variance": explained_variance(rollout.values, returns),
        }

    def state(self) -> TrainingState:
        """Return the state of all ranks, on every rank."""
        own = {f"rewards/{name}": array for name, array in self.rewards.state().items()}
        own |= {f"player/{name}": array for name, array in self.runner.state().items()}
        arrays = {f"learner/{name}": array for name, array in self.learner.state().items()}
        for rank, part in enumerate(self.ranks.all_gather(own)):
            arrays |= {f"{rank}/{name}": array for name, array in part.items()}
        values = {
            "updates": self.updates,
            "episodes": self.episodes,
            "seconds": self.seconds,
            "recent": [[episode.reward, episode.length] for episode in self.recent],
            "reward_unit": self.rewards.unit,
            "rng": self.ranks.all_gather(self.rng.bit_generator.state),
            "options": asdict(self.options),
        }
        return TrainingState(arrays, values)

    def restore(self, state: TrainingState) -> None:
        """Resume from a state.

        Raises OptionError if a different number of ranks saved the state, and one of the errors in `DAMAGED` if it does
        not fit this training.
        """
        saved_by, own = len(state.values["rng"]), str(self.ranks.rank)
        if saved_by != self.ranks.size:
            raise OptionError(
                f"training was saved by {saved_by} MPI processes and cannot be resumed by {self.ranks.size}: "
                f"start it with mpiexec -n {saved_by}"
            )
        memory = self.learner.initial_state(self.options.num_envs)
        expected = {f"{own}/player/memory/{i}": part for i, part in enumerate(memory)}
        for name, array in {**self.state().arrays, **expected}.items():
            saved = state.arrays.get(name, array)
            if "/environment/" not in name and (saved.shape, saved.dtype) != (array.shape, array.dtype):
                raise ValueError(f"{name} is {saved.dtype} {saved.shape}, not {array.dtype} {array.shape}")
        self.learner.restore(state.part("learner"))
        self.rewards.restore(state.part(f"{own}/rewards"))
        if not self.runner.restore(state.part(f"{own}/player")):
            self.rewards.reset_episodes()
        self.rng.bit_generator.state = state.values["rng"][self.ranks.rank]
        self.updates = state.values["updates"]
        self.episodes = int(state.values["episodes"])
        self.seconds = float(state.values["seconds"])
        self.recent.extend(Episode(*episode) for episode in state.values["recent"])

    def save(self, save_dir: Path, state: TrainingState) -> None:
        """Write the checkpoint for a state of this trainer, then the state.

        The first state is written before its checkpoint, because training with only a checkpoint cannot be resumed.
        """
        is_first = not (save_dir / STATE).exists()
        if is_first:
            (save_dir / CHECKPOINT).unlink(missing_ok=True)
            state.save(save_dir / STATE)
        parameters = state.part("learner/parameters")
        unit, updates = state.values["reward_unit"], state.values["updates"]
        if self.options.save_all:
            self._write(save_dir / f"checkpoint-{updates}.jd", parameters, unit, updates)
        self._write(save_dir / CHECKPOINT, parameters, unit, updates)
        if not is_first:
            state.save(save_dir / STATE)

    def save_checkpoint(self, path: Path) -> None:
        """Write the current checkpoint. Unlike `state`, it can be called by one rank alone."""
        self._write(path, self.learner.network.parameters(), self.rewards.unit, self.updates)

    def _write(self, path: Path, parameters: Mapping[str, np.ndarray], unit: float, updates: int) -> None:
        args = {**self.options.checkpoint_args(), "observation_shape": list(self.observation_shape)}
        extra = {"updates": updates, "timesteps": updates * self.options.steps_per_update}
        baselines.write(path, scale_values(parameters, unit), args, extra)


def scale_values(parameters: Mapping[str, np.ndarray], unit: float) -> dict[str, np.ndarray]:
    """Return the parameters of a network whose value estimates are multiplied by `unit`.

    An agent that learned from normalized rewards predicts normalized returns, but explanations compare its values with
    the environment's rewards. The value is a linear function of the last features, so its head can be scaled.
    """
    return {
        name: (array * np.float32(unit)).astype(np.float32) if name.startswith(VALUE_HEAD) else array
        for name, array in parameters.items()
    }


def minibatches(
    rollout: Rollout, estimated: np.ndarray, options: TrainOptions, rng: np.random.Generator
) -> Iterator[Minibatch]:
    """Split the rollout's steps into `num_minibatches` minibatches at random, `ppo_epochs` times.

    For a recurrent network, a minibatch consists of all steps of some environments, in order.
    """
    num_steps, num_envs = rollout.actions.shape
    length = num_steps if rollout.states else 1  # length of the sequences that stay together
    sequences = np.arange(num_steps * num_envs).reshape(-1, length)  # step t of environment i is number i T + t
    for _ in range(options.ppo_epochs):
        for part in np.split(rng.permutation(len(sequences)), options.num_minibatches):
            environments, steps = np.divmod(sequences[part].ravel(), num_steps)
            chosen = steps, environments
            yield Minibatch(
                observations=rollout.observations[chosen],
                actions=rollout.actions[chosen],
                values=rollout.values[chosen],
                log_probs=rollout.log_probs[chosen],
                advantages=normalize(estimated[chosen]),
                returns=estimated[chosen] + rollout.values[chosen],
                weights=np.full(len(steps), 1 / len(steps), np.float32),
                firsts=rollout.firsts[chosen],
                states=tuple(state[part] for state in rollout.states),
            )


def explained_variance(values: np.ndarray, returns: np.ndarray) -> float:
    """Return the fraction of the returns' variance that the values explain, or NaN if all returns are equal."""
    variance = float(np.var(returns))
    return float("nan") if variance == 0 else 1 - float(np.var(returns - values)) / variance


def environment_seed(options: TrainOptions, updates: int, rank: int = 0) -> int:
    """Return the seed of environments that are created after `updates` updates. The seed depends on `updates`, so that
    environments that cannot be restored get new levels when training is resumed.
    """
    return int(np.random.SeedSequence([options.seed, 2, updates, rank]).generate_state(1)[0] % 2**31)

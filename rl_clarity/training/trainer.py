"""Proximal policy optimisation as in Baselines' PPO2: play, estimate advantages, improve, save; again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.checkpoints import baselines
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.errors import ClarityError, OptionError
from rl_clarity.networks import build
from rl_clarity.training import state as training_state
from rl_clarity.training.clock import Clock
from rl_clarity.training.learner import Learner
from rl_clarity.training.loss import STATISTICS, LossOptions, Minibatch, normalize
from rl_clarity.training.options import TrainOptions
from rl_clarity.training.parallel import Alone, Ranks
from rl_clarity.training.rewards import RewardProcessor
from rl_clarity.training.rollout import Episode, Rollout, Runner, advantages
from rl_clarity.training.state import TrainingState

RECENT_EPISODES = 100
CLOCKS = ("environment", "acting", "learning")
COLUMNS = (
    "update",
    "timesteps",
    "seconds",
    "steps_per_second",
    "episodes",
    "mean_return",
    "mean_length",
    *STATISTICS,
    "gradient_norm",
    "explained_variance",
    *(f"seconds_{name}" for name in CLOCKS),
)
CHECKPOINT = "checkpoint.jd"
STATE = "training-state.npz"
VALUE_HEAD = "ppo2_model/vf/"


class DivergenceError(ClarityError):
    """Training came to numbers that are not finite; the last checkpoint is from before."""


class Trainer:
    """Training between two updates: what `state()` gives is all that the next update depends on.

    On several ranks, each holds one, and all call the same methods together.
    """

    def __init__(self, options: TrainOptions, environment: VectorEnvironment, ranks: Ranks | None = None) -> None:
        self.options = options
        self.ranks = ranks or Alone()
        self.observation_shape = environment.observation_shape
        self.rng = np.random.default_rng([options.seed, 1, self.ranks.rank])
        self.clock = Clock()
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
            average=self.ranks.average if self.ranks.size > 1 else None,
        )
        self.runner = Runner(environment, self.rewards, self.rng, self.clock)
        self.updates = 0
        self.episodes = 0
        self.seconds = 0.0
        self.recent: deque[Episode] = deque(maxlen=RECENT_EPISODES)

    def update(self) -> dict[str, Any]:
        """Play, learn; the row of `COLUMNS` that says how it went."""
        start = time.perf_counter()
        rollout = self.runner.play(self.learner, self.options.num_steps)
        with self.clock.time("learning"):
            statistics = self._learn(rollout)
        elapsed = time.perf_counter() - start
        self.updates += 1
        self.seconds += elapsed
        for episodes in self.ranks.gather(rollout.episodes):
            self.episodes += len(episodes)
            self.recent.extend(episodes)
        clocks = self.clock.take()
        return {
            "update": self.updates,
            "timesteps": self.timesteps,
            "seconds": self.seconds,
            "steps_per_second": self.options.steps_per_update / elapsed,
            "episodes": self.episodes,
            "mean_return": self.mean_return,
            "mean_length": float(np.mean([e.length for e in self.recent])) if self.recent else float("nan"),
            **statistics,
            **{f"seconds_{name}": clocks.get(name, 0.0) for name in CLOCKS},
        }

    @property
    def mean_return(self) -> float:
        """Over the last episodes; NaN without one."""
        return float(np.mean([episode.reward for episode in self.recent])) if self.recent else float("nan")

    @property
    def timesteps(self) -> int:
        """Environment steps so far, of this process."""
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
        """All ranks' state, on every rank."""
        own = {f"rewards/{name}": array for name, array in self.rewards.state().items()}
        own |= {f"player/{name}": array for name, array in self.runner.state().items()}
        arrays = {f"learner/{name}": array for name, array in self.learner.state().items()}
        for rank, part in enumerate(self.ranks.gather(own)):
            arrays |= {f"{rank}/{name}": array for name, array in part.items()}
        values = {
            "updates": self.updates,
            "episodes": self.episodes,
            "seconds": self.seconds,
            "recent": [[episode.reward, episode.length] for episode in self.recent],
            "rng": self.ranks.gather(self.rng.bit_generator.state),
            "options": asdict(self.options),
        }
        return TrainingState(arrays, values)

    def restore(self, state: TrainingState) -> None:
        """Go on from there; raises OptionError if it was saved by another number of ranks."""
        saved_by = len(state.values["rng"])
        if saved_by != self.ranks.size:
            raise OptionError(
                f"the training was saved by {saved_by} MPI processes and cannot go on with {self.ranks.size}: "
                f"start it with mpiexec -n {saved_by}"
            )
        own = f"{self.ranks.rank}"
        self.learner.restore(state.part("learner"))
        self.rewards.restore(state.part(f"{own}/rewards"))
        if not self.runner.restore(state.part(f"{own}/player")):
            self.rewards.begin()
        self.rng.bit_generator.state = state.values["rng"][self.ranks.rank]
        self.updates = int(state.values["updates"])
        self.episodes = int(state.values["episodes"])
        self.seconds = float(state.values["seconds"])
        self.recent.extend(Episode(*episode) for episode in state.values["recent"])

    def save(self, save_dir: Path) -> None:
        """Write the checkpoint, then the state that training goes on from; rank 0 does."""
        state = self.state()
        if self.ranks.rank != 0:
            return
        args = {**self.options.checkpoint_args(), "observation_shape": list(self.observation_shape)}
        extra = {"updates": self.updates, "timesteps": self.timesteps}
        parameters = in_units_of(self.rewards.unit, self.learner.network.parameters())
        if self.options.save_all:
            baselines.write(save_dir / f"checkpoint-{self.updates}.jd", parameters, args, extra)
        baselines.write(save_dir / CHECKPOINT, parameters, args, extra)
        training_state.save(save_dir / STATE, state)


def in_units_of(unit: float, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters with values multiplied by `unit`.

    An agent that learnt from normalised rewards expects normalised returns; whoever explains it compares its values
    with the game's own rewards. The value is a linear function of the last features, so its head can be scaled.
    """
    return {
        name: (array * np.float32(unit)).astype(np.float32) if name.startswith(VALUE_HEAD) else array
        for name, array in parameters.items()
    }


def minibatches(
    rollout: Rollout, estimated: np.ndarray, options: TrainOptions, rng: np.random.Generator
) -> Iterator[Minibatch]:
    """The rollout's steps, `ppo_epochs` times in another order, in `num_minibatches` parts each.

    A part for a network with a memory is the steps of some environments in order, else steps from anywhere.
    """
    num_steps, num_envs = rollout.actions.shape
    length = num_steps if rollout.states else 1  # steps that stay together
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
    """Share of the returns' variance that the values tell; NaN where there is none."""
    variance = float(np.var(returns))
    return float("nan") if variance == 0 else 1 - float(np.var(returns - values)) / variance


def environment_seed(options: TrainOptions, updates: int, rank: int = 0) -> int:
    """Seed of environments made when `updates` updates are done: those that begin anew then meet new levels."""
    return int(np.random.SeedSequence([options.seed, 2, updates, rank]).generate_state(1)[0] % 2**31)

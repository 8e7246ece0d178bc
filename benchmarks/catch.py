"""Reproduce a known result: the learning curve of Stable-Baselines3's PPO on Catch, with the same settings.

python -m benchmarks.catch [SEED ...]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np

from rl_clarity.environments import make
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.trainer import Trainer

ROWS, COLUMNS = 10, 5
RANDOM_RETURN = 2 / COLUMNS - 1
"""Mean return of a random policy: wherever the paddle ends, the ball is in this column with a probability of 1/5."""
BEST_RETURN = 1.0

UPDATES = 40
PART = 10
"""Number of updates over which returns are averaged, because each plays only 48 games."""
KNOWN = ((-0.283, 0.068), (0.618, 0.117), (0.885, 0.101), (0.950, 0.032))
"""Mean return of Stable-Baselines3 2.9.2 in each quarter of training, and its standard deviation over seeds 1 to 8: PPO
with the library's NatureCNN, `vf_coef=0.25` (its value loss lacks a factor of 1/2) and the settings below."""
SETTINGS: Mapping[str, Any] = {
    "num_envs": 16,
    "num_steps": 27,
    "num_minibatches": 4,
    "ppo_epochs": 3,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "entropy_coeff": 0.01,
    "clip_vf": False,
    "cnn": "nature",
}


class Catch(gymnasium.Env[np.ndarray, np.int64]):
    """A ball falls on a board of 10 x 5 cells; the paddle in the last row moves left, stays or moves right to catch it.

    The rules are bsuite's (Osband et al. 2020, https://arxiv.org/abs/1908.03568): one reward, 1 or -1, after nine
    steps. A cell is 4 x 8 pixels.
    """

    observation_space = gymnasium.spaces.Box(0, 255, (40, 40, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._row, self._column, self._paddle = 0, int(self.np_random.integers(COLUMNS)), COLUMNS // 2
        return self._draw(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._row += 1
        self._paddle = min(max(self._paddle + int(action) - 1, 0), COLUMNS - 1)
        ended = self._row == ROWS - 1
        reward = (1.0 if self._paddle == self._column else -1.0) if ended else 0.0
        return self._draw(), reward, ended, False, {}

    def _draw(self) -> np.ndarray:
        board = np.zeros((ROWS, COLUMNS, 1), np.uint8)
        board[self._row, self._column] = board[ROWS - 1, self._paddle] = 255
        return board.repeat(4, axis=0).repeat(8, axis=1)


gymnasium.register("RlClarityCatch-v0", f"{__name__}:Catch")


def learning_curve(seed: int) -> list[float]:
    """Return the mean return of the games of each update."""
    options = TrainOptions(env_kind="gymnasium", env_id="RlClarityCatch-v0", seed=seed, **SETTINGS)
    returns = []
    with closing(make(options.environment(), options.num_envs, seed)) as environment:
        trainer = Trainer(options, environment)
        for _ in range(UPDATES):
            trainer.recent.clear()
            returns.append(float(trainer.update()["mean_return"]))
    return returns


def quarters(curves: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return the mean and the standard deviation over seeds, for each quarter of training."""
    result = []
    for start in range(0, UPDATES, PART):
        means = [statistics.mean(curve[start : start + PART]) for curve in curves]
        result.append((statistics.mean(means), statistics.stdev(means)))
    return result


def main() -> None:
    seeds = [int(seed) for seed in sys.argv[1:]] or list(range(1, 9))
    ours = quarters([learning_curve(seed) for seed in seeds])
    print(f"Catch, mean return and its standard deviation over seeds {', '.join(map(str, seeds))}")
    print(f"{'updates':>10} {'here':>16} {'known':>16}")
    for i, (here, known) in enumerate(zip(ours, KNOWN, strict=True)):
        numbers = (f"{mean:.2f} +- {spread:.2f}" for mean, spread in (here, known))
        print(f"{f'{i * PART + 1} to {(i + 1) * PART}':>10} " + " ".join(f"{text:>16}" for text in numbers))


if __name__ == "__main__":
    main()

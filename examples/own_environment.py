"""Train an agent in a custom Gymnasium environment, and explain it.

    python examples/own_environment.py                 # some minutes: learns the game
    python examples/own_environment.py --size tiny     # a single update, as a test

The environment is the class `Catch` below. Any environment works if its observations are images (uint8 or float,
grayscale or color, channels first or last) and its actions are discrete.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import rl_clarity

SIDE, CELLS = 32, 8
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"timesteps": 1792, "play": {"num_envs": 1, "num_steps": 32}, "varied": {"num_envs": 8, "num_obs": 4}},
    "small": {"timesteps": 40_000, "play": {"num_envs": 2, "num_steps": 256}, "varied": {"num_envs": 64, "num_obs": 8}},
}


class Catch(gymnasium.Env[np.ndarray, np.int64]):
    """An apple (red) or a stone (gray) falls; the basket (blue, three cells wide) should catch only apples."""

    observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def get_action_meanings(self) -> list[str]:
        """Names of the actions on the page; without this method they are numbered."""
        return ["LEFT", "NOOP", "RIGHT"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.row, self.column = 0, int(self.np_random.integers(CELLS))
        self.basket = int(self.np_random.integers(1, CELLS - 1))  # its center
        self.is_apple = bool(self.np_random.random() < 0.5)
        return self.draw(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.basket = int(np.clip(self.basket + int(action) - 1, 1, CELLS - 2))
        self.row += 1
        landed = self.row == CELLS - 1
        caught = landed and abs(self.column - self.basket) <= 1
        reward = (1.0 if self.is_apple else -1.0) if caught else 0.0
        return self.draw(), reward, landed, False, {}

    def draw(self) -> np.ndarray:
        cells = np.full((CELLS, CELLS, 3), (24, 32, 24), np.uint8)
        cells[CELLS - 1, self.basket - 1 : self.basket + 2] = (60, 90, 255)
        cells[self.row, self.column] = (230, 50, 40) if self.is_apple else (150, 150, 150)
        return cells.repeat(SIDE // CELLS, axis=0).repeat(SIDE // CELLS, axis=1)


def main(output_dir: Path, size: str) -> None:
    chosen = SIZES[size]
    gymnasium.register("Catch-v0", f"{__name__}:Catch")
    summary = rl_clarity.train(
        output_dir / "agent",
        env_kind="gymnasium",
        env_name="Catch-v0",
        timesteps_per_proc=chosen["timesteps"],
        num_envs=64,
        num_steps=28,  # four episodes
        learning_rate=1e-3,
        gamma=0.95,
        tensorboard=False,
    )
    print(f"mean return {summary.mean_return:.2f} of 0.5, after {summary.timesteps} steps")
    page = rl_clarity.run(
        output_dir / "agent" / "checkpoint.jd",
        output_dir / "page",
        trajectories=chosen["play"],
        observations={**chosen["varied"], "obs_every": 4},
        layers={"discard_first_n": 1},
        filmstrip={"scrub_range": (0.0, 1.0)},  # whole frames in the filmstrip, instead of the column for CoinRun
        title="Catch",
    )
    print(f"open {page.path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("out/own_environment"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.output_dir, arguments.size)

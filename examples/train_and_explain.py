"""Train a small agent in a Procgen game, and explain it.

    python examples/train_and_explain.py --game coinrun
    python examples/train_and_explain.py --size tiny     # a single update, as a test

The same command resumes interrupted training. A good agent needs more than half a million steps: increase
`timesteps_per_proc`. The cards in models/ describe how the included agents were trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import rl_clarity

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "training": {"timesteps_per_proc": 128, "num_envs": 4, "num_steps": 32, "num_minibatches": 2},
        "play": {"num_envs": 1, "num_steps": 16},
        "varied": {"num_envs": 8, "num_obs": 2, "obs_every": 4},
    },
    "small": {
        "training": {"timesteps_per_proc": 500_000},
        "play": {"num_envs": 2, "num_steps": 256},
        "varied": {"num_envs": 64, "num_obs": 8, "obs_every": 32},
    },
}


def main(game: str, output_dir: Path, size: str) -> None:
    chosen = SIZES[size]
    summary = rl_clarity.train(
        output_dir / "agent",
        env_name=game,
        distribution_mode="easy",
        num_levels=10_000,  # with few levels, an agent memorizes them, and its features are hard to interpret
        reward_processing="normalize",
        tensorboard=False,
        **chosen["training"],
    )
    print(f"{summary.timesteps} steps in {summary.seconds:.0f} s; final mean return {summary.mean_return:.2f}")
    page = rl_clarity.run(
        output_dir / "agent" / "checkpoint.jd",
        output_dir / "page",
        trajectories=chosen["play"],
        observations=chosen["varied"],
        layers={"name_contains_one_of": ["2b", "3a"]},
    )
    print(f"open {page.path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="coinrun")
    parser.add_argument("--output-dir", type=Path, default=Path("out/train_and_explain"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.game, arguments.output_dir, arguments.size)

"""Record episodes in a plain loop around a Gymnasium environment: Q-learning in a table, with NumPy alone.

    python examples/record_gymnasium.py                 # seconds: learns the game
    python examples/record_gymnasium.py --size tiny     # a few episodes, as a test

The wrapper is all that is needed; `env.outputs` adds what the agent computed. The environment is `Catch` of
own_environment.py.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from own_environment import Catch

import rl_clarity

GAMMA, LEARNING_RATE, EPSILON = 0.95, 0.2, 0.1
SIZES = {"tiny": 200, "small": 12_000}


def main(output_dir: Path, size: str, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    env = rl_clarity.RecordEpisodes(Catch(), output_dir, every=50, metadata={"name": "Catch", "gamma": GAMMA})
    table: dict[bytes, np.ndarray] = defaultdict(lambda: np.zeros(3))
    returns, steps = [], 0
    for episode in range(SIZES[size]):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        total, done = 0.0, False
        while not done:
            q_values = table[observation.tobytes()]
            action = rng.integers(3) if rng.random() < EPSILON else q_values.argmax()
            env.outputs(q_values=q_values.copy(), training_step=steps)
            observation, reward, terminated, truncated, _ = env.step(action)
            target = reward if terminated else reward + GAMMA * table[observation.tobytes()].max()
            q_values[action] += LEARNING_RATE * (target - q_values[action])
            total, steps, done = total + reward, steps + 1, terminated or truncated
        returns.append(total)
        if len(returns) % (SIZES[size] // 4) == 0:
            print(f"{len(returns)} episodes: mean return {np.mean(returns[-SIZES[size] // 4 :]):.2f}", flush=True)
    env.close()
    recording = rl_clarity.open_recording(output_dir)
    print(f"{len(recording)} episodes of {len(returns)} are recorded in {recording.location}")
    print(f"To see them: tensorboard --logdir {output_dir} (or rl-clarity serve {output_dir})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("runs/catch-gymnasium"), help="a log directory")
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.output_dir, arguments.size)

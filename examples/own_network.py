"""Explain a custom Keras network, trained by custom code.

    python examples/own_network.py
    python examples/own_network.py --size tiny     # barely trained, as a test

Here it learns `Catch` (see own_environment.py) from random positions, each with the action and the value of the optimal
policy. Then `rl_clarity.collect` samples episodes, and `rl_clarity.generate` explains them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from own_environment import CELLS, SIDE, Catch

import rl_clarity

GAMMA = 0.95
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"positions": 256, "epochs": 1, "play": {"num_steps": 16, "num_obs": 8, "obs_every": 2}},
    "small": {"positions": 8192, "epochs": 8, "play": {"num_steps": 256, "num_obs": 128, "obs_every": 4}},
}


def build_model() -> Any:
    """A model with two outputs, identified by their names: logits, not probabilities, and a value."""
    import keras

    frames = keras.Input((SIDE, SIDE, 3), name="observations")
    x = keras.layers.Rescaling(1 / 255)(frames)  # models that scale their input get 0 to 255
    x = keras.layers.Conv2D(16, 4, strides=2, padding="same", activation="relu", name="edges")(x)
    x = keras.layers.Conv2D(32, 4, strides=2, padding="same", activation="relu", name="shapes")(x)
    x = keras.layers.Dense(64, activation="relu")(keras.layers.Flatten()(x))
    logits = keras.layers.Dense(3, name="policy_logits")(x)
    return keras.Model(frames, [logits, keras.layers.Dense(1, name="values")(x)])


def positions(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random positions: observations (M, H, W, 3), optimal actions (M,) and returns (M,)."""
    environment = Catch()
    environment.reset(seed=seed)
    rng = np.random.default_rng(seed)
    observations, actions, values = [], [], []
    for _ in range(count):
        environment.row, environment.column = (int(rng.integers(CELLS - 1)), int(rng.integers(CELLS)))
        environment.basket, environment.is_apple = int(rng.integers(1, CELLS - 1)), bool(rng.random() < 0.5)
        action, value = optimal(environment)
        observations.append(environment.draw())
        actions.append(action)
        values.append(value)
    return np.stack(observations), np.array(actions), np.array(values, np.float32)


def optimal(environment: Catch) -> tuple[int, float]:
    """The optimal action and its return: catch apples that are near enough, and avoid stones."""
    offset, left = environment.column - environment.basket, CELLS - 1 - environment.row
    if not environment.is_apple:
        return (0 if environment.column >= CELLS // 2 else 2), 0.0  # move to the other side
    return 1 + int(np.sign(offset)), GAMMA ** (left - 1) if abs(offset) <= left + 1 else 0.0


def main(output_dir: Path, size: str) -> None:
    import keras

    keras.utils.set_random_seed(0)
    images, actions, values = positions(SIZES[size]["positions"])
    model = build_model()
    imitation = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=[imitation, "mse"])
    model.fit(images.astype(np.float32), [actions, values], batch_size=64, epochs=SIZES[size]["epochs"], verbose=2)

    agent = rl_clarity.KerasAgent(model, {"env_name": "Catch", "gamma": GAMMA})
    environment = gymnasium.vector.SyncVectorEnv([Catch] * 4)
    trajectories, observations = rl_clarity.collect(agent, environment, **SIZES[size]["play"])
    page = rl_clarity.generate(
        agent,
        trajectories,
        observations,
        output_dir,
        filmstrip={"scrub_range": (0.0, 1.0)},  # whole frames in the filmstrip, instead of the column for CoinRun
        title="Catch, played by a custom network",
    )
    ended = trajectories.firsts[:, 1:].sum()
    print(f"{trajectories.rewards.sum() / max(ended, 1):.2f} of 0.5 per episode; layers {', '.join(agent.layers)}")
    print(f"open {page.path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("out/own_network"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.output_dir, arguments.size)

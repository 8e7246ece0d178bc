"""Explain a Keras network of your own, that was trained in a way of your own.

    python examples/own_network.py
    python examples/own_network.py --size tiny     # hardly trained: to see that it runs

Here it learns `Catch` (see own_environment.py) by imitating a player that knows the rules, and its value from the
returns of that player. The loop that plays is written out, to show what `rl_clarity.generate` needs: arrays.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from own_environment import CELLS, SIDE, Catch

import rl_clarity
from rl_clarity.quiet import import_keras

ENVIRONMENTS, GAMMA = 16, 0.95
SIZES: dict[str, dict[str, int]] = {"tiny": {"steps": 16, "epochs": 1}, "small": {"steps": 256, "epochs": 8}}
Samples = dict[str, np.ndarray]


def build_model() -> Any:
    """Two outputs, found by their names: logits, not probabilities, and a value."""
    import keras

    frames = keras.Input((SIDE, SIDE, 3), name="observations")
    x = keras.layers.Rescaling(1 / 255)(frames)  # a model that scales its input itself is given 0 to 255
    x = keras.layers.Conv2D(16, 4, strides=2, padding="same", activation="relu", name="edges")(x)
    x = keras.layers.Conv2D(32, 4, strides=2, padding="same", activation="relu", name="shapes")(x)
    x = keras.layers.Dense(64, activation="relu")(keras.layers.Flatten()(x))
    logits = keras.layers.Dense(3, name="policy_logits")(x)
    return keras.Model(frames, [logits, keras.layers.Dense(1, name="values")(x)])


def knowing_player(environment: Catch, rng: np.random.Generator) -> int:
    """Go under apples and out from under stones; one action in five is random, so that all places are seen."""
    if rng.random() < 0.2:
        return int(rng.integers(3))
    offset = environment.column - environment.basket
    if environment.is_apple:
        return 1 + int(np.sign(offset))
    return 0 if environment.column >= CELLS // 2 else 2  # a stone falls on one side: go to the other


def play(steps: int, seed: int = 0) -> Samples:
    """Trajectories (N, T, ...): what was seen, what was done, its reward, and which observations begin an episode."""
    rng = np.random.default_rng(seed)
    environments = [Catch() for _ in range(ENVIRONMENTS)]
    seen = [environment.reset(seed=seed + i)[0] for i, environment in enumerate(environments)]
    first = np.ones(ENVIRONMENTS, bool)
    columns: dict[str, list[Any]] = {"observations": [], "actions": [], "rewards": [], "firsts": []}
    for _ in range(steps):
        actions = [knowing_player(environment, rng) for environment in environments]
        columns["observations"].append(np.stack(seen))
        columns["actions"].append(np.array(actions))
        columns["firsts"].append(first)
        results = [environment.step(action) for environment, action in zip(environments, actions, strict=True)]
        columns["rewards"].append(np.array([reward for _, reward, *_ in results], np.float32))
        first = np.array([ended for _, _, ended, *_ in results])
        seen = [e.reset()[0] if ended else r[0] for e, r, ended in zip(environments, results, first, strict=True)]
    return {name: np.stack(column, axis=1) for name, column in columns.items()}


def returns_of(samples: Samples) -> np.ndarray:
    """Discounted sum (N, T) of the rewards to come in an episode."""
    returns, after = np.zeros(samples["rewards"].shape, np.float32), np.zeros(ENVIRONMENTS, np.float32)
    for t in reversed(range(returns.shape[1])):
        returns[:, t] = after = samples["rewards"][:, t] + GAMMA * after
        after = np.where(samples["firsts"][:, t], 0, after)
    return returns


def main(output_dir: Path, size: str) -> None:
    import_keras()
    import keras

    keras.utils.set_random_seed(0)
    samples = play(SIZES[size]["steps"])
    flat = samples["observations"].reshape(-1, SIDE, SIDE, 3)
    model = build_model()
    imitation = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=[imitation, "mse"])
    targets = [samples["actions"].ravel(), returns_of(samples).ravel()]
    model.fit(flat.astype(np.float32), targets, batch_size=64, epochs=SIZES[size]["epochs"], verbose=2)

    agent = rl_clarity.KerasAgent(model, {"env_name": "Catch", "gamma": GAMMA})
    page = rl_clarity.generate(
        agent,
        {name: array[:2] for name, array in samples.items()},
        flat[:: max(1, len(flat) // 512)],
        output_dir,
        action_combos=[("LEFT",), (), ("RIGHT",)],
        scrub_range=(0.0, 1.0),
        title="Catch, by a network of your own",
    )
    print(f"layers {', '.join(agent.layers)}; open {page.path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("out/own_network"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.output_dir, arguments.size)

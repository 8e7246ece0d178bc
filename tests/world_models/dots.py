"""A small recurrent agent, and recordings of a dot that it moves, for tests of the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, open_recording

SIDE = 8
ACTIONS = 3
UNITS = 5


def dot_agent(seed: int = 0, *, recurrent: bool = True) -> KerasAgent:
    """An agent with random weights: a convolution, a GRU of 5 units, logits of 3 actions and a value."""
    import keras

    def kernel(i: int) -> Any:
        return keras.initializers.GlorotUniform(seed=10 * seed + i)

    observations = keras.Input((SIDE, SIDE, 3), name="observations")
    x = keras.layers.Conv2D(4, 3, strides=2, activation="relu", kernel_initializer=kernel(0))(observations)
    x = keras.layers.Dense(8, activation="tanh", kernel_initializer=kernel(1))(keras.layers.Flatten()(x))
    inputs, after = [observations], []
    if recurrent:
        state = keras.Input((UNITS,), name="state")
        cell = keras.layers.GRUCell(UNITS, kernel_initializer=kernel(2), recurrent_initializer=kernel(3))
        x, _ = cell(x, state)
        inputs, after = [observations, state], [x]
    logits = keras.layers.Dense(ACTIONS, name="policy_logits", kernel_initializer=kernel(4))(x)
    value = keras.layers.Dense(1, name="values", kernel_initializer=kernel(5))(x)
    return KerasAgent(
        keras.Model(inputs, [logits, value, *after]), initial_state=[np.ones(UNITS, np.float32)] if recurrent else None
    )


def dot_image(position: int) -> np.ndarray:
    """A bright dot in the middle row (8, 8, 3) uint8; the background tells the position's parity."""
    image = np.full((SIDE, SIDE, 3), 40, np.uint8)
    image[3:5, position] = (250, 200, 30)
    return image


def record_dots(directory: Path, agent: KerasAgent, episodes: int = 6, steps: int = 20, seed: int = 0) -> Recording:
    """Record episodes in which actions 0 and 2 move a dot left and right; the last one ends an episode early."""
    rng = np.random.default_rng(seed)
    with Recorder(
        directory, name=None, on_error="raise", metadata={"action_combos": [["LEFT"], [], ["RIGHT"]]}
    ) as recorder:
        for _ in range(episodes):
            position, state = int(rng.integers(SIDE)), agent.initial_state(1)
            for t in range(steps):
                image = dot_image(position)
                outputs, after = agent.step(image[None], state, np.array([t == 0]))
                action = int(rng.integers(ACTIONS))
                before = state
                position = int(np.clip(position + action - 1, 0, SIDE - 1))
                recorder.add(
                    observation=image,
                    action=action,
                    reward=float(position == SIDE - 1),
                    terminated=t == steps - 1,
                    logits=None if outputs.policy_logits is None else outputs.policy_logits[0],
                    behavior_logits=np.zeros(ACTIONS, np.float32),
                    value=None if outputs.values is None else outputs.values[0],
                    state=None if before is None else tuple(part[0] for part in before),
                    final_observation=dot_image(position),
                    final_state=None if after is None else tuple(part[0] for part in after),
                )
                state = after
    return open_recording(directory)

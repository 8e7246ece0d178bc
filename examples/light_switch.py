"""Find the cue in a recurrent agent's memory, and cut it out.

    python examples/light_switch.py

In the game of a light switch, a lamp shows in the first frame which of two switches is right; they appear much later.
The script trains a tiny agent with a GRU for a minute.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

FILTERS, UNITS = (8, 8), 16
BATCH, UPDATES, LEARNING_RATE = 64, 600, 3e-3


def initial_parameters(rng: np.random.Generator, num_actions: int) -> dict[str, np.ndarray]:
    """A small network in the layout of train-procgen-pytorch: two residual blocks, a dense layer, a GRU, two heads."""
    parameters = {}

    def layer(name: str, *shape: int, gain: float = 1.0) -> None:
        scale = gain / np.prod(shape[1:]) ** 0.5
        parameters[f"{name}.weight"] = rng.normal(0, scale, shape).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[0], np.float32)

    channels = 3
    for i, filters in enumerate(FILTERS):
        block = f"embedder.block{i + 1}"
        layer(f"{block}.conv", filters, channels, 3, 3)
        for part in ("res1.conv1", "res1.conv2", "res2.conv1", "res2.conv2"):
            layer(f"{block}.{part}", filters, filters, 3, 3)
        channels = filters
    layer("embedder.fc", UNITS, channels * 4 * 4, gain=2**0.5)
    for part in ("ih", "hh"):
        parameters[f"gru.gru.weight_{part}_l0"] = rng.normal(0, UNITS**-0.5, (3 * UNITS, UNITS)).astype(np.float32)
        parameters[f"gru.gru.bias_{part}_l0"] = np.zeros(3 * UNITS, np.float32)
    layer("fc_policy", num_actions, UNITS, gain=0.1)
    layer("fc_value", 1, UNITS, gain=0.1)
    return parameters


def train(game: str, path: Path, seed: int = 0, updates: int = UPDATES) -> None:
    """Train an agent to press the right switch, by the cross-entropy of its policy there, and save its checkpoint."""
    import keras
    import tensorflow as tf

    from rl_clarity.environments.kinds import EnvironmentSpec, make
    from rl_clarity.formats import native, procgen_pytorch
    from rl_clarity.formats.checkpoint import Checkpoint

    spec = EnvironmentSpec("light_switch", game)
    with closing(make(spec, BATCH, seed)) as environment:
        rng = np.random.default_rng(seed)
        network = procgen_pytorch.build_network(
            initial_parameters(rng, environment.num_actions), environment.observation_shape
        )
        features = network.model.get_layer("embedder>fc>relu").output
        body = keras.Model(network.model.inputs[0], features)
        cell = keras.Model([features, network.model.inputs[1]], network.model.outputs)
        variables = [tensor.variable.value for tensor in network.tensors.values()]
        optimizer = keras.optimizers.Adam(LEARNING_RATE, clipnorm=0.5)
        optimizer.build([tensor.variable for tensor in network.tensors.values()])

        @tf.function
        def update(frames: Any, actions: Any, gamma: Any) -> Any:
            with tf.GradientTape() as tape:
                steps, state, loss = len(frames), tf.zeros((BATCH, UNITS)), 0.0
                seen = body(tf.cast(tf.reshape(frames, (-1, *frames.shape[2:])), tf.float32) / 255)
                for t, one in enumerate(tf.split(seen, steps)):
                    logits, values, state = cell([one, state])
                    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(actions[t], logits)
                    loss += tf.reduce_mean(surprise) * (1.0 if t == steps - 1 else 0.02)
                    loss += tf.reduce_mean((values[:, 0] - gamma ** (steps - 1 - t)) ** 2) * 0.1
            gradients = tape.gradient(loss, variables)
            return loss, gradients

        step = environment.reset()
        for number in range(updates):
            cues, frames = environment.cues.copy(), [step.observations]
            step = environment.step(np.zeros(BATCH, np.int64))
            while not step.firsts.any():
                frames.append(step.observations)
                step = environment.step(np.zeros(BATCH, np.int64))
            actions = np.zeros((len(frames), BATCH), np.int64)
            actions[-1] = 1 + cues
            loss, gradients = update(np.stack(frames), actions, np.float32(0.99))
            optimizer.apply(gradients, [tensor.variable for tensor in network.tensors.values()])
            if number % 50 == 49:
                print(f"update {number + 1}: loss {float(loss):.4f}", flush=True)
    metadata = {**spec.metadata(), "observation_shape": list(environment.observation_shape), "gamma": 0.99}
    checkpoint = Checkpoint(path, "procgen_pytorch", "impala_gru", network.parameters(), metadata)
    native.write(path, checkpoint)

"""Find the cue in a recurrent agent's memory, and cut it out.

    python examples/light_switch.py

In the game of a light switch, a lamp shows in the first frame which of two switches is right. They appear 8 steps
later, when the lamp is dark. The script trains a tiny agent with a GRU (a minute or two), records it, and asks how far
back its memory reaches. It finds the direction of the state that tells the two cues apart, collapses it as the agent
plays, and lets both agents play the same episodes. In the game `world` the lamp shines again when the switches appear:
there the agent reads the cue in the world, and the same cut changes nothing.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity

FILTERS, UNITS = (8, 8), 16
BATCH, LEARNING_RATE = 64, 3e-3
SIZES = {"tiny": {"updates": 2, "episodes": 16}, "small": {"updates": 600, "episodes": 128}}


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


def train(game: str, path: Path, seed: int = 0, *, updates: int) -> None:
    """Train an agent to press the right switch, by the cross-entropy of its policy there, and save its checkpoint."""
    import keras
    import tensorflow as tf

    from rl_clarity.environments.kinds import EnvironmentSpec, make
    from rl_clarity.environments.light_switch import LightSwitchEnvironment
    from rl_clarity.formats import native, procgen_pytorch
    from rl_clarity.formats.checkpoint import Checkpoint

    spec = EnvironmentSpec("light_switch", game)
    with closing(make(spec, BATCH, seed)) as environment:
        assert isinstance(environment, LightSwitchEnvironment)
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

        @tf.function  # type: ignore[untyped-decorator]
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


def cue_direction(recording: rl_clarity.Recording) -> rl_clarity.Directions:
    """The direction of the state after the first frame that tells the cues apart: a classifier of the lamp's color."""
    states, is_orange = [], []
    for episode in recording:
        assert episode.states is not None
        states.append(np.asarray(episode.states[0])[1:])  # all states after the cue
        is_orange.append(np.full(len(states[-1]), np.asarray(episode.observations[0])[3, 7, 0] > 100))
    labels = {"orange": np.concatenate(is_orange)}
    return rl_clarity.fit_directions(np.concatenate(states), "classifier", labels=labels)


def main(game: str, output_dir: Path, size: str) -> None:
    checkpoint = output_dir / f"{game}.safetensors"
    output_dir.mkdir(parents=True, exist_ok=True)
    if not checkpoint.exists():
        train(game, checkpoint, updates=SIZES[size]["updates"])
    episodes = SIZES[size]["episodes"]
    agent: Any = rl_clarity.load_agent(checkpoint)
    recording = rl_clarity.record(checkpoint, output_dir / f"{game}-recording", episodes=episodes)
    analysis = rl_clarity.analyze_states(
        agent, recording, count=4, clusters=4, lags=(1, 2, 4), maps=("pca",), replay_steps=9, replay_samples=episodes
    )
    print("How far the policy changes when the state after the cue is that of another episode:")
    for row in analysis.table("memory"):
        if row["change"] == "swapped":
            print(f"  {row['steps']} steps later: {row['policy']:.3f}")
    directions = cue_direction(recording)
    assert directions.auc is not None
    print(f"The cue can be read from later states: AUC {directions.auc[0]:.3f}")
    report = rl_clarity.intervene(agent, rl_clarity.SwapDirections({0: None}, directions=directions), episodes=episodes)
    print(report)
    report.write_clip(output_dir / f"{game}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", choices=("memory", "world"), default="memory")
    parser.add_argument("--output-dir", type=Path, default=Path("out/light_switch"))
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.game, arguments.output_dir, arguments.size)

"""The losses of the simulator, against values worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.losses import Batch, divergence, simulator_losses, total_loss, uniformity
from rl_clarity.world_models.networks import gumbel, straight_through
from rl_clarity.world_models.options import LOSSES
from rl_clarity.world_models.simulator import Simulator, split_state
from rl_clarity.world_models.windows import Windows

HORIZON = 4


@pytest.fixture(scope="module")
def batch(recording: Recording, agent: KerasAgent) -> Batch:
    """Two windows; the second one has two steps before its episode ends."""
    return Windows(recording, agent, 3, HORIZON).read([0, 15])


def losses(simulator: Simulator, batch: Batch, **changes: Any) -> dict[str, float]:
    size = simulator.world.size
    noise = gumbel(np.random.default_rng(0), (HORIZON + 1, 2, size.variables, size.classes))
    result = simulator_losses(
        simulator.world,
        simulator.agent.differentiable_step(),
        lambda flat: split_state(simulator.agent, flat),
        2,
        dataclasses.replace(batch, **changes),
        noise,
        0.8,
    )
    return {name: float(value) for name, value in result.items()}


def test_the_uniformity_loss_equals_its_definition() -> None:
    latents = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    squares = np.array([2, 2, 4])  # between pairs
    assert float(uniformity(latents)) == pytest.approx(np.log(np.exp(-2 * squares).mean()), rel=1e-5)


def test_the_kl_divergence_is_summed_over_variables() -> None:
    q, p = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    one = float(np.sum(q * np.log(q / p)))
    logits = [np.log(np.tile(x, (1, 3, 1))).astype(np.float32) for x in (q, p)]
    assert float(divergence(*logits)[0]) == pytest.approx(3 * one, rel=1e-5)


def test_latent_samples_are_one_hot_and_follow_the_softmax() -> None:
    logits = np.log(np.array([0.2, 0.5, 0.3], np.float32))
    samples = np.asarray(straight_through(np.tile(logits, (4000, 1)), gumbel(np.random.default_rng(0), (4000, 3))))
    assert set(np.unique(samples)) == {0, 1}
    np.testing.assert_allclose(samples.mean(axis=0), [0.2, 0.5, 0.3], atol=0.03)


def test_straight_through_gradients_are_those_of_the_softmax() -> None:
    import tensorflow as tf

    logits = tf.constant([[0.3, -0.2, 0.9]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        chosen = straight_through(logits, 0.0)[0, 1]
    p = np.asarray(tf.nn.softmax(logits))[0]
    np.testing.assert_allclose(tape.gradient(chosen, logits)[0], p[1] * (np.array([0, 1, 0]) - p), rtol=1e-5)


def test_the_total_loss_weights_every_loss() -> None:
    values = {name: float(i) for i, name in enumerate(LOSSES)}
    assert total_loss(values, dict.fromkeys(LOSSES, 2.0)) == 2 * sum(values.values())


def test_steps_after_the_episode_end_do_not_affect_the_losses(simulator: Simulator, batch: Batch) -> None:
    assert batch.mask[1].tolist() == [1, 1, 0, 0]
    frames, rewards = batch.frames.copy(), batch.rewards.copy()
    frames[1, 5:], rewards[1, 2:] = 255, 9
    assert losses(simulator, batch, frames=frames, rewards=rewards) == losses(simulator, batch)
    frames[1, 4] = 255
    assert losses(simulator, batch, frames=frames) != losses(simulator, batch)


def test_the_state_loss_is_zero_for_true_frames(simulator: Simulator, batch: Batch) -> None:
    class Truth(type(simulator.world)):  # type: ignore[misc]
        def decode(self, deterministic: Any, stochastic: Any) -> Any:
            return batch.frames[:, 3:].reshape(-1, *batch.frames.shape[2:]).astype(np.float32) / 255

    before = type(simulator.world)
    try:
        simulator.world.__class__ = Truth
        values = losses(simulator, batch)
    finally:
        simulator.world.__class__ = before
    assert values["frame"] == pytest.approx(0, abs=1e-9)
    assert values["state"] == pytest.approx(0, abs=1e-9)
    assert losses(simulator, batch)["state"] > 1e-4

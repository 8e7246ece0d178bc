"""One optimizer step, compared with the formulas in NumPy on fixed data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rl_clarity.ppo.learner import CHUNK, STATISTICS, Learner, LossOptions, Minibatch, normalize
from tests.ppo.toys import linear_network

OPTIONS = LossOptions(clip_range=0.2, clip_vf=True, entropy_coeff=0.01, value_loss_coeff=0.5)
RATE, MAX_NORM, CLIP = 0.01, 0.5, 0.2


def minibatch(size: int) -> Minibatch:
    """Random steps, some of them clipped in the policy and in the value."""
    rng = np.random.default_rng(5)
    observations = rng.integers(0, 256, (size, 2, 2, 1), np.uint8)
    return Minibatch(
        observations,
        rng.integers(3, size=size).astype(np.int32),
        rng.normal(size=size).astype(np.float32),
        rng.normal(-1.1, 0.3, size).astype(np.float32),
        normalize(rng.normal(3, 2, size)),
        rng.normal(1, 1, size).astype(np.float32),
        np.full(size, 1 / size, np.float32),
        np.zeros(size, bool),
    )


def make_learner(**changes: Any) -> Learner:
    loss = dataclasses.replace(OPTIONS, **changes)
    return Learner(linear_network(), loss, learning_rate=RATE, max_grad_norm=MAX_NORM)


def expected_step(
    parameters: dict[str, np.ndarray], batch: Minibatch, clip_vf: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray], float]:
    """Statistics, gradient of each parameter, and norm of the gradient, for PPO2's loss of the linear network."""
    x = batch.observations.reshape(len(batch.actions), -1).astype(np.float64) / 255
    logits = x @ parameters["pi/w:0"] + parameters["pi/b:0"]
    values = (x @ parameters["vf/w:0"] + parameters["vf/b:0"])[:, 0]
    policy = np.exp(logits - logits.max(1, keepdims=True))
    policy /= policy.sum(1, keepdims=True)
    chosen = np.eye(3)[batch.actions]
    log_probs = np.log(policy[chosen == 1])
    ratios = np.exp(log_probs - batch.log_probs)
    unclipped, clipped = -batch.advantages * ratios, -batch.advantages * np.clip(ratios, 1 - CLIP, 1 + CLIP)
    entropies = -(policy * np.log(policy)).sum(1)
    near = batch.values + np.clip(values - batch.values, -CLIP, CLIP)
    squares, near_squares = (values - batch.returns) ** 2, (near - batch.returns) ** 2
    n = len(x)
    statistics = {
        "policy_loss": np.maximum(unclipped, clipped).mean(),
        "value_loss": 0.5 * (np.maximum(squares, near_squares) if clip_vf else squares).mean(),
        "entropy": entropies.mean(),
        "approx_kl": 0.5 * ((log_probs - batch.log_probs) ** 2).mean(),
        "clip_fraction": (np.abs(ratios - 1) > CLIP).mean(),
    }
    through = unclipped >= clipped  # a clipped ratio has no gradient
    inside = np.abs(ratios - 1) <= CLIP
    d_log_prob = -batch.advantages * ratios * (through | inside)
    d_logits = d_log_prob[:, None] * (chosen - policy)
    d_logits += OPTIONS.entropy_coeff * policy * (np.log(policy) + entropies[:, None])
    d_values = values - batch.returns
    if clip_vf:
        moves = np.abs(values - batch.values) < CLIP
        d_values = np.where(squares >= near_squares, d_values, (near - batch.returns) * moves)
    d_values = OPTIONS.value_loss_coeff * d_values
    gradient = {
        "pi/w:0": x.T @ d_logits / n,
        "pi/b:0": d_logits.mean(0),
        "vf/w:0": x.T @ d_values[:, None] / n,
        "vf/b:0": d_values[:, None].mean(0),
    }
    return statistics, gradient, float(np.sqrt(sum((g**2).sum() for g in gradient.values())))


@pytest.mark.parametrize("clip_vf", [True, False])
def test_two_ppo_updates_equal_the_formulas(clip_vf: bool) -> None:
    learner = make_learner(clip_vf=clip_vf)
    parameters = {name: array.astype(np.float64) for name, array in learner.network.parameters().items()}
    batch = minibatch(50)
    means = {name: np.zeros_like(array) for name, array in parameters.items()}
    squares = {name: np.zeros_like(array) for name, array in parameters.items()}
    for t in (1, 2):
        statistics, gradient, norm = expected_step(parameters, batch, clip_vf)
        actual, actual_norm = learner.learn(batch)
        assert dict(zip(STATISTICS, actual, strict=True)) == pytest.approx(statistics, rel=1e-4, abs=1e-6)
        assert actual_norm == pytest.approx(norm, rel=1e-4)
        assert norm > MAX_NORM, "the gradient must be large enough to be clipped"
        assert 0 < statistics["clip_fraction"] < 1
        rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        for name in parameters:
            clipped = gradient[name] * MAX_NORM / norm
            means[name] = 0.9 * means[name] + 0.1 * clipped
            squares[name] = 0.999 * squares[name] + 0.001 * clipped**2
            parameters[name] = parameters[name] - rate * means[name] / (np.sqrt(squares[name]) + 1e-5)
        for name, array in learner.network.parameters().items():
            np.testing.assert_allclose(array, parameters[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_small_gradients_are_not_clipped() -> None:
    learner = Learner(linear_network(), OPTIONS, learning_rate=RATE, max_grad_norm=100.0)
    before = learner.network.parameters()
    _, norm = learner.learn(minibatch(50))
    _, gradient, _ = expected_step({k: v.astype(np.float64) for k, v in before.items()}, minibatch(50), True)
    assert norm < 100
    np.testing.assert_allclose(learner.optimizer.state()["mean"][:12], 0.1 * gradient["pi/w:0"].ravel(), rtol=1e-4)


def test_ppo_updates_on_chunked_minibatches_equal_the_formulas() -> None:
    size = 2 * CHUNK + 17
    batch = minibatch(size)
    parameters = {name: array.astype(np.float64) for name, array in make_learner().network.parameters().items()}
    statistics, _, norm = expected_step(parameters, batch, True)
    actual, actual_norm = make_learner().learn(batch)
    assert actual_norm == pytest.approx(norm, rel=1e-4)
    assert dict(zip(STATISTICS, actual, strict=True)) == pytest.approx(statistics, rel=1e-4, abs=1e-6)


def test_gradient_functions_are_compiled_once_for_all_batch_sizes() -> None:
    learner = make_learner()
    for size in (50, CHUNK, 3 * CHUNK - 1):
        learner.learn(minibatch(size))
    assert learner._add_gradient.experimental_get_tracing_count() == 1


def test_the_learner_state_includes_parameters_and_adam_moments() -> None:
    first, second = make_learner(), make_learner()
    first.learn(minibatch(50))
    second.restore(first.state())
    first.learn(minibatch(60))
    second.learn(minibatch(60))
    for name, array in first.state().items():
        np.testing.assert_array_equal(array, second.state()[name], err_msg=name)


def test_normalized_advantages_have_mean_0_and_deviation_1() -> None:
    result = normalize(np.array([1.0, 2.0, 3.0, 10.0]))
    assert result.mean() == pytest.approx(0, abs=1e-6)
    assert result.std() == pytest.approx(1, rel=1e-6)

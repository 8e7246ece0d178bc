"""The losses of the simulator for a batch of windows of a recording.

The world model sees the frames of a window (posterior) and must predict them (prior), as in DreamerV2 (Hafner et
al. 2021, https://arxiv.org/abs/2010.02193), equations 2 to 5. The frozen agent gets the decoded frames. Losses are
means over the batch and over steps up to the episode's end. x are frames, h the agent's states, r rewards, d the
world's deterministic states, b latents, q the posterior and p the prior:

    frame         1/2 ||x - decoded x||^2, summed over pixels
    state         1/2 ||h(x) - h(decoded x)||^2, for the agent's state after it saw the true or the decoded frame, from
                  the same recorded state; for agents without a state, their outputs. The gradient flows through the
                  frozen agent into the decoder
    reward, end   1/2 (r - predicted r)^2, and the cross-entropy of the end of the episode
    kl            a KL(sg(q) || p) + (1 - a) KL(q || sg(p)), a = `kl_balance`; sg stops the gradient
    slowness      1/2 ||next d - d||^2, mean over units (Wiskott and Sejnowski 2002)
    uniformity    log mean exp(-2 ||b - b'||^2) over pairs of latents b, b' of the batch (Wang and Isola 2020,
                  https://arxiv.org/abs/2005.10242)
    first_state, first_action   1/2 ||h - predicted h||^2 before the first step, and the cross-entropy of the action
                  before it, both predicted from sg(b)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rl_clarity.agents.protocol import Tensor
from rl_clarity.world_models.networks import WorldModel

AgentStep = Callable[..., list[Tensor]]
"""A function of frames (N, H, W, C) in 0..1 and the parts of a state. It returns the outputs of the heads, followed by
the parts of the next state."""


@dataclass(frozen=True)
class Batch:
    """B windows of n context frames, from which a simulation starts, and of T following steps, as arrays or tensors.

    Steps after the end of the episode are padded with zeros, and have mask 0.
    """

    frames: Tensor  # (B, n + T, H, W, C) uint8
    actions: Tensor  # (B, n + T) int32
    rewards: Tensor  # (B, T) float32
    ends: Tensor  # (B, T) float32: 1 where the action ended the episode
    mask: Tensor  # (B, T) float32
    state_mask: Tensor  # (B, T) float32: 1 where the agent's state after the step is recorded
    states: Tensor  # (B, T + 1, S) float32: the agent's state before each step, and after the last one

    def arrays(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def simulator_losses(
    world: WorldModel,
    agent: AgentStep,
    split_state: Callable[[Tensor], list[Tensor]],
    num_heads: int,
    batch: Batch,
    noise: Tensor,
    kl_balance: float,
) -> dict[str, Tensor]:
    """Return the losses by name; each is a scalar, without its weight.

    Args:
        world: the world model
        agent: the frozen agent
        split_state: a function that splits vectors (N, S) into the parts of the agent's state
        num_heads: number of heads that the agent returns before its state
        batch: windows
        noise: Gumbel noise (T + 1, B, V, K) of the stochastic states
        kl_balance: share of the divergence's gradient that trains the prior
    """
    from keras import ops

    horizon = int(batch.mask.shape[1])
    context = int(batch.frames.shape[1]) - horizon
    frames = ops.cast(batch.frames, "float32") / 255
    actions = ops.one_hot(batch.actions, world.num_actions, dtype="float32")
    encoded = _by_step(world.encode, frames)
    latent = world.latent(encoded[:, :context])
    states, logits, decided = _observe(world, latent, encoded[:, context:], actions[:, context - 1 :], noise)
    deterministic, stochastic = states  # (B, T, ...)
    flat = (_flat(deterministic), _flat(stochastic))
    true = frames[:, context:]
    decoded = world.decode(*flat)
    rewards, ends = (ops.reshape(x, (-1, horizon)) for x in world.outcome(*flat, _flat(actions[:, context:])))
    prior = ops.reshape(world.prior(flat[0]), logits.shape)
    before, count = batch.states[:, 0], ops.maximum(ops.sum(batch.mask), 1.0)
    state, action = world.first_of_agent(ops.stop_gradient(latent))

    def mean(values: Tensor, mask: Tensor = batch.mask) -> Tensor:
        return ops.sum(values * mask) / count

    seen, target = _seen(agent, split_state, num_heads, batch, decoded, true)
    differences = ops.reshape(ops.sum(ops.square(seen - target), axis=-1), (-1, horizon))
    slow = ops.concatenate([decided[:, None], deterministic], axis=1)
    return {
        "frame": mean(0.5 * ops.sum(ops.square(ops.reshape(decoded, true.shape) - true), axis=(2, 3, 4))),
        "state": mean(0.5 * differences, batch.state_mask if batch.states.shape[-1] else batch.mask),
        "reward": mean(0.5 * ops.square(rewards - batch.rewards)),
        "end": mean(ops.softplus(ends) - batch.ends * ends),
        "kl": mean(_balanced_divergence(world, logits, prior, kl_balance)),
        "slowness": mean(0.5 * ops.mean(ops.square(slow[:, 1:] - slow[:, :-1]), axis=-1)),
        "uniformity": uniformity(latent),
        "first_state": 0.5 * ops.mean(ops.sum(ops.square(state - before), axis=-1)),
        "first_action": -ops.mean(ops.sum(ops.log_softmax(action) * actions[:, context - 1], axis=-1)),
    }


def total_loss(losses: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Return the weighted sum of the losses. Losses with weight 0 are left out."""
    return sum(weights[name] * loss for name, loss in losses.items() if weights[name])


def uniformity(latent: Tensor) -> Tensor:
    """Return log mean exp(-2 ||b - b'||^2) over pairs of latents (B, n) of length 1, or 0 for a single latent."""
    from keras import ops

    count = int(latent.shape[0])
    if count < 2:
        return ops.sum(latent) * 0
    squares = 2 - 2 * ops.matmul(latent, ops.transpose(latent))  # (B, B)
    others = 1 - ops.eye(count)
    return ops.log(ops.sum(ops.exp(-2 * squares) * others) / (count * (count - 1)))


def divergence(q: Tensor, p: Tensor) -> Tensor:
    """Return KL(q || p) (...,) of independent categorical variables with logits (..., V, K), summed over variables."""
    from keras import ops

    log_q, log_p = ops.log_softmax(q, axis=-1), ops.log_softmax(p, axis=-1)
    return ops.sum(ops.exp(log_q) * (log_q - log_p), axis=(-2, -1))


def _balanced_divergence(world: WorldModel, q: Tensor, p: Tensor, balance: float) -> Tensor:
    """Return the balanced divergence (B, T) between the posterior q and the prior p (loss `kl`)."""
    from keras import ops

    shape = (-1, int(q.shape[1]), world.size.variables, world.size.classes)
    q, p = ops.reshape(q, shape), ops.reshape(p, shape)
    return balance * divergence(ops.stop_gradient(q), p) + (1 - balance) * divergence(q, ops.stop_gradient(p))


def _observe(
    world: WorldModel, latent: Tensor, encoded: Tensor, actions: Tensor, noise: Tensor
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Return the world's states (B, T, ...) of the posterior, for encoded frames (B, T, E) and one-hot actions (B, n,
    A), n >= T.

    Also return the logits (B, T, V x K) of the posterior, and the deterministic state at the start.
    """
    from keras import ops

    first, stochastic = world.first(latent, noise[0])
    deterministic = first
    steps: list[tuple[Tensor, Tensor, Tensor]] = []
    for t in range(int(encoded.shape[1])):
        deterministic = world.transition(deterministic, stochastic, actions[:, t])
        logits = world.posterior(deterministic, encoded[:, t])
        stochastic = world.sample(logits, noise[t + 1])
        steps.append((deterministic, stochastic, logits))
    deterministics, stochastics, logits = (ops.stack(part, axis=1) for part in zip(*steps, strict=True))
    return (deterministics, stochastics), logits, first


def _seen(
    agent: AgentStep,
    split_state: Callable[[Tensor], list[Tensor]],
    num_heads: int,
    batch: Batch,
    decoded: Tensor,
    true: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the agent's next states (B T, S) for decoded and for true frames; for agents without a state, their
    outputs.
    """
    from keras import ops

    if batch.states.shape[-1]:
        after = agent(decoded, *split_state(_flat(batch.states[:, :-1])))[num_heads:]
        return ops.concatenate(after, axis=-1), _flat(batch.states[:, 1:])
    seen, target = (ops.concatenate(agent(frames)[:num_heads], axis=-1) for frames in (decoded, _flat(true)))
    return seen, ops.stop_gradient(target)


def _by_step(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of arrays (N, ...) to all steps of an array (B, T, ...)."""
    from keras import ops

    y = function(_flat(x))
    return ops.reshape(y, (-1, int(x.shape[1]), *y.shape[1:]))


def _flat(x: Any) -> Tensor:
    """Reshape (B, T, ...) to (B T, ...)."""
    from keras import ops

    return ops.reshape(x, (-1, *x.shape[2:]))

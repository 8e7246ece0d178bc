"""The simulator, a world model with a frozen agent in the loop, and the states from which simulations start."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.editing import Edit
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.protocol import Tensor
from rl_clarity.base.errors import OptionError
from rl_clarity.ppo.session import require_tensorflow
from rl_clarity.world_models.networks import WorldModel, gumbel, normalized, straight_through

EDITS = "edits/"
"""Prefix of the names of parameters that define an agent's edits."""
SEED_GENERATOR = "seed_generator"
"""Substring of the names of random states that Keras layers store."""


@dataclass(frozen=True)
class Start:
    """The start of B simulations: the states of world and agent, and the previous action, as tensors or arrays."""

    deterministic: Tensor
    """(B, D): deterministic part of the world's state."""
    stochastic: Tensor
    """(B, V x K): one-hot variables of the world's state."""
    state: tuple[Tensor, ...]
    """Parts (B, ...) of the agent's state, or () if it has none."""
    action: Tensor
    """(B, A), one-hot: the action before the first simulated step."""
    latent: Tensor | None = None
    """(B, n): the point on the unit sphere from which the start was computed, or None."""

    def __len__(self) -> int:
        return int(self.deterministic.shape[0])

    def tensors(self) -> list[Tensor]:
        """Return all tensors on which a simulation depends."""
        return [self.deterministic, self.stochastic, *self.state, self.action]


class Simulator:
    """Simulates a frozen agent in a learned world. `fit_simulator` trains a simulator, and `load_simulator` reads one
    from a file.

    Args:
        agent: an agent whose network runs on Keras with TensorFlow; its parameters are never changed
        world: the world model
        metadata: facts about the training of the world model: options, steps, `action_combos`, ...

    Raises OptionError for an agent that is not a `KerasAgent`.
    """

    def __init__(self, agent: KerasAgent, world: WorldModel, metadata: Mapping[str, Any] | None = None) -> None:
        import tensorflow as tf

        self.agent, self.world = check_agent(agent), world
        self.metadata = dict(metadata or {})
        self._world_step = tf.function(self._trace_world, reduce_retracing=True)
        self._agent_step = tf.function(agent.differentiable_step(), reduce_retracing=True)
        self._outcome = tf.function(world.outcome, reduce_retracing=True)
        self._encode = tf.function(world.encode, reduce_retracing=True)

    def __repr__(self) -> str:
        count = sum(int(np.prod(variable.shape)) for variable in self.world.variables.values())
        return f"<Simulator: {count:,} parameters, latents of {self.world.size.latent} dimensions, {self.agent!r}>"

    def with_edits(self, edits: Sequence[Edit]) -> Simulator:
        """Return a simulator of the same world with the agent edited."""
        return Simulator(self.agent.with_edits(edits), self.world, self.metadata) if edits else self

    def random_latents(self, count: int, seed: int = 0) -> np.ndarray:
        """Return latents (count, n) that are uniformly distributed on the unit sphere."""
        rng = np.random.default_rng([seed % 2**63, 1])
        return np.asarray(normalized(rng.normal(size=(count, self.world.size.latent)).astype(np.float32)))

    def latents(self, frames: np.ndarray) -> np.ndarray:
        """Return the latents (B, n) of consecutive frames (B, T, H, W, C) uint8."""
        return np.asarray(self.world.latent(self.encode(frames)))

    def encode(self, frames: np.ndarray) -> Tensor:
        """Encode frames (B, T, H, W, C) uint8 to (B, T, E). Raises OptionError for frames of any other shape or
        type.
        """
        frames = np.asarray(frames)
        shape = self.world.observation_shape
        if frames.ndim != 5 or frames.shape[2:] != shape or frames.dtype != np.uint8 or not frames.size:
            raise OptionError(
                f"frames {frames.shape} {frames.dtype} must be (B, T, {', '.join(map(str, shape))}) uint8"
            )
        count, steps = frames.shape[:2]
        encoded = self._encode(frames.reshape(-1, *shape).astype(np.float32) / 255)
        import tensorflow as tf

        return tf.reshape(encoded, (count, steps, -1))

    def start(
        self,
        start: Start | int | np.ndarray | Tensor,
        *,
        state: Sequence[np.ndarray] | None = None,
        action: np.ndarray | None = None,
        seed: int = 0,
        sample_world: bool = True,
    ) -> Start:
        """Return the start of B simulations.

        Args:
            start: a few consecutive frames (B, T, H, W, C) uint8, latents (B, n), which are scaled to length 1, a
                number of random latents, or a `Start`, which is returned as it is
            state: parts (B, ...) of the agent's state where the simulations start; by default predicted from the
                latents
            action: the previous actions (B,), integers; by default predicted from the latents
            seed: seed of random latents, and of the world's first stochastic state
            sample_world: whether to sample the world's first stochastic state; if not, its mode is taken

        Raises OptionError for arguments of a wrong type or shape, and for unknown actions.
        """
        import tensorflow as tf

        if isinstance(start, Start):
            first, second, *state_parts, last = (tf.convert_to_tensor(part, tf.float32) for part in start.tensors())
            return Start(first, second, tuple(state_parts), last, start.latent)

        if isinstance(start, int | np.integer):
            start = self.random_latents(int(start), seed)
        if start.ndim == 5:
            start = self.world.latent(self.encode(start))
        elif start.ndim != 2 or start.shape[1] != self.world.size.latent or not len(start):
            raise OptionError(
                f"start has the shape {tuple(start.shape)}, but frames (B, T, H, W, C) uint8, latents "
                f"(B, {self.world.size.latent}), a number of random latents or a Start are needed"
            )
        latent = normalized(tf.cast(tf.convert_to_tensor(start), tf.float32))
        rng = np.random.default_rng([seed % 2**63, 2])
        deterministic, stochastic = self.world.first(latent, self._noise(rng, len(latent), sample_world))
        predicted, logits = self.world.first_of_agent(latent)
        parts = tuple(self.split_state(predicted))
        if state is not None:
            expected = [tuple(part.shape) for part in parts]
            if [np.shape(part) for part in state] != expected:
                raise OptionError(f"state has the shapes {[np.shape(part) for part in state]}; expected {expected}")
            parts = tuple(tf.constant(np.asarray(part, np.float32)) for part in state)
        last = straight_through(logits, 0.0) if action is None else self.one_hot(action, (len(latent),))
        return Start(deterministic, stochastic, parts, last, latent)

    def one_hot(self, actions: np.ndarray, shape: tuple[int, ...]) -> Tensor:
        """Return integer actions of this shape as one-hot vectors (*shape, A). Raises OptionError for a wrong shape or
        type, and for unknown actions.
        """
        import tensorflow as tf

        actions = np.asarray(actions)
        if actions.shape != shape or actions.dtype.kind not in "iu":
            raise OptionError(f"actions {actions.shape} {actions.dtype} must be integers {shape}")
        if actions.size and not (actions.min() >= 0 and actions.max() < self.world.num_actions):
            raise OptionError(
                f"actions range from {actions.min()} to {actions.max()}, but must be from 0 to below "
                f"{self.world.num_actions}"
            )
        return tf.one_hot(actions, self.world.num_actions)

    def split_state(self, flat: Tensor) -> list[Tensor]:
        """Split vectors (N, S) into the parts of the agent's state."""
        return split_state(self.agent, flat)

    def _noise(self, rng: np.random.Generator, count: int, sample: bool) -> np.ndarray:
        shape = (count, self.world.size.variables, self.world.size.classes)
        return gumbel(rng, shape) if sample else np.zeros(shape, np.float32)

    def _trace_world(
        self, deterministic: Tensor, stochastic: Tensor, action: Tensor, noise: Tensor, encoded: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the next state of the world (deterministic, stochastic), the prior's logits, and the decoded frame."""
        deterministic = self.world.transition(deterministic, stochastic, action)
        prior = self.world.prior(deterministic)
        logits = prior if encoded is None else self.world.posterior(deterministic, encoded)
        stochastic = self.world.sample(logits, noise)
        return deterministic, stochastic, prior, self.world.decode(deterministic, stochastic)


def check_agent(agent: Any) -> KerasAgent:
    """Return the agent if it is a `KerasAgent` on TensorFlow, which a simulator needs. Otherwise, raise OptionError."""
    require_tensorflow("a simulator")
    if not isinstance(agent, KerasAgent):
        raise OptionError(
            f"a simulator needs an agent on Keras (KerasAgent, or one that load_agent reads), not "
            f"{type(agent).__name__}: its network is differentiated together with the world, on TensorFlow"
        )
    return agent


def split_state(agent: KerasAgent, flat: Tensor) -> list[Tensor]:
    """Split vectors (N, S) into the parts (N, ...) of the agent's state."""
    from keras import ops

    shapes = [part.shape[1:] for part in agent.initial_state(1) or ()]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    if not shapes:
        return []
    parts = ops.split(flat, [int(end) for end in ends[:-1]], axis=-1) if len(shapes) > 1 else [flat]
    return [ops.reshape(part, (-1, *shape)) for part, shape in zip(parts, shapes, strict=True)]


def agent_fingerprint(agent: KerasAgent) -> str:
    """Return the SHA-256 of the parameters of the agent's network, in their order and without edits.

    Names are not included, because Keras numbers layers in the order in which a process creates them. Seeds of layers
    are not included, because they are random.
    """
    digest = hashlib.sha256()
    for name, array in agent.parameters().items():
        if not name.startswith(EDITS) and SEED_GENERATOR not in name:
            digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def new_world(agent: KerasAgent, size: Any, seed: int = 0, *, shapes_only: bool = False) -> WorldModel:
    """Return a new world model for an agent's observations, actions and state."""
    state_size = sum(int(part[0].size) for part in agent.initial_state(1) or ())
    return WorldModel(size, agent.observation_shape, agent.num_actions, state_size, seed, shapes_only=shapes_only)

"""`rl_clarity.simulate` lets the frozen agent act in the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.editing import Edit
from rl_clarity.agents.protocol import Tensor
from rl_clarity.base.errors import OptionError
from rl_clarity.world_models.networks import gumbel, straight_through
from rl_clarity.world_models.simulator import Simulator, Start


@dataclass(frozen=True)
class SimulatedStep:
    """A step of B simulations, as tensors through which gradients flow to earlier steps."""

    deterministic: Tensor  # (B, D), the world's state
    stochastic: Tensor  # (B, V x K)
    prior: Tensor  # (B, V x K), logits
    frame: Tensor  # (B, H, W, C), about 0..1
    state: tuple[Tensor, ...]  # the agent's state before the step
    heads: tuple[Tensor, ...]  # the agent's outputs
    after: tuple[Tensor, ...]  # the agent's state after the step
    action: Tensor  # (B, A), one-hot
    reward: Tensor  # (B,)
    end: Tensor  # (B,), logit


@dataclass(frozen=True)
class Simulation:
    """T steps of B simulations. Properties are arrays; `steps` contains tensors, for gradients."""

    steps: tuple[SimulatedStep, ...]
    start: Start
    heads: tuple[str, ...]
    """Names of the agent's outputs, in the order of `SimulatedStep.heads`."""

    @property
    def frames(self) -> np.ndarray:
        """(B, T, H, W, C) float32, with values of about 0..1, as the agent gets them."""
        return self._array("frame")

    @property
    def images(self) -> np.ndarray:
        """(B, T, H, W, C) uint8: the frames as images to show."""
        return np.rint(np.clip(self.frames, 0, 1) * 255).astype(np.uint8)

    @property
    def actions(self) -> np.ndarray:
        """(B, T) int32: the actions that were taken."""
        return self._array("action").argmax(axis=-1).astype(np.int32)

    @property
    def rewards(self) -> np.ndarray:
        """(B, T) float32: expected rewards of the actions."""
        return self._array("reward")

    @property
    def ends(self) -> np.ndarray:
        """(B, T) float32: probabilities that the episode ends with the action."""
        return np.asarray(1 / (1 + np.exp(-self._array("end").astype(np.float64))), np.float32)

    @property
    def states(self) -> tuple[np.ndarray, ...]:
        """Parts (B, T, ...) of the agent's state before each step."""
        return tuple(np.stack(part, axis=1) for part in zip(*(step.state for step in self.steps), strict=True))

    @property
    def final_states(self) -> tuple[np.ndarray, ...]:
        """Parts (B, ...) of the agent's state after the last step."""
        return tuple(np.asarray(part) for part in self.steps[-1].after)

    @property
    def world_states(self) -> np.ndarray:
        """(B, T, D + V x K): the world's state, its deterministic part first."""
        return np.concatenate([self._array("deterministic"), self._array("stochastic")], axis=-1)

    @property
    def policy_logits(self) -> np.ndarray | None:
        """(B, T, A): logits of the agent's policy, or None if it has none."""
        return self._head("policy_logits")

    @property
    def q_values(self) -> np.ndarray | None:
        """(B, T, A): the agent's action values, or None if it has none."""
        return self._head("q_values")

    @property
    def values(self) -> np.ndarray | None:
        """(B, T): the agent's value estimates, or None if it has none."""
        values = self._head("values")
        return None if values is None else values[..., 0]

    @property
    def end(self) -> Start:
        """The start of a simulation that continues this one."""
        last = self.steps[-1]
        return Start(last.deterministic, last.stochastic, last.after, last.action)

    def _array(self, name: str) -> np.ndarray:
        return np.stack([np.asarray(getattr(step, name)) for step in self.steps], axis=1)

    def _head(self, name: str) -> np.ndarray | None:
        if name not in self.heads:
            return None
        index = self.heads.index(name)
        return np.stack([np.asarray(step.heads[index]) for step in self.steps], axis=1)


def simulate(
    simulator: Simulator,
    start: Start | int | np.ndarray | Tensor,
    steps: int,
    actions: np.ndarray | int | None = None,
    edits: Sequence[Edit] = (),
    world_gradients: bool = True,
    *,
    observations: np.ndarray | None = None,
    see: Callable[[int, Tensor], Tensor] | None = None,
    seed: int = 0,
    sample_world: bool = True,
    sample_actions: bool = False,
) -> Simulation:
    """Simulate the agent in the learned world. The same arguments give the same results.

    At each step, the world's state is computed from the previous state and action, and the agent sees the decoded frame
    and chooses an action. The simulation is differentiable: under a `tf.GradientTape`, gradients flow from the tensors
    of `Simulation.steps` to those of earlier steps, with straight-through gradients for sampled states and actions.

    Args:
        simulator: a simulator from `fit_simulator` or `load_simulator`
        start: where B simulations start: a few consecutive frames (B, n, H, W, C) uint8, latents (B, n), a number of
            random latents, or a `Start`, such as `simulation.end` or `simulator.start(frames, state=..., action=...)`
        steps: number of steps, T
        actions: (B, T) integers, taken instead of the agent's actions; or a single action, which is repeated
        edits: edits of the agent, as for `rl_clarity.edit`
        world_gradients: whether gradients flow through actions into the world. If not, an earlier frame affects the
            gradient of a later output only through the agent's memory. The simulated values are the same in both cases
        observations: true frames (B, T, H, W, C) uint8, from which the posterior of the world's state is computed; by
            default, states are sampled from the prior
        see: a function of the step, counted from 0, and of the simulated frame (B, H, W, C), about 0..1. It returns the
            frame that the agent gets instead
        seed: seed of random latents and samples
        sample_world: whether to sample the world's stochastic states; if not, their modes are taken
        sample_actions: whether to sample actions from the policy; if not, the most likely ones are taken

    Raises OptionError for arguments that do not fit the simulator.
    """
    import tensorflow as tf

    if steps < 1:
        raise OptionError(f"steps={steps} must be at least 1")
    simulator = simulator.with_edits(edits)
    begin = simulator.start(start, seed=seed, sample_world=sample_world)
    count = len(begin)
    fixed = None
    if actions is not None:
        chosen = np.full((count, steps), actions) if np.ndim(actions) == 0 else np.asarray(actions)
        fixed = simulator.one_hot(chosen, (count, steps))
    encoded = None if observations is None else simulator.encode(np.asarray(observations))
    if encoded is not None and tuple(encoded.shape[:2]) != (count, steps):
        raise OptionError(f"observations are {tuple(encoded.shape[:2])} frames; {(count, steps)} are needed")
    rng = np.random.default_rng([seed % 2**63, 3])
    num_heads = len(simulator.agent.heads)
    deterministic, stochastic, state, action = begin.deterministic, begin.stochastic, begin.state, begin.action
    results = []
    for t in range(steps):
        if not world_gradients:
            action = tf.stop_gradient(action)
        noise = simulator._noise(rng, count, sample_world)
        deterministic, stochastic, prior, frame = simulator._world_step(
            deterministic, stochastic, action, noise, None if encoded is None else encoded[:, t]
        )
        outputs = simulator._agent_step(frame if see is None else see(t, frame), *state)
        heads, after = tuple(outputs[:num_heads]), tuple(outputs[num_heads:])
        # Drawn even if it is not used, so that the world's samples do not depend on it.
        chance = gumbel(rng, (count, simulator.world.num_actions))
        action = straight_through(heads[0], chance if sample_actions else 0.0) if fixed is None else fixed[:, t]
        reward, end = simulator._outcome(
            deterministic, stochastic, action if world_gradients else tf.stop_gradient(action)
        )
        results.append(SimulatedStep(deterministic, stochastic, prior, frame, state, heads, after, action, reward, end))
        state = after
    return Simulation(tuple(results), begin, simulator.agent.heads)

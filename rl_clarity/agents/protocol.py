"""The protocol `Agent`: what analyses need from an agent.

An agent maps observations (and, if it is recurrent, a state) to outputs. Its *sites* are the named tensors of its
network, which can be read, replaced and differentiated. Agents do not depend on file formats, environments or analyses.

Shapes: B observations of H x W pixels and C channels; A actions; S scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

Tensor: TypeAlias = Any
"""An array of the framework that computes the network, on its device."""

State: TypeAlias = tuple[np.ndarray, ...] | None
"""A recurrent state: arrays whose first axis is the batch. None for agents without a state."""

FrameRegion: TypeAlias = tuple[float, float, float, float]
"""A region of a frame: top, left, bottom and right, as fractions of the frame's height and width."""

Score: TypeAlias = str | int | Sequence[int] | Mapping[str | int, Any]
"""A number per observation that gradients explain:

- "value"
- the index of an action: its logit or action value
- a sequence of action indices: the sum of their logits or action values
- "greedy", for agents without a value: the highest action value or the largest logit. If an action has several factors,
  it is the sum of the largest logit of each choice, the logit of each switch, and the mean of each continuous value
- a mapping from any of these names and indices to weights: a linear combination. Each weight is a number, or an array
  (B,) with a number per observation
"""

Written: TypeAlias = np.ndarray | Callable[[np.ndarray], np.ndarray]
"""Values (B, *shape) that replace those of a site, or a function that computes them from the site's values."""


@dataclass(frozen=True)
class Site:
    """A named tensor of a network.

    Sites are the input ("input": observations / 255, or unscaled vectors), the arrays of a recurrent state before the
    step ("state/0", ...), the results of the network's operations, and the heads ("policy_logits" and "values",
    "policy_logits" alone, or "q_values").
    """

    name: str
    """Full name, which is unique in the network. Its components are separated by `/`, or by `.` in PyTorch."""
    kind: str
    """`input`, `state`, `head`, or the kind of operation in lower case: `relu`, `conv2d`, `maxpool`, `dense`, ..."""
    shape: tuple[int, ...]
    """Shape without the batch axis; (h, w, c) for feature maps."""
    after_bottleneck: bool = True
    """Whether every path from an earlier convolution to the site passes through a bottleneck of the network."""
    bypassed: bool = False
    """Whether some path from the observations to the heads avoids the site, such as the skip connection of a residual
    block."""


@dataclass(frozen=True)
class Outputs:
    """Outputs for B observations: logits and values, logits alone, or action values."""

    policy_logits: np.ndarray | None = None  # (B, A) float32
    values: np.ndarray | None = None  # (B,) float32
    q_values: np.ndarray | None = None  # (B, A) float32
    sites: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Values (B, *shape) float32 of the sites that `forward(read=...)` names."""
    state: State = None
    """The state after the step."""


class Tail(Protocol):
    """The network from a site to S scores for a batch of n observations, which can be evaluated at any values of the
    site.

    Tensors that bypass the site keep their values at the observations. `values=None` stands for the site's values
    at the observations.
    """

    @property
    def rows(self) -> slice:
        """Indices of the batch among all observations."""
        ...

    @property
    def values(self) -> np.ndarray:
        """The site's values (n, *shape) at the observations."""
        ...

    def scores(self, values: np.ndarray | None = None, *, scale: float = 1.0) -> np.ndarray:
        """Return the scores (S, n) at `scale * values`."""
        ...

    def gradients(self, values: np.ndarray | None = None) -> np.ndarray:
        """Return the gradients (S, n, *shape) of the scores at `values`."""
        ...

    def path_gradients(
        self, points: Sequence[float], weights: Sequence[float], baseline: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the weighted sum (S, n, *shape) of the gradients at points on a straight line.

        Point 0 is the baseline (n or 1, *shape), by default 0. Point 1 is the site's values at the observations.
        """
        ...


@runtime_checkable
class Agent(Protocol):
    """The interface of agents.

    `num_actions` and `step` suffice to play. The other members are optional capabilities: a function that needs one
    requests it by name with `rl_clarity.agents.capabilities.require`. Agents may also have:

    - `reset(state, firsts)`: the state that a step starts from, if episodes do not begin in the initial state
    - `parameters()`: arrays by name, which distinguish agents in cache keys
    - `frame_region`: a `FrameRegion`, the region of an environment's frame that an observation shows, if `preprocess`
      crops frames
    - `with_edits(edits)`: the agent with edits, which also apply to its gradients
    - `held_inputs`: shapes by name of the inputs besides the image, which are the last arrays of the state (see
      `rl_clarity.agents.held_inputs`)
    - `gradient_of_direction`: gradients for feature visualization
    - `state_gradients`: gradients through the recurrent cell
    - `action_factors`: the factors of an action, if it is not a single choice among A options (see
      `rl_clarity.agents.actions`)
    - `parallel_calls`: the number of threads that should call the agent at once, if several can call it
    """

    @property
    def num_actions(self) -> int:
        """A, the number of outputs of the policy."""
        ...

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one observation as `forward` takes it; (1, 1, n) for vectors of n numbers."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Facts about the agent, such as `env_name` and `gamma`. The dict may be empty."""
        ...

    @property
    def sites(self) -> Sequence[Site]:
        """All sites, in the order of computation."""
        ...

    @property
    def layers(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes (h, w, c) of the layers that are explained by default, by short name, in the order of computation."""
        ...

    def initial_state(self, n: int) -> State:
        """Return the state of n environments before their first step, or None if the agent has no state."""
        ...

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        """Return the outputs for `observations` (B, H, W, C) and the state after the step.

        Where `firsts` (B,) is true an episode begins, and the state is reset.
        """
        ...

    def forward(
        self,
        observations: np.ndarray,
        state: State = None,
        *,
        read: Sequence[str] = (),
        write: Mapping[str, Written] | None = None,
    ) -> Outputs:
        """Return the outputs for `observations` (B, H, W, C) from `state`, by default the initial state.

        Observations are uint8 from 0 to 255; an agent may also take floats of that range. `read` names sites whose
        values are returned in `outputs.sites`. `write` replaces or edits the values of sites, in the order of
        computation, before anything that depends on them is computed.
        """
        ...

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        """Return observations for an environment's frames; by default the frames themselves.

        Observations are uint8, or float32 from 0 to 1 in steps of 1 / 255. In the latter case, `forward` takes uint8,
        too.
        """
        ...

    def activations(self, observations: np.ndarray, site: str, state: State = None) -> np.ndarray:
        """Return the values (B, *shape) of a site, without computing the rest of the network."""
        ...

    def tails(
        self, observations: np.ndarray, site: str, scores: Sequence[Score], state: State = None
    ) -> Iterator[Tail]:
        """Yield a `Tail`, the network from a site to the scores, for each batch of observations.

        The network up to the site is evaluated once per batch. Evaluating a tail takes only a pass through the rest.
        """
        ...

    def gradients(
        self,
        observations: np.ndarray,
        site: str,
        scores: Sequence[Score],
        *,
        values: np.ndarray | None = None,
        state: State = None,
    ) -> np.ndarray:
        """Return the gradient (S, B, *shape) of each score with respect to a site.

        The gradient is taken at `values` (B, *shape), by default the site's values at the observations.
        """
        ...

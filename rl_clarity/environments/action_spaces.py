"""Gymnasium action spaces: the factors of their actions, and the conversion of an agent's actions to actions of a
space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents.actions import Binary, Categorical, Factor, Gaussian, is_single_choice
from rl_clarity.base.errors import EnvironmentSetupError, SamplesError

if TYPE_CHECKING:
    import gymnasium


class ActionSpace:
    """The actions of a Gymnasium space: `Discrete`, `MultiDiscrete`, `MultiBinary`, or `Box` with floats.

    Raises EnvironmentSetupError for any other space.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space
        self.factors = _factors(space)
        single = self.factors[0]
        is_choice = is_single_choice(self.factors)
        self.num_actions: int = single.n if is_choice and isinstance(single, Categorical) else len(self.factors)
        """Number of choices if an action is a single choice, else the number of its factors."""

    def convert(self, actions: np.ndarray) -> np.ndarray:
        """Convert an agent's actions for N environments to actions (N, *space.shape) of the space.

        The agent's actions are integers (N,) if an action is a single choice. Otherwise they are numbers (N, F), one
        for each of the F factors.
        """
        actions, space = np.asarray(actions), self._space
        first = getattr(space, "start", 0)
        if space.shape == ():
            return np.asarray(first + actions)
        return actions.reshape(len(actions), *(space.shape or ())).astype(space.dtype) + first

    def masks(self, masks: Sequence[Any]) -> np.ndarray:
        """Return masks (N, A) bool, which are true for valid choices, from what `action_masks()` of N environments
        returned.

        A mask has an entry for each choice of a discrete factor, and two entries (off and on) for each switch, as in
        sb3-contrib. Raises SamplesError for masks of the wrong size, for a `Box`, and for masks that allow no choice.
        """
        sizes = [getattr(factor, "n", 2) for factor in self.factors]
        ends = np.cumsum(sizes)
        result = np.array([np.ravel(mask) for mask in masks], bool)
        if result.shape != (len(masks), ends[-1]) or any(isinstance(factor, Gaussian) for factor in self.factors):
            raise SamplesError(
                f"action_masks() returned arrays of the sizes {[np.size(mask) for mask in masks]} for the action space "
                f"{self._space}; a mask must have one entry per choice, and two per switch of MultiBinary"
            )
        if not np.logical_or.reduceat(result, ends - sizes, axis=1).all():
            raise SamplesError(f"action_masks() allows no action of {self._space}: {result.astype(int).tolist()}")
        return result


def _factors(space: gymnasium.Space[Any]) -> tuple[Factor, ...]:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return (Categorical(int(space.n)),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(Categorical(int(n)) for n in space.nvec.flat)
    if isinstance(space, spaces.MultiBinary):
        return tuple(Binary() for _ in range(int(np.prod(space.shape))))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return tuple(
            Gaussian(float(low), float(high)) for low, high in zip(space.low.flat, space.high.flat, strict=True)
        )
    raise EnvironmentSetupError(
        f"action space {space} is not supported: actions must be Discrete, MultiDiscrete, MultiBinary, or a Box of "
        "floats. Wrap the environment so that its action space is one of these, for example with gymnasium.wrappers."
        "TransformAction"
    )

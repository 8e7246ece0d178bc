"""Normalization of observations by `VecNormalize`, as part of the agent. The agent plays in the environment that
`VecNormalize` wraps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError


@dataclass(frozen=True)
class Normalization:
    """How a model's observations differ from those of the environment inside its `VecNormalize`."""

    space: Any
    """The model's observation space without the normalization."""
    normalizer: Any = None
    """The `VecNormalize`, or None if it does not normalize observations."""
    statistics: Mapping[str | None, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Mean and standard deviation by the name of a dictionary entry, or by None for observations without names."""

    @classmethod
    def of(cls, model: Any, normalizer: Any = None) -> Normalization:
        """Return the normalization by `normalizer` (default: the model's), with its current statistics."""
        from gymnasium.spaces import Dict

        normalizer = normalizer or model.get_vec_normalize_env()
        space = model.observation_space
        if normalizer is None or not normalizer.norm_obs:
            return cls(space)
        inside, recorded = normalizer.venv.observation_space, normalizer.obs_rms
        if not isinstance(space, Dict):
            return cls(inside, normalizer, {None: _statistics(recorded, normalizer)})
        names = [*normalizer.norm_obs_keys]
        spaces = {name: inside[name] if name in names else part for name, part in space.spaces.items()}
        return cls(Dict(spaces), normalizer, {name: _statistics(recorded[name], normalizer) for name in names})

    def apply(self, observations: Any) -> Any:
        """Normalize observations as `VecNormalize` does. They are a tensor (B, ...) or a dictionary of tensors."""
        if None in self.statistics:
            return self._normalized(observations, None)
        if not self.statistics:
            return observations
        return {
            name: self._normalized(part, name) if name in self.statistics else part
            for name, part in observations.items()
        }

    def _normalized(self, observations: Any, name: str | None) -> Any:
        mean, std = (observations.new_tensor(array) for array in self.statistics[name])
        clip = self.normalizer.clip_obs
        return ((observations.float() - mean) / std).clamp(-clip, clip)


def without_normalization(env: Any) -> Any:
    """Return a `VecEnv` without its `VecNormalize`, and without wrappers around it that the agent does not need.

    Raises EnvironmentSetupError for any other wrapper around it.
    """
    from stable_baselines3.common.vec_env import VecMonitor, VecNormalize, VecTransposeImage, unwrap_vec_normalize

    if unwrap_vec_normalize(env) is None:
        return env
    while not isinstance(env, VecNormalize):
        if not isinstance(env, VecMonitor | VecTransposeImage):
            raise EnvironmentSetupError(
                f"a {type(env).__name__} is around VecNormalize: reverse the order of the wrappers, as in "
                "VecNormalize(VecFrameStack(venv, 4)), so that observations are normalized last"
            )
        env = env.venv
    return env.venv


def _statistics(running: Any, normalizer: Any) -> tuple[np.ndarray, np.ndarray]:
    mean, std = running.mean, np.sqrt(running.var + normalizer.epsilon)
    return np.asarray(mean, np.float32), np.asarray(std, np.float32)

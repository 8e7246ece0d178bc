"""Where agents play: one kind of environment a module, behind one vectorised protocol.

To add a kind, write a module with a function
`make(name, num_envs, seed, options, *, full_resolution) -> VectorEnvironment` and add its line to `KINDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from rl_clarity.environments.checks import check_name
from rl_clarity.environments.metadata import spec_from_metadata
from rl_clarity.environments.protocol import Combo, EnvironmentSpec, Step, VectorEnvironment
from rl_clarity.environments.wrappers import EpsilonGreedy, FrameStack, RewardScale
from rl_clarity.errors import EnvironmentSetupError

__all__ = ["KINDS", "Combo", "EnvironmentSpec", "Step", "VectorEnvironment", "make", "spec_from_metadata"]

KINDS: Mapping[str, str] = {
    "procgen": "rl_clarity.environments.procgen",
    "coinrun_old": "rl_clarity.environments.coinrun_old",
    "atari": "rl_clarity.environments.atari",
    "gymnasium": "rl_clarity.environments.gymnasium_",
}
"""Module of each kind, imported when one is made: they need packages that a plain install does not have."""


def make(spec: EnvironmentSpec, num_envs: int, seed: int, *, full_resolution: bool = False) -> VectorEnvironment:
    """Make `num_envs` environments; with `full_resolution` they can also `render()` human-scale pictures.

    The options `frame_stack` (frames an observation is made of) and `frame_stack_padding` fit every kind; the
    others are the kind's. The same arguments give environments that behave the same.

    Raises `EnvironmentSetupError` for an unknown kind, name or option, a missing package, or spaces that are not
    images and discrete actions.
    """
    if num_envs < 1:
        raise EnvironmentSetupError(f"num_envs={num_envs} must be at least 1")
    module = importlib.import_module(KINDS[check_name("kind of environment", spec.kind, KINDS)])
    options = dict(spec.options)
    frame_stack = int(options.pop("frame_stack", None) or 1)
    padding = options.pop("frame_stack_padding", None) or "zeros"
    environment: VectorEnvironment = module.make(spec.name, num_envs, seed, options, full_resolution=full_resolution)
    if frame_stack != 1:
        environment = FrameStack(environment, frame_stack, padding)
    if spec.reward_scale != 1:
        environment = RewardScale(environment, spec.reward_scale)
    if spec.epsilon_greedy != 0:
        environment = EpsilonGreedy(environment, spec.epsilon_greedy, seed)
    return environment

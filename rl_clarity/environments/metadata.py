"""From a checkpoint's metadata to the environment its agent was trained in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rl_clarity.environments.atari import AtariOptions
from rl_clarity.environments.coinrun_old import COMBOS as COINRUN_OLD_COMBOS
from rl_clarity.environments.coinrun_old import OPTIONS as COINRUN_OLD_OPTIONS
from rl_clarity.environments.procgen import DEFAULT_OPTIONS as PROCGEN_OPTIONS
from rl_clarity.environments.protocol import EnvironmentSpec
from rl_clarity.errors import EnvironmentSetupError

_COMMON = ("frame_stack", "frame_stack_padding")
_ATARI = tuple(field.name for field in fields(AtariOptions))
_GYMNASIUM = ("make_kwargs", "channels_first", "value_range")


def spec_from_metadata(metadata: Mapping[str, Any], *, num_actions: int | None = None) -> EnvironmentSpec:
    """Environment of an agent, from its checkpoint's arguments as `rl_clarity.train` and the original save them.

    What the metadata does not say has the original's default. `num_actions` is how many the agent's policy has, by
    which agents of `coinrun_old` with extra actions are known. Raises `EnvironmentSetupError` if there is no name.
    """
    kind = str(metadata.get("env_kind") or "procgen").lower()
    name = metadata.get("env_name") or metadata.get("env_id")
    if not name:
        raise EnvironmentSetupError(
            "the checkpoint's metadata has neither env_name nor env_id: say which environment the agent plays in "
            "(env_name='coinrun'; on the command line --env-name coinrun, or --metadata env_name coinrun), "
            "or give trajectories and observations as arrays"
        )
    if kind == "procgen" and str(name).lower() == "coinrun_old":
        kind = "coinrun_old"
    return EnvironmentSpec(
        kind=kind,
        name=str(name),
        options=_options(kind, metadata, num_actions),
        epsilon_greedy=float(metadata.get("epsilon_greedy") or 0.0),
        reward_scale=float(_given(metadata, "reward_scale", 1.0)),
    )


def _options(kind: str, metadata: Mapping[str, Any], num_actions: int | None) -> dict[str, Any]:
    keys = {
        "procgen": tuple(PROCGEN_OPTIONS),
        "coinrun_old": COINRUN_OLD_OPTIONS,
        "atari": _ATARI,
        "gymnasium": _GYMNASIUM,
    }.get(kind, ())
    options = {key: metadata[key] for key in (*_COMMON, *keys) if metadata.get(key) is not None}
    if kind == "coinrun_old" and num_actions == len(COINRUN_OLD_COMBOS) + 2:
        options["extra_actions"] = 2
    if kind == "atari" and _given(metadata, "library", "baselines") == "baselines":
        # Baselines ends an episode with a life: the values its agents learnt, and so their advantages, do too.
        options.setdefault("episodic_life", True)
    return options


def _given(metadata: Mapping[str, Any], key: str, default: Any) -> Any:
    value = metadata.get(key)
    return default if value is None else value

"""Kinds of environments with their options, and specifications of environments, which are converted from and to
metadata.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.base.errors import ClarityError, DependencyError, EnvironmentSetupError, OptionError, WorldError
from rl_clarity.base.parsing import NoOptions
from rl_clarity.base.registry import Registry
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.environments.stacked_world import StackedWorld
from rl_clarity.environments.worlds import World
from rl_clarity.environments.wrappers import EpsilonGreedy, FrameStack, RewardScale

DEFAULT_KIND = "procgen"
CALLER_ONLY = {"caller_only": True}
"""Use `field(metadata=CALLER_ONLY)` for an option that is not read from metadata."""
CAN_RUN_CODE = {"can_run_code": True}
"""Use `field(metadata=CAN_RUN_CODE)` for an option that is read from the caller's metadata, but not from the metadata
of a checkpoint."""
UNTRUSTED = "untrusted"
"""Name of the metadata entry that contains the metadata of a checkpoint that could cause code to run, except those that
the caller passed."""
NAMES = ("env_name", "env_id")


@dataclass(frozen=True)
class EnvironmentSpec:
    """The specification of an environment to make, from a checkpoint's metadata or a user's options."""

    kind: str = DEFAULT_KIND
    """Name of a kind in `KINDS`: `procgen`, `coinrun_old`, `atari`, `gymnasium`, `light_switch`."""
    name: str = ""
    """Name of the game or Gymnasium id. Only `gymnasium` distinguishes upper and lower case."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the kind (`num_levels`, `use_sticky_actions`, ...), and options in `CommonOptions`."""
    epsilon_greedy: float = 0.0
    """Probability that an action is replaced by a uniformly random one."""
    reward_scale: float = 1.0

    def metadata(self) -> dict[str, Any]:
        """Return metadata that `spec_from_metadata` converts to this specification."""
        return {
            "env_kind": self.kind,
            "env_name": self.name,
            **self.options,
            "epsilon_greedy": self.epsilon_greedy,
            "reward_scale": self.reward_scale,
        }


@dataclass(frozen=True)
class CommonOptions:
    """Options that environments of every kind have."""

    frame_stack: int = 1
    """Number of frames per observation."""
    frame_stack_padding: str = "zeros"
    """What replaces the frames before the start of an episode: `zeros`, or copies of the `first` frame."""


@dataclass(frozen=True)
class EnvironmentKind:
    """A kind of environment: how environments are made, and which options they have."""

    make: Callable[..., VectorEnvironment]
    """A function `make(name, num_envs, seed, options, *, full_resolution)`, where `options` is an instance of the class
    of options below. It makes `num_envs` environments that behave the same for the same arguments, and that can also
    `render()` if `full_resolution` is true."""
    options: type[Any] = NoOptions
    """The class of the kind's options, a frozen dataclass whose fields all have defaults."""
    frame_shape: tuple[int, int, int] | None = None
    """Shape (H, W, C) of a frame, or None if it depends on the environment."""
    infer: Callable[[dict[str, Any], Mapping[str, Any], int | None], dict[str, Any]] | None = None
    """A function `infer(options, metadata, num_actions)` that completes options from a checkpoint's metadata and the
    number of the agent's actions (None if unknown)."""
    check: Callable[[str], object] | None = None
    """A function that raises EnvironmentSetupError for a name that `make` does not know, or None if only `make` can
    tell."""
    example: str = "NAME"
    """Name of an environment of this kind, as an example in error messages."""
    imports_modules: bool = True
    """Whether a name can import a module, like `module:Name-v0`."""
    thread_safe: bool = False
    """Whether environments behave the same if another thread steps other environments at the same time."""
    world: Callable[[str, Any], World] | None = None
    """A function `world(name, options)` that makes the `World` of an environment, which lists, edits and draws its
    states, or None if the states cannot be edited."""

    def option_names(self) -> tuple[str, ...]:
        """Return the names of the options that are read from metadata."""
        return tuple(
            option.name for option in dataclasses.fields(self.options) if not option.metadata.get("caller_only")
        )


KINDS: Registry[EnvironmentKind] = Registry(
    "rl_clarity.environments",
    {
        "procgen": "rl_clarity.environments.procgen:KIND",
        "coinrun_old": "rl_clarity.environments.coinrun_old:KIND",
        "atari": "rl_clarity.environments.atari:KIND",
        "gymnasium": "rl_clarity.environments.gymnasium_:KIND",
        "light_switch": "rl_clarity.environments.light_switch:KIND",
    },
    noun="kind of environment",
    error=EnvironmentSetupError,
)


def make(spec: EnvironmentSpec, num_envs: int, seed: int, *, full_resolution: bool = False) -> VectorEnvironment:
    """Make `num_envs` environments. With `full_resolution` they can also `render()` larger images.

    The same arguments give environments that behave the same. Raises EnvironmentSetupError for an unknown kind, name or
    option, a missing package, or an unsupported observation or action space.
    """
    if num_envs < 1:
        raise EnvironmentSetupError(f"num_envs={num_envs} must be at least 1")
    kind = KINDS.get(spec.kind)
    options, stack = _split_options(spec, kind)
    environment = kind.make(spec.name, num_envs, seed, options, full_resolution=full_resolution)
    if stack.frame_stack != 1:
        environment = FrameStack(environment, stack.frame_stack, stack.frame_stack_padding)
    if spec.reward_scale != 1:
        environment = RewardScale(environment, spec.reward_scale)
    if spec.epsilon_greedy != 0:
        environment = EpsilonGreedy(environment, spec.epsilon_greedy, seed)
    return environment


def make_world(spec: EnvironmentSpec) -> World:
    """Make the world of an environment. The world draws the same observations, including stacked frames, as the
    environment that `make` returns.

    Raises WorldError for an environment whose states cannot be edited, DependencyError if editing them needs a package
    that is not installed, and EnvironmentSetupError in the same cases as `make`.
    """
    kind = KINDS.get(spec.kind)
    if kind.world is None:
        editable = [name for name in KINDS if (known := KINDS.find(name)) is not None and known.world is not None]
        raise WorldError(
            f"states of the environment kind {spec.kind!r} cannot be edited; editable kinds: {', '.join(editable)}"
        )
    options, common = _split_options(spec, kind)
    world = kind.world(spec.name, options)
    return world if common.frame_stack == 1 else StackedWorld(world, common.frame_stack, common.frame_stack_padding)


def _split_options(spec: EnvironmentSpec, kind: EnvironmentKind) -> tuple[Any, CommonOptions]:
    """Return the options of the kind, and the options that every kind has."""
    common = _names(CommonOptions)
    options = parse_options(spec.kind, kind.options, {k: v for k, v in spec.options.items() if k not in common})
    return options, parse_options(spec.kind, CommonOptions, {k: v for k, v in spec.options.items() if k in common})


def world_types(spec: EnvironmentSpec) -> tuple[str, ...] | None:
    """Return the names of the types that objects in an environment's world can have, or None if no world can be
    made.
    """
    try:
        with closing(make_world(spec)) as world:
            return world.types
    except (DependencyError, EnvironmentSetupError, WorldError):
        return None


def parse_options(kind: str, options: type[Any], values: Mapping[str, Any]) -> Any:
    """Return an instance of a kind's options. Options that are None get their default.

    Fields of type `bool` accept 0 and 1, fields of type `int` everything that `int()` accepts. Raises
    EnvironmentSetupError for unknown names and invalid values.
    """
    types = {option.name: str(getattr(option.type, "__name__", option.type)) for option in dataclasses.fields(options)}
    arguments = {}
    for name, value in values.items():
        check_name(f"option of {kind}", name, types)
        if value is not None:
            arguments[name] = _convert(name, value, types[name])
    try:
        return options(**arguments)
    except ClarityError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise EnvironmentSetupError(f"the options of {kind} are invalid ({arguments}): {error}") from error


def _convert(name: str, value: Any, type_name: str) -> Any:
    if type_name == "bool":
        if value not in (0, 1):
            raise EnvironmentSetupError(f"{name}={value!r} must be true or false")
        return bool(value)
    if type_name == "int":
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            raise EnvironmentSetupError(f"{name}={value!r} must be an integer") from None
    return value


def spec_from_metadata(metadata: Mapping[str, Any], *, num_actions: int | None = None) -> EnvironmentSpec:
    """Return the specification of an agent's environment from the metadata of its checkpoint.

    Missing metadata get the defaults of understanding-rl-vision. `num_actions` is the number of the agent's actions.
    Raises EnvironmentSetupError if the metadata do not contain the name of an environment, or if the kind is unknown.
    """
    kind = _kind(metadata)
    name = next((metadata[key] for key in NAMES if metadata.get(key)), None)
    _check_trusted(metadata, KINDS.get(kind).option_names() if name else NAMES)
    if not name:
        known = bool(metadata.get("env_kind"))
        example = KINDS.get(kind).example if known else "NAME"
        its_kind = "" if known else f" and, unless it is a Procgen game, env_kind ({', '.join(KINDS)})"
        raise EnvironmentSetupError(
            f"the checkpoint's metadata has neither env_name nor env_id: name the environment (env_name={example!r}; "
            f"on the command line --env-name {example}){its_kind}, or pass trajectories and observations as arrays"
        )
    # the original program stores coinrun_old as the name of a game
    if kind == DEFAULT_KIND and str(name).lower() in KINDS:
        kind = str(name).lower()
    names = (*_names(CommonOptions), *KINDS.get(kind).option_names())
    options = {key: metadata[key] for key in names if metadata.get(key) is not None}
    infer = KINDS.get(kind).infer
    scale = metadata.get("reward_scale")
    return EnvironmentSpec(
        kind=kind,
        name=str(name),
        options=options if infer is None else infer(options, metadata, num_actions),
        epsilon_greedy=float(metadata.get("epsilon_greedy") or 0.0),
        reward_scale=1.0 if scale is None else float(scale),
    )


def check_environment(metadata: Mapping[str, Any]) -> None:
    """Raise EnvironmentSetupError if metadata do not contain the name of an environment, or if its kind does not have
    an environment of this name.
    """
    spec = spec_from_metadata(metadata)
    check = KINDS.get(spec.kind).check
    if check is not None:
        check(spec.name)


def override_name(metadata: Mapping[str, Any], env_name: str | None) -> dict[str, Any]:
    """Return the caller's metadata with the entry `env_name`, unless `env_name` is None.

    Raises OptionError if the metadata contain the name of a different environment.
    """
    if env_name is None:
        return dict(metadata)
    for key in ("env_name", "env_id"):
        if metadata.get(key) not in (None, env_name):
            raise OptionError(f"env_name={env_name!r} and {key}={metadata[key]!r} in metadata contradict each other")
    return {**metadata, "env_name": env_name}


def set_untrusted_aside(metadata: Mapping[str, Any], *, trusted: Collection[str]) -> dict[str, Any]:
    """Return a checkpoint's metadata after moving those that could cause code to run to the entry `UNTRUSTED`, which is
    used only for error messages.

    Args:
        trusted: names of the metadata that the caller passed, which are not moved
    """
    kind = KINDS.find(_kind(metadata))
    names = set()
    if kind is None or kind.imports_modules:
        names = {name for name in NAMES if ":" in str(metadata.get(name))}
    if kind is not None:
        names |= {option.name for option in dataclasses.fields(kind.options) if option.metadata.get("can_run_code")}
    aside = {**(metadata.get(UNTRUSTED) or {}), **{name: metadata[name] for name in names if name in metadata}}
    aside = {name: value for name, value in aside.items() if name not in trusted}
    rest = {name: value for name, value in metadata.items() if name not in aside and name != UNTRUSTED}
    return {**rest, UNTRUSTED: aside} if aside else rest


def _kind(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("env_kind") or DEFAULT_KIND).lower()


def _check_trusted(metadata: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise EnvironmentSetupError if one of these metadata was moved to `UNTRUSTED`."""
    for name, value in (metadata.get(UNTRUSTED) or {}).items():
        if name in names and metadata.get(name) is None:
            raise EnvironmentSetupError(
                f"the checkpoint's {name}={value!r} can run code, so it is not taken from the file: if you trust it, "
                f"pass {name}={value!r} as metadata (on the command line --metadata {name} VALUE)"
            )


def frame_shape(metadata: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return the shape (H, W, C) of a frame of the environment that metadata describe, or None if its kind does not
    determine the shape.
    """
    name = metadata.get("env_kind")
    kind = KINDS.find(name) if isinstance(name, str) else None
    return None if kind is None else kind.frame_shape


def option_names(metadata: Mapping[str, Any]) -> set[str]:
    """Return the names of the environment options that metadata may contain: those of the built-in kinds, and those of
    the kind `env_kind`.
    """
    added, kind = KINDS.added(), metadata.get("env_kind")
    kinds = [KINDS.find(name) for name in KINDS if name not in added or name == kind]
    return {*_names(CommonOptions), *(name for kind in kinds if kind is not None for name in kind.option_names())}


def source_key(spec: EnvironmentSpec) -> str:
    """Return a hash, for cache keys, of the source code of the environment's kind, or "" for kinds of this package."""
    return KINDS.source(spec.kind)


def check_name(what: str, name: str, available: Collection[str], note: str = "") -> str:
    """Return `name` if it is available. Otherwise raise EnvironmentSetupError with the nearest names and a note."""
    if name in available:
        return name
    near = difflib.get_close_matches(name, available, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"available: {', '.join(sorted(available)) or 'none'}"
    raise EnvironmentSetupError(f"unknown {what} {name!r}; {hint}{note and f'. {note}'}")


def missing_package(what: str, extra: str, note: str, error: Exception) -> EnvironmentSetupError:
    """Return the error for a missing package, with the command that installs it."""
    return EnvironmentSetupError(
        f'{what} is not installed ({error}): pip install "rl-clarity[{extra}]". {note}'.rstrip()
    )


def _names(options: type[Any]) -> tuple[str, ...]:
    return tuple(option.name for option in dataclasses.fields(options))

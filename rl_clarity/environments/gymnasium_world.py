"""Worlds of Gymnasium environments that can save, edit and restore their states."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.images import ImageLayout
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.environments.worlds import Position, WorldObject
from rl_clarity.environments.wrappers import unwrapped

if TYPE_CHECKING:
    import gymnasium

    from rl_clarity.environments.gymnasium_ import GymnasiumEnvironment

EDITOR = "state_editor"
"""Name of the environment attribute that contains its `StateEditor`."""


class StateEditor(Protocol):
    """Saves the states of an environment as bytes, lists their objects, and edits them.

    An environment provides its editor as the attribute `state_editor`. Environments of MiniGrid do not need one. If the
    editor has no method `without`, objects are painted over instead of removed. The methods `moved`, `replaced` and
    `inserted` are optional; without them these edits raise WorldError.
    """

    types: tuple[str, ...]
    """Names of the types that objects can have."""
    # The optional attribute `continues = True` states that episodes continue from restored states as they did before.

    def save(self, environment: Any) -> bytes:
        """Return the state of an environment that has no wrappers: everything that determines its observations."""
        ...

    def restore(self, environment: Any, state: bytes) -> Any:
        """Restore a state in an environment, and return its observation, to which wrappers are not yet applied.

        States can come from files, so reading a state must not run code in it, as `pickle` would.
        """
        ...

    def objects(self, state: bytes) -> list[WorldObject]:
        """List the objects of a state, as in `World.objects`. Their `pixels` refer to the observation that `restore`
        returns.
        """
        ...

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects."""
        ...

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state after moving the center of an object to another position."""
        ...

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state after replacing an object with an object of a different type at the same position."""
        ...

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state after inserting an object of the given type."""
        ...


class GymnasiumWorld:
    """The world of a Gymnasium environment. A separate environment, which is never stepped, draws its states.

    Wrappers that change single observations (grayscale, crops, sizes) are applied in the same way as when the agent
    plays. Wrappers that remember earlier observations are not applied, so frames have to be stacked with the option
    `frame_stack`.
    """

    exact = True

    def __init__(self, name: str, open_environment: Callable[[bool], GymnasiumEnvironment]) -> None:
        """`open_environment(full)` makes an environment, which can also render if `full` is true.

        Raises WorldError for an environment without a `StateEditor`.
        """
        self._open, self._drawing = open_environment, open_environment(False)
        self._rendering: GymnasiumEnvironment | None = None
        (self._environment,) = self._drawing.environments
        self._environment.reset(seed=0)  # some wrappers refuse to work before it
        self._editor = _editor(name, self._environment)
        self.types = self._editor.types
        self.removes = hasattr(self._editor, "without")
        """Whether the editor can remove objects."""

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment. Raises WorldError for environments of a different class."""
        games = getattr(unwrapped(environment), "environments", ())
        # A function that defines a class makes another class of the same name at each call.
        expected = _class_name(self._environment)
        if not games or any(_class_name(game) != expected for game in games):
            raise WorldError(f"the environments are not of the class {expected}, the class of this world")
        return [self._editor.save(game.unwrapped) for game in games]

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Restore a state in each of the N environments, and return the observations (N, H, W, C).

        The time limits of Gymnasium's wrappers start again at the restored state. Raises WorldError if the editor's
        attribute `continues` is not true, and for environments of a different class.
        """
        if not getattr(self._editor, "continues", False):
            raise WorldError(
                f"play cannot continue from states of {type(self._editor).__name__}: if the states contain everything "
                "that determines how an episode continues, set the editor's attribute `continues` to True"
            )
        self.states(environment)
        inner: Any = unwrapped(environment)
        layout: ImageLayout = inner.layout
        return layout.convert(
            np.stack([self._shown(game, state) for game, state in zip(inner.environments, states, strict=True)])
        )

    def _shown(self, environment: Any, state: bytes) -> np.ndarray:
        """Restore a state in an environment, and return the observation after its wrappers are applied."""
        observation = self._editor.restore(environment.unwrapped, state)
        for wrapper in _observation_wrappers(environment):
            observation = wrapper.observation(observation)
        while environment is not environment.unwrapped:
            if "_elapsed_steps" in vars(environment):
                environment._elapsed_steps = 0
            environment = environment.env
        return np.array(observation)

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, visible or not, without the player."""
        return [item for item in self._editor.objects(state) if terrain or not item.terrain]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object from a different state."""
        return self._editor.without(state, objects)

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state after moving the center of an object to another position, in cells."""
        return self._method("moved")(state, item, to)

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state after replacing an object with an object of a different type at the same position.

        Raises WorldError for an unknown type.
        """
        return self._method("replaced")(state, item, type)

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state after inserting an object of the given type. Raises WorldError for an unknown type."""
        return self._method("inserted")(state, type, at)

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the observations (n, H, W, C) uint8 of n states."""
        layout: ImageLayout = self._drawing.layout
        if not states:
            return np.zeros((0, *layout.shape), np.uint8)
        return layout.convert(np.stack([self._shown(self._environment, state) for state in states]))

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images (n, H', W', 3) uint8 of n states, as the environment renders them."""
        if self._rendering is None:
            self._rendering = self._open(True)
            self._rendering.reset()
        images = []
        for state in states:
            self._editor.restore(self._rendering.environments[0].unwrapped, state)
            images.append(self._rendering.render()[0])
        return np.stack(images)

    def _method(self, name: str) -> Callable[..., bytes]:
        method: Callable[..., bytes] | None = getattr(self._editor, name, None)
        if method is None:
            raise WorldError(f"objects cannot be {name}, because {type(self._editor).__name__} has no method {name!r}")
        return method

    def close(self) -> None:
        """Close the environments that draw the states."""
        self._drawing.close()
        if self._rendering is not None:
            self._rendering.close()


def _class_name(environment: gymnasium.Env[Any, Any]) -> str:
    kind = type(environment.unwrapped)
    return f"{kind.__module__}.{kind.__qualname__}"


def _observation_wrappers(environment: gymnasium.Env[Any, Any]) -> list[Any]:
    """Return the wrappers that change observations, the innermost first."""
    import gymnasium

    wrappers = []
    while isinstance(environment, gymnasium.Wrapper):
        wrappers.append(environment)
        environment = environment.env
    return [wrapper for wrapper in reversed(wrappers) if isinstance(wrapper, gymnasium.ObservationWrapper)]


def _editor(name: str, environment: gymnasium.Env[Any, Any]) -> StateEditor:
    editor: StateEditor | None = getattr(environment.unwrapped, EDITOR, None)
    if editor is not None:
        return editor
    minigrid = sys.modules.get("minigrid.minigrid_env")
    if minigrid is not None and isinstance(environment.unwrapped, minigrid.MiniGridEnv):
        from rl_clarity.environments.minigrid_world import MiniGridEditor

        return MiniGridEditor(environment.unwrapped, _observation_wrappers(environment))
    raise WorldError(
        f"states of {name or type(environment.unwrapped).__name__} cannot be edited: its environment has no attribute "
        f"{EDITOR!r} with a StateEditor (see docs/extending.md)"
    )

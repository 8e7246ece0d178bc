"""Common options of commands, and the result that the command line prints."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import tyro

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import typed
from rl_clarity.cli.option_types import CheckpointPath, Metadata, Switch
from rl_clarity.environments import override_name
from rl_clarity.reduction.swapping import numbered_swaps


class Result(NamedTuple):
    """The result of a command."""

    summary: Mapping[str, Any]
    """The result as values, for programs."""
    text: str
    """The result as text, for people."""
    code: int = 0
    """The exit code."""


def page_result(page: Any) -> Result:
    """Return the result of a command that has written a page."""
    return Result({"page": str(page.path)}, f"The page is {page.path}")


def field_values(options: Any, kind: type) -> dict[str, Any]:
    """Return the values of the fields of the class `kind`. `options` may be of a subclass that has more fields."""
    return {one.name: getattr(options, one.name) for one in fields(kind)}


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Options of all commands."""

    resumable: ClassVar[bool] = False
    """Whether repeating an interrupted command resumes it. Dry runs are never resumed."""

    json: Switch = False
    """Print a one-line summary as JSON."""

    @abstractmethod
    def execute(self) -> Result:
        """Run the command.

        Raises:
            ClarityError: The command failed.
        """


@dataclass(frozen=True, kw_only=True)
class CheckpointCommand(Command):
    """Options of commands that read a checkpoint."""

    checkpoint: CheckpointPath
    """Checkpoint file, or an included agent such as models:coinrun."""
    env_name: str | None = None
    """Name of the environment: coinrun, BreakoutNoFrameskip-v4, ... By default, the one named in the checkpoint."""
    metadata: Metadata = field(default_factory=dict)
    """Other metadata, which override those of the checkpoint: env_kind, gamma, frame_stack, num_levels, ..."""
    check: Path | None = None
    """Outputs that the agent must reproduce: an .npz file with observations, and logits, values or q_values."""

    def overrides(self) -> dict[str, Any]:
        """Return the metadata that override the checkpoint's. Raises OptionError if two environments are named."""
        return override_name(typed(self.metadata), self.env_name)

    def check_outputs(self) -> None:
        """Compare the agent's outputs with those of `--check`, if given. Raises CheckpointError if they differ."""
        if self.check is not None:
            rl_clarity.load_agent(self.checkpoint, check=self.check, **self.overrides())
            print(f"The agent's outputs match those in {self.check}.", file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class PlayingCommand(CheckpointCommand):
    """Options of commands that let an agent play, optionally with directions of its recurrent state exchanged."""

    directions: str | None = None
    """Directory that `rl-clarity states` wrote. It contains the directions to exchange."""
    swap_directions_from: tuple[int, ...] = ()
    """Numbers of the directions of the recurrent state to exchange or collapse during play, from 1, such as 10 5."""
    swap_directions_to: Annotated[tuple[int | None, ...], tyro.conf.arg(metavar="[INT|None ...]")] = ()
    """For each of these directions, the direction to exchange it with, or None to set it to its mean, as in 12 None."""
    swap_directions_on: Literal["state", "increment"] = "state"
    """Whether to change the state itself, or the increment that each step adds to it."""

    def swaps(self, count: int | None = None) -> dict[int, int | None]:
        """Return the direction that each direction is exchanged with, or None for its mean. Both are counted from 0.

        Raises OptionError if the options cannot be combined, if a number is below 1 or, with `count`, if it exceeds the
        number of directions `count`.
        """
        sources, targets = self.swap_directions_from, self.swap_directions_to
        if len(sources) != len(targets) or bool(sources) != (self.directions is not None):
            raise OptionError(
                f"--directions {self.directions}, --swap-directions-from {' '.join(map(str, sources))} and "
                f"--swap-directions-to {' '.join(map(str, targets))} belong together, with one target per direction"
            )
        return numbered_swaps(sources, targets, count)

    def player(self) -> Any:
        """Return the checkpoint or, if directions are to be exchanged, its agent with this exchange applied."""
        if not self.swaps() or self.directions is None:
            return self.checkpoint
        states = rl_clarity.load_states(self.directions)
        part = states.facts["options"]["part"]
        agent = rl_clarity.load_agent(self.checkpoint, **self.overrides())
        edit = rl_clarity.SwapDirections(
            self.swaps(len(states.directions)),
            directions=states.directions,
            on=self.swap_directions_on,
            layer="state" if part is None else f"state/{part}",
        )
        return rl_clarity.edit(agent, edit)

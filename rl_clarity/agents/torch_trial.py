"""Finding out, before anything is computed with it, whether a PyTorch module can be run and looked into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rl_clarity.errors import ClarityError, OptionError

CHANNELS = 8
"""An axis that is shorter is one of channels."""


def looked_into(torch: Any, module: Any) -> Any:
    """The module whose parts can be read; raises OptionError for what has none."""
    module = getattr(module, "_orig_mod", module)  # of `torch.compile`, which runs no hooks of the parts
    if not isinstance(module, torch.nn.Module):
        raise OptionError(f"a {type(module).__name__} is not a torch.nn.Module; for a Keras model there is KerasAgent")
    if isinstance(module, torch.jit.ScriptModule):
        raise OptionError(
            f"a {type(module).__name__} of torch.jit has no parts that can be looked into: give the module that it was "
            "scripted or traced from, with its state_dict"
        )
    for name, part in module.named_modules():
        if hasattr(part, "_orig_mod"):
            raise OptionError(
                f"the module's part {name!r} is from torch.compile and cannot be looked into: put what it was made of "
                f"in its place, module.{name} = module.{name}._orig_mod"
            )
    return module


def checked_device(torch: Any, device: Any) -> Any:
    """The device; raises OptionError where there is none."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise OptionError(f"device={device!r} cannot be used: {str(error).splitlines()[0]}") from error
    return found


def checked_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(H, W, C)."""
    try:
        height, width, channels = map(int, shape)
    except (TypeError, ValueError):
        height, width, channels = 0, 0, 0
    if min(height, width, channels) < 1:
        raise OptionError(f"observation_shape={shape!r}: three whole numbers from 1 on, (height, width, channels)")
    return height, width, channels


@contextmanager
def explained(shape: tuple[int, int, int]) -> Iterator[None]:
    """Within, errors of the module become OptionErrors that name what may be the matter."""
    try:
        yield
    except ClarityError:
        raise
    except Exception as error:  # the module is the user's, and so is what it may raise
        height, width, channels = shape
        said = str(error).strip().splitlines() or [""]
        hint = f"; ({width}, {channels}, {height}) instead of {shape}?" if height < CHANNELS <= channels else ""
        raise OptionError(
            f"the module cannot be run on two observations of shape {shape} ({type(error).__name__}: "
            f"{said[0][:300]}). observation_shape is (height, width, channels){hint}; channels_first=False is for "
            "modules that take (batch, height, width, channels), initial_state for recurrent ones, and "
            "forward=lambda module, observations, state: ... for those that are called in another way"
        ) from error


def check_batch(heads: Sequence[Any]) -> None:
    """Raises OptionError unless each of two observations has outputs of its own."""
    for tensor in heads:
        if len(tensor) != 2:
            raise OptionError(
                f"of two observations the module gives an output for {len(tensor)}; outputs are (batch, n) or (batch,)"
            )


def check_state(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raises OptionError if the state after a step has not the shapes of the state before it."""
    shapes, found = ([tuple(part.shape[1:]) for part in state] for state in (before, after))
    if shapes != found:
        raise OptionError(
            f"the state has the shapes {shapes} before a step (initial_state) and {found} after it (the batch left "
            "out); they must be the same, with the batch as the first axis"
        )

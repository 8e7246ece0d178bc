"""Check that a PyTorch module can be explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rl_clarity.agents.network_outputs import check_scale
from rl_clarity.base.errors import ClarityError, OptionError

MAX_CHANNELS = 8
"""Longest axis that error messages assume to be the channels."""


def inspectable(torch: Any, module: Any) -> Any:
    """Return the module, or the original of a compiled one. Raise OptionError if its submodules cannot be hooked."""
    module = getattr(module, "_orig_mod", module)  # `torch.compile` wraps the module, and runs no hooks of submodules
    if not isinstance(module, torch.nn.Module):
        raise OptionError(f"a {type(module).__name__} is not a torch.nn.Module; for a Keras model use KerasAgent")
    if isinstance(module, torch.jit.ScriptModule):
        raise OptionError(
            f"a {type(module).__name__} of torch.jit has no submodules that can be hooked: pass the module that it was "
            "scripted or traced from, with its state_dict"
        )
    for name, part in module.named_modules():
        if hasattr(part, "_orig_mod"):
            raise OptionError(
                f"the submodule {name!r} is from torch.compile and cannot be hooked: put the original module in "
                f"its place, module.{name} = module.{name}._orig_mod"
            )
    return module


def checked_device(torch: Any, device: Any) -> Any:
    """Return the device; raise OptionError if it cannot be used."""
    try:
        result = torch.device(device)
        torch.zeros(1, device=result)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise OptionError(f"device={device!r} cannot be used: {str(error).splitlines()[0]}") from error
    return result


@contextmanager
def explained(shape: tuple[int, int, int]) -> Iterator[None]:
    """Convert errors of the module in the block to OptionErrors that name likely causes."""
    try:
        yield
    except ClarityError:
        raise
    except Exception as error:  # user code may raise anything
        height, width, channels = shape
        lines = str(error).strip().splitlines() or [""]
        hint = (
            f"; did you mean ({width}, {channels}, {height}) instead of {shape}?"
            if height < MAX_CHANNELS <= channels
            else ""
        )
        raise OptionError(
            f"the module cannot be run on two observations of shape {shape} ({type(error).__name__}: "
            f"{lines[0][:300]}). observation_shape is (height, width, channels){hint}; channels_first=False is for "
            "modules that take (batch, height, width, channels), initial_state for recurrent ones, "
            f"observation_shape={{'image': {shape}, 'vector': (n,)}} for those that take a dictionary, and "
            "forward=lambda module, observations, state: ... for modules with another signature"
        ) from error


def check_module_scale(torch: Any, module: Any, run: Callable[[], Any], observations: Any) -> None:
    """Raise OptionError if the module divides observations from 0 to 1 again before its first submodule with weights.

    `run` calls the module with `observations`.
    """
    inputs: list[Any] = []

    def record(_part: Any, arguments: Any) -> None:
        images = [x for x in arguments if torch.is_tensor(x) and x.numel() == observations.numel()]
        inputs.extend(images[: not inputs])

    weighted = [part for part in module.modules() if any(True for _ in part.parameters(recurse=False))]
    hooks = [part.register_forward_pre_hook(record) for part in weighted]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    if inputs:
        check_scale(inputs[0], observations)

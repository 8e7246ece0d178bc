"""An agent whose network is any PyTorch module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rl_clarity.agents import differentiation, torch_hooks, torch_trial
from rl_clarity.agents.batched import INPUT, BatchedAgent, Cut
from rl_clarity.agents.layer_names import find_operation
from rl_clarity.agents.protocol import Operation, State
from rl_clarity.agents.torch_hooks import Call
from rl_clarity.agents.torch_outputs import check_logits, heads_of, split_state
from rl_clarity.errors import OptionError

Forward = Callable[[Any, Any, Any], Any]


class TorchAgent(BatchedAgent):
    """The protocol `Agent` for a `torch.nn.Module`.

    Layers are the parts of the module whose results are pictures (B, C, h, w), by the names of
    `module.named_modules()`; what a module computes between its parts (`torch.relu(x)`) has no name and is no layer.
    The module is put in evaluation mode. It computes in its own precision, and what it gives is taken as float32.

    Observations are (B, H, W, C), or the same with the channels first, from 0 to 255: uint8, or other numbers of that
    range. Those that reach only from 0 to 1 are refused, except where `input_divisor` is 1.

    Parameters
    ----------
    module: gives a policy's logits (B, A) and a value (B,) or (B, 1), or action values (B, A): as a tuple, a dict, or
        with a categorical distribution for the policy. Of a module from `torch.compile`, the one that it was made of
    observation_shape: (H, W, C) of one observation
    metadata: what is known of its origin: `env_name`, `gamma`, ...
    heads: names of what the module gives, `policy_logits` and `values`, or `q_values`, in its order, with None for
        what to leave out; found by names or widths if not given
    initial_state: of a recurrent module, without the batch axis: an array or a tuple of arrays. The module is then
        called with the observations and the state, a tensor or a tuple as here, and gives the state after as the last
        of its results
    forward: `forward(module, observations, state)`, for modules that are called in another way
    channels_first: whether the module takes (B, C, H, W), as most do, or (B, H, W, C)
    input_divisor: the module's input is the observations divided by it, in float32; 1 for a module that scales them
        itself
    device: where to compute; where the module's parameters are if not given
    batch_size: observations a forward pass
    gradient_batch_size: observations a gradient

    Raises OptionError for a module that gives anything else, that cannot be run, or that cannot be looked into.
    """

    def __init__(
        self,
        module: Any,
        observation_shape: Sequence[int],
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str | None] | None = None,
        initial_state: Any = None,
        forward: Forward | None = None,
        channels_first: bool = True,
        input_divisor: float = 255,
        device: Any = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
    ) -> None:
        torch = _torch()
        module = torch_trial.looked_into(torch, module)
        first = next((p for p in module.parameters() if p.is_floating_point()), None)
        self._dtype = torch.float32 if first is None else first.dtype
        self.device = torch_trial.checked_device(torch, device or (first.device if first is not None else "cpu"))
        self.module = module.to(self.device).eval()
        self._call_module = forward or (_call_with_state if initial_state is not None else _call)
        self._channels_first = channels_first
        self._single_state = initial_state is not None and not isinstance(initial_state, list | tuple)
        parts = () if initial_state is None else (initial_state,) if self._single_state else tuple(initial_state)
        self._initial_state = tuple(np.asarray(part, np.float32) for part in parts)
        height, width, channels = torch_trial.checked_shape(observation_shape)
        self._given_heads = heads
        found, actions = self._trial((height, width, channels))
        super().__init__(
            (height, width, channels),
            found,
            actions,
            metadata,
            input_divisor=input_divisor,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
        )

    def _trial(self, shape: tuple[int, int, int]) -> tuple[tuple[str, ...], int]:
        """Run the module once: names of its heads, and the number of actions."""
        seen = np.random.default_rng(0).random((2, *shape), np.float32)
        with torch_trial.explained(shape), self._computing(), _torch().no_grad():
            state = [self._tensor(np.repeat(part[None], 2, axis=0)) for part in self._initial_state]
            found, tensors, after = self._run(self._tensor(seen), *state)
        torch_trial.check_state(state, after)
        scores = tensors[found.index("q_values" if "q_values" in found else "policy_logits")]
        torch_trial.check_batch(tensors)
        check_logits(scores.cpu().numpy())
        return found, int(scores.shape[-1])

    @functools.cached_property
    def _backend(self) -> differentiation.Backend:  # type: ignore[override]
        return differentiation.TorchBackend(self._tensor)

    @functools.cached_property
    def _calls(self) -> tuple[tuple[Call, ...], tuple[Operation, ...]]:
        """Calls of the module's parts, and what is known of each."""
        torch = _torch()
        observations = torch.zeros((2, *self.observation_shape), device=self.device)
        state = [self._tensor(part) for part in self.initial_state(2) or ()]

        def run(observations: Any) -> list[Any]:
            return self._run(observations, *state)[1]

        with self._computing():
            with torch.no_grad():
                found = torch_hooks.calls_of(self.module, lambda: run(observations))
            calls = [call for call, _ in found]
            with torch.enable_grad():
                narrow = torch_hooks.after_bottleneck(self.module, calls, run, observations)
        operations = [
            Operation(call.name, call.kind, (height, width, channels), after)
            for (call, (channels, height, width)), after in zip(found, narrow, strict=True)
        ]
        return tuple(calls), tuple(operations)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Every call of a part of the module whose result is a picture, as (h, w, c), in the order of computation."""
        return self._calls[1]

    def initial_state(self, n: int) -> State:
        """State of n environments before their first step, a tuple of arrays (n, ...); None of a module without one."""
        return tuple(np.repeat(part[None], n, axis=0) for part in self._initial_state) or None

    def _forward(self, observations: np.ndarray, *state: np.ndarray) -> Sequence[Any]:
        with self._computing(), _torch().no_grad():
            _, tensors, after = self._run(self._tensor(observations), *map(self._tensor, state))
            return [*tensors, *after]

    @functools.cache  # noqa: B019 (an agent lives as long as the program needs it)
    def _cut(self, layer: str) -> Cut:
        torch = _torch()
        compiled = self._backend.compile
        if layer == INPUT:

            def after_input(observations: Any, *state: Any) -> Any:
                with self._computing():
                    return torch.cat(self._run(observations, *state)[1], dim=-1)

            def inputs(*arrays: Any) -> list[Any]:
                return [self._tensor(array) for array in arrays]

            return Cut(inputs, compiled(after_input), self._backend.gradient_step(after_input))

        calls, operations = self._calls
        at = calls[operations.index(find_operation(operations, layer))]

        def before(*arrays: Any) -> list[Any]:
            inputs = [self._tensor(array) for array in arrays]
            taken: list[Any] = []

            def take(call: Call, result: Any) -> None:
                if call == at:
                    taken.append(result.detach().permute(0, 2, 3, 1).float().clone())  # what follows may work in place

            with self._computing(), torch_hooks.hooked(self.module, take):
                self._run(*inputs)
            return [*taken, *inputs]

        def after(activations: Any, *inputs: Any) -> Any:
            def put(call: Call, result: Any) -> Any:
                if call != at:
                    return None
                return activations.permute(0, 3, 1, 2).to(result.dtype).clone(memory_format=torch.contiguous_format)

            with self._computing(), torch_hooks.hooked(self.module, put):
                return torch.cat(self._run(*inputs)[1], dim=-1)

        return Cut(compiled(before), compiled(after), self._backend.gradient_step(after))

    def _mean_activations(self, layer: str) -> Any:
        calls, operations = self._calls
        at = calls[operations.index(find_operation(operations, layer))]

        def mean_activations(images: Any, *state: Any) -> Any:
            taken: list[Any] = []

            def take(call: Call, result: Any) -> None:
                if call == at:
                    taken.append(result.float().mean(dim=(2, 3)))

            with self._computing(), torch_hooks.hooked(self.module, take):
                self._run(images, *state)
            return taken[0]

        return mean_activations

    def _run(self, observations: Any, *states: Any) -> tuple[tuple[str, ...], list[Any], list[Any]]:
        """Names of the heads, the heads (B, n), and the state after, of observations (B, H, W, C)."""
        x = observations.permute(0, 3, 1, 2).contiguous() if self._channels_first else observations
        x, *state = [tensor.to(self._dtype) for tensor in (x, *states)]
        result = self._call_module(
            self.module, x, (state[0] if self._single_state else tuple(state)) if state else None
        )
        outputs, after = split_state(result, recurrent=bool(self._initial_state))
        heads, tensors = heads_of(outputs, self._given_heads)
        return heads, [tensor.float() for tensor in tensors], [part.float() for part in _parts(after)]

    def _tensor(self, array: Any) -> Any:
        torch = _torch()
        return torch.as_tensor(array, dtype=torch.float32, device=self.device)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Float32 in full, and the same numbers for the same input, on a GPU too."""
        with _torch().backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            yield


def _call(module: Any, observations: Any, _state: Any) -> Any:
    return module(observations)


def _call_with_state(module: Any, observations: Any, state: Any) -> Any:
    return module(observations, state)


def _parts(state: Any) -> list[Any]:
    return [] if state is None else list(state) if isinstance(state, list | tuple) else [state]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise OptionError('PyTorch is not installed: pip install "rl-clarity[torch]"') from error
    return torch

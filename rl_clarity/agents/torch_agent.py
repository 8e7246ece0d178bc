"""An agent whose network is any PyTorch module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rl_clarity.agents import differentiation, torch_hooks
from rl_clarity.agents.batched import INPUT, BatchedAgent, Cut
from rl_clarity.agents.layer_names import find_operation
from rl_clarity.agents.protocol import Operation, State
from rl_clarity.agents.torch_hooks import Call
from rl_clarity.agents.torch_outputs import heads_of, split_state
from rl_clarity.errors import OptionError

Forward = Callable[[Any, Any, Any], Any]


class TorchAgent(BatchedAgent):
    """The protocol `Agent` for a `torch.nn.Module`.

    Layers are the parts of the module whose results are pictures (B, C, h, w), by the names of
    `module.named_modules()`; what a module computes between its parts (`torch.relu(x)`) has no name and is no layer.
    The module is put in evaluation mode.

    Parameters
    ----------
    module: gives a policy's logits (B, A) and a value (B,) or (B, 1), or action values (B, A): as a tuple, a dict, or
    with a
        categorical distribution for the policy
    observation_shape: (H, W, C) of one observation
    metadata: what is known of its origin: `env_name`, `gamma`, ...
    heads: names of what the module gives, `policy_logits` and `values`, or `q_values`, in its order; found by names or
    widths if
        not given
    initial_state: of a recurrent module, without the batch axis: an array or a tuple of arrays. The module is then
    called with
        the observations and the state, a tensor or a tuple as here, and gives the state after as the last of its
        results
    forward: `forward(module, observations, state)`, for modules that are called in another way
    channels_first: whether the module takes (B, C, H, W), as most do, or (B, H, W, C)
    input_divisor: the module's input is the observations divided by it, in float32; 1 for a module that scales them
    itself device: where to compute; where the module's parameters are if not given
    batch_size: observations a forward pass
    gradient_batch_size: observations a gradient

    Raises OptionError for a module that gives anything else.
    """

    def __init__(
        self,
        module: Any,
        observation_shape: Sequence[int],
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str] | None = None,
        initial_state: Any = None,
        forward: Forward | None = None,
        channels_first: bool = True,
        input_divisor: float = 255,
        device: Any = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
    ) -> None:
        torch = _torch()
        if not isinstance(module, torch.nn.Module):
            raise OptionError(
                f"a {type(module).__name__} is not a torch.nn.Module; for a Keras model there is KerasAgent"
            )
        first = next(module.parameters(), None)
        self.device = torch.device(device or (first.device if first is not None else "cpu"))
        self.module = module.to(self.device).eval()
        self._call_module = forward or (_call_with_state if initial_state is not None else _call)
        self._channels_first = channels_first
        self._single_state = initial_state is not None and not isinstance(initial_state, list | tuple)
        parts = () if initial_state is None else (initial_state,) if self._single_state else tuple(initial_state)
        self._initial_state = tuple(np.asarray(part, np.float32) for part in parts)
        height, width, channels = map(int, observation_shape)
        self._given_heads = heads
        with self._computing(), torch.no_grad():
            state = [self._tensor(np.repeat(part[None], 2, axis=0)) for part in self._initial_state]
            found, tensors, _ = self._run(self._tensor(np.zeros((2, height, width, channels), np.float32)), *state)
        super().__init__(
            (height, width, channels),
            found,
            int(tensors[found.index("q_values" if "q_values" in found else "policy_logits")].shape[-1]),
            metadata,
            input_divisor=input_divisor,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
        )

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
        return self._calls[1]

    def initial_state(self, n: int) -> State:
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
                    taken.append(result.detach().permute(0, 2, 3, 1).clone())  # what follows may work in place

            with self._computing(), torch_hooks.hooked(self.module, take):
                self._run(*inputs)
            return [*taken, *inputs]

        def after(activations: Any, *inputs: Any) -> Any:
            def put(call: Call, _result: Any) -> Any:
                return (
                    activations.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format) if call == at else None
                )

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
                    taken.append(result.mean(dim=(2, 3)))

            with self._computing(), torch_hooks.hooked(self.module, take):
                self._run(images, *state)
            return taken[0]

        return mean_activations

    def _run(self, observations: Any, *state: Any) -> tuple[tuple[str, ...], list[Any], list[Any]]:
        """Names of the heads, the heads (B, n), and the state after, of observations (B, H, W, C)."""
        x = observations.permute(0, 3, 1, 2).contiguous() if self._channels_first else observations
        result = self._call_module(
            self.module, x, (state[0] if self._single_state else tuple(state)) if state else None
        )
        outputs, after = split_state(result, recurrent=bool(self._initial_state))
        heads, tensors = heads_of(outputs, self._given_heads)
        return heads, [tensor.float() for tensor in tensors], _parts(after)

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
        raise OptionError('PyTorch is not installed: pip install "rl_clarity[torch]"') from error
    return torch

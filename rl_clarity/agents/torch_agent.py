"""An agent whose network is any PyTorch module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rl_clarity.agents import torch_checks, torch_hooks
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.differentiation import Backend, Function, TorchBackend
from rl_clarity.agents.protocol import Site
from rl_clarity.agents.sites import INPUT
from rl_clarity.agents.torch_hooks import Call
from rl_clarity.errors import OptionError

Forward = Callable[[Any, Any, Any], Any]


class TorchAgent(BatchedAgent):
    """The protocol `Agent` for a `torch.nn.Module`.

    Sites are the results of the module's parts, by the names of `module.named_modules()`; feature maps are those of
    shape (B, C, h, w). What a module computes between its parts (`torch.relu(x)`) has no name and is not a site.
    The module is put in evaluation mode. It computes in its own precision; results are converted to float32.

    Observations are (B, H, W, C), or the same with the channels first, from 0 to 255: uint8, or other numbers of that
    range. Those that reach only from 0 to 1 are refused, except where `input_divisor` is 1.

    Args:
        module: returns a policy's logits (B, A) and a value (B,) or (B, 1), or action values (B, A): as a tuple, a
            dict, or with a categorical distribution for the policy. The original of a module from `torch.compile` is
            used
        observation_shape: (H, W, C) of one observation
        metadata: where the agent comes from: `env_name`, `gamma`, ...
        heads: names of the module's outputs, `policy_logits` and `values`, or `q_values`, in its order, with None for
            what to leave out; by default found by names or widths
        initial_state: of a recurrent module, without the batch axis: an array or a tuple of arrays. The module is then
            called with the observations and the state, a tensor or a tuple as here, and returns the state after as the
            last of its results
        forward: `forward(module, observations, state)`, for modules with another signature
        channels_first: whether the module takes (B, C, H, W), as most do, or (B, H, W, C)
        input_divisor: the module's input is the observations divided by it, in float32; 1 for a module that scales them
            itself
        device: where to compute; where the module's parameters are if not given
        batch_size: observations per forward pass
        gradient_batch_size: observations per gradient computation

    Raises OptionError for a module that returns anything else, cannot be run, or has parts that cannot be hooked.
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
        module = torch_checks.inspectable(torch, module)
        first = next((p for p in module.parameters() if p.is_floating_point()), None)
        self._dtype = torch.float32 if first is None else first.dtype
        self.device = torch_checks.checked_device(torch, device or (first.device if first is not None else "cpu"))
        self.module = module.to(self.device).eval()
        self._call_module = forward or (_call_with_state if initial_state is not None else _call)
        self._channels_first = channels_first
        self._single_state = initial_state is not None and not isinstance(initial_state, list | tuple)
        parts = () if initial_state is None else (initial_state,) if self._single_state else tuple(initial_state)
        self._initial_state = tuple(np.asarray(part, np.float32) for part in parts)
        height, width, channels = torch_checks.checked_shape(observation_shape)
        self._given_heads = heads
        names, actions = self._trial((height, width, channels))
        super().__init__(
            (height, width, channels),
            names,
            actions,
            metadata,
            initial_state=self._initial_state,
            input_divisor=input_divisor,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
        )

    def _trial(self, shape: tuple[int, int, int]) -> tuple[tuple[str, ...], int]:
        """Run the module once: names of its heads, and the number of actions."""
        observations = np.random.default_rng(0).random((2, *shape), np.float32)
        with torch_checks.explained(shape), self._computing(), _torch().no_grad():
            state = [self._tensor(np.repeat(part[None], 2, axis=0)) for part in self._initial_state]
            heads, tensors, after = self._run(self._tensor(observations), *state)
        torch_checks.check_state(state, after)
        scores = tensors[heads.index("q_values" if "q_values" in heads else "policy_logits")]
        torch_checks.check_batch(tensors)
        torch_checks.check_logits(scores.cpu().numpy())
        return heads, int(scores.shape[-1])

    @property
    def _backend(self) -> Backend:
        return self._cached("backend", lambda: TorchBackend(self._tensor))

    @property
    def _calls(self) -> dict[str, tuple[Call, Site]]:
        """Calls of the module's parts, by name of their site."""
        return self._cached("calls", self._find_calls)

    @property
    def _operations(self) -> Sequence[Site]:
        return [site for _, site in self._calls.values()]

    def _find_calls(self) -> dict[str, tuple[Call, Site]]:
        torch = _torch()
        observations = torch.zeros((2, *self.observation_shape), device=self.device)
        state = [self._tensor(part) for part in self.initial_state(2) or ()]

        def run(observations: Any) -> list[Any]:
            return self._run(observations, *state)[1]

        with self._computing():
            with torch.no_grad():
                recorded = torch_hooks.record_calls(self.module, lambda: run(observations), 2)
            with torch.enable_grad():
                after = torch_hooks.after_bottleneck(self.module, [call for call, _ in recorded], run, observations)
        calls: dict[str, tuple[Call, Site]] = {}
        for (call, shape), after_bottleneck in zip(recorded, after, strict=True):
            name = call.name
            while name in (INPUT, *self._states, *self.heads, *calls):
                name += "_"
            shape = (*shape[1:], shape[0]) if len(shape) == 3 else shape  # channels last
            calls[name] = call, Site(name, call.kind, shape, after_bottleneck)
        return calls

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the module's parameters and buffers, by their names in its state_dict, as float64."""
        state = self.module.state_dict().items()
        return {name: tensor.detach().cpu().double().numpy() for name, tensor in state if hasattr(tensor, "detach")}

    def _bypass(self, site: str) -> tuple[str, ...]:
        return tuple(name for name in (INPUT, *self._states) if name != site)  # all else is computed again

    def _section(self, given: tuple[str, ...], wanted: tuple[str, ...]) -> Function:
        names = {self._calls[name][0]: name for name in {*given, *wanted} if name in self._calls}
        parts = {call.module for call in names}

        def run(*tensors: Any) -> list[Any]:
            values = dict(zip(given, tensors, strict=True))

            def read_or_write(call: Call, result: Any) -> Any:
                name = names.get(call)
                if name is None:
                    return None
                if name in given:
                    return _to_module(values[name], result)
                values[name] = _from_module(result)
                return None

            with self._computing(), torch_hooks.hooked(self.module, read_or_write, parts):
                heads, results, after = self._run(*(values[name] for name in (INPUT, *self._states)))
            values = {**dict(zip(heads, results, strict=True)), **values}
            values |= {f"after/{i}": part for i, part in enumerate(after)}
            return [values[name] for name in wanted]

        return run

    def _run(self, observations: Any, *states: Any) -> tuple[tuple[str, ...], list[Any], list[Any]]:
        """Names of the heads, the heads (B, n), and the state after, for observations (B, H, W, C)."""
        x = observations.permute(0, 3, 1, 2).contiguous() if self._channels_first else observations
        x, *state = [tensor.to(self._dtype) for tensor in (x, *states)]
        result = self._call_module(
            self.module, x, (state[0] if self._single_state else tuple(state)) if state else None
        )
        outputs, after = torch_checks.split_state(result, recurrent=bool(self._initial_state))
        heads, tensors = torch_checks.named_heads(outputs, self._given_heads)
        return heads, [tensor.float() for tensor in tensors], [part.float() for part in _parts(after)]

    def _tensor(self, array: Any) -> Any:
        torch = _torch()
        return torch.as_tensor(array, dtype=torch.float32, device=self.device)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Float32 in full, and the same numbers for the same input, on a GPU too."""
        with _torch().backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            yield


def _from_module(result: Any) -> Any:
    """A part's result in float32, feature maps as (B, h, w, c); a copy, since what follows may work in place."""
    return (result.permute(0, 2, 3, 1) if result.ndim == 4 else result).float().clone()


def _to_module(values: Any, result: Any) -> Any:
    """Values of a site, laid out as the part's own result."""
    values = values.permute(0, 3, 1, 2) if result.ndim == 4 else values
    return values.to(result.dtype).clone(memory_format=_torch().contiguous_format)


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

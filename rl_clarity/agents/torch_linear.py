"""Find the linear prefix (see `LinearPrefix`) of a PyTorch module after a site.

The prefix is found by tracing the operations that PyTorch runs, including those between submodules and those without a
gradient. Tensors are identified by their memory, because of views and in-place operations. Operations that are not
listed here end the prefix.

Import this module only where PyTorch is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from rl_clarity.agents.torch_calls import Call, Trace, following, tensors_in

NORMALIZING = ("native_batch_norm.default", "cudnn_batch_norm.default")
WEIGHTED = ("convolution.default", "addmm.default", "mm.default", *NORMALIZING)
AVERAGING = ("avg_pool2d.default", "_adaptive_avg_pool2d.default", "mean.dim", "constant_pad_nd.default")
REARRANGING = (
    *("view.default", "_unsafe_view.default", "reshape.default", "clone.default", "permute.default", "transpose.int"),
    *("t.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default"),
)
HOMOGENEOUS = (
    *("relu.default", "relu_.default", "leaky_relu.default", "leaky_relu_.default"),
    *("max_pool2d_with_indices.default", "adaptive_max_pool2d.default"),
)
"""Positively homogeneous operations: f(r x) = r f(x) for r > 0."""
ALIASES = ("detach.default",)
"""Operations by which autograd wraps tensors that it keeps; their results share memory with the tensors."""
HIDDEN = tuple(getattr(torch.Tensor, name) for name in ("numpy", "tolist", "__array__", "__dlpack__", "register_hook"))
"""Methods that read a tensor, or change its gradient, without an operation that can be traced."""


def linear_prefix_end(
    module: Any,
    trace: Trace,
    start: Call | None,
    run: Callable[[Any], Any],
    observations: Any,
    *,
    from_zero: bool,
) -> Call | None:
    """Return the call whose result ends the linear prefix after the call `start`, or after the observations.

    Return None if there is no such call, or if no weights precede it. The prefix is a chain of operations, each of
    which is the only one that reads the result of the previous one. They are linear with constant weights or, before
    the first weights of a path from 0, positively homogeneous.
    """
    constants = [*module.parameters(), *module.buffers()]
    versions = [tensor._version for tensor in constants]
    chain = _Chain({_memory(tensor) for tensor in constants}, from_zero=from_zero)
    ends: list[tuple[int, Call]] = []

    def read(call: Call, result: Any) -> None:
        if call == start:
            chain.start(result)
        elif chain.ends_with(result) and not trace.calls[call].inner:
            ends.append((len(chain.tensors) - 1, call))

    observations = observations.clone().requires_grad_(True).clone()
    with following(module, trace, read=read, reading=trace.sites), _HiddenReads(chain), chain:
        if start is None:
            chain.start(observations)
        run(observations)
    if [tensor._version for tensor in constants] != versions:
        return None
    return next((call for length, call in reversed(ends) if length <= chain.single_readers), None)


class _Chain(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that follows the operations after a tensor as long as they are linear and each is the only reader
    of its input.
    """

    def __init__(self, constants: set[int], *, from_zero: bool) -> None:
        super().__init__()
        self._constants = constants
        self._homogeneous = from_zero
        self._weighted = False
        self._open = False
        self._first: dict[int, int] = {}  # memory -> position of the first tensor of the chain that it contains
        self._kept: list[Any] = []  # keep the tensor, so that its memory is not used again
        self.tensors: list[Any] = []
        self.single_readers = 0
        """Last position up to which each tensor has a single reader, the operation that computes the next tensor."""

    def start(self, tensor: Any) -> None:
        self.tensors, self._first, self._open = [tensor], {_memory(tensor): 0}, True

    def ends_with(self, tensor: Any) -> bool:
        """Return whether a tensor is the last of the chain, and weights precede it."""
        return self._open and self._weighted and _same_view(tensor, self.tensors[-1])

    def stop(self, position: int = 0) -> None:
        """End the chain, and the prefix at the latest at `position`, whose tensor has other readers."""
        self._open = False
        self.single_readers = min(self.single_readers, position)

    def __torch_dispatch__(
        self, function: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = str(function).removeprefix("aten.")
        tensors = list(tensors_in((args, kwargs)))
        positions = [self._position(tensor) for tensor in tensors if _memory(tensor) in self._first]
        linear = self._open and self._continues(name, args, tensors)
        results = function(*args, **kwargs)
        result, *others = results if isinstance(results, tuple) else (results,)
        if not {torch.Tensor, torch.nn.Parameter}.issuperset(types):  # these objects may contain other tensors
            self.stop()
        elif linear and result.dtype == self.tensors[-1].dtype:
            self._append(result, others, in_place=function._schema.is_mutable)
            if name in WEIGHTED:
                self._homogeneous, self._weighted = False, True
        elif positions and name not in ALIASES:
            self.stop(min(positions))
        return results

    def _position(self, tensor: Any) -> int:
        """Return the first position of the chain whose tensor may share memory with this tensor."""
        first = self._first[_memory(tensor)]
        return next((i for i in range(first, len(self.tensors)) if _same_view(tensor, self.tensors[i])), first)

    def _append(self, result: Any, others: Sequence[Any], *, in_place: bool) -> None:
        position = len(self.tensors)
        self.tensors.append(result)
        self._kept += others
        self.single_readers = position
        if in_place:
            self._first[_memory(result)] = position
        self._first.setdefault(_memory(result), position)
        for tensor in others:  # such as the indices of maxima
            if tensor.numel():
                self._first.setdefault(_memory(tensor), position - 1)

    def _continues(self, name: str, args: tuple[Any, ...], tensors: Sequence[Any]) -> bool:
        """Return whether an operation extends the chain: it is linear, and reads the last tensor and otherwise only
        constants.
        """
        read = [tensor for tensor in tensors if _memory(tensor) in self._first]
        if len(read) != 1 or not _same_view(read[0], self.tensors[-1]):
            return False
        if not torch.is_grad_enabled() or read[0].is_leaf:  # no gradient, or a custom one
            return False
        if any(tensor is not read[0] and _memory(tensor) not in self._constants for tensor in tensors):
            return False
        if name in NORMALIZING:
            return args[0] is read[0] and args[5] is False  # in evaluation mode
        if name == "constant_pad_nd.default":
            return len(args) < 3 or args[2] == 0
        return name in (*WEIGHTED, *AVERAGING, *REARRANGING) or (self._homogeneous and name in HOMOGENEOUS)


class _HiddenReads(TorchFunctionMode):  # type: ignore[misc]
    """A function mode that ends the linear prefix if the module reads a tensor without an operation."""

    def __init__(self, chain: _Chain) -> None:
        super().__init__()
        self._chain = chain

    def __torch_function__(
        self, function: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in HIDDEN:
            self._chain.stop()
        return function(*args, **(kwargs or {}))


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else 0


def _same_view(tensor: Any, other: Any) -> bool:
    views = [(_memory(t), t.storage_offset(), t.shape, t.stride(), t.dtype) for t in (tensor, other)]
    return views[0] == views[1]

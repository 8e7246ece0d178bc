"""`TorchAgent` is an agent whose network is a PyTorch module."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents import network_outputs, torch_calls, torch_checks, torch_mode, torch_paths
from rl_clarity.agents.actions import Factor
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.behavior import check_behavior, noise
from rl_clarity.agents.differentiation import Backend, Function, TorchBackend
from rl_clarity.agents.output_check import Check, check_outputs
from rl_clarity.agents.protocol import Site
from rl_clarity.agents.scores import pad
from rl_clarity.agents.sites import INPUT, find_site
from rl_clarity.agents.torch_calls import Call, Trace
from rl_clarity.agents.value_range import input_scale, vector_scale
from rl_clarity.base.errors import OptionError

if TYPE_CHECKING:
    from rl_clarity.agents.torch_front import Front

Forward = Callable[[Any, Any, Any], Any]
TRIAL = 4
"""Number of observations in the trial runs that analyze a module."""
FRONT = "before/"
"""Prefix of the name of a `Front`, which contains the results before a site that the tails of the site need."""


class TorchAgent(BatchedAgent):
    """The protocol `Agent` for a `torch.nn.Module`.

    Sites are the results of submodules, with the names of `module.named_modules()`. Feature maps are results of shape
    (B, C, h, w), and tokens (B, h x w, C) of a transformer, one for each position of an earlier feature map. What a
    module computes between its submodules, such as `torch.relu(x)`, has no name and is not a site. The module runs in
    evaluation mode, in one thread at a time. After each call, the `training` flags of its submodules are restored, so a
    module can be explained between two steps of training. It computes in the precision of its parameters; results are
    converted to float32.

    Observations are (B, H, W, C), or the same with the channels first, from 0 to 255: uint8, or other numbers of that
    range. Floats that are all from 0 to 1 raise SamplesError, unless `input_divisor` is 1.

    Args:
        module: returns a policy's logits (B, A) and a value (B,) or (B, 1), logits alone, or action values (B, A).
            Several outputs are returned as a tuple or a dict. A categorical distribution may replace the logits. For a
            module from `torch.compile`, the original module is used
        observation_shape: (H, W, C) of one observation. For a module that takes a dictionary, the shapes of its entries
            by name. The largest entry with three axes is the image, (H, W, C), which is explained. The others are held
            inputs, float32 arrays of any shape, which become the last arrays of the agent's state. For vectors with n
            entries of any range, the shape is (n,); the module gets them unchanged, (B, n)
        metadata: facts about the agent, such as `env_name` and `gamma`
        heads: names of the module's outputs, in the order in which it returns them: `policy_logits` and `values`,
            `policy_logits` alone, or `q_values`, with None for each output to leave out. By default they are inferred
            from the outputs' names or widths. Required for a single output, unless it has a name for action values,
            such as `q_values`
        initial_state: initial state of a recurrent module, without the batch axis, as an array or a tuple of arrays.
            The module is then called with the observations and the state, which is a tensor or a tuple of tensors
            accordingly, and must return the next state as the last of its results
        forward: `forward(module, observations, state)`, for modules with another signature
        channels_first: whether the module takes (B, C, H, W), like most modules, or (B, H, W, C)
        input_divisor: observations are divided by this number, in float32, before the module gets them; 1 for a module
            that scales them itself. By default 255. Required if the module also scales its input before its first
            submodule with weights
        value_range: alternative to `input_divisor`: the module's inputs for observations of 0 and 255, such as (-1, 1)
        actions: the factors of an action, if it is not a single choice: a sequence of `Categorical`, `Binary` and
            `Gaussian`, whose outputs are the columns of the policy's output, in this order
        device: device to which the module is moved; by default that of its parameters
        batch_size: observations per forward pass
        gradient_batch_size: observations per gradient computation
        check: whether to run the module on a few images of noise, and raise OptionError if its outputs are random,
            depend on the rest of the batch, or have no gradient. To compare its outputs with expected ones as well,
            pass a dict of arrays, or the path of an `.npz` file, in place of True: `observations` from your own
            program, from 0 to 255 or as the module gets them, and the outputs for them: `logits` (B, A), `values` (B,)
            or `q_values` (B, A)

    Raises OptionError for a module that returns anything else, cannot be run, fails the check, or has submodules that
    cannot be hooked.
    """

    def __init__(
        self,
        module: Any,
        observation_shape: Sequence[int] | Mapping[str, Sequence[int]],
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str | None] | None = None,
        initial_state: Any = None,
        forward: Forward | None = None,
        channels_first: bool = True,
        input_divisor: float | None = None,
        value_range: Sequence[float] | None = None,
        actions: Sequence[Factor] | None = None,
        device: Any = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
        check: bool | Check = True,
    ) -> None:
        torch = _torch()
        module = torch_checks.inspectable(torch, module)
        first = next((p for p in module.parameters() if p.is_floating_point()), None)
        self._dtype = torch.float32 if first is None else first.dtype
        self.device = torch_checks.checked_device(torch, device or (first.device if first is not None else "cpu"))
        self.module = module.to(self.device)
        self._call_module = forward or (_call_with_state if initial_state is not None else _call)
        self._channels_first = channels_first
        self._single_state = initial_state is not None and not isinstance(initial_state, list | tuple)
        parts = network_outputs.state_parts(initial_state)
        self._image, shape, self.held_inputs = network_outputs.observation_parts(observation_shape)
        held = [np.zeros(part, np.float32) for part in self.held_inputs.values()]
        self._initial_state = (*(np.asarray(part, np.float32) for part in parts), *held)
        self._given_heads = heads
        self._is_vector = shape[:2] == (1, 1)
        scale = vector_scale(input_divisor, value_range) if self._is_vector else input_scale(input_divisor, value_range)
        self._black = scale.black
        names, num_actions = self._trial(shape)
        self._given_heads = names if heads is None else heads
        super().__init__(
            shape,
            names,
            num_actions,
            metadata,
            initial_state=self._initial_state,
            scale=scale,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
            actions=actions,
        )
        if scale.assumed:
            observations = self._trial_observations()
            with self._computing(), torch.no_grad():
                torch_checks.check_module_scale(torch, self.module, lambda: self._trial_run(observations), observations)
        if check:
            check_behavior(self, torch.finfo(self._dtype).eps)
            self._warn_of_unreached_heads()
        if not isinstance(check, bool):
            check_outputs(self, check)

    def _trial(self, shape: tuple[int, int, int]) -> tuple[tuple[str, ...], int]:
        """Run the module once, and return the names of its heads and the number of actions."""
        observations = np.random.default_rng(0).random((2, *shape), np.float32)
        with torch_checks.explained(shape), self._computing(), _torch().no_grad():
            state = [self._tensor(np.repeat(part[None], 2, axis=0)) for part in self._initial_state]
            heads, tensors, after = self._run(self._tensor(observations), *state)
        return heads, network_outputs.check_trial(heads, [tensor.cpu() for tensor in tensors], state, after)

    @property
    def _backend(self) -> Backend:
        return self._cached("backend", lambda: TorchBackend(self._tensor, self._computing))

    @property
    def _trace(self) -> Trace:
        return self._cached("trace", self._find_trace)

    @property
    def _calls(self) -> dict[str, tuple[Call, Site]]:
        """The calls of submodules, by the names of their sites."""
        return self._cached("calls", self._find_calls)

    @property
    def _operations(self) -> Sequence[Site]:
        return [site for _, site in self._calls.values()]

    def _find_calls(self) -> dict[str, tuple[Call, Site]]:
        with self._computing(), _torch().enable_grad():
            paths = torch_paths.call_paths(self.module, self._trace, self._trial_run, self._trial_observations())
        calls: dict[str, tuple[Call, Site]] = {}
        for call, its_paths in zip(self._trace.sites, paths, strict=True):
            name = call.name
            while name in (INPUT, *self._states, *self.heads, *calls):
                name += "_"
            calls[name] = call, Site(name, call.kind, self._site_shape(call), *its_paths)
        return calls

    def _site_shape(self, call: Call) -> tuple[int, ...]:
        """Return the shape of a submodule's result without the batch axis.

        Feature maps and grids of tokens are (h, w, c). For an agent that observes vectors, vectors are (1, 1, n).
        """
        shape = (self._trace.calls[call].shape or ())[1:]
        if call in self._grids:
            return (*self._grids[call], shape[1])
        if self._is_vector and len(shape) == 1:
            return (1, 1, *shape)
        return (*shape[1:], shape[0]) if len(shape) == 3 else shape  # channels last

    @property
    def _grids(self) -> dict[Call, tuple[int, int]]:
        return self._cached("grids", lambda: torch_calls.token_grids(self._trace))

    def _warn_of_unreached_heads(self) -> None:
        """Warn about layers that have no effect on some head, because other submodules compute that head."""
        with self._computing(), _torch().enable_grad():
            unreached = torch_paths.unreached_heads(
                self.module, self._trace, self._trial_run, self._trial_observations()
            )
        layers = {find_site(self.sites, name).name for name in self.layers}
        for i, head in enumerate(self.heads):
            without = [
                name
                for (name, (_, site)), heads in zip(self._calls.items(), unreached, strict=True)
                if i in heads and site.name in layers
            ]
            if without:
                warnings.warn(
                    f"the {head} do not depend on the layers {', '.join(without)}, so their attribution to these is 0. "
                    "If a submodule is called several times with different inputs, each call is a separate layer",
                    stacklevel=3,
                )

    def _trial_observations(self) -> Any:
        """Return a batch of noise, in the units of the module's input."""
        return self._tensor(self._scaled(noise(self, TRIAL)))

    def _trial_run(self, observations: Any) -> list[Any]:
        """Return the heads for the trial observations, or repeats of them, from states near the initial state."""
        rng = np.random.default_rng(1)
        states = [part + rng.normal(0, 0.1, part.shape) for part in self.initial_state(TRIAL) or ()]
        return self._run(observations, *(self._tensor(pad(state, len(observations))) for state in states))[1]

    def _find_trace(self) -> Trace:
        """Return the calls of submodules in a trial run. Repeated calls are merged unless that changes the outputs."""
        from rl_clarity.agents.torch_front import close

        observations = self._trial_observations()
        with self._computing(), _torch().no_grad():
            trace = torch_calls.trace(self.module, lambda: self._trial_run(observations), TRIAL)
            if trace.repeats:
                expected = self._trial_run(observations)
                with torch_calls.following(self.module, trace):
                    heads = self._trial_run(observations)
                if not close(heads, expected):
                    trace = torch_calls.trace(self.module, lambda: self._trial_run(observations), TRIAL, merge=False)
        return trace

    def _front(self, site: str) -> Front:
        """Return the `Front` of a submodule's site: the results before the site that its tails need."""
        return self._cached(f"{FRONT}{site}", lambda: self._find_front(self._calls[site][0]))

    def _find_front(self, call: Call) -> Front:
        from rl_clarity.agents.torch_front import find_front

        with self._computing():
            return find_front(self.module, self._trace, call, self._trial_run, self._trial_observations())

    def _network_parameters(self) -> dict[str, np.ndarray]:
        """Return the module's parameters and buffers, by their names in its state_dict, as float64."""
        state = self.module.state_dict().items()
        return {name: tensor.detach().cpu().double().numpy() for name, tensor in state if hasattr(tensor, "detach")}

    def _assign_parameters(self, parameters: Mapping[str, np.ndarray]) -> None:
        import torch

        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                if name in parameters:
                    tensor.copy_(torch.from_numpy(np.asarray(parameters[name])))

    def _bypass(self, site: str) -> tuple[str, ...]:
        inputs = tuple(name for name in (INPUT, *self._states) if name != site)
        if site not in self._calls:
            return inputs
        return (*inputs, f"{FRONT}{site}") if self._front(site).needed else self._states

    def _repeats_rows(self, site: str) -> bool:
        return site not in self._calls or self._front(site).repeats

    def _linear_prefix_end(self, site: str, from_zero: bool) -> str | None:
        from rl_clarity.agents.torch_linear import linear_prefix_end

        if site != INPUT and site not in self._calls:
            return None
        start, observations = None if site == INPUT else self._calls[site][0], self._trial_observations()
        run = self._trial_run
        try:
            with self._computing(), _torch().enable_grad():
                end = linear_prefix_end(self.module, self._trace, start, run, observations, from_zero=from_zero)
        except Exception:  # some modules fail while their operations are traced
            return None
        return next((name for name, (call, _) in self._calls.items() if call == end), None)

    def _section(self, given: tuple[str, ...], wanted: tuple[str, ...], edits: Mapping[str, Function]) -> Function:
        given_calls = {self._calls[name][0]: name for name in given if name in self._calls}
        wanted_calls = {self._calls[name][0]: name for name in wanted if name in self._calls}
        kept = next((name for name in (*given, *wanted) if name.startswith(FRONT)), None)
        front = self._front(kept.removeprefix(FRONT)).calls if kept is not None else {}
        alone = None if INPUT in given else self._front(next(iter(given_calls.values())))
        changes = {self._calls[name][0]: self._edited_call(name, edit) for name, edit in edits.items()}
        reading = {*wanted_calls, *(front if kept in wanted else ())} - set(given_calls)
        complete = {*given, *self._calls, INPUT, kept}.issuperset(wanted)  # stop before the module's outputs

        def run(*tensors: Any) -> list[Any]:
            values = dict(zip(given, tensors, strict=True))
            replace = {call: self._to_module(values[name], call) for call, name in given_calls.items()}
            results: dict[Call, Any] = {}
            if kept in given:
                replace |= values[kept]
            if alone is not None:
                rows = len(tensors[0])
                replace = alone.blank(rows) | replace
                values[INPUT] = self._tensor(np.float32(0)).expand(rows, *self.observation_shape)

            def read(call: Call, result: Any) -> None:
                results[call] = torch_calls.copied(result)
                if complete and len(results) == len(reading):
                    raise _CompleteError

            heads: tuple[str, ...] = ()
            outputs: list[Any] = []
            after: list[Any] = []
            if reading or not complete:
                with (
                    contextlib.suppress(_CompleteError),
                    torch_calls.following(
                        self.module, self._trace, read=read, reading=reading, replace=replace, edits=changes
                    ),
                ):
                    heads, outputs, after = self._run(*(values[name] for name in (INPUT, *self._states)))
            values = {**dict(zip(heads, outputs, strict=True)), **values}
            values |= {
                name: self._from_module(results[call], call) for call, name in wanted_calls.items() if call in results
            }
            values |= {f"after/{i}": part for i, part in enumerate(after)}
            if kept in wanted:
                values[kept] = {call: results[call] for call in front}
            return [values[name] for name in wanted]

        return run

    def _edited_call(self, name: str, edit: Function) -> Function:
        call = self._calls[name][0]
        return lambda result: self._to_module(edit(self._from_module(result, call)), call)

    def _to_module(self, values: Any, call: Call) -> Any:
        """Return the values of a site in the layout of the submodule's result."""
        traced = self._trace.calls[call]
        axes = len(traced.shape or ())
        values = values.permute(0, 3, 1, 2) if axes == 4 else values.flatten(1) if axes == 2 else values
        values = values.flatten(1, 2) if call in self._grids else values
        return values.to(traced.dtype).contiguous()

    def _from_module(self, result: Any, call: Call) -> Any:
        """Return the result of a submodule in float32, feature maps and grids of tokens as (B, h, w, c).

        For an agent that observes vectors, a vector is a feature map with a single position.
        """
        if call in self._grids:
            result = result.unflatten(1, self._grids[call])
        elif self._is_vector and result.ndim == 2:
            result = result[:, None, None]
        elif result.ndim == 4:
            result = result.permute(0, 2, 3, 1)
        return result.float()

    def _run(self, observations: Any, *states: Any) -> tuple[tuple[str, ...], list[Any], list[Any]]:
        """Return the names of the heads, the heads (B, n), and the next state, for observations (B, H, W, C)."""
        x = observations.flatten(1) if self._is_vector else observations
        x = x.permute(0, 3, 1, 2).contiguous() if self._channels_first and not self._is_vector else x
        x = x + self._black if self._black else x
        x, *parts = [tensor.to(self._dtype) for tensor in (x, *states)]
        count = len(parts) - len(self.held_inputs)
        state, held = parts[:count], parts[count:]
        observed = x if self._image is None else {self._image: x, **dict(zip(self.held_inputs, held, strict=True))}
        result = self._call_module(
            self.module, observed, (state[0] if self._single_state else tuple(state)) if state else None
        )
        outputs, after = network_outputs.split_state(result, recurrent=bool(state))
        heads, tensors = network_outputs.named_heads(outputs, self._given_heads)
        return heads, [tensor.float() for tensor in tensors], [part.float() for part in (*after, *held)]

    def _tensor(self, array: Any) -> Any:
        if isinstance(array, dict):  # results of the front
            return array
        torch = _torch()
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()  # PyTorch warns of tensors that share memory which must not be written
        return torch.as_tensor(array, dtype=torch.float32, device=self.device)

    def _computing(self) -> AbstractContextManager[None]:
        return torch_mode.computing(self.module)

    def _cached(self, key: Any, make: Callable[[], Any]) -> Any:
        # Lock the module before the key: making a value calls the module, and calls ask for values.
        with torch_mode.lock:
            return super()._cached(key, make)


class _CompleteError(BaseException):
    """Raised to stop the module when all requested results have been read."""


def _call(module: Any, observations: Any, _state: Any) -> Any:
    return module(observations)


def _call_with_state(module: Any, observations: Any, state: Any) -> Any:
    return module(observations, state)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise OptionError('PyTorch is not installed: pip install "rl-clarity[torch]"') from error
    return torch

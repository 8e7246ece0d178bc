"""`BatchedAgent` implements what agents of all frameworks have in common.

It pads batches, resets states, and selects scores and sites, all with NumPy arrays. Subclasses implement the members
that depend on the framework, such as `_section`, which computes tensors.
"""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from rl_clarity.agents.actions import Categorical, Factor, checked_factors
from rl_clarity.agents.applied_edits import AppliedEdits
from rl_clarity.agents.batched_tail import BatchedTail, gradient_rows
from rl_clarity.agents.capabilities import as_vectors, check_observations, checked_state, is_vector
from rl_clarity.agents.differentiation import Backend, Function, GradientStep
from rl_clarity.agents.editing import Edit
from rl_clarity.agents.feature_gradients import gradient_of_direction
from rl_clarity.agents.held_inputs import HoldsInputs
from rl_clarity.agents.linear_prefix import LinearPrefix, find_linear_prefix
from rl_clarity.agents.once import MadeOnce
from rl_clarity.agents.protocol import Outputs, Score, Site, State, Tensor, Written
from rl_clarity.agents.recurrence import state_gradients
from rl_clarity.agents.scores import SMALLEST_BATCH, SMALLEST_GRADIENT_BATCH, pad, padded_size
from rl_clarity.agents.sites import INPUT, find_site, layer_shapes
from rl_clarity.agents.value_range import InputScale
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.threads import thread_count


class BatchedAgent(HoldsInputs, ABC):
    """An abstract implementation of the protocol `Agent` for networks that take batches.

    Batches are padded to a few fixed sizes. Functions are therefore compiled only once or twice, and the result for an
    observation does not depend on the other observations in its batch.

    Args:
        observation_shape: (H, W, C) of one observation
        heads: names of the network's first outputs: `policy_logits` (B, A) and `values` (B, 1), `policy_logits` alone,
            or `q_values` (B, A)
        num_actions: A, the number of outputs of the policy
        metadata: facts about the agent, such as `env_name` and `gamma`
        initial_state: arrays of the initial recurrent state, without the batch axis
        scale: the network's input is observations / `scale.divisor` + `scale.black`, in float32. (Multiplying by the
            reciprocal of the divisor would round differently, which can move a value across the kink of a ReLU.)
        batch_size: observations per forward pass
        gradient_batch_size: observations per gradient computation
        actions: the factors of an action; by default a single choice among A options
    """

    def __init__(
        self,
        observation_shape: tuple[int, int, int],
        heads: Sequence[str],
        num_actions: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        initial_state: Sequence[np.ndarray] = (),
        scale: InputScale = InputScale(),  # noqa: B008  # immutable
        batch_size: int = 256,
        gradient_batch_size: int = 64,
        actions: Sequence[Factor] | None = None,
    ) -> None:
        if not 0 < batch_size < np.inf:
            raise OptionError(f"batch_size={batch_size!r} must be above 0")
        self.observation_shape = observation_shape
        self.heads = tuple(heads)
        self.num_actions = num_actions
        self.action_factors: tuple[Factor, ...] = (
            (Categorical(num_actions),) if actions is None else checked_factors(actions, num_actions)
        )
        self.metadata: Mapping[str, Any] = dict(metadata or {})
        self._initial_state = tuple(initial_state)
        self.batch_size = batch_size
        self.gradient_batch_size = gradient_batch_size
        self.input_scale = scale
        self._divisor, self._unit = np.float32(scale.divisor), np.float32(scale.unit)
        self._cache = MadeOnce()
        self._edits = AppliedEdits()
        self.checkpoint: Any = None
        """The `Checkpoint` that the agent was loaded from; None for other agents."""

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.observation_shape))
        layers = ", ".join(self.layers)
        return f"<{type(self).__name__}: observations {shape}, {self.num_actions} actions, layers {layers}>"

    @property
    @abstractmethod
    def _backend(self) -> Backend: ...

    @property
    @abstractmethod
    def _operations(self) -> Sequence[Site]:
        """The sites that the network's operations compute, in the order of computation."""

    @abstractmethod
    def _section(self, given: tuple[str, ...], wanted: tuple[str, ...], edits: Mapping[str, Function]) -> Function:
        """Return a function that computes the tensors named `wanted` from those named `given`. The names are those of
        sites, and `after/0`, ... for the arrays of the next state.

        The input tensor is observations / divisor; the section adds `input_scale.black` to it. `edits` maps names of
        sites to functions from values (B, *shape) float32 to the edited values that the rest of the network reads.
        """

    @abstractmethod
    def _bypass(self, site: str) -> tuple[str, ...]:
        """Return the names of the tensors that, together with the site, determine the heads."""

    def _repeats_rows(self, site: str) -> bool:
        """Return whether rows of a batch can be repeated. They can if the first axis of all tensors that bypass the
        site is the batch, and the backend shares batches (`Backend.shares_batches`).
        """
        return False

    def _linear_prefix_end(self, site: str, from_zero: bool) -> str | None:
        """Return the name of the site at which the linear prefix after `site` ends (see `LinearPrefix`), or None if
        there is none or it is unknown.
        """
        return None

    @abstractmethod
    def _network_parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the network's parameters by name."""

    @abstractmethod
    def _assign_parameters(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Set all of the network's parameters, in the layout of `_network_parameters`."""

    @contextmanager
    def other_parameters(self, parameters: Mapping[str, np.ndarray]) -> Iterator[Self]:
        """In the block, replace some of the network's parameters. `parameters` maps their names to the new arrays. All
        other parameters keep their values.

        Raises OptionError for an unknown name, and for an array with the wrong shape.
        """
        before = self._network_parameters()
        for name, array in parameters.items():
            if name not in before:
                raise OptionError(f"the network has no parameter {name!r}, only {', '.join(before)}")
            if np.shape(array) != (shape := before[name].shape):
                raise OptionError(f"parameter {name!r} has the shape {np.shape(array)}, but must have {shape}")
        try:
            self._replace_parameters({**before, **parameters})
            yield self
        finally:
            self._replace_parameters(before)

    def _replace_parameters(self, parameters: Mapping[str, np.ndarray]) -> None:
        self._assign_parameters(parameters)
        if self._backend.freezes_parameters:
            self._forget_functions()

    def _forget_functions(self) -> None:
        """Discard compiled functions, whose cache keys are tuples. The graph and the names, whose keys are strings, are
        kept.
        """
        self._cache = self._cache.subset(lambda key: isinstance(key, str))

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the network's parameters, and of the arrays that define the agent's edits, by name."""
        return self._network_parameters() | self._edits.parameters()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that `rl_clarity.edit` applied, in order."""
        return tuple(edit for _, edit in self._edits)

    def with_edits(self, edits: Sequence[Edit]) -> Self:
        """Return a copy of the agent with further edits, which also apply to its gradients; see `rl_clarity.edit`."""
        edited = copy.copy(self)
        edited._edits = self._edits.extended(edits, self.sites)
        edited._forget_functions()
        return edited

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save the agent as a safetensors checkpoint, with its edits applied to the weights.

        Only `Ablate` with `to="zero"` and without `positions` can be saved, at a layer that is read only by
        convolutions and dense layers. Components are projected out of the weights of these layers, as with
        `signed=True`. The saved agent is equivalent to the edited one for units, and for a single non-negative
        component of a layer without negative values, where negative coefficients do not occur. Pooling may lie between
        the layer and the weights. Pooled activations are then projected, which is exact for average pooling only.

        Raises OptionError for an agent that was not loaded from a checkpoint, and for edits and layers other than
        these. Raises OutputError for a path that does not end in `.safetensors`, and for an existing file without
        `overwrite`.
        """
        if self.checkpoint is None:
            raise OptionError(
                "the agent was not loaded from a checkpoint, so there is no file format to save it in. Use the edited "
                "agent itself in Python: generate, record, evaluate and collect accept it"
            )
        notes = [f"edited: {edit.describe()}" for edit in self.edits]
        self.checkpoint.save(os.fspath(path), self._edited_parameters(), notes, overwrite=overwrite)

    def _edited_parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters that the edits change, by name."""
        if self._edits:
            raise OptionError(
                f"the weights of a {type(self).__name__} cannot be edited; use the edited agent in Python instead"
            )
        return {}

    @property
    def sites(self) -> tuple[Site, ...]:
        """The input, the arrays of the state, the results of operations and the heads, in the order of computation."""
        return self._cached("sites", self._make_sites)

    def _make_sites(self) -> tuple[Site, ...]:
        states = [Site(name, "state", part.shape) for name, part in zip(self._states, self._initial_state, strict=True)]
        heads = [Site(head, "head", (width,)) for head, width in self._widths.items()]
        return (Site(INPUT, "input", self.observation_shape), *states, *self._operations, *heads)

    @property
    def layers(self) -> dict[str, tuple[int, ...]]:
        """Shapes (h, w, c) of the layers that are explained by default (see `default_layers`), by short name."""
        return layer_shapes(self.sites)

    @property
    def parallel_calls(self) -> int:
        """The number of threads that should call the agent at once.

        The number is determined once, because batch sizes depend on it.
        """
        return self._cached("parallel calls", lambda: min(self._backend.parallel_calls, thread_count()))

    def initial_state(self, n: int) -> State:
        """Return the state of n environments before their first step as arrays (n, ...), or None for an agent without a
        state.
        """
        return tuple(np.repeat(part[None], n, axis=0) for part in self._initial_state) or None

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        """Return the outputs for observations (B, H, W, C) and the next state. Where `firsts` (B,) is true the state is
        reset first.

        Raises SamplesError for observations with a wrong shape or range, and OptionError for a state with a wrong
        shape.
        """
        state = checked_state(state, self.initial_state(len(firsts)))
        outputs = self.forward(observations, self.reset(state, np.asarray(firsts, bool)))
        return outputs, outputs.state

    def forward(
        self,
        observations: np.ndarray,
        state: State = None,
        *,
        read: Sequence[str] = (),
        write: Mapping[str, Written] | None = None,
    ) -> Outputs:
        """Return the outputs for observations (B, H, W, C) and a state, by default the initial state; see `Agent`.

        Raises SamplesError for observations with a wrong shape or range. Raises OptionError for an unknown site, and
        for a state or written values with a wrong shape.
        """
        names = [self.site(name).name for name in read]
        edits = {self.site(name).name: edit for name, edit in (write or {}).items()}
        written: dict[str, np.ndarray] = {}
        for site in self.sites:
            if site.name in edits:
                edit = edits[site.name]
                values = edit(self._read(observations, state, written, [site.name])[0]) if callable(edit) else edit
                if np.shape(values) != (len(observations), *site.shape):
                    shape = (len(observations), *site.shape)
                    raise OptionError(f"write[{site.name!r}] has the shape {np.shape(values)}, but {shape} is needed")
                written[site.name] = np.asarray(values, np.float32)
        after = [f"after/{i}" for i in range(len(self._initial_state))]
        arrays = self._read(observations, state, written, [*self.heads, *after, *names])
        heads = dict(zip(self.heads, arrays, strict=False))
        return Outputs(
            heads.get("policy_logits"),
            heads["values"][:, 0] if "values" in heads else None,
            heads.get("q_values"),
            dict(zip(read, arrays[len(heads) + len(after) :], strict=True)),
            tuple(arrays[len(heads) : len(heads) + len(after)]) or None,
        )

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        """Return the environment's frames unchanged: they are the observations."""
        return frames

    def site(self, name: str) -> Site:
        """Return the site with a full or short name. Raises OptionError, which suggests the nearest name, for an
        unknown site.
        """
        return find_site(self.sites, name)

    def activations(self, observations: np.ndarray, site: str, state: State = None) -> np.ndarray:
        """Return the values (B, *shape) of a site for observations (B, H, W, C), without computing the rest of the
        network.

        Raises OptionError for an unknown site, and SamplesError for observations with a wrong shape or range.
        """
        return self._read(observations, state, {}, [self.site(site).name])[0]

    def tails(
        self, observations: np.ndarray, site: str, scores: Sequence[Score], state: State = None
    ) -> Iterator[BatchedTail]:
        """Yield a `Tail`, the network from a site to the scores, for each batch of observations.

        Raises OptionError for an unknown site or score and for a state with a wrong shape. Raises SamplesError for
        observations with a wrong shape or range.
        """
        name = self.site(site).name
        bypass = (*self._bypass(name), *self._edits.names)
        inputs = self._inputs
        front = self._compiled(inputs, (name, *bypass))
        functions = self._cached(("tail", name), lambda: self._tail((name, *bypass)))
        linear_prefix = partial(self._linear_prefix, name)
        scaled, repeats = name == INPUT and not is_vector(self), self._repeats_rows(name)
        shared = (
            self._divisor if scaled else None,
            scores,
            self._widths,
            dict[str, np.ndarray](),
            self.action_factors,
            repeats,
            gradient_rows(self.sites, self.gradient_batch_size),
        )
        smallest = SMALLEST_BATCH if repeats and self._backend.takes_any_rows else SMALLEST_GRADIENT_BATCH
        for rows, arrays in self._batches(observations, state, self.gradient_batch_size, smallest):
            values, *others = front(*(arrays[name] for name in inputs))
            yield BatchedTail(functions, linear_prefix, self._backend, rows, values, others, *shared)

    def gradients(
        self,
        observations: np.ndarray,
        site: str,
        scores: Sequence[Score],
        *,
        values: np.ndarray | None = None,
        state: State = None,
    ) -> np.ndarray:
        """Return the gradients (S, B, *shape) of S scores with respect to a site, at the site's values or at `values`.

        Gradients with respect to the input have the layout of the observations. Raises OptionError for an unknown site
        or score and for a state with a wrong shape, and SamplesError for observations or values with a wrong shape.
        """
        if values is not None and len(values) != len(observations):
            raise SamplesError(f"there are values for {len(values)} observations, but {len(observations)} observations")
        tails = self.tails(observations, site, scores, state)
        result = np.concatenate([t.gradients(None if values is None else values[t.rows]) for t in tails], axis=1)
        if self.site(site).name == INPUT and not self._channels_last(np.shape(observations)):
            return np.moveaxis(result, -1, 2)
        return result

    def gradient_of_direction(
        self, images: np.ndarray, layer: str, directions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the activation (N,) of one direction per image, and its gradient (N, H, W, C) with respect to the
        image. Feature visualization ascends this gradient.

        Images (N, H, W, C) have values from 0 to 1. Directions (N, c) have a weight for each channel of the layer. An
        activation is the mean over positions of the dot product of the layer's activations and the direction, in the
        initial state.
        """
        return gradient_of_direction(self, images, layer, directions)

    def state_gradients(
        self,
        observations: np.ndarray,
        state: State,
        weights: np.ndarray,
        site: Literal["state", "input"] = "state",
    ) -> np.ndarray:
        """Return gradients (S, B, H) of linear combinations of the next state with respect to the state.

        H is the total number of values in the arrays of the state, which are put side by side. `weights` (B, S, H)
        defines S linear combinations for each observation. With `site="input"`, the gradients are with respect to
        observations / 255, and have the shape (S, B, height, width, channels).
        """
        return state_gradients(self, observations, state, weights, site)

    @property
    def _states(self) -> tuple[str, ...]:
        return tuple(f"state/{i}" for i in range(len(self._initial_state)))

    @property
    def _inputs(self) -> tuple[str, ...]:
        return (INPUT, *self._states, *self._edits.names)

    @property
    def _widths(self) -> dict[str, int]:
        """The number of columns of each head."""
        return {head: 1 if head == "values" else self.num_actions for head in self.heads}

    def _cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached value of a key, which `make` computes once per agent. (A cache on the class would keep
        agents alive.)
        """
        return self._cache.get(key, make)

    def _edited(self, given: tuple[str, ...], wanted: tuple[str, ...]) -> Function:
        """Return the `_section` of the edited network. The sites in `given` are not edited again."""
        if not self._edits:
            return self._section(given, wanted, {})
        others = self._edits.names
        names, results = (tuple(name for name in part if name not in others) for part in (given, wanted))

        def run(*tensors: Tensor) -> list[Tensor]:
            values = dict(zip(given, tensors, strict=True))
            functions = self._edits.functions(values, self._backend.operations)
            functions = {site: edit for site, edit in functions.items() if site not in (*self._inputs, *names)}
            computed = self._section(names, results, functions)(*(values[name] for name in names))
            values |= dict(zip(results, computed, strict=True))
            values |= self._edits.of_state(values, self._backend.operations)
            return [values[name] for name in wanted]

        return run

    def _compiled(self, given: tuple[str, ...], wanted: tuple[str, ...]) -> Function:
        compiled = self._cached((given, wanted), lambda: self._backend.compile(self._edited(given, wanted)))
        return compiled

    def _tail(self, given: tuple[str, ...]) -> tuple[Function, GradientStep]:
        section, concatenate = self._edited(given, self.heads), self._backend.concatenate

        def tail(*tensors: Tensor) -> Tensor:
            return concatenate(section(*tensors))

        return self._backend.compile(tail), self._backend.gradient_step(tail)

    def _linear_prefix(self, site: str, from_zero: bool) -> LinearPrefix | None:
        return self._cached(("linear prefix", site, from_zero), lambda: find_linear_prefix(self, site, from_zero))

    def _read(
        self, observations: np.ndarray, state: State, written: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[np.ndarray]:
        """Return the values of the sites, or arrays of the next state, with these names. `written` replaces the values
        of some sites before other sites are computed from them.
        """
        wanted = tuple(dict.fromkeys(names))
        given = tuple(dict.fromkeys((*self._inputs, *written)))
        compute = self._compiled(given, wanted)

        parts = []
        for rows, arrays in self._batches(observations, state, self.batch_size, SMALLEST_BATCH, written):
            tensors = compute(*(arrays[name] for name in given))
            parts.append([self._backend.array(tensor)[: rows.stop - rows.start] for tensor in tensors])
        results = {name: np.concatenate(part) for name, part in zip(wanted, zip(*parts, strict=True), strict=True)}
        if INPUT in results and self._divisor != self._unit:
            results[INPUT] = results[INPUT] * self._divisor / self._unit
        return [results[name] for name in names]

    def _batches(
        self,
        observations: np.ndarray,
        state: State,
        size: int,
        smallest: int,
        written: Mapping[str, np.ndarray] | None = None,
    ) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
        """Yield the rows of each batch, and its arrays by name: the input, the state, and written values. The arrays
        are padded to `size` or one of a few smaller sizes.

        Edits of the input and of the state are applied here, and replacement activations are chosen.
        """
        observations = np.asarray(observations)
        if is_vector(self):
            observations = as_vectors(observations, self.observation_shape[-1])
        elif not self._channels_last(observations.shape):
            observations = np.moveaxis(observations, 1, -1)
        initial = self.initial_state(len(observations))
        state = checked_state(state, initial)
        self._check_range(observations)
        arrays = dict(zip(self._states, (initial if state is None else state) or (), strict=True)) | dict(written or {})
        for start in range(0, max(len(observations), 1), size):
            rows = slice(start, min(start + size, len(observations)))
            parts = {name: np.asarray(array[rows], np.float32) for name, array in arrays.items()}
            if INPUT not in parts:
                parts[INPUT] = self._scaled(observations[rows])
            elif self._divisor != self._unit:
                parts[INPUT] = parts[INPUT] * self._unit / self._divisor
            if self._edits:
                parts |= self._edits.replacements(self._scaled(observations[rows]))
                unit = self._divisor / self._unit  # converts from the network's input to the site
                for name in {site for site, _ in self._edits} & {INPUT, *self._states} - set(written or ()):
                    scale = unit if name == INPUT else 1
                    edited = self._edits.of_input(name, parts[name] * scale, parts) / scale
                    parts[name] = np.asarray(edited, np.float32)
            padded = padded_size(rows.stop - rows.start, size, smallest)
            yield rows, {name: pad(part, padded) for name, part in parts.items()}

    def _channels_last(self, shape: tuple[int, ...]) -> bool:
        """Return whether observations of this shape are (B, H, W, C) rather than (B, C, H, W)."""
        height, width, channels = self.observation_shape
        if shape[1:] == self.observation_shape or is_vector(self):
            return True
        if shape[1:] == (channels, height, width):
            return False
        raise SamplesError(
            f"observations have the shape {shape}; the network takes (B, {height}, {width}, {channels}), or the same "
            "with the channels first"
        )

    def _check_range(self, observations: np.ndarray) -> None:
        check_observations(observations, float(self._divisor))

    def _scaled(self, observations: np.ndarray) -> np.ndarray:
        return np.asarray(observations, np.float32) / self._divisor

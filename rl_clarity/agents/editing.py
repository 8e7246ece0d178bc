"""Edits change a layer's activations in the forward pass, to test what a feature does.

A set of K components H (K, c) spans a cone: all their non-negative combinations. The part of an activation vector a
that belongs to the set is the nearest point of that cone,

    w(a) H,  where w(a) minimizes ||a - w H||^2 over w >= 0.

`ChannelReduction.transform` computes the same w. For a single component d, w = max(0, a . d / |d|^2). The remainder
a - w(a) H has no component in the cone (Moreau's decomposition), however much the components overlap. Ablating a set
twice therefore equals ablating it once, and ablating a set and then everything except the set leaves zero.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rl_clarity.agents.operations import NUMPY, Operations
from rl_clarity.agents.protocol import Site, Tensor
from rl_clarity.base.errors import OptionError

Positions = np.ndarray | Sequence[tuple[int, int]]
SWEEPS = 60
"""Number of sweeps of coordinate descent that find which coefficients are 0. The others are then computed exactly."""
DAMPING = 1e-5
"""Damping of the linear system for the other coefficients, relative to its diagonal. Equal components then have equal
coefficients."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Edit(ABC):
    """Base class of edits, which change a layer's activations or the state: `Ablate`, `Steer`, `SwapDirections`."""

    layer: str = dataclasses.field(kw_only=False)

    @abstractmethod
    def check(self, site: Site) -> None:
        """Raise OptionError if the edit does not fit the layer's shape."""

    @property
    def changes(self) -> bool:
        """Whether the edit has an effect. Edits without effect, such as those with a strength of 0, are left out, so
        that results stay identical to the last bit.
        """
        return True

    @property
    def replacements(self) -> np.ndarray | None:
        """The activations (N, *shape) from which `to="resample"` draws a row for each observation, or None."""
        return None

    @abstractmethod
    def apply(self, values: Tensor, replacement: Tensor | None = None, *, operations: Operations = NUMPY) -> Tensor:
        """Return the edited values (B, *shape) of the layer, as an array or a framework's tensor.

        `replacement` (B, *shape) is the result of `choose_replacements`, or None.
        """

    def choose_replacements(self, observations: np.ndarray) -> np.ndarray | None:
        """Return a row of `replacements` for each observation (B, ...), chosen by a hash of its pixels and the seed.

        An observation gets the same row in any batch, in any process, and while the agent plays.
        """
        if self.replacements is None:
            return None
        rows = [_hash(observation, getattr(self, "seed", 0)) % len(self.replacements) for observation in observations]
        return self.replacements[rows]

    def describe(self) -> str:
        """Return the edit as a line of text: its layer, the options that differ from the defaults, and the shapes of
        arrays.
        """
        parts = [repr(self.layer)]
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if np.ndim(value) > 0 and np.size(value) > 4:
                parts.append(f"{field.name}=({' x '.join(map(str, np.shape(value)))})")
            elif np.ndim(value) > 0 or value != field.default:
                parts.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def parameters(self) -> dict[str, np.ndarray]:
        """Return everything that defines the edit, as arrays by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        defined = {name: np.asarray(value) for name, value in values.items() if value is not None}
        kind = np.asarray(type(self).__name__)
        # Texts become numbers, because parameters are numeric arrays.
        return {
            name: np.frombuffer(str(array).encode(), np.uint8) if array.dtype.kind == "U" else array
            for name, array in {"kind": kind, **defined}.items()
        }


class StateEdit(Edit):
    """Base class of edits that change the recurrent state after each step, before the next step reads it; see
    `SwapDirections`.
    """

    @abstractmethod
    def apply_to_state(self, before: Tensor, after: Tensor, *, operations: Operations = NUMPY) -> Tensor:
        """Return the edited state after a step (B, n), from the states before and after it."""

    def apply(self, values: Tensor, replacement: Tensor | None = None, *, operations: Operations = NUMPY) -> Tensor:
        return self.apply_to_state(values, values, operations=operations)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ablate(Edit):
    """Remove a part of a layer's activations, or replace it.

    a -> a - strength * (part(a) - replacement), where the part is chosen by `component` or `unit`, `positions` and
    `everything_but`; with none of them it is the whole layer.

    Args:
        layer: short ("2b") or full name of a layer, or any other site: an operation's result, "input", "state/0"
        component: direction (c,) in the layer's channels, such as a row of `ChannelReduction.components`, or several
            directions (K, c). The part that belongs to several components is computed jointly, because they may overlap
            (see the module's docstring)
        unit: index of a channel, or several indices. Alternative to `component`
        positions: positions to edit, as a boolean mask (h, w) or a sequence of (row, column); by default all
        everything_but: ablate everything except the part; for components this includes the residual, which they do not
            explain
        to: the replacement. "zero"; "mean", the mean of the part over `data` at the same position; or "resample", the
            part in one observation of `data`. A hash of the pixels and the `seed` chooses that observation, so the
            replacement is the same in any batch, in any process, and while the agent plays
        strength: 0 changes nothing, 1 removes the whole part
        signed: also remove negative coefficients of components: the part is the orthogonal projection onto their span.
            This makes no difference for a single non-negative component of a layer without negative values, as after a
            ReLU
        data: activations (N, *shape) of the layer, from which "mean" and "resample" take their values:
            `agent.activations(observations, layer)`
        seed: seed of the random choice for "resample"

    Raises OptionError for options that contradict each other or are out of range.
    """

    component: np.ndarray | None = None
    unit: int | Sequence[int] | None = None
    positions: Positions | None = None
    everything_but: bool = False
    to: Literal["zero", "mean", "resample"] = "zero"
    strength: float = 1.0
    signed: bool = False
    data: np.ndarray | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.to not in ("zero", "mean", "resample"):
            raise OptionError(f"to={self.to!r} must be 'zero', 'mean' or 'resample'")
        if not (isinstance(self.strength, int | float | np.number) and 0 <= self.strength <= 1):
            raise OptionError(f"strength={self.strength!r} must be a number from 0 to 1")
        if self.component is not None and self.unit is not None:
            raise OptionError("component= and unit= cannot be combined: make one edit for each")
        if self.component is not None:
            directions(self.component)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer):
            raise OptionError(f"seed={self.seed!r} must be an integer")
        if (self.to == "zero") != (self.data is None):
            needed = "needs data=agent.activations(observations, layer)" if self.data is None else "takes no data="
            raise OptionError(f"to={self.to!r} {needed}")
        if self.everything_but and self.component is None and self.unit is None and self.positions is None:
            raise OptionError("everything_but=True needs component=, unit= or positions= to keep")

    def check(self, site: Site) -> None:
        channels = site.shape[-1]
        for unit in () if self.unit is None else np.atleast_1d(self.unit).tolist():
            if not (isinstance(unit, int) and 0 <= unit < channels):
                raise OptionError(
                    f"unit={unit!r} is not a channel of {site.name}, which has the channels 0 to {channels - 1}"
                )
        _check_width(self.component, site)
        _mask(self.positions, site)
        if self.data is not None and (np.shape(self.data)[1:] != site.shape or len(self.data) == 0):
            raise OptionError(
                f"data= has the shape {np.shape(self.data)}; activations (N, {', '.join(map(str, site.shape))}) of "
                f"{site.name} are needed"
            )

    @property
    def changes(self) -> bool:
        return self.strength > 0

    @functools.cached_property
    def replacements(self) -> np.ndarray | None:
        return None if self.to != "resample" else self._part_of_data()

    @functools.cached_property
    def _mean(self) -> np.ndarray | None:
        return self._part_of_data().mean(axis=0, dtype=np.float64).astype(np.float32) if self.to == "mean" else None

    def _part_of_data(self) -> np.ndarray:
        return np.asarray(self._part(np.asarray(self.data, np.float32), NUMPY))

    def apply(self, values: Tensor, replacement: Tensor | None = None, *, operations: Operations = NUMPY) -> Tensor:
        part = self._part(values, operations)
        if self._mean is not None:
            part = part - operations.constant(self._mean)
        elif replacement is not None:
            part = part - replacement
        return values - (part if self.strength == 1 else float(self.strength) * part)

    def _part(self, values: Tensor, operations: Operations) -> Tensor:
        """Return the part (B, *shape) of the values that the edit ablates."""
        shape = tuple(map(int, values.shape[1:]))
        part = values
        if self.unit is not None:
            part = values * operations.constant(np.isin(np.arange(shape[-1]), self.unit).astype(np.float32))
        elif self.component is not None:
            part = _projection(values, directions(self.component), signed=self.signed, operations=operations)
        mask = _mask(self.positions, Site(self.layer, "", shape))
        if mask is not None:
            part = part * operations.constant(mask)
        return values - part if self.everything_but else part


@dataclass(frozen=True, eq=False, kw_only=True)
class Steer(Edit):
    """Add a multiple of a component to a layer's activations, which makes the agent "see" a feature.

    a -> a + amount * unit * component, at `positions`.

    Args:
        layer: short or full name of a layer, as in `Ablate`
        component: direction (c,) in the layer's channels
        amount: number of units to add; a negative amount can make activations negative, even after a ReLU
        positions: positions to edit, as a boolean mask (h, w) or a sequence of (row, column); by default all
        data: activations (N, *shape) of the layer, `agent.activations(observations, layer)`. The unit is the standard
            deviation of the component's coefficient, a . d / |d|^2, over all positions in `data`. Without `data`, the
            unit is the component itself

    Raises OptionError for a component that is not a single direction, and for an amount that is not finite.
    """

    component: np.ndarray = dataclasses.field(kw_only=False)
    amount: float
    positions: Positions | None = None
    data: np.ndarray | None = None

    def __post_init__(self) -> None:
        if len(directions(self.component)) != 1:
            raise OptionError(f"component= has the shape {np.shape(self.component)}; one direction (c,) is needed")
        if not (isinstance(self.amount, int | float | np.number) and np.isfinite(self.amount)):
            raise OptionError(f"amount={self.amount!r} must be a finite number")

    def check(self, site: Site) -> None:
        _check_width(self.component, site)
        _mask(self.positions, site)
        if self.data is not None and (np.shape(self.data)[-1:] != site.shape[-1:] or np.size(self.data) == 0):
            raise OptionError(f"data= has the shape {np.shape(self.data)}; activations of {site.name} are needed")

    @property
    def changes(self) -> bool:
        return self.amount != 0

    @functools.cached_property
    def _unit(self) -> float:
        if self.data is None:
            return 1.0
        (direction,) = directions(self.component).astype(np.float64)
        square = float(direction @ direction)
        return float(np.std(np.asarray(self.data) @ direction) / square) if square else 0.0

    def apply(self, values: Tensor, replacement: Tensor | None = None, *, operations: Operations = NUMPY) -> Tensor:
        shape = tuple(map(int, values.shape[1:]))
        added = np.float32(self.amount * self._unit) * directions(self.component)[0]
        mask = _mask(self.positions, Site(self.layer, "", shape))
        return values + operations.constant(added if mask is None else added * mask)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scale(Edit):
    """Multiply the coefficients of components in a layer's activations.

    a -> a + sum over k of (factor_k - 1) w_k(a) H_k, at `positions`, where w(a) are the coefficients of the components
    H (see the module's docstring). With a factor of 0 for all components, the edit is equivalent to `Ablate`.

    Args:
        layer: short or full name of a layer, as in `Ablate`
        component: direction (c,) in the layer's channels, or several (K, c)
        factor: the factor of each component: 0 removes it, 1 changes nothing
        positions: positions to edit, as a boolean mask (h, w) or a sequence of (row, column); by default all

    Raises OptionError if there is not one factor per component, and for a factor that is not finite.
    """

    component: np.ndarray = dataclasses.field(kw_only=False)
    factor: float | Sequence[float]
    positions: Positions | None = None

    def __post_init__(self) -> None:
        factors = np.atleast_1d(np.asarray(self.factor, np.float64))
        count = len(directions(self.component))
        if factors.shape != (count,) or not np.isfinite(factors).all():
            raise OptionError(f"factor={self.factor!r} must be a finite number for each of {count} components")

    def check(self, site: Site) -> None:
        _check_width(self.component, site)
        _mask(self.positions, site)

    @property
    def changes(self) -> bool:
        return bool(np.any(np.asarray(self.factor) != 1))

    def apply(self, values: Tensor, replacement: Tensor | None = None, *, operations: Operations = NUMPY) -> Tensor:
        components, factors = directions(self.component), np.atleast_1d(np.asarray(self.factor, np.float32))
        used = np.any(components != 0, axis=1)
        if not used.any():
            return values
        coefficients = _coefficients(values, components[used], signed=False, operations=operations)
        added = operations.matmul(
            coefficients, operations.constant((factors[used, None] - np.float32(1)) * components[used])
        )
        mask = _mask(self.positions, Site(self.layer, "", tuple(map(int, values.shape[1:]))))
        return values + (added if mask is None else added * operations.constant(mask))


def directions(component: Any) -> np.ndarray:
    """Return `component=`, (c,) or (K, c), as directions (K, c); raises OptionError for other arrays."""
    try:
        array = np.asarray(component, np.float32)
    except (TypeError, ValueError):
        array = np.full((1, 1), np.nan, np.float32)
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        raise OptionError(
            f"component={component!r:.60} must be an array (c,) or (K, c) of finite numbers, such as "
            "reduction.components[2]"
        )
    return np.atleast_2d(array)


def _check_width(component: Any, site: Site) -> None:
    if component is not None and np.shape(component)[-1] != site.shape[-1]:
        raise OptionError(
            f"component= has {np.shape(component)[-1]} channels, but {site.name} has {site.shape[-1]}: components fit "
            "only the layer that they were fitted to"
        )


def _mask(positions: Positions | None, site: Site) -> np.ndarray | None:
    """Return positions of a site as a mask (h, w, 1) of 0 and 1, or None for all positions."""
    if positions is None:
        return None
    if len(site.shape) != 3:
        raise OptionError(f"positions= need a feature map, but {site.name} has the shape {site.shape}")
    size = site.shape[:2]
    array = np.asarray(positions)
    if array.dtype == bool:
        if array.shape != size:
            raise OptionError(f"positions= is a mask of shape {array.shape}, but {site.name} has {size} positions")
        return array[..., None].astype(np.float32)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 2:
        raise OptionError("positions= must be a boolean mask (h, w) or a sequence of (row, column)")
    outside = array[((array < 0) | (array >= size)).any(axis=1)]
    if len(outside):
        raise OptionError(
            f"positions= contains {tuple(outside[0].tolist())}, which is outside of {site.name} with {size} positions"
        )
    mask = np.zeros((*size, 1), np.float32)
    mask[tuple(array.T)] = 1
    return mask


def _projection(values: Tensor, components: np.ndarray, *, signed: bool, operations: Operations) -> Tensor:
    """Return the projection of values (..., c) onto the cone of components (K, c), or onto their span if `signed`."""
    components = components[np.any(components != 0, axis=1)]
    if not len(components):
        return values * 0
    coefficients = _coefficients(values, components, signed=signed, operations=operations)
    return operations.matmul(coefficients, operations.constant(components))


def _coefficients(values: Tensor, components: np.ndarray, *, signed: bool, operations: Operations) -> Tensor:
    """Return the coefficients (..., K) of the projection that `_projection` computes. No component may be 0."""
    exact = components.astype(np.float64)
    gram = exact @ exact.T
    if signed:
        onto = np.linalg.pinv(exact)
        return operations.matmul(values, operations.constant(onto.astype(np.float32)))
    if np.count_nonzero(gram) == len(gram):  # the components are orthogonal to each other
        onto = exact.T / np.diag(gram)
        return operations.relu(operations.matmul(values, operations.constant(onto.astype(np.float32))))
    return _nonnegative_coefficients(values, components, gram, operations)


def _nonnegative_coefficients(
    values: Tensor, components: np.ndarray, gram: np.ndarray, operations: Operations
) -> Tensor:
    """Return w >= 0 (..., K) that minimizes ||a - w H||^2. Coordinate descent finds which coefficients are 0; the
    others are then computed exactly.

    The result has the gradient of the exact solution, because the set of zero coefficients is locally constant.
    """
    scales = np.diag(gram)
    relative = (gram / scales[:, None]).astype(np.float32)
    target = operations.matmul(values, operations.constant(np.ascontiguousarray(components.T)))  # (..., K)
    target = target / operations.constant(scales.astype(np.float32))
    known = operations.fixed(target)
    count = range(len(gram))

    def sweep(_: int, weights: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        current = list(weights)
        for k in count:
            others = sum(float(relative[k, j]) * current[j] for j in count if j != k and relative[k, j])
            current[k] = operations.relu(known[..., k] - others)
        return tuple(current)

    start = tuple(operations.relu(known[..., k]) for k in count)
    weights = operations.repeat(SWEEPS, sweep, start)
    active = operations.sign(operations.stack(weights))  # (..., K), 0 or 1
    one = np.eye(len(gram), dtype=np.float32)
    system = active[..., :, None] * active[..., None, :] * operations.constant(relative + np.float32(DAMPING) * one)
    system = system + operations.constant(one) * (1 - active)[..., None]
    return operations.relu(operations.solve(system, (active * target)[..., None])[..., 0])


def _hash(observation: np.ndarray, seed: int) -> int:
    key = int(seed).to_bytes(8, "little", signed=True)
    data = np.ascontiguousarray(observation, "<f4").tobytes()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=key).digest(), "little")

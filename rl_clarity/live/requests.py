"""Requests to the network behind a page, which are read from JSON, and their limits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.pages import schema

MAX_BYTES = 1 << 20
"""Largest size of a request in bytes."""
MAX_STEPS = 512
MAX_BOXES = 32
MAX_POINTS = 200
"""Largest number of points on the path of integrated gradients."""
MAX_FACTOR = 100.0


class Superseded(Exception):  # noqa: N818  # not an error
    """Raised if an answer is no longer wanted."""


@dataclass(frozen=True)
class PaintedBox:
    """A box of an observation that is painted over."""

    box: tuple[int, int, int, int]
    """Left, top, right and bottom, in pixels of the observation; right and bottom are exclusive."""
    fill: Literal["surroundings", "color", "frame"] = "surroundings"
    """How the box is filled: `surroundings` with the median of the pixels around it, like objects that are painted
    over; `color` with a color; `frame` with the same box of the observation at another step."""
    color: Sequence[int] = ()
    """Color for the fill `color`: a number from 0 to 255 for each channel of a frame."""
    trajectory: int = 0
    """Trajectory for the fill `frame`, counted from 0."""
    step: int = 0


@dataclass(frozen=True)
class FeatureChange:
    """A change of the features of a layer. Features are counted from 1, as on the page."""

    layer: str
    factors: Mapping[str, float] = field(default_factory=dict)
    """The factor by which each feature is multiplied; a factor of 0 removes a feature."""
    baseline: Sequence[int] = ()
    """Features that are set to their values at the page's baseline, one after the other, as in the page's ablations.
    This happens after `only` and before the other changes."""
    added: Mapping[str, float] = field(default_factory=dict)
    """The multiple of each feature's component that is added."""
    only: Sequence[int] = ()
    """Features that are kept. Everything else in the layer is removed, before the other changes."""
    positions: Sequence[tuple[int, int]] | None = None
    """Rows and columns of the layer at which features are changed; by default all."""


@dataclass(frozen=True)
class Change:
    """Changes of the observations and the activations at each step."""

    boxes: Sequence[PaintedBox] = ()
    pixels: str | None = None
    """Replacement for a single observation: base64 of its bytes (H, W, C), before objects are removed and boxes
    painted."""
    objects: Sequence[int] = ()
    """Numbers of objects that are removed, counted from 1 along the trajectory, before boxes are painted."""
    features: Sequence[FeatureChange] = ()

    def __post_init__(self) -> None:
        _check(len(self.objects) <= MAX_BOXES, "objects", len(self.objects), f"at most {MAX_BOXES}")
        _check(len(self.boxes) <= MAX_BOXES, "boxes", len(self.boxes), f"at most {MAX_BOXES}")
        _check(len(self.features) <= MAX_BOXES, "features", len(self.features), f"at most {MAX_BOXES}")


@dataclass(frozen=True)
class OutputsRequest:
    """A request for the outputs at some steps, before and after a change."""

    trajectory: int
    first: int
    last: int
    """The last step, which is included."""
    change: Change = field(default_factory=Change)
    memory: bool = False
    """Whether each step of a recurrent agent starts from the state after the changed step before it. By default, each
    step starts from the state in which it was played."""

    def __post_init__(self) -> None:
        steps = self.last - self.first + 1
        _check(0 < steps <= MAX_STEPS, "last", self.last, f"{self.first} to {self.first + MAX_STEPS - 1}")
        _check(self.change.pixels is None or steps == 1, "pixels", f"{steps} steps", "for a single step")


@dataclass(frozen=True)
class AttributionRequest:
    """A request for the attribution of an output to a layer at a step, for a changed or unchanged observation."""

    trajectory: int
    step: int
    layer: str
    output: str = "value"
    """Id of an output, as on the page."""
    baseline: str | None = None
    """Name of a baseline, as for `rl_clarity.integrated_gradients`; by default that of the page."""
    points: int = 16
    """Number of points on the path of integrated gradients."""
    change: Change = field(default_factory=Change)

    def __post_init__(self) -> None:
        _check(0 < self.points <= MAX_POINTS, "points", self.points, f"1 to {MAX_POINTS}")
        _check(
            not self.change.features,
            "features",
            len(self.change.features),
            "0, because attribution explains the unedited agent",
        )


@dataclass(frozen=True)
class CheckRequest:
    """A request for the difference between recomputed outputs of a trajectory and those that the page stores."""

    trajectory: int


@dataclass(frozen=True)
class WindowRequest:
    """A request for the window that ends at a step: the earlier steps that influence it through the agent's memory."""

    trajectory: int
    step: int


Request = OutputsRequest | AttributionRequest | CheckRequest | WindowRequest
KINDS: Mapping[str, type[Request]] = {
    "outputs": OutputsRequest,
    "attribution": AttributionRequest,
    "check": CheckRequest,
    "window": WindowRequest,
}


def parse_request(kind: str, body: bytes) -> Request:
    """Read a request from JSON. `kind` is `outputs`, `attribution`, `check` or `window`.

    Raises ClarityError, with the path of the wrong value, for anything that is not such a request. Raises OptionError
    for an unknown kind, and for sizes and numbers that are out of range.
    """
    if len(body) > MAX_BYTES:
        raise OptionError(f"a request of {len(body)} bytes is too large; at most {MAX_BYTES} are read")
    if kind not in KINDS:
        raise OptionError(f"unknown kind of request {kind!r}; known: {', '.join(KINDS)}")
    try:
        value = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ClarityError(f"the request is not JSON: {error}") from error
    request = schema.read(KINDS[kind], value, "request")
    for where, number in _numbers(value, "request"):
        _check(math.isfinite(number) and abs(number) < 2**31, where, number, "less than 2^31")
    return request


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid number in JSON")


def _numbers(value: Any, where: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{where}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield where, value


def _check(valid: bool, name: str, value: object, wanted: str) -> None:
    if not valid:
        raise OptionError(f"{name}={value!r} in a request must be {wanted}")

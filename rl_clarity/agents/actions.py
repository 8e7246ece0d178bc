"""What an agent's actions consist of, and how a network's outputs determine them.

An action has one or more *factors*. Each factor is a choice among n options (`Categorical`), a switch (`Binary`), or a
continuous value (`Gaussian`), and is computed from its own network outputs. `policy_logits` (B, A) contains the A
outputs of all factors side by side, for B observations. Factors are sampled independently. An action is an integer if
its only factor is a `Categorical`, as for most agents, and otherwise a vector with one entry for each factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import entropy, softmax


@dataclass(frozen=True)
class Categorical:
    """A choice among n options. Its outputs are n logits."""

    n: int
    name: str = ""
    choices: tuple[str, ...] = ()
    """Names of the n options; by default their indices, counted from 0."""

    def __post_init__(self) -> None:
        if self.n < 1 or len(self.choices) not in (0, self.n):
            raise OptionError(f"{self}: n must be positive, and choices must be empty or have n names")

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.choices or tuple(map(str, range(self.n)))


@dataclass(frozen=True)
class Binary:
    """A switch that is on (1) or off (0). Its output is the logit of "on"."""

    name: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("on",)


@dataclass(frozen=True)
class Gaussian:
    """A continuous value that is sampled from a normal distribution. Its outputs are the mean and, unless `std` is
    given, the logarithm of the standard deviation.

    With `squashed`, the action is (low + high) / 2 + tanh(x) (high - low) / 2 for the sampled value x, as in SAC.
    Otherwise, it is x clipped to the range from low to high.
    """

    low: float = -1.0
    high: float = 1.0
    std: float | None = None
    """Standard deviation, if it does not depend on the observation; 0 for a deterministic actor, as in TD3."""
    squashed: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        bounded = math.isfinite(self.low) and math.isfinite(self.high)
        if not self.low < self.high or (self.squashed and not bounded):
            raise OptionError(f"{self}: low must be below high, and both must be finite with squashed=True")
        if self.std is not None and not 0 <= self.std < math.inf:
            raise OptionError(f"{self}: std must be finite and not negative, or None if it is an output of the network")

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("mean", "log std") if self.std is None else ("mean",)

    def stds(self, outputs: np.ndarray) -> np.ndarray:
        """Return the standard deviations (n,) before squashing, from the factor's outputs, (n, 1) or (n, 2)."""
        return np.full(len(outputs), self.std) if self.std is not None else np.exp(outputs[:, 1])

    def to_action(self, numbers: np.ndarray) -> np.ndarray:
        """Return the actions for sampled values, which are squashed or clipped to the bounds."""
        if not self.squashed:
            return np.clip(numbers, self.low, self.high)
        return (self.low + self.high) / 2 + np.tanh(numbers) * ((self.high - self.low) / 2)


SWITCH = ("off", "on")
"""Names of the options of a switch with a logit for each option, which is a `Categorical` instead of a `Binary`."""
Factor: TypeAlias = Categorical | Binary | Gaussian


def is_single_choice(factors: Sequence[Factor]) -> bool:
    """Return whether an action is a single choice among n options, and therefore an integer."""
    return len(factors) == 1 and isinstance(factors[0], Categorical)


def factors_to_json(factors: Sequence[Factor]) -> list[dict[str, Any]]:
    """Return the factors as JSON objects: the class name as `kind`, and the fields. Infinite bounds become null."""
    return [
        {"kind": type(factor).__name__}
        | {name: None if value in (-math.inf, math.inf) else value for name, value in asdict(factor).items()}
        for factor in factors
    ]


def factors_from_json(objects: Sequence[Mapping[str, Any]]) -> tuple[Factor, ...]:
    """Return the factors that `factors_to_json` converted to objects. Raises OptionError for invalid objects."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (Categorical, Binary, Gaussian)}
    unbounded: dict[str, float] = {"low": -math.inf, "high": math.inf}
    try:
        factors = []
        for one in objects:
            values: dict[str, Any] = {n: unbounded.get(n) if value is None else value for n, value in one.items()}
            kind = kinds[values.pop("kind")]
            factors.append(kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise OptionError(f"{objects!r} are not factors of an action: {error}") from error
    return checked_factors(factors)


def count_outputs(factors: Sequence[Factor]) -> int:
    """Return A, the total number of outputs of all factors."""
    return sum(len(factor.outputs) for factor in factors)


def factor_columns(factors: Sequence[Factor]) -> list[slice]:
    """Return the columns of `policy_logits` that belong to each factor."""
    ends = np.cumsum([len(factor.outputs) for factor in factors]).tolist()
    return [slice(end - len(factor.outputs), end) for factor, end in zip(factors, ends, strict=True)]


def factor_names(factors: Sequence[Factor]) -> list[str]:
    """Return the name of each factor, by default `action 1`, `action 2`, ..."""
    return [factor.name or f"action {i}" for i, factor in enumerate(factors, start=1)]


def output_labels(factors: Sequence[Factor]) -> list[str]:
    """Return the label of each output: `action 1: 0`, `action 1: 1`, `steering: mean`, ..."""
    named = zip(factor_names(factors), factors, strict=True)
    return [f"{name}: {output}" for name, factor in named for output in factor.outputs]


def checked_factors(factors: Sequence[Factor], outputs: int | None = None) -> tuple[Factor, ...]:
    """Return the factors as a tuple.

    Raises OptionError if the sequence is empty, if it contains objects that are not factors, or if the factors do not
    have `outputs` outputs in total, like the network's policy. If `outputs` is None, the last check is skipped.
    """
    factors = tuple(factors)
    if not factors or not all(isinstance(factor, Categorical | Binary | Gaussian) for factor in factors):
        raise OptionError(
            f"actions={factors!r} must be a sequence of Categorical, Binary and Gaussian objects, one for each factor"
        )
    if outputs not in (None, count_outputs(factors)):
        described = ", ".join(output_labels(factors))
        raise OptionError(
            f"actions={factors!r} have {count_outputs(factors)} outputs ({described}), but the network's policy has "
            f"{outputs}. A Categorical has n logits, a Binary has one, and a Gaussian has a mean and, without std, a "
            "log std"
        )
    return factors


def same_actions(factors: Sequence[Factor], others: Sequence[Factor]) -> bool:
    """Return whether two sequences of factors describe actions of the same form: the same number of factors, of the
    same types and with the same numbers of options. A switch counts as a choice between two options, because both are 0
    or 1.
    """

    def form(factor: Factor) -> Any:
        return Gaussian if isinstance(factor, Gaussian) else getattr(factor, "n", 2)

    return [form(factor) for factor in factors] == [form(factor) for factor in others]


def describe_factors(factors: Sequence[Factor]) -> str:
    """Return the factors in words: `a choice of 3, a value from -1 to 1`."""
    words = []
    for factor in factors:
        if isinstance(factor, Categorical):
            words.append(f"a choice of {factor.n}")
        else:
            words.append(
                "a switch" if isinstance(factor, Binary) else f"a value from {factor.low:g} to {factor.high:g}"
            )
    return ", ".join(words)


def greedy_columns(outputs: np.ndarray, factors: Sequence[Factor]) -> np.ndarray:
    """Return the index of one output per factor, (B, factors): the largest logit of a choice, the logit of a switch, or
    the mean of a continuous value.
    """
    chosen = []
    for where, factor in zip(factor_columns(factors), factors, strict=True):
        best = outputs[:, where].argmax(axis=1) if isinstance(factor, Categorical) else np.zeros(len(outputs), np.int64)
        chosen.append(where.start + best)
    return np.stack(chosen, axis=1)


def sample_factors(
    outputs: np.ndarray,
    factors: Sequence[Factor],
    rng: np.random.Generator,
    *,
    temperature: float = 1.0,
    greedy: bool = False,
    noise: float = 0.0,
    masks: np.ndarray | None = None,
) -> np.ndarray:
    """Sample actions (B, factors) float32 from outputs (B, A).

    Args:
        outputs: the network's outputs
        factors: the factors of an action
        rng: random number generator
        temperature: divides logits, and multiplies standard deviations
        greedy: take the most likely choices, and the means of continuous values
        noise: probability of replacing the value of a factor by a uniformly random one; values without bounds are not
            replaced
        masks: (B, A), true for valid choices
    """
    outputs = np.asarray(outputs, np.float64)
    if masks is not None:
        outputs = np.where(masks, outputs, -np.inf)
    chosen = []
    for where, factor in zip(factor_columns(factors), factors, strict=True):
        columns = outputs[:, where]
        if isinstance(factor, Gaussian):
            numbers = columns[:, 0]
            if not greedy:
                numbers = numbers + temperature * factor.stds(columns) * rng.standard_normal(len(columns))
            values = factor.to_action(numbers)
            uniform = rng.uniform(factor.low, factor.high, len(columns)) if noise and _is_bounded(factor) else values
        else:
            logits = (
                columns
                if isinstance(factor, Categorical)
                else np.concatenate([np.zeros_like(columns), columns], axis=1)
            )
            shares = np.eye(logits.shape[1])[logits.argmax(axis=1)] if greedy else softmax(logits / temperature)
            values = _choose(shares, rng)
            uniform = _choose(softmax(np.where(np.isfinite(logits), 0, -np.inf)), rng) if noise else values
        chosen.append(np.where(rng.random(len(columns)) < noise, uniform, values) if noise else values)
    return np.stack(chosen, axis=1).astype(np.float32)


def policy_entropy(outputs: np.ndarray, factors: Sequence[Factor] | None = None) -> np.ndarray:
    """Return the entropy (n,) in nats of policies with outputs (n, A): the sum of the entropies of all factors.

    Without factors, the outputs are the logits of one choice. The entropy of a continuous value is its differential
    entropy before it is squashed or clipped.
    """
    outputs = np.asarray(outputs, np.float64)
    total = np.zeros(len(outputs))
    for where, factor in zip(factor_columns(factors), factors, strict=True) if factors else [(slice(None), None)]:
        columns = outputs[:, where]
        if isinstance(factor, Gaussian):
            with np.errstate(divide="ignore"):  # a deterministic number
                total += np.log(factor.stds(columns)) + math.log(2 * math.pi * math.e) / 2
        else:
            logits = columns if columns.shape[1] > 1 else np.concatenate([np.zeros_like(columns), columns], axis=1)
            total += entropy(softmax(logits))
    return total


def policy_change(before: np.ndarray, after: np.ndarray, factors: Sequence[Factor]) -> np.ndarray:
    """Return the difference (n,) between two policies, from 0 to 1, for their outputs (n, A).

    For a single factor, it is the total variation distance: the largest difference between the probabilities that the
    policies give to the same set of actions. For several factors, it is 1 - prod(1 - total variation): the probability
    that some factor differs if each factor agrees as often as possible. Bounds of continuous values are ignored unless
    the standard deviation is 0. The total variation would then be 1 wherever the means differ at all, so the difference
    between the actions, as a share of their range, is used instead.
    """
    before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if len(factors) == 1:
        return _total_variation(before, after, factors[0])
    equal = np.ones(len(before))
    for where, factor in zip(factor_columns(factors), factors, strict=True):
        equal *= 1 - _total_variation(before[:, where], after[:, where], factor)
    return 1 - equal


def _total_variation(before: np.ndarray, after: np.ndarray, factor: Factor) -> np.ndarray:
    if isinstance(factor, Categorical):
        return cast(np.ndarray, np.abs(softmax(before) - softmax(after)).sum(axis=1) / 2)
    if isinstance(factor, Binary):
        from scipy.special import expit

        return cast(np.ndarray, np.abs(expit(before[:, 0]) - expit(after[:, 0])))
    if factor.std == 0:
        change = np.abs(factor.to_action(before[:, 0]) - factor.to_action(after[:, 0]))
        return change / (factor.high - factor.low) if _is_bounded(factor) else (change > 0).astype(np.float64)
    return _normal_total_variation(before[:, 0], factor.stds(before), after[:, 0], factor.stds(after))


def _normal_total_variation(mean: np.ndarray, std: np.ndarray, mean_2: np.ndarray, std_2: np.ndarray) -> np.ndarray:
    """Return the total variation distance (n,) between normal distributions, from the points of equal density."""
    from scipy.special import ndtr

    first, second = 1 / std**2, 1 / std_2**2
    # The densities are equal where a x^2 + b x + c = 0, with x relative to the first mean.
    shift = mean_2 - mean
    a, b = first - second, 2 * shift * second
    c = -(shift**2) * second - 2 * np.log(std_2 / std)
    same = np.abs(a) < 1e-9 * (first + second)
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        points = [np.where(same, shift / 2, (-b + sign * root) / (2 * a)) for sign in (-1, 1)]
    differences = [ndtr(x / std) - ndtr((x - shift) / std_2) for x in points]
    return np.where(same, np.abs(differences[0]), np.abs(differences[0] - differences[1]))


def _is_bounded(factor: Gaussian) -> bool:
    return math.isfinite(factor.low) and math.isfinite(factor.high)


def _choose(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample choices (B,) with probabilities `shares` (B, n), by inverse transform sampling."""
    cumulative = shares.cumsum(axis=1)
    return cast(np.ndarray, (cumulative <= rng.random(len(shares))[:, None] * cumulative[:, -1:]).sum(axis=1))

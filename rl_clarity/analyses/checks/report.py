"""What the checks of saliency methods found, as numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.keys import JsonObject
from rl_clarity.base.statistics import Interval

CHANGED = 0.5
"""Rank correlation with the trained agent's maps below which maps count as dependent on the parameters."""
COMPLETE = 0.1
"""Completeness error, as a share of the output's difference from its baseline, above which it is pointed out."""


@dataclass(frozen=True)
class Randomization:
    """Agreement of maps with the trained agent's maps after randomizing the layers from the outputs down to `layer`."""

    layer: str
    rank_correlation: float
    """Spearman's rank correlation of absolute maps, averaged over frames."""
    ssim: float
    """Structural similarity of the maps, each scaled to a maximum of 1, averaged over frames."""


@dataclass(frozen=True)
class MethodReport:
    """Results of the checks for one method."""

    method: str
    randomization: Sequence[Randomization]
    """Agreements by layer; empty for an agent whose parameters cannot be set."""
    deletion: Mapping[str, Interval]
    """`area`, `above_random`, `above_center`; see `compare_orders`."""
    insertion: Mapping[str, Interval]
    completeness: float | None
    """Mean |completeness error| relative to the mean |difference from the baseline|, or None for methods without a
    path."""

    @property
    def label(self) -> str:
        """The method's label on pages."""
        method = METHODS.find(self.method)
        return self.method.replace("_", " ", 1) if method is None else method.label

    @property
    def depends_on_parameters(self) -> bool:
        """Whether the maps change when all layers are randomized."""
        return bool(self.randomization) and self.randomization[-1].rank_correlation < CHANGED

    @property
    def beats_random(self) -> bool:
        """Whether deletion in the order of the map changes the output faster than in a random order."""
        return self.deletion["above_random"].above_zero

    @property
    def weights_text(self) -> str:
        """Statement whether the maps depend on the weights."""
        if not self.randomization:
            return "not tested with random weights, which this agent does not take"
        correlation = f"rank correlation {self.randomization[-1].rank_correlation:.2f}"
        if self.depends_on_parameters:
            return f"its maps change when all weights are random ({correlation})"
        return f"STAYS SIMILAR when all weights are random ({correlation}): its maps depend little on what was learned"

    @property
    def deletion_text(self) -> str:
        """Statement whether the maps show what affects the output."""
        against = self.deletion["above_random"]
        numbers = f"{against.mean:+.2f}, {against.low:+.2f} to {against.high:+.2f}"
        if self.beats_random:
            return f"removing pixels in its order changes the output faster than in a random order ({numbers})"
        return f"removing pixels in its order is NO FASTER than in a random order ({numbers})"

    @property
    def adds_up(self) -> bool:
        """Whether attribution along a path adds up to the output. True for methods without a path."""
        return self.completeness is None or self.completeness <= COMPLETE

    @property
    def completeness_text(self) -> str:
        """Statement whether attribution adds up to the output; empty for methods without a path."""
        if self.completeness is None:
            return ""
        if self.adds_up:
            return f"adds up to the output's difference from its baseline, but for {self.completeness:.1%}"
        return (
            f"DOES NOT ADD UP to the output's difference from its baseline: {self.completeness:.0%} of it are missing"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        marks = {"depends_on_parameters": self.depends_on_parameters, "beats_random": self.beats_random}
        return {**asdict(self), **marks}

    @classmethod
    def from_dict(cls, values: JsonObject) -> MethodReport:
        """Return the report for values that `to_dict` returned."""
        deletion, insertion = (
            {key: Interval(**one) for key, one in values[name].items()} for name in ("deletion", "insertion")
        )
        stages = [Randomization(**stage) for stage in values["randomization"]]
        return cls(values["method"], stages, deletion, insertion, values["completeness"])


@dataclass(frozen=True)
class SanityReport:
    """Results of `sanity_checks`."""

    output: Any
    frames: int
    methods: Sequence[MethodReport]

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return {"output": self.output, "frames": self.frames, "methods": [one.to_dict() for one in self.methods]}

    def __str__(self) -> str:
        lines = [f"saliency methods: {len(self.methods)}, checked on {self.frames} frames; output: {self.output}"]
        for one in self.methods:
            lines += [f"{one.label}:", f"  {one.weights_text}", f"  {one.deletion_text}"]
            if one.completeness is not None:
                lines.append(f"  {one.completeness_text}")
        return "\n".join(lines)

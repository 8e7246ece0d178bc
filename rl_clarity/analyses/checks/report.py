"""Reports of the checks of saliency methods, as numbers and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from rl_clarity.analyses.objects.agreement import CONTROLS, Agreement, Estimate
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.keys import JsonObject
from rl_clarity.base.statistics import Interval

CHANGED = 0.5
"""Maps depend on the parameters if their rank correlation with maps of random networks is below this value."""
COMPLETE = 0.1
"""Completeness error, as a share of the output's difference from its baseline, above which a report warns of it."""


EFFECT_OUTPUTS = {"value": "value", "greedy": "best action"}
"""Outputs whose measured changes are compared with maps, with their labels."""
RANDOM_WEIGHTS = "random_weights"
CONTROL_LABELS = {**CONTROLS, RANDOM_WEIGHTS: "random weights"}
"""Controls that are compared with measured effects, with their labels."""


def interval_text(estimate: Estimate) -> str:
    """Return an estimate with its interval as text, or an empty string for an unknown estimate (NaN)."""
    if np.isnan(estimate.value):
        return ""
    bounds = "" if np.isnan(estimate.low) else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{bounds}"


def effects_text(output: str, agreement: Agreement) -> str:
    """Return a statement on how well a method or a control predicts the effects of objects on an output."""
    signs, correlation = interval_text(agreement.signs), interval_text(agreement.correlation) or "not known"
    return (
        f"{EFFECT_OUTPUTS[output]}: correlation {correlation} with the measured effects of {agreement.count} objects"
        + (f"; the right sign for {signs} of {agreement.large} large effects" if signs else "")
    )


def _agreements(values: JsonObject) -> dict[str, Agreement]:
    """Read agreements from JSON values, by output and in the order of `EFFECT_OUTPUTS`."""
    return {output: Agreement.from_dict(values[output]) for output in EFFECT_OUTPUTS if output in values}


@dataclass(frozen=True)
class Randomization:
    """Agreement of maps with the trained agent's maps after randomizing the layers from the outputs down to `layer`."""

    layer: str
    rank_correlation: float
    """Spearman's rank correlation of absolute maps, averaged over frames."""
    ssim: float
    """Structural similarity of the maps, each scaled to a maximum of 1, averaged over frames."""
    signed_rank_correlation: float | None = None
    """Absolute value of the rank correlation of signed attribution, averaged over frames; None for methods without
    signs."""


@dataclass(frozen=True)
class MethodReport:
    """Results of the checks for one method."""

    method: str
    randomization: Sequence[Randomization]
    """Agreement for each layer, from the outputs down; empty for an agent whose parameters cannot be set."""
    deletion: Mapping[str, Interval]
    """`area`, `above_random`, `above_center`; see `compare_orders`."""
    insertion: Mapping[str, Interval]
    completeness: float | None
    """Mean |completeness error| relative to the mean |difference from the baseline|, or None for methods without a
    path."""
    effects: Mapping[str, Agreement] = field(default_factory=dict, kw_only=True)
    """How well the maps predict the measured effects of objects on the outputs `value` and `greedy` (the best action);
    empty if effects were not measured."""

    @property
    def label(self) -> str:
        """The method's label on pages."""
        method = METHODS.find(self.method)
        return self.method.replace("integrated_gradients", "integrated gradients") if method is None else method.label

    @property
    def depends_on_parameters(self) -> bool:
        """Whether the maps change when all layers are randomized."""
        return bool(self.randomization) and self.randomization[-1].rank_correlation < CHANGED

    @property
    def signs_change(self) -> bool:
        """Whether the signs of attribution change when all layers are randomized; False for methods without signs."""
        signed = self.randomization[-1].signed_rank_correlation if self.randomization else None
        return signed is not None and signed < CHANGED

    @property
    def beats_random(self) -> bool:
        """Whether deletion in the order of the map changes the output faster than in a random order."""
        return self.deletion["above_random"].above_zero

    @property
    def weights_text(self) -> str:
        """Statement on whether the maps depend on the weights."""
        if not self.randomization:
            return "not tested with random weights, because this agent's parameters cannot be set"
        correlation = f"rank correlation {self.randomization[-1].rank_correlation:.2f}"
        if self.depends_on_parameters:
            return f"its maps change when all weights are random ({correlation})"
        if self.signs_change:
            signed = self.randomization[-1].signed_rank_correlation
            return (
                f"STAYS SIMILAR in magnitude when all weights are random ({correlation}): where its maps are large "
                f"depends little on what was learned, but their signs do depend on it (rank correlation with signs "
                f"{signed:.2f})"
            )
        return f"STAYS SIMILAR when all weights are random ({correlation}): its maps depend little on what was learned"

    @property
    def deletion_text(self) -> str:
        """Statement on whether the maps show what affects the output."""
        against = self.deletion["above_random"]
        numbers = f"{against.mean:+.2f}, {against.low:+.2f} to {against.high:+.2f}"
        if self.beats_random:
            return f"removing pixels in its maps' order changes the output faster than in a random order ({numbers})"
        return f"removing pixels in its maps' order is NO FASTER than in a random order ({numbers})"

    @property
    def adds_up(self) -> bool:
        """Whether attribution along a path adds up to the output. True for methods without a path."""
        return self.completeness is None or self.completeness <= COMPLETE

    @property
    def completeness_text(self) -> str:
        """Statement on whether attribution adds up to the output; empty for methods without a path."""
        if self.completeness is None:
            return ""
        if self.adds_up:
            return f"adds up to the output's difference from its baseline, except for {self.completeness:.1%}"
        return f"DOES NOT ADD UP to the output's difference from its baseline: {self.completeness:.0%} of it is missing"

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        marks = {"depends_on_parameters": self.depends_on_parameters, "beats_random": self.beats_random}
        effects = {output: agreement.to_dict() for output, agreement in self.effects.items()}
        return {**asdict(self), **marks, "effects": effects}

    @classmethod
    def from_dict(cls, values: JsonObject) -> MethodReport:
        """Return the report for values that `to_dict` returned."""
        deletion, insertion = (
            {key: Interval(**one) for key, one in values[name].items()} for name in ("deletion", "insertion")
        )
        stages = [Randomization(**stage) for stage in values["randomization"]]
        effects = _agreements(values.get("effects", {}))  # older reports lack them
        return cls(values["method"], stages, deletion, insertion, values["completeness"], effects=effects)


@dataclass(frozen=True)
class SanityReport:
    """Results of `sanity_checks`."""

    output: Any
    frames: int
    methods: Sequence[MethodReport]
    controls: Mapping[str, Mapping[str, Agreement]] = field(default_factory=dict, kw_only=True)
    """How well controls, which do not depend on the trained agent, predict the measured effects of objects, by control
    and by output; empty if effects were not measured."""
    effects_unknown: str = field(default="", kw_only=True)
    """Reason why the effects of objects could not be measured for this agent; empty if they were measured or not
    needed."""

    @property
    def unknown_text(self) -> str:
        """Statement that the effects of objects are not known, with a reference to those of other agents; empty if
        `effects_unknown` is empty.
        """
        if not self.effects_unknown:
            return ""
        return (
            "Whether these maps predict the effects of objects is not known for this agent "
            f"({self.effects_unknown}). docs/truth.md, in the documentation, has the numbers for other agents."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        controls = {
            name: {output: agreement.to_dict() for output, agreement in outputs.items()}
            for name, outputs in self.controls.items()
        }
        return {
            "output": self.output,
            "frames": self.frames,
            "methods": [one.to_dict() for one in self.methods],
            "controls": controls,
            "effects_unknown": self.effects_unknown,
        }

    @classmethod
    def from_dict(cls, values: JsonObject, **more: Any) -> Self:
        """Return the report for values that `to_dict` returned; `more` contains the additional fields of a subclass."""
        found = values["controls"]
        controls = {name: _agreements(found[name]) for name in CONTROL_LABELS if name in found}
        methods = [MethodReport.from_dict(one) for one in values["methods"]]
        return cls(
            values["output"],
            values["frames"],
            methods,
            controls=controls,
            effects_unknown=values["effects_unknown"],
            **more,
        )

    def __str__(self) -> str:
        lines = [f"saliency methods: {len(self.methods)}, checked on {self.frames} frames; output: {self.output}"]
        for one in self.methods:
            lines += [f"{one.label}:", f"  {one.weights_text}", f"  {one.deletion_text}"]
            if one.completeness is not None:
                lines.append(f"  {one.completeness_text}")
            lines += [f"  {effects_text(output, agreement)}" for output, agreement in one.effects.items()]
        lines += [
            f"control, {CONTROL_LABELS[name]}: {effects_text(output, agreement)}"
            for name, outputs in self.controls.items()
            for output, agreement in outputs.items()
        ]
        lines += [self.unknown_text] if self.effects_unknown else []
        return "\n".join(lines)

"""Findings: tested statements, each with its effect, confidence interval, p-value, evidence, and command.

Tests are grouped in families, each of which has one measure. Within a family, p-values are corrected by Holm's method,
and intervals by Bonferroni's. There is no correction across families. The absence of an effect is a finding only if the
corrected interval lies inside a band around 0. Effects that are neither present nor absent are listed as untested, with
the size of an effect that the test would have found.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rl_clarity.base.statistics import LEVEL, holm, share_interval
from rl_clarity.debugging.failures import Failure
from rl_clarity.debugging.goals import Pair, Placement, Role, Sides, role_names
from rl_clarity.debugging.measures import LEAST_EPISODES, Clustered
from rl_clarity.debugging.moved_goals import MovedGoal

POLICY_BAND = 0.03
"""Changes of the policy with a smaller total variation count as no effect."""
TOWARD_BAND = 0.05
"""Smaller changes of the probability of moving toward a place count as no effect."""
SIDE_BAND = 0.1
"""Weaker preferences for a side count as none."""
MOSTLY = 0.5
"""From this preference for a side on, a finding says that the agent moves there, not just that it prefers to."""
SATURATED = 0.7
"""If the probability of moving toward an empty place is higher than this, an object there cannot raise it much."""
MOVED_BAND = 0.2
"""Share of moved goals that the agent may miss, because a policy with random actions misses some."""
CLEAR = 4
"""An object is followed clearly if the effect is at least this multiple of the band. Only then can a place where it is
not followed be a finding."""
CHANCE_OF_CAUSE = 0.1
"""A cause with a verdict is a finding if it explains significantly more than this share of the failures."""
FAMILIES = {
    "failures": "share of the failures with this cause and verdict",
    "pursuit": "change of the probability of moving toward the object, compared with the same place left empty",
    "reaction": "total variation of the policy when the object is {edit}",
    "value": "value with the object minus that without it, when it is {edit}",
    "look-alikes": "total variation between the policies with one object and with the other in the same place",
    "places": "change of the probability of moving toward the object, at this place",
    "moved goals": "share of episodes in which the agent reaches a moved goal, minus 1, the share for a random search",
    "sides": "probability of moving right minus that of moving left, in frames and in mirrored frames",
    "background": "total variation of the policy when the background is black",
    "memory": "total variation between the policies with the agent's state and with the initial state",
}
"""Families of tests, in the order in which they are shown, with the measure of each."""
REMOVAL_FAMILIES = ("reaction", "value")
"""Families that are tested by removing objects."""


@dataclass(frozen=True)
class Finding:
    """A tested statement about an agent."""

    kind: str
    """`reacts`, `no_reaction`, `pursues`, `avoids`, `goal_not_pursued`, `value`, `position_bias`, `look_alike`,
    `memory` or `failure_cause`."""
    subject: str
    """Subject of the statement: a type of object, two types, a place, or the cause of an end."""
    statement: str
    measure: str
    effect: float
    interval: tuple[float, float]
    """Confidence interval of the effect, corrected for the tests of the family (Bonferroni)."""
    p: float
    """p-value, corrected for the tests of the family (Holm). For the absence of an effect it is 0.05, the level of the
    interval, which lies inside the band."""
    n: int
    evidence: Mapping[str, int]
    """`trajectory` and `frame`, counted from 0, that show the effect."""
    command: str
    """Command that repeats the test."""
    family: str = ""
    suspicious: bool = False
    """Whether the finding does not fit what the object does: no reaction to something deadly, avoidance of something
    harmless, a preferred side or place, or types that are mistaken for each other."""

    @property
    def key(self) -> tuple[str, str]:
        """Kind and subject, by which findings of different runs are matched."""
        return self.kind, self.subject


@dataclass(frozen=True)
class Untested:
    """An effect that was found neither present nor absent, or that could not be tested."""

    family: str
    subject: str
    reason: str
    detectable: float | None = None
    """Effect that would have been found with a probability of 80 %; None where nothing was measured."""


@dataclass(frozen=True)
class RemovedType:
    """How outputs change when objects of a type are removed one at a time, as outputs with an object minus outputs
    without it.
    """

    type: str
    policy: Clustered
    """Total variation of the policy."""
    value: Clustered | None = None
    """Change of the value; None for agents without a value."""
    trajectory: int = 0
    """Trajectory in which the policy changes most."""
    frame: int = 0
    largest: float = 0.0


@dataclass(frozen=True)
class Measured:
    """The measurements from which findings are made."""

    episodes: int
    """Number of episodes that ended."""
    failures: Sequence[Failure] = ()
    placements: Sequence[Placement] = ()
    roles: Sequence[Role] = ()
    pairs: Sequence[Pair] = ()
    sides: Sides | None = None
    background: Clustered | None = None
    memory: Clustered | None = None
    moved: Sequence[MovedGoal] = ()
    value_noise: float | None = None
    """Changes of the value up to this size count as no effect; None if the value is not tested."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Families that were not tested, with the reasons."""
    removed: Sequence[RemovedType] = ()
    """Types whose objects were removed, if no objects were placed."""
    edit: str = "placed"
    """What was done to objects: `placed`, `removed` or `painted over`."""
    causes: Collection[str] = ()
    """Causes of the ends of failed episodes, if failures were not examined."""
    families: Collection[str] = tuple(FAMILIES)
    """Families that were to be tested. Untested effects are listed only for these."""


@dataclass(frozen=True)
class _Test:
    """A test of a family, before the correction for multiple tests."""

    subject: str
    values: Clustered
    band: float
    where: tuple[int, int]


@dataclass(frozen=True)
class _Tested(_Test):
    """A test with its corrected results."""

    interval: tuple[float, float]
    p: float
    """p-value for the null hypothesis that the mean is at the nearer edge of the band, corrected for the tests of the
    family (Holm)."""

    @property
    def present(self) -> bool:
        low, high = self.interval
        return self.p < LEVEL and (low > self.band or high < -self.band)

    @property
    def absent(self) -> bool:
        return -self.band < self.interval[0] and self.interval[1] < self.band


def make_findings(measured: Measured, seed: int = 0, command: str = "") -> tuple[list[Finding], list[Untested]]:
    """Return the findings, sorted by family, with suspicious ones and large effects first, and the untested effects."""
    maker = _Maker(measured, seed, command)
    findings = [*maker.make()]
    order = {family: i for i, family in enumerate(FAMILIES)}
    findings.sort(
        key=lambda one: (
            order[one.family],
            not one.suspicious,
            one.kind == "no_reaction",
            -abs(one.effect),
            one.subject,
        )
    )
    reasons = [Untested(family, "all", reason) for family, reason in measured.unknown.items()]
    return findings, reasons + [one for one in maker.untested if one.family in measured.families]


class _Maker:
    def __init__(self, measured: Measured, seed: int, command: str) -> None:
        self._measured, self._seed, self._command = measured, seed, command
        self.untested: list[Untested] = []
        killers = {one.killer for one in measured.failures if one.killer is not None}
        self._roles = role_names(measured.roles, killers or measured.causes)

    def make(self) -> Iterator[Finding]:
        yield from self._failures()
        placed = _by_type(self._measured.placements)
        edited = _by_type([*self._measured.placements, *self._measured.removed])
        pursuit = {one.subject: one for one in self._family("pursuit", self._pooled(placed, "toward", TOWARD_BAND))}
        noise = self._measured.value_noise
        value = {
            one.subject: one
            for one in ([] if noise is None else self._family("value", self._pooled(edited, "value", noise)))
        }
        yield from self._pursuit(pursuit, value)
        reactions = self._family("reaction", self._pooled(edited, "policy", POLICY_BAND))
        yield from self._reactions(reactions)
        yield from self._values(value)
        reacted = {one.subject for one in reactions if one.present}
        yield from self._look_alikes(reacted)
        yield from self._places(pursuit)
        yield from self._moved()
        yield from self._sides()
        yield from self._background()
        yield from self._memory()

    def _pooled(
        self, edited: Mapping[str, Sequence[Placement | RemovedType]], measure: str, band: float
    ) -> list[_Test]:
        """Return a test for each type, which pools all placements or all removals of its objects."""
        tests = []
        for name, edits in edited.items():
            known = [values for one in edits if (values := getattr(one, measure)) is not None]
            if known:
                total = known[0]
                for values in known[1:]:
                    total = total + values
                largest = max(edits, key=lambda one: one.largest)
                tests.append(_Test(name, total, band, (largest.trajectory, largest.frame)))
            else:
                self.untested.append(
                    Untested(_family_of(measure), name, "the agent or its actions do not have this measure")
                )
        return tests

    def _family(self, family: str, tests: Sequence[_Test]) -> list[_Tested]:
        """Test the effects of a family. Effects that were measured in too few episodes are listed as untested."""
        enough = [one for one in tests if one.values.episodes >= LEAST_EPISODES]
        for one in tests:
            if one.values.episodes < LEAST_EPISODES:
                episodes = "1 episode" if one.values.episodes == 1 else f"{one.values.episodes} episodes"
                seen = f"measured in {episodes}, fewer than {LEAST_EPISODES}"
                self.untested.append(Untested(family, one.subject, seen))
        if not enough:
            return []
        # The null hypothesis of an effect is the nearer edge of the band.
        raw = [one.values.p(self._seed, math.copysign(one.band, one.values.mean)) for one in enough]
        adjusted = holm(np.array(raw))
        tested = [
            _Tested(
                **vars(one),
                interval=one.values.interval(self._seed, LEVEL / len(enough)),
                p=float(p),
            )
            for one, p in zip(enough, adjusted, strict=True)
        ]
        for result in tested:
            if not result.present and not result.absent:
                low, high = result.interval
                reason = (
                    f"effect {result.values.mean:.3g} ({low:.3g} to {high:.3g}): neither outside nor inside "
                    f"the band of {result.band:.2g}"
                )
                self.untested.append(Untested(family, result.subject, reason, result.values.detectable()))
        return tested

    def _finding(self, kind: str, family: str, tested: _Tested, statement: str, subject: str | None = None) -> Finding:
        low, high = tested.interval
        values = tested.values
        numbers = f"{values.mean:+.2g} ({low:+.2g} to {high:+.2g}; {values.n} in {values.episodes} episodes)"
        return Finding(
            kind,
            tested.subject if subject is None else subject,
            f"{statement}: {numbers}.",
            FAMILIES[family].format(edit=self._measured.edit),
            tested.values.mean,
            tested.interval,
            LEVEL if tested.absent else tested.p,
            tested.values.n,
            {"trajectory": tested.where[0], "frame": tested.where[1]},
            self._command_of(family, tested.subject),
            family,
            self._is_suspicious(kind, tested.subject),
        )

    def _is_suspicious(self, kind: str, subject: str) -> bool:
        role = self._roles.get(subject, "unknown")
        unfit = {"no_reaction": ("deadly", "goal"), "avoids": ("harmless", "goal"), "pursues": ("harmless", "deadly")}
        return kind in ("goal_not_pursued", "position_bias", "look_alike") or role in unfit.get(kind, ())

    def _command_of(self, family: str, subject: str) -> str:
        of_types = family in ("pursuit", "reaction", "value", "look-alikes", "places")
        types = subject.split(" at ")[0].split(" far")[0].split(" for ")
        option = "objects" if self._measured.removed else "goals"
        return f"{self._command} --{option}.types {shlex.join(types)}" if of_types else self._command

    def _role(self, type: str) -> str:
        known = {"deadly": ", which ends episodes", "goal": ", which is a goal", "harmless": ", which does nothing"}
        return known.get(self._roles.get(type, ""), "")

    def _pursuit(self, pursuit: Mapping[str, _Tested], value: Mapping[str, _Tested]) -> Iterator[Finding]:
        for name, one in pursuit.items():
            if one.present:
                pursues = one.values.mean > 0
                verb = "Moves toward" if pursues else "Moves away from"
                yield self._finding(
                    "pursues" if pursues else "avoids", "pursuit", one, f"{verb} {name}{self._role(name)}"
                )
            elif one.absent and (
                self._roles.get(name) == "goal"
                or (name in value and value[name].present and value[name].values.mean > 0)
            ):
                text = f"The policy ignores where {name} is"
                if name in value and value[name].present:
                    text = f"The value rises with {name}, but the policy ignores where it is"
                yield self._finding("goal_not_pursued", "pursuit", one, f"{text}{self._role(name)}")

    def _reactions(self, tested: Sequence[_Tested]) -> Iterator[Finding]:
        for one in tested:
            if one.present:
                yield self._finding("reacts", "reaction", one, f"The policy reacts to {one.subject}")
            elif one.absent:
                text = (
                    f"No reaction to {one.subject}{self._role(one.subject)}, on average over all that were "
                    f"{self._measured.edit} (mean effect below {one.band:.2g}; single effects can be larger)"
                )
                yield self._finding("no_reaction", "reaction", one, text)

    def _values(self, value: Mapping[str, _Tested]) -> Iterator[Finding]:
        for name, one in value.items():
            if one.present:
                yield self._finding(
                    "value", "value", one, f"The value {'rises' if one.values.mean > 0 else 'falls'} with {name}"
                )

    def _look_alikes(self, reacted: set[str]) -> Iterator[Finding]:
        """Yield findings about pairs of types that have different roles, although the policy treats them alike.

        A pair is tested only if the policy reacts to both types.
        """
        tests = []
        for pair in self._measured.pairs:
            roles = [self._roles.get(name, "unknown") for name in (pair.first, pair.second)]
            if "unknown" not in roles and roles[0] != roles[1] and {pair.first, pair.second} <= reacted:
                subject = " for ".join(
                    sorted((pair.first, pair.second), key=lambda name: self._roles[name] != "harmless")
                )
                tests.append(_Test(subject, pair.between, POLICY_BAND, (pair.trajectory, pair.frame)))
        for one in self._family("look-alikes", tests):
            if one.absent:
                first, second = one.subject.split(" for ")
                text = f"Treats {first}{self._role(first)}, like {second}{self._role(second)}"
                yield self._finding("look_alike", "look-alikes", one, text)

    def _places(self, pursuit: Mapping[str, _Tested]) -> Iterator[Finding]:
        """Yield findings about places at which an object is not followed, although it is clearly followed overall."""
        tests = []
        for name, overall in pursuit.items():
            if not overall.present or abs(overall.values.mean) < CLEAR * TOWARD_BAND:
                continue
            mine = [one for one in self._measured.placements if one.type == name and one.toward is not None]
            for place in dict.fromkeys(one.place for one in mine):
                chosen = [one for one in mine if one.place == place and (one.usual or 0) < SATURATED]
                tests += self._pooled_place(f"{name} at {place}", chosen)
            tests += self._pooled_place(f"{name} far", [one for one in mine if one.far])
        for one in self._family("places", tests):
            if one.absent:
                yield self._finding(
                    "position_bias", "places", one, f"Does not follow {one.subject}, although it does elsewhere"
                )

    def _pooled_place(self, subject: str, chosen: Sequence[Placement]) -> list[_Test]:
        return [
            _Test(subject, one.values, one.band, one.where)
            for one in (self._pooled({subject: chosen}, "toward", TOWARD_BAND) if chosen else ())
        ]

    def _moved(self) -> Iterator[Finding]:
        measured = {one.type: one for one in self._measured.moved}
        tests = [_Test(one.type, one.difference, MOVED_BAND, (one.trajectory, one.frame)) for one in measured.values()]
        for one in self._family("moved goals", tests):
            if one.present:
                goal = measured[one.subject]
                shares = f"{goal.moved} of {goal.episodes} episodes, and {goal.unmoved} at its original place"
                text = f"Often does not reach {one.subject} if it is moved to a place that a random search reaches"
                yield self._finding(
                    "goal_not_pursued", "moved goals", one, f"{text} ({shares})", f"{one.subject}, moved"
                )

    def _sides(self) -> Iterator[Finding]:
        sides = self._measured.sides
        if sides is None:
            if not self._measured.unknown:
                self.untested.append(Untested("sides", "left and right", "no actions move to the left and the right"))
            return
        for one in self._family("sides", [_Test("left and right", sides.bias, SIDE_BAND, (0, 0))]):
            # The same side in the frames and in their mirror images.
            if one.present and sides.observed * sides.mirrored > 0:
                side = "right" if one.values.mean > 0 else "left"
                verb = "Moves" if abs(one.values.mean) >= MOSTLY else "Prefers to move"
                shares = f"{sides.observed:+.2f} in frames, {sides.mirrored:+.2f} mirrored"
                text = f"{verb} {side} whatever is there ({shares})"
                yield self._finding("position_bias", "sides", one, text, side)

    def _background(self) -> Iterator[Finding]:
        if self._measured.background is None:
            return
        for one in self._family("background", [_Test("background", self._measured.background, POLICY_BAND, (0, 0))]):
            if one.present:
                yield self._finding("reacts", "background", one, "The policy depends on the background")
            elif one.absent:
                text = f"The policy does not depend on the background (effects below {one.band:.2g})"
                yield self._finding("no_reaction", "background", one, text)

    def _memory(self) -> Iterator[Finding]:
        if self._measured.memory is None:
            return
        for one in self._family("memory", [_Test("state", self._measured.memory, POLICY_BAND, (0, 0))]):
            if one.present:
                yield self._finding("memory", "memory", one, "The policy depends on what the agent remembers")
            elif one.absent:
                yield self._finding(
                    "memory", "memory", one, "The policy does not depend on the agent's state", "unused"
                )

    def _failures(self) -> Iterator[Finding]:
        """Yield a finding for each cause and verdict that significantly more than a tenth of the failures have."""
        failures = self._measured.failures
        counts = Counter((one.cause, one.verdict) for one in failures)
        total = len(failures)
        if total < LEAST_EPISODES:
            reason = f"{total} failures in {self._measured.episodes} episodes, fewer than {LEAST_EPISODES}"
            self.untested.append(Untested("failures", "all", reason))
            return
        pairs = sorted(counts, key=lambda pair: (-counts[pair], pair))
        adjusted = holm(np.array([_binomial_tail(counts[pair], total, CHANCE_OF_CAUSE) for pair in pairs]))
        for pair, p in zip(pairs, adjusted.tolist(), strict=True):
            cause, verdict = pair
            low, high = share_interval(counts[pair], total, LEVEL / len(pairs))
            if p >= LEVEL:
                reason = f"{counts[pair]} of {total} failures ({low:.0%} to {high:.0%})"
                self.untested.append(Untested("failures", f"{cause}: {verdict}", reason))
                continue
            example = next(one for one in failures if (one.cause, one.verdict) == pair)
            step = example.last if example.avoidable_until is None else example.avoidable_until
            yield Finding(
                "failure_cause",
                f"{cause}: {verdict}",
                f"{counts[pair]} of {total} failures ({low:.0%} to {high:.0%}) are ended by {cause} (verdict: "
                f"{verdict}). {example.statement}",
                FAMILIES["failures"],
                counts[pair] / total,
                (low, high),
                p,
                total,
                {"trajectory": example.trajectory, "frame": step},
                self._command,
                "failures",
            )


def _by_type(edited: Sequence[Placement | RemovedType]) -> dict[str, list[Placement | RemovedType]]:
    types = dict.fromkeys(one.type for one in edited)
    return {name: [one for one in edited if one.type == name] for name in types}


def _family_of(measure: str) -> str:
    return {"toward": "pursuit", "value": "value", "policy": "reaction"}[measure]


def _binomial_tail(count: int, total: int, share: float) -> float:
    """Return the probability of at least `count` successes in `total` trials, each with the probability `share`."""
    return float(sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(count, total + 1)))


def compared(
    found: Sequence[Finding], expected: Sequence[Mapping[str, object]]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the kind and subject of each expected finding that is missing, and of each new finding."""
    known = {one.key for one in found}
    listed = {(str(one["kind"]), str(one["subject"])) for one in expected}
    return sorted(listed - known), sorted(known - listed)


def type_pairs(types: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of types that are compared."""
    return [*itertools.combinations(types, 2)]

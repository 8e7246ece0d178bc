"""Findings: families, corrections, absence only inside a band, and the comparison with those of another run."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from rl_clarity.debugging.failures import Failure
from rl_clarity.debugging.findings import (
    FAMILIES,
    REMOVAL_FAMILIES,
    Finding,
    Measured,
    RemovedType,
    compared,
    make_findings,
)
from rl_clarity.debugging.goals import Pair, Placement, Role, Sides
from rl_clarity.debugging.measures import Clustered

EPISODES = 12


def values(mean: float, spread: float = 0.02, episodes: int = EPISODES, seed: int = 0) -> Clustered:
    """Return 10 values in each of some episodes, whose means are spread as stated."""
    noise = np.random.default_rng(seed).normal(0, 1, episodes)
    means = mean + spread * (noise - noise.mean()) / noise.std()
    return Clustered.of(np.repeat(means, 10), np.repeat(range(episodes), 10), EPISODES)


def placement(type: str, toward: float, policy: float, value: float = 0.0, **fields: object) -> Placement:
    given = {"place": "left", "far": False, "trajectory": 2, "frame": 7, **fields}
    return Placement(type, toward=values(toward), policy=values(policy), value=values(value), **given)  # type: ignore[arg-type]


def removed(type: str, policy: float, value: float = 0.0, **fields: int) -> RemovedType:
    return RemovedType(type, values(policy, **fields), values(value, **fields), trajectory=1, frame=4)


def kinds(findings: list[Finding]) -> list[tuple[str, str]]:
    return [one.key for one in findings]


def test_an_object_type_that_ended_an_episode_counts_as_deadly() -> None:
    """Moving onto a saw from the next cell may not reach it; it has ended episodes that go on without it."""
    placements = [placement("saw", 0.0, 0.01), placement("crate", 0.0, 0.01)]
    roles = [Role("saw", 2, 2, 0), Role("crate", 2, 0, 0)]
    for failures, suspicious in (((), False), ((Failure(0, 0, 9, 0.0, "saw", "no reaction", "", "saw"),), True)):
        findings, _ = make_findings(Measured(20, failures, placements, roles, value_noise=0.05))
        reactions = {one.subject: one for one in findings if one.kind == "no_reaction"}
        assert reactions["saw"].suspicious == suspicious
        assert ("No reaction to saw, which ends episodes" in reactions["saw"].statement) == suspicious
        assert not reactions["crate"].suspicious


def test_findings_name_objects_the_agent_pursues_avoids_or_ignores() -> None:
    measured = Measured(
        20,
        placements=[placement("coin", 0.5, 0.6, 0.4), placement("mine", -0.4, 0.5), placement("stone", 0.0, 0.0)],
        roles=[Role("coin", 20, 0, 20), Role("mine", 20, 20, 0), Role("stone", 20, 0, 0)],
        value_noise=0.05,
    )
    findings, untested = make_findings(measured, command="rl-clarity debug CHECKPOINT OUT")
    assert kinds(findings) == [
        ("pursues", "coin"),
        ("avoids", "mine"),
        ("reacts", "coin"),
        ("reacts", "mine"),
        ("no_reaction", "stone"),
        ("value", "coin"),
    ]
    first = findings[0]
    assert first.statement.startswith("Moves toward coin, which is a goal: +0.5 (+0.4")
    assert "120 in 12 episodes" in first.statement
    assert first.measure == FAMILIES["pursuit"]
    assert first.evidence == {"trajectory": 2, "frame": 7}
    assert first.command == "rl-clarity debug CHECKPOINT OUT --goals.types coin"
    assert first.interval[0] < first.effect < first.interval[1]
    assert findings[4].statement.startswith(
        "No reaction to stone, which does nothing, on average over all that were placed"
    )
    assert {one.family for one in untested} == {"failures", "sides"}


def test_removed_objects_are_tested_like_placed_ones() -> None:
    measured = Measured(
        20,
        causes={"saw", "time limit"},
        removed=[
            removed("coin", 0.3, 0.5),
            removed("saw", 0.001, -0.4),
            removed("crate", 0.001),
            removed("yellow key", 0.3, episodes=4),
            RemovedType("ghost", values(0.04, 0.05), values(0.0, 0.001)),
        ],
        edit="removed",
        families=REMOVAL_FAMILIES,
        value_noise=0.05,
    )
    findings, untested = make_findings(measured, command="rl-clarity run CHECKPOINT OUT")
    # What is suspicious is first: saws end episodes.
    assert kinds(findings) == [
        ("no_reaction", "saw"),
        ("reacts", "coin"),
        ("no_reaction", "crate"),
        ("value", "coin"),
        ("value", "saw"),
    ]
    saw, coin, crate = findings[:3]
    assert [one.suspicious for one in findings] == [True, False, False, False, False]
    assert saw.statement.startswith("No reaction to saw, which ends episodes, on average over all that were removed")
    assert coin.measure == "total variation of the policy when the object is removed"
    assert findings[3].measure == "value with the object minus that without it, when it is removed"
    assert findings[4].statement.startswith("The value falls with saw: -0.4")
    assert coin.command == "rl-clarity run CHECKPOINT OUT --objects.types coin"
    assert coin.evidence == {"trajectory": 1, "frame": 4}
    assert -0.03 < crate.interval[0] < crate.interval[1] < 0.03
    seen = "measured in 4 episodes, fewer than 5"
    assert [(one.family, one.subject, one.reason == seen) for one in untested] == [
        ("value", "yellow key", True),
        ("reaction", "yellow key", True),
        ("reaction", "ghost", False),
    ]
    assert untested[2].detectable is not None
    assert make_findings(measured, command="rl-clarity run CHECKPOINT OUT") == (findings, untested)


def test_absence_of_an_effect_needs_a_corrected_interval_near_zero() -> None:
    """Small effects of one type among ten are inside the band alone, but not corrected for ten tests."""
    types = [RemovedType(f"type {i}", values(0.0215, 0.0125)) for i in range(10)]
    (alone, _), (among, untested) = (
        make_findings(Measured(20, removed=some, edit="removed", families=REMOVAL_FAMILIES))
        for some in (types[:1], types)
    )
    assert kinds(alone) == [("no_reaction", "type 0")]
    assert alone[0].command.endswith("--objects.types 'type 0'")
    assert among == []
    assert [one.subject for one in untested] == [one.type for one in types]


def test_intervals_and_p_values_are_corrected_within_a_family_of_tests() -> None:
    alone, _ = make_findings(Measured(20, placements=[placement("coin", 0.09, 0.6)]))
    among, _ = make_findings(Measured(20, placements=[placement(f"coin {i}", 0.09, 0.6) for i in range(40)]))
    widths = [one.interval[1] - one.interval[0] for one in (alone[0], among[0])]
    assert widths[1] > 1.2 * widths[0]
    assert among[0].p > 10 * alone[0].p
    assert {one.family for one in alone} == {"pursuit", "reaction"}


def test_a_large_p_value_is_not_reported_as_absence_of_an_effect() -> None:
    """A wide interval around 0 is neither an effect nor its absence, and says what would have been found."""
    unclear = Placement("coin", "left", False, policy=values(0.05, 0.1), toward=values(0.0, 0.4))
    findings, untested = make_findings(Measured(20, placements=[unclear]))
    assert findings == []
    reasons = {one.family: one for one in untested}
    assert "neither outside nor inside the band of 0.05" in reasons["pursuit"].reason
    detectable = reasons["pursuit"].detectable
    assert detectable is not None
    assert detectable == pytest.approx(2.8 * 0.4 / np.sqrt(EPISODES - 1), rel=0.02)


def test_effects_measured_in_fewer_than_five_episodes_are_not_tested() -> None:
    few = Placement("coin", "left", False, policy=values(0.5, episodes=4), toward=values(0.5, episodes=4))
    findings, untested = make_findings(Measured(20, placements=[few]))
    assert findings == []
    assert "measured in 4 episodes, fewer than 5" in {one.reason for one in untested}


def test_a_goal_that_only_the_value_follows_is_a_finding() -> None:
    measured = Measured(20, placements=[placement("coin", 0.0, 0.0, 0.5)], value_noise=0.05)
    findings, _ = make_findings(measured)
    assert ("goal_not_pursued", "coin") in kinds(findings)
    assert findings[0].statement.startswith("The value rises with coin, but the policy ignores where it is")


def test_similar_types_with_different_roles_are_a_finding() -> None:
    measured = Measured(
        20,
        placements=[placement(type, 0.5, 0.6) for type in ("coin", "flower", "gem")],
        roles=[Role("coin", 20, 0, 20), Role("flower", 20, 0, 0), Role("gem", 20, 0, 20)],
        pairs=[
            Pair("coin", "flower", values(0.001, 0.001)),
            Pair("coin", "gem", values(0.001, 0.001)),
            Pair("flower", "gem", values(0.4)),
        ],
    )
    findings, _ = make_findings(measured)
    (alike,) = [one for one in findings if one.kind == "look_alike"]
    assert alike.subject == "flower for coin"
    assert alike.statement.startswith("Treats flower, which does nothing, like coin, which is a goal")


def test_an_object_ignored_at_one_position_is_a_position_bias() -> None:
    placements = [
        placement("coin", 0.0 if place == "above" else 0.6, 0.3, place=place, far=far, usual=0.2)
        for place in ("left", "right", "above", "below")
        for far in (False, True)
    ]
    findings, _ = make_findings(Measured(20, placements=placements))
    assert [one.subject for one in findings if one.kind == "position_bias"] == ["coin at above"]
    # Where the policy moves there anyway, an object cannot change much.
    moved = [Placement(**{**vars(one), "usual": 0.9}) if one.place == "above" else one for one in placements]
    findings, _ = make_findings(Measured(20, placements=moved))
    assert not [one for one in findings if one.kind == "position_bias"]


def test_a_preferred_side_must_persist_in_mirror_images() -> None:
    for mirrored, expected in ((0.4, [("position_bias", "right")]), (-0.1, [])):
        findings, _ = make_findings(Measured(20, sides=Sides(values(0.3), 0.5, mirrored)))
        assert kinds(findings) == expected


def test_frequent_causes_of_failures_are_findings() -> None:
    failures = [Failure(0, 0, 9, 0.0, "mine", "no reaction", "Ended by mine.", avoidable_until=8)] * 8
    failures += [Failure(1, 0, 5, 0.0, "bee", "late", "Ended by bee.")]
    findings, untested = make_findings(Measured(20, failures=failures))
    assert kinds(findings) == [("failure_cause", "mine: no reaction")]
    assert findings[0].statement.startswith("8 of 9 failures (")
    assert findings[0].evidence == {"trajectory": 0, "frame": 8}
    assert findings[0].p == pytest.approx(2 * sum([9 * 0.1**8 * 0.9, 0.1**9]))
    assert [(one.family, one.subject) for one in untested] == [("failures", "bee: late"), ("sides", "left and right")]


def test_findings_say_if_the_background_affects_the_policy() -> None:
    for mean, kind in ((0.2, "reacts"), (0.001, "no_reaction")):
        findings, _ = make_findings(Measured(20, background=values(mean, 0.001)))
        assert kinds(findings) == [(kind, "background")]
        assert not findings[0].suspicious, "no frame was without it in training"


def test_findings_say_if_the_agent_uses_its_memory() -> None:
    for mean, subject in ((0.3, "state"), (0.001, "unused")):
        findings, _ = make_findings(Measured(20, memory=values(mean, 0.001)))
        assert kinds(findings) == [("memory", subject)]


def test_findings_are_compared_by_kind_and_subject() -> None:
    findings, _ = make_findings(Measured(20, placements=[placement("coin", 0.5, 0.6)]))
    listed = [asdict(one) for one in findings]
    assert compared(findings, listed) == ([], [])
    assert compared(findings[:1], listed) == ([("reacts", "coin")], [])
    assert compared(findings, listed[1:]) == ([], [("pursues", "coin")])


def test_random_effects_rarely_produce_findings() -> None:
    """200 types without any effect, in 20 runs of 10: at most one run in ten has a finding of an effect."""
    runs = 0
    for run in range(20):
        rng = np.random.default_rng(run)
        placements = [
            Placement(
                f"type {i}",
                "left",
                False,
                policy=Clustered.of(np.full(120, 0.03), np.repeat(range(12), 10), 12),
                toward=Clustered.of(np.repeat(rng.normal(0.0, 0.3, 12), 10), np.repeat(range(12), 10), 12),
            )
            for i in range(10)
        ]
        findings, _ = make_findings(Measured(20, placements=placements))
        runs += any(one.kind in ("pursues", "avoids") for one in findings)
    assert runs <= 2

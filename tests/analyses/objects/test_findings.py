"""Findings from removed objects: what they show of worlds with known answers, and pages without any."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses import Subject
from rl_clarity.analyses.debugging.findings import REPORT, FindingsAnalysis, FindingsSection, NotFoundSection
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.measure import chunk_name
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.base.parsing import NoOptions
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.tasks import Results, Work
from rl_clarity.pages.files import PageFiles
from tests.analyses.objects.dots import Dot, DotWorld, dot_subject
from tests.analyses.subjects import make_subject

EPISODES, STEPS = 8, 3


def dots() -> list[list[list[Dot]]]:
    """A bright coin and a saw that is hardly seen in all episodes, and a gem in three of them."""
    rng = np.random.default_rng(0)

    def step(episode: int) -> list[Dot]:
        gem: list[Dot] = [("gem", 5, 0, 200)] if episode < 3 else []
        return [("coin", 0, 0, int(rng.integers(150, 250))), ("saw", 3, 1, 1), *gem]

    return [[step(episode) for _ in range(STEPS)] for episode in range(EPISODES)]


def subject_at(folder: Path, **options: Any) -> Subject:
    """A subject whose episodes are ended by the saw."""
    subject = dot_subject(dots(), objects={"every": 1, **options})
    causes = tuple((0, STEPS * (episode + 1) - 1, "saw") for episode in range(EPISODES - 1))
    played = replace(subject.trajectories, causes=causes)
    files = PageFiles(open_directory(str(folder)))
    return replace(subject, trajectories=played, files=files, analyses=("objects", "findings"))


def found(subject: Subject) -> tuple[Results, list[FindingsSection | NotFoundSection]]:
    """Run the tasks, and return the facts and the sections."""
    results: dict[str, Any] = {}
    objects, analysis = ObjectsAnalysis(), FindingsAnalysis()
    measuring = objects.tasks(subject, subject.options_of(ObjectsOptions))
    for task in [*measuring, *analysis.tasks(subject, NoOptions())]:
        results[task.name] = task.run(Work(64, lambda share: None, results)).facts
    sections = [*analysis.sections(subject, NoOptions(), results)]
    for section in sections:
        analysis.checked(section)
    return results, sections


def test_removed_objects_lead_to_findings_about_their_effects(tmp_path: Path) -> None:
    subject = subject_at(tmp_path)
    _, (findings, others) = found(subject)
    rows = [(row["kind"], row["subject"], row["suspicious"]) for row in findings.rows]
    assert rows == [("no_reaction", "saw", "yes"), ("reacts", "coin", None), ("value", "coin", None)]
    saw, coin, _ = findings.rows
    assert str(saw["statement"]).startswith(
        "No reaction to saw, which ends episodes, on average over all that were removed (mean effect below 0.03; "
        "single effects can be larger): +0.00"
    )
    assert "24 in 8 episodes" in str(coin["statement"])
    assert coin["command"] == "rl-clarity run CHECKPOINT OUT --objects.types coin"
    assert findings.caption is not None
    assert "Reaction: total variation of the policy when the object is removed." in findings.caption
    assert [(row["family"], row["subject"], row["reason"]) for row in others.rows] == [
        ("value", "gem", "measured in 3 episodes, fewer than 5"),
        ("reaction", "gem", "measured in 3 episodes, fewer than 5"),
    ]


def test_a_finding_links_to_the_frame_with_the_largest_effect(tmp_path: Path) -> None:
    subject = subject_at(tmp_path)
    results, (findings, _) = found(subject)
    chunk = subject.files.read_chunk(chunk_name(0))
    types = np.array(results["objects/1"]["types"])[chunk["type"]]
    for row in findings.rows:
        rows = np.flatnonzero(types == row["subject"])
        assert (row["trajectory"], row["frame"]) == (0, chunk["frame"][rows[chunk["policy"][rows].argmax()]])


def test_intervals_of_findings_contain_the_mean_effect(tmp_path: Path) -> None:
    subject = subject_at(tmp_path)
    results, _ = found(subject)
    chunk = subject.files.read_chunk(chunk_name(0))
    types = np.array(results["objects/1"]["types"])[chunk["type"]]
    for one in results["findings/report"]["findings"]:
        measured = chunk["policy" if one["family"] == "reaction" else "value"][types == one["subject"]]
        assert one["effect"] == pytest.approx(measured.mean(), abs=1e-6)
        assert one["interval"][0] <= one["effect"] <= one["interval"][1]
        assert one["n"] == len(measured)


def test_the_report_of_findings_is_written_and_reproducible(tmp_path: Path) -> None:
    for name in ("first", "second"):
        results, _ = found(subject_at(tmp_path / name))
        assert json.loads((tmp_path / name / REPORT).read_text()) == results["findings/report"]
    assert (tmp_path / "first" / REPORT).read_bytes() == (tmp_path / "second" / REPORT).read_bytes()


def test_the_command_of_a_finding_repeats_its_test(tmp_path: Path) -> None:
    results, _ = found(subject_at(tmp_path / "all"))
    again, _ = found(subject_at(tmp_path / "one", types=("saw",)))
    before, after = (one["findings/report"]["findings"] for one in (results, again))
    (saw,) = after
    assert (saw["kind"], saw["effect"]) == (before[0]["kind"], before[0]["effect"])
    assert saw["interval"][1] - saw["interval"][0] <= before[0]["interval"][1] - before[0]["interval"][0]


def test_the_caption_says_if_objects_were_painted_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DotWorld, "exact", False)
    _, (findings, _) = found(subject_at(tmp_path))
    assert findings.caption is not None
    assert "when the object is painted over." in findings.caption


def test_pages_without_measured_effects_have_no_findings(tmp_path: Path) -> None:
    assert found(subject_at(tmp_path, every=None)) == ({}, [])
    assert not [*FindingsAnalysis().tasks(make_subject(), NoOptions())]
    empty = replace(dot_subject([[[], []]], objects={"every": 1}), analyses=("objects", "findings"))
    results, sections = found(replace(empty, files=PageFiles(open_directory(str(tmp_path)))))
    assert results["findings/report"] == {"findings": [], "untested": []}
    assert sections == []


def test_cache_keys_of_findings_include_the_options_of_effects(tmp_path: Path) -> None:
    def key(**options: Any) -> str:
        (task,) = FindingsAnalysis().tasks(subject_at(tmp_path, **options), NoOptions())
        return task.key

    assert len({key(), key(every=2), key(types=("saw",))}) == 3

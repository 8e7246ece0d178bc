"""Objects that ended episodes are found among those whose effects were measured."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.analyses.debugging.failures import FailuresAnalysis, FailuresSection
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.measure import chunk_name
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.debugging.failures import Failure, FailureOptions
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.tasks import Work
from rl_clarity.pages.files import PageFiles
from tests.analyses.objects.dots import SIZE, dot_subject


@pytest.mark.parametrize(("column", "expected"), [(3, [(1, 2)]), (4, [])])
def test_the_object_that_ended_an_episode_is_found_by_its_position(
    tmp_path: Path, column: int, expected: list[tuple[int, int]]
) -> None:
    dots = [("saw", 0, 0, 100), ("saw", 3, 1, 200), ("coin", 5, 0, 200)]
    subject = dot_subject([[dots] * 3], objects={"every": 1})
    subject = replace(subject, files=PageFiles(open_directory(str(tmp_path))))
    analysis, options, results = ObjectsAnalysis(), subject.options_of(ObjectsOptions), dict[str, Any]()
    for task in analysis.tasks(subject, options):
        results[task.name] = task.run(Work(64, lambda share: None, results)).facts
    (section,) = analysis.sections(subject, options, results)
    assert section.trajectories[0].ended is None  # without the analysis of failures
    cells = SIZE // 4
    place = (column / cells, 1 / cells, (column + 1) / cells, 2 / cells)
    failure = Failure(0, 0, 2, 0.0, "saw", "no reaction", "", killer="saw", killer_pixels=place)
    results["failures/part/1"] = {"failures": [asdict(failure)], "episodes": 1, "failed": 1, "clips": []}
    results["failures/tracks"] = {"chunks": []}
    (section,) = analysis.sections(subject, options, results)
    found = [(one.track, one.frame) for one in section.trajectories[0].ended or ()]
    tracks = subject.files.read_chunk(chunk_name(0))["track"]
    assert set(tracks) == {0, 1, 2}
    assert found == expected
    failures = next(iter(FailuresAnalysis().sections(subject, FailureOptions(), results)))
    assert isinstance(failures, FailuresSection)
    assert failures.rows[0]["edit"] == ("without~2" if expected else "open")  # what What if opens with

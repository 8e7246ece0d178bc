"""The page's own attribution against its measured effects: known answers, and pages without effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses import Subject
from rl_clarity.analyses.attribution.files import AttributionOptions, attribution_chunk, chunk_name
from rl_clarity.analyses.layers import page_layers
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.objects.page_agreement import AgreementAnalysis, AgreementSection
from rl_clarity.base.parsing import NoOptions
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.tasks import Work
from rl_clarity.pages.files import PageFiles
from tests.analyses.objects.dots import CELL, SIZE, Dot, dot_subject

EPISODES, STEPS = 5, 4
ANALYSES = ("attribution", "objects", "agreement")


def dots() -> list[list[list[Dot]]]:
    """Two coins and a saw, which do not touch, with random brightness."""
    rng = np.random.default_rng(0)
    places = ((0, 0), (3, 1), (1, 4))
    kinds = ("coin", "saw", "coin")
    return [
        [
            [(kind, *place, int(rng.integers(1, 256))) for kind, place in zip(kinds, places, strict=True)]
            for _ in range(STEPS)
        ]
        for _ in range(EPISODES)
    ]


def agreement(subject: Subject, folder: Any, sign: float) -> list[AgreementSection]:
    """Measure effects, write attribution that is `sign` times the contribution of each cell, and compare."""
    played = subject.trajectories
    values = subject.agent.forward(np.asarray(played.observations[0])).values
    assert values is not None
    played = replace(played, values=values[None])
    subject = replace(subject, trajectories=played, files=PageFiles(open_directory(str(folder))), analyses=ANALYSES)
    work, options = Work(64, lambda share: None, {}), subject.options_of(AttributionOptions)
    for measuring in ObjectsAnalysis().tasks(subject, subject.options_of(ObjectsOptions)):
        measuring.run(work)
    images = np.asarray(subject.trajectories.observations[0], np.float64) / (255 * CELL**2)
    cells = images.reshape(-1, SIZE // CELL, CELL, SIZE // CELL, CELL).sum(axis=(2, 4))[..., None]
    for layer in page_layers(subject.agent, subject.options):
        name = chunk_name(options, layer, subject.output_kind, 0, 0)
        shares = sign * cells * [0.25, 0.75]  # of two features; the residual has as much of the opposite sign
        subject.files.write(attribution_chunk(name, shares + cells, -2 * cells))
    analysis = AgreementAnalysis()
    tasks = list(analysis.tasks(subject, NoOptions()))
    sections = list(analysis.sections(subject, NoOptions(), {task.name: task.run(work).facts for task in tasks}))
    for section in sections:
        analysis.checked(section)
    return sections


@pytest.mark.parametrize(("sign", "share"), [(1, 1), (-1, 0)])
def test_attribution_on_the_page_is_compared_with_measured_effects(tmp_path: Any, sign: float, share: float) -> None:
    (section,) = agreement(dot_subject(dots(), objects={"every": 1}), tmp_path, sign)
    assert (section.output, section.count, section.episodes) == ("value", 3 * EPISODES * STEPS, EPISODES)
    assert [layer.layer for layer in section.layers] == ["1a", "2a"]
    seen = [sum(dot[3] for dot in step) / 255 for episode in dots() for step in episode]
    assert section.threshold == pytest.approx(0.05 * (max(seen) - min(seen)), abs=1e-6)
    for layer in section.layers:
        assert layer.signs.value == share
        assert layer.correlation.value == pytest.approx(sign, abs=0.01)
        assert layer.magnitudes.value == pytest.approx(1, abs=0.01)
        low, value = layer.correlation.low, layer.correlation.value
        assert low is not None
        assert value is not None
        assert low <= value


def test_pages_without_measured_effects_have_no_agreement_section(tmp_path: Any) -> None:
    subject = dot_subject(dots())
    none = replace(subject, trajectories=replace(subject.trajectories, world_states=None))
    assert agreement(none, tmp_path, 1) == []
    assert agreement(dot_subject(dots(), objects={"every": None}), tmp_path, 1) == []


def test_agreement_in_a_single_episode_has_no_confidence_interval(tmp_path: Any) -> None:
    (section,) = agreement(dot_subject(dots()[:1], objects={"every": 1}), tmp_path, 1)
    assert section.layers[0].signs.value == 1
    assert section.layers[0].signs.low is section.layers[0].signs.high is None

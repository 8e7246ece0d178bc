"""The sections of an analysis: declared with it, and checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from rl_clarity.analyses import Analysis, Subject
from rl_clarity.base.errors import SectionError
from rl_clarity.base.parsing import NoOptions
from rl_clarity.jobs.tasks import Results, Task
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.sections import Bar, BarsSection, Line, LinesSection, SectionData


@dataclass(frozen=True)
class CountsSection(SectionData):
    kind = "counts"
    title = "Counts"
    counts: Sequence[int]


class MarksSection(BarsSection):
    kind = "marks"
    title = "Marks"


class Counts(Analysis[NoOptions, CountsSection | MarksSection]):
    kind = "counts"

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        return ()

    def sections(
        self, subject: Subject, options: NoOptions, results: Results
    ) -> Iterable[CountsSection | MarksSection]:
        return ()


def declare(section: Any) -> type[Analysis[Any, Any]]:
    class Declared(Analysis[NoOptions, section]):
        kind = "declared"

    return Declared


def test_an_analysis_infers_its_option_and_section_classes() -> None:
    assert (Counts.Options, Counts.Sections) == (NoOptions, (CountsSection, MarksSection))


def test_an_analysis_must_declare_its_sections() -> None:
    with pytest.raises(SectionError, match=r"class Bare\(Analysis\[NoOptions, "):
        type("Bare", (Analysis,), {"kind": "bare"})


def test_a_section_class_needs_a_kind() -> None:
    @dataclass(frozen=True)
    class Nameless(SectionData):
        title = "Nameless"

    with pytest.raises(SectionError, match=r"Nameless\.kind is missing"):
        declare(Nameless)


def test_a_section_must_be_a_dataclass() -> None:
    class Plain(CountsSection):
        total: int

    with pytest.raises(SectionError, match="Plain must be a dataclass"):
        declare(Plain)


def test_a_section_must_have_the_fields_that_its_panel_draws() -> None:
    @dataclass(frozen=True)
    class Tracks(SectionData):
        kind = "tracks"
        title = "Tracks"
        panel = "lines"
        trajectories: Sequence[ChunkName]
        lines: Sequence[Line]

    with pytest.raises(SectionError, match=r"drawn by the panel 'lines'.*lacks the fields series"):
        declare(Tracks)


def test_a_section_does_not_accept_other_field_names_than_its_panel() -> None:
    arguments: Any = {"trajectories": [], "lines": []}
    with pytest.raises(TypeError, match="lines"):
        LinesSection(**arguments)


def test_an_analysis_may_only_make_sections_of_its_declared_classes() -> None:
    with pytest.raises(
        SectionError, match=r"Counts\.sections returned .*, but the analysis declares CountsSection or MarksSection"
    ):
        Counts().checked(BarsSection([]))


def test_a_section_value_of_the_wrong_type_is_named_in_the_error() -> None:
    wrong: Any = "many"
    with pytest.raises(SectionError, match=r"marks\.bars\[0\]\.value must be a number"):
        Counts().checked(MarksSection([Bar("all", wrong)]))

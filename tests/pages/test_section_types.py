"""What is written from the dataclasses of sections is current."""

from __future__ import annotations

import pytest

from scripts.make_sections import REPOSITORY, described_classes, documents, section_classes


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_files_generated_from_section_classes_are_current(path: object) -> None:
    (text,) = (text for other, text in documents().items() if other == path)
    assert (REPOSITORY / str(path)).read_text(encoding="utf-8") == text, "run: make js"


def test_the_page_format_reference_describes_all_sections() -> None:
    reference = (REPOSITORY / "docs" / "page-format.md").read_text(encoding="utf-8")
    missing = [name for name in described_classes() if f"<!-- keys of {name} -->" not in reference]
    generic = ["ChecksSection", "CheckEffects", "CheckMaps", "CheckDeletion", "CheckInsertion"]
    generic += ["FailuresSection", "VerdictsSection", "FailureClips", "FailureTracks", "GoalsSection", "GoalImages"]
    generic += ["SurvivalSection", "FailureSurvivalSection", "FindingsSection", "NotFoundSection"]
    assert missing == generic
    assert len({section.kind for section in section_classes()}) == len(section_classes())

import dataclasses

import pytest

from rl_clarity.errors import OptionError
from rl_clarity.options import DirectoryOptions
from rl_clarity.pages.files import is_name
from rl_clarity.pages.layout import Layout, number_text, slugs


def test_slugs_are_names_and_differ() -> None:
    names = ["1a", "conv/relu", "conv relu", "CONV/relu", "../..", "…", ""]
    found = slugs(names)
    assert found[:2] == ["1a", "conv-relu"]
    assert len({slug.lower() for slug in found}) == len(names)
    assert all(is_name(slug) for slug in found)


def names_of(layout: Layout) -> list[str]:
    return [
        layout.series(0),
        layout.frames(0, 0),
        layout.film(0, 0),
        layout.scrub(0, 0),
        layout.attribution("2b", "value", 0, 0),
        layout.attribution_picture("2b", "value", "pos-prin", 0, 0),
        layout.attribution_scrub("2b", "value", "pos-prin", 0, 0),
        layout.totals("2b", 0),
        layout.grids("2b"),
        layout.feature_picture("2b", 0, 0.25, 4),
        layout.optimized("2b", 0),
        layout.thumbnail("2b", 0),
        layout.atlas(0),
    ]


def test_subdirectories_are_the_options() -> None:
    fields = [field.name for field in dataclasses.fields(DirectoryOptions)]
    own = Layout(DirectoryOptions(**{field: f"my-{field}/deep" for field in fields}))
    for field in fields:
        assert any(name.startswith(f"my-{field}/deep/") for name in names_of(own)), field


@pytest.mark.parametrize("subdir", ["", "data/", "data", "/data/"])
def test_names_differ_even_in_one_subdirectory(subdir: str) -> None:
    fields = [field.name for field in dataclasses.fields(DirectoryOptions)]
    names = names_of(Layout(DirectoryOptions(**dict.fromkeys(fields, subdir))))
    assert len(set(names)) == len(names)
    assert all(is_name(name) for name in names)


def test_a_subdirectory_outside_is_refused() -> None:
    with pytest.raises(OptionError, match=r"features_subdir='\.\./x'"):
        Layout(DirectoryOptions(features_subdir="../x"))


def test_files_count_from_one() -> None:
    layout = Layout()
    assert layout.attribution("2b", "value", 0, 1) == "attribution/2b/1/value-2.js"
    assert layout.frames(0, 1) == "trajectories/1/frames-2.js"
    assert layout.thumbnail("2b", 7) == "thumbnails/2b/thumbnail-8.png"


def test_the_last_segment_is_shorter() -> None:
    assert Layout(segment=64).segments(130) == [range(64), range(64, 128), range(128, 130)]
    assert Layout(scrub_steps=512).scrubs(512) == [range(512)]


def test_numbers_in_names() -> None:
    assert [number_text(number) for number in (0.25, 1, 2.0, 8)] == ["0.25", "1", "2", "8"]

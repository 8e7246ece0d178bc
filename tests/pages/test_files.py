import pytest

from rl_clarity.analyses import ablation, saliency
from rl_clarity.analyses.attribution.files import chunk_name, rendered_name, rendered_scrub_name, totals_name
from rl_clarity.analyses.features import examples_name, image_name, optimized_name, thumbnail_name
from rl_clarity.analyses.trajectories import trajectory_entry
from rl_clarity.base.errors import OptionError
from rl_clarity.jobs.directory import is_name
from rl_clarity.pages.files import number_text, path_in, segments, slugs
from rl_clarity.pages.manifest import file_names
from rl_clarity.pages.options import InterfaceOptions
from rl_clarity.pages.original_options import HIDDEN
from tests.page_options import page_options
from tests.pages.pages import PAGE_LAYER

SUBDIRECTORIES = [name for name in HIDDEN if name.endswith("_subdir")]


def test_file_name_slugs_are_valid_and_unique() -> None:
    names = ["1a", "conv/relu", "conv relu", "CONV/relu", "../..", "…", ""]
    unique = slugs(names)
    assert unique[:2] == ["1a", "conv-relu"]
    assert len({slug.lower() for slug in unique}) == len(names)
    assert all(is_name(slug) for slug in unique)


def all_names(options: InterfaceOptions) -> list[str]:
    """Names of one file of each kind."""
    return [
        *file_names(trajectory_entry(options.filmstrip, 0, 1)),
        chunk_name(options.attribution, PAGE_LAYER, "value", 0, 0),
        rendered_name(options.attribution, PAGE_LAYER, "value", "pos-prin", 0, 0),
        rendered_scrub_name(options.attribution, PAGE_LAYER, "value", "pos-prin", 0, 0),
        totals_name(options.attribution, PAGE_LAYER, 0),
        ablation.chunk_name(PAGE_LAYER, 0),
        saliency.chunk_name("jacobian", 0, 0),
        examples_name(options.examples, PAGE_LAYER),
        image_name(options.features, PAGE_LAYER, 0, 0.25, 4),
        optimized_name(options.features, PAGE_LAYER, 0),
        thumbnail_name(options.features, PAGE_LAYER, 0),
        path_in(options.examples.observations_subdir, "observations-1.png"),
    ]


def test_options_set_the_subdirectories_of_page_files() -> None:
    names = all_names(page_options(**{field: f"my-{field}/deep" for field in SUBDIRECTORIES}))
    for field in SUBDIRECTORIES:
        assert any(name.startswith(f"my-{field}/deep/") for name in names), field


@pytest.mark.parametrize("subdir", ["", "data/", "data", "/data/"])
def test_file_names_stay_unique_if_all_share_one_subdirectory(subdir: str) -> None:
    names = all_names(page_options(**dict.fromkeys(SUBDIRECTORIES, subdir)))
    assert len(set(names)) == len(names)
    assert all(is_name(name) for name in names)


@pytest.mark.parametrize("field", SUBDIRECTORIES)
def test_a_subdirectory_outside_the_page_is_refused(field: str) -> None:
    with pytest.raises(OptionError, match=rf"{field}='\.\./x'"):
        page_options(**{field: "../x"})


def test_numbers_in_file_names_count_from_one() -> None:
    options = InterfaceOptions()
    assert chunk_name(options.attribution, PAGE_LAYER, "value", 0, 1) == "attribution/2b/1/value-2.js"
    assert trajectory_entry(options.filmstrip, 0, 65).frames[1] == "trajectories/1/frames-2.js"
    assert thumbnail_name(options.features, PAGE_LAYER, 7) == "thumbnails/2b/thumbnail-8.png"


def test_the_last_segment_of_a_trajectory_may_be_shorter() -> None:
    assert segments(130) == [range(64), range(64, 128), range(128, 130)]
    assert segments(512, 512) == [range(512)]


def test_whole_numbers_in_file_names_have_no_decimal_point() -> None:
    assert [number_text(number) for number in (0.25, 1, 2.0, 8)] == ["0.25", "1", "2", "8"]

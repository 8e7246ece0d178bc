import numpy as np
import pytest

from rl_clarity.analyses.attribution.files import selections
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.images import sheet, to_bytes
from rl_clarity.pages.results import Results, open_results
from rl_clarity.visualization.dataset_examples import dataset_grid
from rl_clarity.visualization.patches import draw_grid
from rl_clarity.visualization.rendering import render_attribution
from tests.pages.pages import CHANNELS, LAYER, SCRUB_RANGE, STEPS, random_arrays, write_small_page

ARRAYS = random_arrays()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    directory = LocalDirectory(tmp_path_factory.mktemp("page"))
    write_small_page(directory, ARRAYS, images=True)
    return open_results(directory.path)


def test_each_output_has_the_documented_number_of_attribution_images() -> None:
    names = [name for name, _, _ in selections(8, residual=True)]
    assert len(set(names)) == 33
    assert {"abs-prin", "pos-all", "neg-res", "pos-1", "pos-8"} <= set(names)
    assert len(list(selections(3, residual=False))) == 12


@pytest.mark.parametrize("name", ["pos-prin", "neg-all", "abs-2", "pos-res"])
def test_stored_attribution_images_equal_render_attribution(results: Results, name: str) -> None:
    images = results.layer("2b")["images"]["value"]
    assert len(images) == 3 * (CHANNELS + 3)
    direction, channel = name.split("-")
    rendered = to_bytes(
        render_attribution(
            ARRAYS.channels[0],
            ARRAYS.residual[0],
            direction=direction,  # type: ignore[arg-type]
            channel=int(channel) - 1 if channel.isdigit() else channel,
        )
    )
    first, second = (results.image(image) for image in images[name][0])
    np.testing.assert_array_equal(first, sheet(rendered[:64], 8))
    np.testing.assert_array_equal(second, sheet(rendered[64:], 8))
    strip = results.image(results.layer("2b")["scrubs"]["value"][name][0][1])
    column = int(SCRUB_RANGE[0] * LAYER[1])
    np.testing.assert_array_equal(strip, rendered[64:, :, column].swapaxes(0, 1))


def test_stored_feature_images_show_the_grids_of_dataset_examples(results: Results) -> None:
    features = results.layer("2b")["features"]
    images = features["images"]
    assert sorted(images) == ["0.5 x 1", "0.5 x 2", "1 x 1", "1 x 2"]
    examples = dataset_grid(ARRAYS.activations[..., 1], 0.5)
    expected = to_bytes(draw_grid(examples, ARRAYS.observations, LAYER, 2))
    np.testing.assert_array_equal(results.image(images["0.5 x 2"][1]), expected)
    assert (results.image(features["optimized"][0]) == 128).all()


def test_image_sheets_contain_the_frames_of_a_trajectory(results: Results) -> None:
    film = [results.image(name) for name in results.trajectory(0)["images"]]
    np.testing.assert_array_equal(film[1], sheet(ARRAYS.frames[0][64 : STEPS[0]], 8))

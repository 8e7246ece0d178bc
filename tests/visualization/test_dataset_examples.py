import math

import numpy as np
import pytest
from scipy import ndimage

from rl_clarity.errors import OptionError
from rl_clarity.visualization.dataset_examples import NONE, dataset_grid, dataset_grids, thumbnail
from rl_clarity.visualization.patches import draw_grid, draw_thumbnail, grid_opacity, thumbnail_opacity
from tests.golden_data import Golden

FEATURE = 3
LAYER = (8, 8)
with_features = pytest.mark.parametrize("golden", ["clear", "impala"], indirect=True)


def activations(golden: Golden) -> np.ndarray:
    return golden.expected["nmf.acts_reduced"][..., FEATURE]


@with_features
@pytest.mark.parametrize(("density", "zoom"), [(0.5, 2), (1, 4), (2, 1)])
def test_grids_are_the_originals(golden: Golden, density: float, zoom: int) -> None:
    key = f"vis.feature{FEATURE}_sub{density}_exp{zoom}"
    examples = dataset_grid(activations(golden), density)
    np.testing.assert_array_equal(examples.indices, golden.expected[f"{key}.grid"])
    picture = draw_grid(examples, golden.expected["observations"], LAYER, zoom)
    np.testing.assert_allclose(picture, golden.expected[key], atol=1e-6)


@with_features
def test_thumbnails_are_the_originals(golden: Golden) -> None:
    examples = thumbnail(activations(golden))
    np.testing.assert_array_equal(examples.indices, golden.expected["vis.thumb3.grid"])
    picture = draw_thumbnail(examples, golden.expected["observations"], LAYER)
    np.testing.assert_allclose(picture, golden.expected["vis.thumb3"], atol=1e-6)


@pytest.fixture
def strengths() -> np.ndarray:
    random = np.random.default_rng(0).standard_normal((30, 9, 7))
    return np.maximum(ndimage.gaussian_filter(random, (0, 1, 1)), 0).astype(np.float32)


@pytest.mark.parametrize("density", [0.25, 0.5, 1, 1.5, 2])
def test_a_grids_cells_are_those_of_the_zoomed_layer(strengths: np.ndarray, density: float) -> None:
    padded = np.pad(strengths, ((0, 0), (1, 1), (1, 1)), mode="edge")
    zooms = [density - (density - 1) / size for size in padded.shape[1:]]
    zoomed = ndimage.zoom(padded, (1, *zooms), order=1)[:, 1:-1, 1:-1]
    examples = dataset_grid(strengths, density, top_fraction=1e-6)  # so that repeats do not matter
    np.testing.assert_array_equal(examples.indices, zoomed.argmax(axis=0))
    np.testing.assert_allclose(examples.strengths, zoomed.max(axis=0), rtol=1e-4)
    assert examples.centers.shape == (*zoomed.shape[1:], 2)


def test_centers_lie_evenly_over_the_layer(strengths: np.ndarray) -> None:
    centers = dataset_grid(strengths, 1).centers
    np.testing.assert_allclose(centers[..., 0], np.broadcast_to(np.arange(9)[:, None] + 0.5, (9, 7)))
    np.testing.assert_allclose(centers[..., 1], np.broadcast_to(np.arange(7) + 0.5, (9, 7)))
    np.testing.assert_allclose(dataset_grid(strengths, 2).centers[:, 0, 0], np.arange(19) / 2)


def test_no_observation_fills_a_grid(strengths: np.ndarray) -> None:
    strengths[4] += 100
    examples = dataset_grid(strengths, 2, top_fraction=0.5)
    assert np.bincount(examples.indices.ravel()).max() <= math.ceil(examples.indices.size / 15)


def test_several_densities_are_as_one_after_another(strengths: np.ndarray) -> None:
    for density, examples in zip((0.5, 2), dataset_grids(strengths, [0.5, 2]), strict=True):
        np.testing.assert_array_equal(examples.indices, dataset_grid(strengths, density).indices)


def test_a_dead_feature_still_has_a_grid() -> None:
    dead = np.zeros((5, 4, 4), np.float32)
    examples = dataset_grid(dead)
    assert np.isfinite(grid_opacity(examples)).all()
    assert (thumbnail_opacity(thumbnail(dead)) == 0).all()


def test_a_tiny_layer_has_a_cell() -> None:
    assert dataset_grid(np.ones((3, 1, 1), np.float32), 0.25).indices.shape == (1, 1)


def test_a_thumbnail_of_few_observations_has_empty_cells(strengths: np.ndarray) -> None:
    examples = thumbnail(strengths[:3], num_mult=2)
    assert (examples.indices == NONE).sum() == 1
    assert thumbnail_opacity(examples)[examples.indices == NONE] == 0
    frames = np.zeros((3, 36, 28, 1), np.uint8)
    assert draw_thumbnail(examples, frames, (9, 7)).shape == (32, 32, 4)


def test_a_thumbnails_rows_follow_positions(strengths: np.ndarray) -> None:
    examples = thumbnail(strengths, num_mult=3)
    assert len(set(examples.indices.ravel().tolist())) == 9
    rows = examples.centers[..., 0]
    assert (rows[:-1].max(axis=1) <= rows[1:].min(axis=1)).all()
    assert (np.diff(examples.centers[..., 1], axis=1) >= 0).all()


def test_the_strongest_tenth_of_a_picture_is_opaque(strengths: np.ndarray) -> None:
    opacity = grid_opacity(dataset_grid(strengths, 2))
    assert (opacity == 1).mean() == pytest.approx(0.1, abs=0.02)
    assert opacity.min() >= np.float32(15 / 255)


def test_patches_of_any_size_tile_the_picture(strengths: np.ndarray) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (30, 84, 60, 3), np.uint8)  # 84 / 9 is no whole number
    examples = dataset_grid(strengths, 1, top_fraction=1e-6)
    picture = draw_grid(examples, frames, (9, 7), expand_mult=1)
    assert picture.shape[:2] == (84, 60)
    shown = frames[examples.indices[0, 0], 0, 0] / 255
    np.testing.assert_allclose(picture[0, 0, :3], shown, rtol=1e-6)


def test_activations_of_one_feature_are_asked_for() -> None:
    with pytest.raises(OptionError, match=r"\(2, 3, 3, 8\)"):
        dataset_grid(np.zeros((2, 3, 3, 8)))

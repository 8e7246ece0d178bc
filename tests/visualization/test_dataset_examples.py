"""Dataset examples: choice of patches, grids, thumbnails."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage

from rl_clarity.base.errors import OptionError
from rl_clarity.visualization.dataset_examples import NONE, dataset_grid, dataset_grids, limit_repeats, thumbnail
from rl_clarity.visualization.patches import draw_grid, draw_thumbnail, grid_opacity, thumbnail_opacity
from tests.golden_data import Golden

FEATURE = 3
LAYER = (8, 8)
with_features = pytest.mark.parametrize("golden", ["clear", "impala"], indirect=True)


def activations(golden: Golden) -> np.ndarray:
    return golden.expected["nmf.acts_reduced"][..., FEATURE]


@with_features
@pytest.mark.parametrize(("density", "zoom"), [(0.5, 2), (1, 4), (2, 1)])
def test_grids_of_dataset_examples_equal_the_original(golden: Golden, density: float, zoom: int) -> None:
    key = f"vis.feature{FEATURE}_sub{density}_exp{zoom}"
    examples = dataset_grid(activations(golden), density)
    np.testing.assert_array_equal(examples.indices, golden.expected[f"{key}.grid"])
    image = draw_grid(examples, golden.expected["observations"], LAYER, zoom)
    np.testing.assert_allclose(image, golden.expected[key], atol=1e-6)


@with_features
def test_thumbnails_equal_the_original(golden: Golden) -> None:
    examples = thumbnail(activations(golden))
    np.testing.assert_array_equal(examples.indices, golden.expected["vis.thumb3.grid"])
    image = draw_thumbnail(examples, golden.expected["observations"], LAYER)
    np.testing.assert_allclose(image, golden.expected["vis.thumb3"], atol=1e-6)


@pytest.fixture
def strengths() -> np.ndarray:
    random = np.random.default_rng(0).standard_normal((30, 9, 7))
    return np.maximum(ndimage.gaussian_filter(random, (0, 1, 1)), 0).astype(np.float32)


@pytest.mark.parametrize("density", [0.25, 0.5, 1, 1.5, 2])
def test_grid_cells_have_the_strengths_of_the_interpolated_layer(strengths: np.ndarray, density: float) -> None:
    padded = np.pad(strengths, ((0, 0), (1, 1), (1, 1)), mode="edge")
    zooms = [density - (density - 1) / size for size in padded.shape[1:]]
    zoomed = ndimage.zoom(padded, (1, *zooms), order=1)[:, 1:-1, 1:-1]
    examples = dataset_grid(strengths, density, top_fraction=1e-6)  # so that repeats do not matter
    np.testing.assert_array_equal(examples.indices, zoomed.argmax(axis=0))
    np.testing.assert_allclose(examples.strengths, zoomed.max(axis=0), rtol=1e-4)
    assert examples.centers.shape == (*zoomed.shape[1:], 2)


def test_centers_of_grid_cells_are_evenly_spaced(strengths: np.ndarray) -> None:
    centers = dataset_grid(strengths, 1).centers
    np.testing.assert_allclose(centers[..., 0], np.broadcast_to(np.arange(9)[:, None] + 0.5, (9, 7)))
    np.testing.assert_allclose(centers[..., 1], np.broadcast_to(np.arange(7) + 0.5, (9, 7)))
    np.testing.assert_allclose(dataset_grid(strengths, 2).centers[:, 0, 0], np.arange(19) / 2)


def test_no_observation_is_used_too_often_in_a_grid(strengths: np.ndarray) -> None:
    strengths[4] += 100
    examples = dataset_grid(strengths, 2, top_fraction=0.5)
    assert np.bincount(examples.indices.ravel()).max() <= math.ceil(examples.indices.size / 15)


def test_grids_of_several_densities_equal_separately_computed_ones(strengths: np.ndarray) -> None:
    for density, examples in zip((0.5, 2), dataset_grids(strengths, [0.5, 2]), strict=True):
        np.testing.assert_array_equal(examples.indices, dataset_grid(strengths, density).indices)


def test_an_inactive_feature_has_a_transparent_thumbnail() -> None:
    dead = np.zeros((5, 4, 4), np.float32)
    examples = dataset_grid(dead)
    assert np.isfinite(grid_opacity(examples)).all()
    assert (thumbnail_opacity(thumbnail(dead)) == 0).all()


def test_a_layer_of_one_position_has_a_grid_of_one_cell() -> None:
    assert dataset_grid(np.ones((3, 1, 1), np.float32), 0.25).indices.shape == (1, 1)


def test_a_thumbnail_of_few_observations_has_empty_cells(strengths: np.ndarray) -> None:
    examples = thumbnail(strengths[:3], num_mult=2)
    assert (examples.indices == NONE).sum() == 1
    assert thumbnail_opacity(examples)[examples.indices == NONE] == 0
    frames = np.zeros((3, 36, 28, 1), np.uint8)
    assert draw_thumbnail(examples, frames, (9, 7)).shape == (32, 32, 4)


def test_thumbnail_rows_are_ordered_by_position(strengths: np.ndarray) -> None:
    examples = thumbnail(strengths, num_mult=3)
    assert len(set(examples.indices.ravel().tolist())) == 9
    rows = examples.centers[..., 0]
    assert (rows[:-1].max(axis=1) <= rows[1:].min(axis=1)).all()
    assert (np.diff(examples.centers[..., 1], axis=1) >= 0).all()


def test_the_strongest_tenth_of_grid_cells_is_opaque(strengths: np.ndarray) -> None:
    opacity = grid_opacity(dataset_grid(strengths, 2))
    assert (opacity == 1).mean() == pytest.approx(0.1, abs=0.02)
    assert opacity.min() >= np.float32(15 / 255)


def test_patches_of_any_size_tile_the_image(strengths: np.ndarray) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (30, 84, 60, 3), np.uint8)  # 84 / 9 is not an integer
    examples = dataset_grid(strengths, 1, top_fraction=1e-6)
    image = draw_grid(examples, frames, (9, 7), expand_mult=1)
    assert image.shape[:2] == (84, 60)
    shown = frames[examples.indices[0, 0], 0, 0] / 255
    np.testing.assert_allclose(image[0, 0, :3], shown, rtol=1e-6)


def test_activations_of_dataset_examples_need_three_axes() -> None:
    with pytest.raises(OptionError, match=r"\(2, 3, 3, 8\)"):
        dataset_grid(np.zeros((2, 3, 3, 8)))


def limit_repeats_slowly(values: np.ndarray, limit: int) -> list[int]:
    """The rule applied cell by cell."""
    ranking = np.argsort(-values, axis=1, kind="stable")
    chosen = ranking[:, 0].tolist()
    for rank in range(1, values.shape[1]):
        used = [chosen.count(option) for option in range(values.shape[1])]
        strengths = [values[cell, option] for cell, option in enumerate(chosen)]
        before = list(chosen)
        for cell in sorted(range(len(chosen)), key=lambda cell: strengths[cell]):
            option = before[cell]
            if used[option] > limit:
                used[option] -= 1
                chosen[cell] = int(ranking[cell, rank])
        if chosen == before:
            break
    return chosen


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 12)).flatmap(
        lambda shape: arrays(np.float32, shape, elements=st.integers(-2, 6).map(lambda number: number / 2))
    ),
    st.integers(1, 5),
)
def test_limit_repeats_follows_its_definition(values: np.ndarray, limit: int) -> None:
    best = values.argmax(axis=1)
    choices, strengths = limit_repeats(best, values.max(axis=1), values.__getitem__, values.shape[1], limit)
    assert choices.tolist() == limit_repeats_slowly(values, limit)
    np.testing.assert_array_equal(strengths, np.take_along_axis(values, choices[:, None], axis=1)[:, 0])


def test_limit_repeats_works_if_all_cells_prefer_the_same_options() -> None:
    rng = np.random.default_rng(1)
    common = np.sort(rng.random(300))  # all cells prefer the same options
    values = (common + rng.random((600, 300)) * 1e-4).astype(np.float32)
    choices, _ = limit_repeats(values.argmax(axis=1), values.max(axis=1), values.__getitem__, 300, 2)
    assert choices.tolist() == limit_repeats_slowly(values, 2)
    assert np.bincount(choices).max() <= math.ceil(600 / 300)


def test_limit_repeats_does_not_change_its_arguments() -> None:
    values = np.ones((6, 3), np.float32)
    best, strengths = values.argmax(axis=1), values.max(axis=1)
    limit_repeats(best, strengths, values.__getitem__, 3, 1)
    assert (best == 0).all()
    assert (strengths == 1).all()

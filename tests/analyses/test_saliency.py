"""Saliency maps on a page: known answers, the same bytes however they are computed, and wrong options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.analysis import describe_agent
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid, perturbation_saliency
from rl_clarity.analyses.saliency import METHODS, compute_maps, frames_with_map, grid_centers, map_arrays
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.recordings.samples import Trajectories
from tests.fakes import TinyAgent
from tests.page_options import page_options

RNG = np.random.default_rng(0)
SHAPE = (16, 16, 3)


def make_agent(kind: str = "policy") -> Any:
    return TinyAgent(kind, observation_shape=SHAPE, num_actions=4)


def make_samples(agent: Any, steps: int = 70) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(1)
    played = {
        "observations": rng.integers(0, 256, (2, steps, *SHAPE)).astype(np.uint8),
        **{name: np.zeros((2, steps), int) for name in ("actions", "rewards", "firsts")},
    }
    return played, rng.integers(0, 256, (12, *SHAPE)).astype(np.uint8)


def make_page(folder: Path, agent: Any, **options: Any) -> Any:
    layers = {"name_contains_one_of": ["2a"]}
    played, varied = make_samples(agent)
    return rl_clarity.generate(
        agent, played, varied, folder, nmf_features=2, layer_kwargs=layers, ablation_every=None, **options
    ).results()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    methods = ["perturbation", "jacobian"]
    return make_page(tmp_path_factory.mktemp("page"), make_agent(), saliency=methods, saliency_every=8)


class TestPage:
    def test_every_eighth_frame_has_a_saliency_map(self, results: Any) -> None:
        played, _ = make_samples(make_agent())
        maps = results.saliency(1, output="value")
        assert maps.steps.tolist() == [0, 8, 16, 24, 32, 40, 48, 56, 64]
        expected = perturbation_saliency(make_agent(), played["observations"][1, ::8], "value")
        peaks = expected.max(axis=(1, 2), keepdims=True)
        assert np.abs(maps.values - expected).max(axis=(1, 2), keepdims=True) / peaks == pytest.approx(
            0, abs=0.51 / 255
        )
        np.testing.assert_allclose(maps.totals, expected.sum(axis=(1, 2)), rtol=1e-5)

    def test_saliency_scales_are_the_maxima_of_the_maps(self, results: Any) -> None:
        (entry, other) = results.section("saliency")["methods"]
        assert [entry["name"], other["name"]] == ["perturbation", "jacobian"]
        peaks = [results.saliency(t, output="policy").values.max(axis=(1, 2)) for t in range(2)]
        np.testing.assert_allclose(entry["scales"]["policy"], [one.max() for one in peaks], rtol=1e-5)
        np.testing.assert_allclose(entry["percentile"]["policy"], np.percentile(np.concatenate(peaks), 99), rtol=1e-5)

    def test_the_page_describes_how_saliency_maps_were_computed(self, results: Any) -> None:
        (entry, _) = results.section("saliency")["methods"]
        assert entry["parameters"] == {"mode": "occlude", "stride": 5, "mask_sigma": 5, "blur_sigma": 3}
        (section,) = [one for one in results.manifest["sections"] if one["kind"] == "saliency"]
        assert "1711.00138" in section["notes"][0]["text"]
        assert "1511.06581" in section["notes"][1]["text"]

    def test_gradient_maps_are_summed_over_channels_and_grid_cells(self, results: Any) -> None:
        played, _ = make_samples(make_agent())
        maps = results.saliency(0, "jacobian")
        expected = rl_clarity.jacobian_saliency(make_agent(), played["observations"][0, ::8])
        np.testing.assert_allclose(maps.totals, expected.sum(axis=(1, 2, 3)), rtol=1e-4)
        assert maps.values.shape == (9, *PerturbationGrid.for_shape(16, 16).shape)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((2,), "trajectory 2 is out of range"),
            ((0, "smooth_gradients"), "unknown method 'smooth_gradients'; the page has perturbation, jacobian"),
            ((0, "jacobian", "greedy"), "unknown output 'greedy'; the page has policy, value"),
        ],
    )
    def test_results_raise_errors_for_missing_data(self, results: Any, arguments: Any, message: str) -> None:
        with pytest.raises(OptionError, match=message):
            results.saliency(*arguments)


def test_pages_have_no_saliency_by_default(tmp_path: Path) -> None:
    results = make_page(tmp_path, make_agent())
    with pytest.raises(ClarityError, match="no section 'saliency'"):
        results.saliency(0)


def test_saliency_of_q_value_agents_covers_all_and_the_best_action(tmp_path: Path) -> None:
    agent = make_agent("q")
    results = make_page(tmp_path, agent, saliency=["jacobian"], saliency_every=64)
    (entry,) = results.section("saliency")["methods"]
    assert [one["id"] for one in entry["outputs"]] == ["policy", "greedy"]
    assert results.saliency(0, "jacobian", "greedy").values.shape[0] == 2


def test_saliency_of_a_recurrent_agent_uses_its_recorded_states(tmp_path: Path) -> None:
    agent = make_agent("recurrent")
    results = make_page(tmp_path, agent, saliency=["perturbation"], saliency_every=32)
    played, _ = make_samples(agent)
    state, before = agent.initial_state(1), []
    for step in range(65):
        before.append(state[0])
        _, state = agent.step(played["observations"][:1, step], state, np.zeros(1, bool))
    states = (np.concatenate([before[0], before[32], before[64]]),)
    expected = perturbation_saliency(agent, played["observations"][0, [0, 32, 64]], state=states)
    np.testing.assert_allclose(results.saliency(0).totals, expected.sum(axis=(1, 2)), rtol=1e-4)


def test_a_resumed_page_has_the_same_files(tmp_path: Path) -> None:
    options: dict[str, Any] = {"saliency": ["smooth_gradients"], "saliency_every": 16}
    first, second = tmp_path / "first", tmp_path / "second"
    make_page(first, make_agent(), **options)
    make_page(second, make_agent(), **options)
    files = sorted(path.relative_to(first) for path in first.rglob("saliency/**/*.js"))
    assert len(files) == 4
    lost = second / files[1]
    lost.unlink()
    before = {name: (second / name).stat().st_mtime_ns for name in files if name != files[1]}
    make_page(second, make_agent(), **options)
    assert before == {name: (second / name).stat().st_mtime_ns for name in before}
    for name in (*files, Path("interface.html")):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_forecast_counts_saliency_maps(tmp_path: Path) -> None:
    agent = make_agent()
    played, varied = make_samples(agent)
    expected = rl_clarity.generate(agent, played, varied, tmp_path, dry_run=True, saliency=["perturbation"])
    assert expected.stages["saliency"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"saliency": ["jakobian"]},
            "saliency.methods='jakobian' is not one of perturbation, signed_perturbation",
        ),
        ({"saliency": "jacobian"}, "saliency.methods='jacobian' must be a sequence"),
        ({"saliency_every": 0}, "saliency.every=0 must be from 1 to 64"),
        ({"saliency_every": 65}, "saliency.every=65 must be from 1 to 64"),
    ],
)
def test_invalid_saliency_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        page_options(**options)
    assert message in str(error.value)


def test_maps_of_every_nth_frame_do_not_depend_on_segments() -> None:
    parts = [range(0, 64), range(64, 128), range(128, 130)]
    assert [frame for part in parts for frame in frames_with_map(part, 5)] == [*range(0, 130, 5)]


@pytest.mark.parametrize("method", METHODS.names())
def test_saliency_grids_cover_the_observation(method: str) -> None:
    agent: Any = TinyAgent(observation_shape=(40, 24, 3), num_actions=4)
    centers = grid_centers(agent, method)
    observations = RNG.integers(0, 256, (1, 40, 24, 3)).astype(np.uint8)
    maps = compute_maps(agent, method, observations, ["policy", "value"])
    assert maps.shape == (2, 1, len(centers[0]), len(centers[1]))
    assert METHODS[method].signed or maps.min() >= 0
    for one in centers:
        assert np.all(np.diff(one) > 0)
        assert 0 < one[0] < one[-1] < 1


def test_a_constant_map_is_stored_as_zeros_instead_of_nan() -> None:
    maps = np.stack([np.full((2, 2), 3.0), np.array([[0, 1], [2, 4]])]).astype(np.float32)
    arrays: dict[str, Any] = map_arrays(np.array([0, 4]), {"value": maps})
    assert arrays["scales.value"].tolist() == [0, 4]
    assert arrays["codes.value"].tolist() == [[[0, 0], [0, 0]], [[0, 64], [128, 255]]]
    assert arrays["totals.value"].tolist() == [12, 7]


def test_signed_maps_explain_the_best_action_and_the_value() -> None:
    agent: Any = TinyAgent(observation_shape=(40, 24, 3), num_actions=4)
    observations = RNG.integers(0, 256, (2, 40, 24, 3)).astype(np.uint8)
    maps = compute_maps(agent, "signed_perturbation", observations, ["policy", "value"])
    logits = agent.forward(observations).policy_logits
    for observation, best, values in zip(observations, logits.argmax(1), maps[0], strict=True):
        expected = perturbation_saliency(agent, observation[None], int(best), signed=True)[0]
        np.testing.assert_allclose(values, expected, atol=1e-6)
    np.testing.assert_array_equal(maps[1], perturbation_saliency(agent, observations, "value", signed=True))
    arrays: dict[str, Any] = map_arrays(np.arange(2), {"value": maps[1]}, signed=True)
    assert arrays["codes.value"].dtype == np.int8
    np.testing.assert_allclose(arrays["scales.value"], np.abs(maps[1]).max((1, 2)))
    stored = arrays["codes.value"] / 127 * arrays["scales.value"][:, None, None]
    np.testing.assert_allclose(stored, maps[1], atol=np.abs(maps[1]).max() / 250)
    np.testing.assert_allclose(arrays["totals.value"], np.abs(maps[1]).sum((1, 2)), rtol=1e-5)


def test_saliency_maps_with_nan_or_infinity_are_refused() -> None:
    with pytest.raises(ClarityError, match="the saliency of frame 8 is not finite"):
        map_arrays(np.array([4, 8]), {"value": np.array([[[0, 1]], [[np.nan, 1]]], np.float32)})


class CroppedAgent(TinyAgent):
    """Sees the lower half of a frame."""

    frame_region = (0.5, 0.0, 1.0, 1.0)


def test_frames_are_aligned_with_the_region_that_observations_crop() -> None:
    agent: Any = CroppedAgent(observation_shape=(16, 16, 3))
    frames = RNG.integers(0, 256, (1, 4, 64, 32, 3)).astype(np.uint8)
    frames = np.repeat(np.repeat(frames[:, :, ::8, ::8], 8, axis=2), 8, axis=3)
    observations = frames[:, :, 32::2, ::2]
    zeros = np.zeros((1, 4))
    logits = np.zeros((1, 4, 15), np.float32)
    played = Trajectories(observations, zeros, zeros, zeros == 1, policy_logits=logits, observations_full=frames)
    options = page_options()
    info = describe_agent(agent, played, {}, options).observation
    assert (info.aligned, info.region) == (True, (0.5, 0.0, 1.0, 1.0))
    other: Any = TinyAgent(observation_shape=(16, 16, 3))
    assert not describe_agent(other, played, {}, options).observation.aligned

"""Saliency of the input: goldens of the original program, known answers, and wrong calls."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.analyses.attribution import perturbation
from rl_clarity.analyses.attribution.input_integrated_gradients import input_attribution, input_integrated_gradients
from rl_clarity.analyses.attribution.jacobian import jacobian_saliency
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid, memory_saliency, perturbation_saliency
from rl_clarity.analyses.attribution.saliency import results_at
from rl_clarity.analyses.attribution.smooth_gradients import smooth_gradients
from rl_clarity.base.errors import OptionError
from tests.fakes import TinyAgent

OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
OUTPUTS: list[Any] = ["policy", "value", 1, (0, 2), {"value": 1.0, 2: -0.5}]


@pytest.fixture(params=["policy", "recurrent"])
def agent(request: pytest.FixtureRequest) -> Any:
    return TinyAgent(request.param, observation_shape=(16, 16, 3), num_actions=4)


@pytest.fixture
def state(agent: TinyAgent) -> Any:
    if agent.kind != "recurrent":
        return None
    return (np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32),)


def half_square(agent: Any, images: np.ndarray, state: Any) -> np.ndarray:
    """1/2 |logits|^2 at network inputs (B, H, W, C)."""
    logits = agent.forward(OBSERVATIONS[: len(images)], state, write={"input": images}).policy_logits
    return np.asarray(0.5 * np.square(logits.astype(np.float64)).sum(axis=1))


class TestGrid:
    def test_perturbation_masks_have_the_sums_of_the_original(self) -> None:
        masks = PerturbationGrid.for_shape(80, 80).masks.reshape(16, 16, 80, 80)
        assert masks[8, 8].sum() == pytest.approx(159.6, abs=0.05)
        assert masks[0, 0].sum() == pytest.approx(41.1, abs=0.05)
        assert masks.max(axis=(2, 3)) == pytest.approx(1)

    def test_perturbation_sizes_scale_with_the_image_height(self) -> None:
        grid = PerturbationGrid.for_shape(64, 64)
        assert [grid.stride, grid.mask_sigma, grid.blur_sigma] == pytest.approx([4, 4, 2.4])
        assert PerturbationGrid.for_shape(64, 64, pixels=True) == PerturbationGrid(64, 64, 5, 5.0, 3.0)
        assert PerturbationGrid.for_shape(8, 8).stride == 1

    def test_the_perturbation_grid_covers_the_observation(self) -> None:
        assert PerturbationGrid.for_shape(84, 84, pixels=True).shape == (17, 17)
        assert PerturbationGrid.for_shape(80, 160).shape == (16, 32)

    def test_maps_are_upsampled_bilinearly_between_mask_centers(self) -> None:
        grid = PerturbationGrid.for_shape(80, 80)
        ramp = np.add.outer(np.arange(16.0), 10 * np.arange(16.0))
        image = grid.upsample(ramp)
        assert image.shape == (80, 80)
        np.testing.assert_allclose(image[::5, ::5], ramp, rtol=1e-6)
        assert image[7, 0] == pytest.approx(1.4)
        assert image[79, 79] == pytest.approx(ramp[15, 15])
        np.testing.assert_allclose(grid.upsample(np.stack([ramp, 2 * ramp]))[1], 2 * image, rtol=1e-6)


class TestPerturbation:
    def test_perturbation_saliency_equals_its_definition(self, agent: Any, state: Any) -> None:
        """Each image perturbed and evaluated by itself."""
        grid = PerturbationGrid.for_shape(16, 16, stride=20, blur_sigma=8)
        images = OBSERVATIONS.astype(np.float32) / 255
        before = agent.forward(OBSERVATIONS, state)
        blurred = grid.blurred(images)
        for mode in ("occlude", "searchlight"):
            actual = perturbation_saliency(
                agent, OBSERVATIONS, ["policy", "value"], state=state, mode=mode, stride=20, blur_sigma=8
            )
            for cell, mask in enumerate(grid.masks):
                m = mask[..., None] if mode == "occlude" else 1 - mask[..., None]
                after = agent.forward(OBSERVATIONS, state, write={"input": images * (1 - m) + blurred * m})
                logits = 0.5 * np.square(before.policy_logits - after.policy_logits).sum(axis=1)
                values = 0.5 * np.square(before.values - after.values)
                np.testing.assert_allclose(actual.reshape(2, 3, -1)[0, :, cell], logits, rtol=1e-3, atol=1e-9)
                np.testing.assert_allclose(actual.reshape(2, 3, -1)[1, :, cell], values, rtol=1e-3, atol=1e-9)

    def test_signed_perturbation_saliency_is_the_change_of_the_output(self, agent: Any, state: Any) -> None:
        signed = perturbation_saliency(agent, OBSERVATIONS, OUTPUTS[1:], state=state, signed=True)
        unsigned = perturbation_saliency(agent, OBSERVATIONS, OUTPUTS[1:], state=state)
        np.testing.assert_allclose(0.5 * np.square(signed), unsigned, rtol=1e-4, atol=1e-12)
        assert signed.min() < 0 < signed.max()

    def test_perturbation_saliency_of_several_outputs_has_an_output_axis(self, agent: Any, state: Any) -> None:
        together = perturbation_saliency(agent, OBSERVATIONS, OUTPUTS, state=state)
        assert together.shape == (5, 3, 16, 16)
        for output, maps in zip(OUTPUTS, together, strict=True):
            np.testing.assert_array_equal(maps, perturbation_saliency(agent, OBSERVATIONS, output, state=state))

    def test_batches_that_mix_observations_do_not_change_the_maps(
        self, agent: Any, state: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The memory holds 50 images, so that batches begin and end between the 36 masks of an observation."""
        rows: list[int] = []

        def counted(agent: Any, observations: np.ndarray, *arrays: Any) -> np.ndarray:
            rows.append(len(observations))
            return results_at(agent, observations, *arrays)

        monkeypatch.setattr(perturbation, "results_at", counted)
        for mode in ("occlude", "searchlight"):
            explain = partial(
                perturbation_saliency, agent, OBSERVATIONS, state=state, mode=mode, stride=3, mask_sigma=1, pixels=True
            )
            with monkeypatch.context() as patch:
                together = explain()
                patch.setattr(perturbation, "BATCH_BYTES", 50 * OBSERVATIONS[0].size * 4)
                np.testing.assert_allclose(explain(), together, rtol=1e-4, atol=1e-9)
            assert rows == [108, 32, 32, 32, 12]
            rows.clear()

    def test_perturbation_saliency_explains_action_values(self) -> None:
        agent: Any = TinyAgent("q", observation_shape=(16, 16, 3), num_actions=4)
        maps = perturbation_saliency(agent, OBSERVATIONS, ["policy", "greedy"])
        assert maps.shape == (2, 3, 16, 16)
        assert np.all(maps[0] >= maps[1] - 1e-9)  # one action value is part of all

    def test_greedy_saliency_is_that_of_the_best_action(self) -> None:
        agent: Any = TinyAgent(observation_shape=(16, 16, 3), num_actions=4)
        best = agent.forward(OBSERVATIONS).policy_logits.argmax(1)
        for method in (partial(perturbation_saliency, signed=True), jacobian_saliency):
            maps = method(agent, OBSERVATIONS, "greedy")
            for one, action, observation in zip(maps, best, OBSERVATIONS, strict=True):
                np.testing.assert_allclose(one, method(agent, observation[None], int(action))[0], atol=1e-6)

    def test_perturbation_saliency_equals_the_original_implementation(self, shared_formats: Path) -> None:
        folder = shared_formats / "baby-a3c" / "breakout-v4"
        expected = np.load(folder / "expected.npz")
        agent = formats.load_agent(folder / "model.80.tar")
        frames = expected["saliency.frames"]
        states = (np.concatenate([expected["initial_hidden"][None], expected["hidden"]])[frames],)
        observations = expected["preprocessed"][frames]
        maps = perturbation_saliency(agent, observations, ["policy", "value"], state=states)
        for actual, name in zip(maps, ("actor", "critic"), strict=True):
            golden = expected[f"saliency.{name}"]
            assert np.abs(actual - golden).max() <= 1e-4 * golden.max()


class TestMemory:
    def test_memory_saliency_grows_with_perturbation_strength_from_zero(self) -> None:
        agent: Any = TinyAgent("recurrent", observation_shape=(16, 16, 3), num_actions=4)
        state = (np.full((3, 6), 0.5, np.float32),)
        assert not memory_saliency(agent, OBSERVATIONS, state, strength=0).any()
        some, all_ = (memory_saliency(agent, OBSERVATIONS, state, ["policy", "value"], s) for s in (0.3, 1.0))
        assert some.shape == (2, 3)
        before, after = agent.forward(OBSERVATIONS, state), agent.forward(OBSERVATIONS, (0 * state[0],))
        np.testing.assert_allclose(all_[1], 0.5 * np.square(before.values - after.values), rtol=1e-4)
        assert np.all(some[1] < all_[1])

    @pytest.mark.parametrize(
        ("state", "strength", "message"), [(None, 1.0, "state=None"), ((np.zeros((3, 6)),), 1.5, "strength=1.5")]
    )
    def test_invalid_arguments_are_refused(self, state: Any, strength: float, message: str) -> None:
        agent: Any = TinyAgent("recurrent", observation_shape=(16, 16, 3))
        with pytest.raises(OptionError, match=message):
            memory_saliency(agent, OBSERVATIONS, state, "value", strength)


class TestGradients:
    def test_jacobian_of_the_policy_equals_finite_differences(self, agent: Any, state: Any) -> None:
        maps = jacobian_saliency(agent, OBSERVATIONS, state=state)
        images = OBSERVATIONS.astype(np.float64) / 255
        step = 1e-2  # outputs are float32
        for position in [(0, 0, 0), (7, 9, 2), (15, 3, 1)]:
            high, low = images.copy(), images.copy()
            high[(slice(None), *position)] += step
            low[(slice(None), *position)] -= step
            slope = (half_square(agent, high, state) - half_square(agent, low, state)) / (2 * step)
            np.testing.assert_allclose(maps[(slice(None), *position)], slope**2, rtol=0.05, atol=1e-4)

    def test_magnitude_of_smooth_gradients_does_not_depend_on_the_samples(self, agent: Any, state: Any) -> None:
        few, many = (smooth_gradients(agent, OBSERVATIONS, state=state, samples=n, noise=1e-3) for n in (2, 32))
        assert np.abs(few).sum() == pytest.approx(np.abs(many).sum(), rel=0.05)

    def test_smooth_gradients_without_noise_are_gradients(self, agent: Any, state: Any) -> None:
        smooth = smooth_gradients(agent, OBSERVATIONS, "value", samples=3, noise=0, state=state)
        np.testing.assert_allclose(np.square(smooth), jacobian_saliency(agent, OBSERVATIONS, "value", state=state))

    def test_smooth_gradients_depend_on_the_seed_and_not_on_the_batch(self, agent: Any) -> None:
        all_ = smooth_gradients(agent, OBSERVATIONS, "value", seed=3, samples=4)
        np.testing.assert_allclose(all_[1:2], smooth_gradients(agent, OBSERVATIONS[1:2], "value", seed=3, samples=4))
        assert not np.array_equal(all_, smooth_gradients(agent, OBSERVATIONS, "value", seed=4, samples=4))

    @pytest.mark.parametrize("baseline", ["black", "blurred", np.full((16, 16, 3), 128, np.uint8)])
    def test_integrated_gradients_of_the_input_are_complete(self, agent: Any, state: Any, baseline: Any) -> None:
        outputs: list[Any] = ["policy", "value"]
        result = input_attribution(agent, OBSERVATIONS, outputs, baseline=baseline, steps=300, state=state)
        difference = np.abs(result.scores - result.scores_at_baseline).max()
        assert np.abs(result.completeness_error).max() < 0.02 * difference
        alone = input_integrated_gradients(agent, OBSERVATIONS, "value", baseline=baseline, steps=300, state=state)
        np.testing.assert_allclose(result.values[1], alone, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: perturbation_saliency(a, OBSERVATIONS, mode="blur"), "mode='blur' must be one of occlude"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, "reward"), "unknown output 'reward'"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, 99), "actions 0 to"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, []), "at least one output"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, signed=True), "signed=True needs outputs"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, ["value"], signed=[]), "one bool for each output"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, stride=0), "stride=0 must be above 0"),
        (lambda a: perturbation_saliency(a, OBSERVATIONS, stride=2.5, pixels=True), "stride=2.5 must be a whole"),
        (lambda a: smooth_gradients(a, OBSERVATIONS, samples=0), "samples=0"),
        (lambda a: smooth_gradients(a, OBSERVATIONS, noise=-1.0), "noise=-1.0"),
        (lambda a: input_integrated_gradients(a, OBSERVATIONS, baseline="white"), "baseline='white'"),
        (lambda a: jacobian_saliency(object(), OBSERVATIONS), "needs an agent"),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        call(TinyAgent(observation_shape=(16, 16, 3)))

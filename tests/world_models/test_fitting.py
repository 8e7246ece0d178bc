"""Fitting a simulator: the agent stays as it is, and interrupted training is resumed as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import CheckpointError, OptionError, OutputError
from rl_clarity.base.files import UNFINISHED
from rl_clarity.ppo.logs import read_csv
from rl_clarity.ppo.trainer import TrainingState
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models import fitting
from rl_clarity.world_models.files import load_simulator, save_simulator
from rl_clarity.world_models.fitting import PROGRESS, QUALITY, SIMULATOR, STATE, Fitter, fit_simulator
from rl_clarity.world_models.options import LOSSES, FitOptions
from rl_clarity.world_models.quality import (
    action_compass,
    coverage,
    measure_quality,
    participation_ratio,
    scene_displacement,
    two_sample_auc,
)
from rl_clarity.world_models.simulator import Simulator
from tests.world_models.conftest import SMALLEST
from tests.world_models.dots import dot_agent

OPTIONS: dict[str, Any] = {
    "size": "tiny",
    "steps": 4,
    "batch_size": 3,
    "horizon": 3,
    "log_interval": 2,
    "save_interval": 3,
    "clip_interval": 0,
}


@pytest.fixture(autouse=True, scope="module")
def smallest() -> Any:
    """The smallest networks in place of tiny ones."""
    patch = pytest.MonkeyPatch()
    patch.setattr(fitting, "SIZES", {"tiny": SMALLEST})
    yield
    patch.undo()


@pytest.fixture(scope="module")
def fitted(agent: KerasAgent, recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a short fit that was not interrupted."""
    folder = tmp_path_factory.mktemp("fitted")
    fit_simulator(agent, recording, folder, **OPTIONS)
    return folder


def weights(folder: Path) -> dict[str, np.ndarray]:
    return TrainingState.load(folder / STATE).part("world")


def test_fit_simulator_writes_simulator_logs_and_a_clip(fitted: Path, agent: KerasAgent) -> None:
    rows = read_csv(fitted / "progress.csv")
    assert [row["update"] for row in rows] == ["2", "4"]
    assert all(np.isfinite(float(rows[0][name])) for name in (*LOSSES, "loss", "gradient_norm"))
    assert len(list((fitted / "tensorboard").iterdir())) == 1
    clip = (fitted / "clips" / "0000004.apng").read_bytes()
    assert b"acTL" in clip  # animated
    simulator = load_simulator(fitted / SIMULATOR, agent)
    assert simulator.metadata["fitted_steps"] == 4
    assert simulator.metadata["action_combos"] == [["LEFT"], [], ["RIGHT"]]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["between steps", "in a step"])
def test_an_interrupted_simulator_fit_resumes_to_the_same_result(
    when: str, fitted: Path, agent: KerasAgent, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = Fitter.learn

    def interrupted(self: Fitter, *arguments: Any) -> Any:
        if self.steps == 3:
            if when == "in a step":
                learn(self, *arguments)
            raise KeyboardInterrupt
        return learn(self, *arguments)

    monkeypatch.setattr(Fitter, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt, match="training is saved"):
        fit_simulator(agent, recording, tmp_path, **OPTIONS)
    monkeypatch.setattr(Fitter, "learn", learn)
    (tmp_path / f".{STATE}.1{UNFINISHED}").write_text("killed while writing")
    fit_simulator(agent, recording, tmp_path, **OPTIONS)
    for name, array in weights(fitted).items():
        np.testing.assert_array_equal(weights(tmp_path)[name], array, err_msg=name)
    rows = [[{**row, "seconds": ""} for row in read_csv(folder / "progress.csv")] for folder in (fitted, tmp_path)]
    assert rows[0] == rows[1]
    assert not list(tmp_path.glob(f"*{UNFINISHED}"))


def test_fit_simulator_does_not_replace_foreign_files(agent: KerasAgent, recording: Recording, tmp_path: Path) -> None:
    for name in (SIMULATOR, QUALITY, PROGRESS):
        (tmp_path / name).write_text("mine")
        with pytest.raises(OutputError, match=rf"contains {name}, but no {STATE} .*\(--force\)"):
            fit_simulator(agent, recording, tmp_path, **OPTIONS)
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    (tmp_path / PROGRESS).write_text("time/iterations\n1\n")
    fit_simulator(agent, recording, tmp_path, overwrite=True, **OPTIONS)
    assert [row["update"] for row in read_csv(tmp_path / PROGRESS)] == ["2", "4"]


def test_a_deleted_simulator_file_is_written_again_from_its_state(
    fitted: Path, agent: KerasAgent, recording: Recording, tmp_path: Path
) -> None:
    (tmp_path / STATE).write_bytes((fitted / STATE).read_bytes())
    fit_simulator(agent, recording, tmp_path, **OPTIONS)
    assert (tmp_path / SIMULATOR).read_bytes() == (fitted / SIMULATOR).read_bytes()


def test_fitting_a_simulator_does_not_change_the_agent(agent: KerasAgent, recording: Recording) -> None:
    before = agent.parameters()
    fitter = Fitter(agent, recording, FitOptions(**OPTIONS))
    fitter.step()
    for name, array in agent.parameters().items():
        np.testing.assert_array_equal(array, before[name])
    count = sum(array.size for array in fitter.world.parameters().values())
    assert fitter.state().arrays["adam/mean"].shape == (count,), "the optimizer and the norm have the world alone"


def test_a_fit_with_other_options_or_agent_is_not_resumed(
    fitted: Path, agent: KerasAgent, recording: Recording
) -> None:
    with pytest.raises(OptionError, match=r"kl=1\.0, but the training in this directory has 12\.0"):
        fit_simulator(agent, recording, fitted, **{**OPTIONS, "kl": 1.0})
    with pytest.raises(OptionError, match="a different agent"):
        fit_simulator(dot_agent(1), recording, fitted, **OPTIONS)


def test_a_damaged_fit_state_is_not_replaced(agent: KerasAgent, recording: Recording, tmp_path: Path) -> None:
    (tmp_path / STATE).write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="cannot be resumed"):
        fit_simulator(agent, recording, tmp_path, **OPTIONS)


@pytest.mark.parametrize(
    ("option", "message"), [({"size": "huge"}, "size='huge'"), ({"steps": 0}, "steps=0"), ({"frame": -1.0}, "frame")]
)
def test_invalid_options_are_refused(
    option: dict[str, Any], message: str, agent: KerasAgent, recording: Recording
) -> None:
    with pytest.raises(OptionError, match=message):
        fit_simulator(agent, recording, **option)


def test_a_simulator_is_saved_in_half_precision(simulator: Simulator, agent: KerasAgent, tmp_path: Path) -> None:
    whole = save_simulator(simulator, tmp_path / "a.safetensors")
    half = save_simulator(simulator, tmp_path / "b.safetensors", half=True)
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    loaded = load_simulator(half, agent)
    for name, array in loaded.world.parameters().items():
        np.testing.assert_array_equal(array, simulator.world.parameters()[name].astype(np.float16))
    assert loaded.metadata == simulator.metadata


def test_damaged_simulators_and_those_of_another_agent_are_refused(
    simulator: Simulator, agent: KerasAgent, tmp_path: Path
) -> None:
    path = save_simulator(simulator, tmp_path / "a.safetensors")
    with pytest.raises(OptionError, match="a different agent"):
        load_simulator(path, dot_agent(1))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match="damaged"):
        load_simulator(path, agent)
    path.write_bytes(data.replace(b'\\"hidden\\": 10', b'\\"hidden\\": -1'))
    with pytest.raises(CheckpointError, match="size"):
        load_simulator(path, agent)


@pytest.mark.slow
def test_simulator_quality_is_compared_with_simple_predictions(simulator: Simulator, recording: Recording) -> None:
    quality = measure_quality(simulator, recording, windows=20, horizon=4, compass_steps=2)
    assert quality.windows == 20
    copied = quality.errors["frame"]["last_frame"]
    assert copied.shape == (3, 4)
    assert (copied[1] <= copied[0]).all()
    assert (copied[0] <= copied[2]).all()
    assert set(quality.errors["state"]) == {"posterior", "prior", "closed_loop", "last_frame", "mean_frame"}
    for kind, means in quality.errors.items():
        for one in quality.differences[kind]:
            low, high = one["interval"]
            assert low <= one["difference"] <= high
            if kind == "frame":  # all windows are complete
                expected = np.mean(means[one["larger"]][0]) - np.mean(means[one["smaller"]][0])
                assert one["difference"] == pytest.approx(expected, abs=0.02)
    assert quality.auc_interval[0] <= quality.auc <= quality.auc_interval[1]
    assert quality.compass is not None
    assert np.isnan(quality.compass.agreement_interval[1]).all()  # the action without buttons
    assert (quality.compass.agreement_interval[[0, 2], 0] <= quality.compass.agreement[[0, 2]]).all()
    assert "posterior" in str(quality)
    assert quality.to_dict()["compass"]["actions"] == ["LEFT", "none", "RIGHT"]


@pytest.mark.slow
def test_the_error_of_the_copy_last_frame_baseline_is_exact(simulator: Simulator, recording: Recording) -> None:
    quality = measure_quality(simulator, recording, windows=1000, horizon=1, compass_steps=0)
    squares = []
    for episode in recording:
        frames = np.asarray(episode.observations, np.float64) / 255
        squares += [np.square(frames[t] - frames[t - 1]).mean() for t in range(3, len(frames))]
    assert quality.errors["frame"]["last_frame"][0, 0] == pytest.approx(np.mean(squares), rel=1e-5)


@pytest.mark.slow
def test_the_two_sample_auc_of_equal_distributions_is_one_half() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 60, 5, 3))
    mask = np.ones((60, 5), bool)
    area, (low, high) = two_sample_auc(first, second, mask)
    assert area == pytest.approx(0.5, abs=0.07)
    assert low < 0.5 < high
    assert high - low < 0.3
    area, (low, _) = two_sample_auc(first, second + 3, mask)
    assert min(area, low) > 0.99


def test_coverage_of_latents_is_high_for_points_on_the_whole_sphere() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert coverage(points[:250], points[250:]).mean() > 0.8
    assert coverage(points[points[:, 2] > 0.8], points).mean() < 0.3
    assert participation_ratio(points) == pytest.approx(3, abs=0.1)


def test_coverage_of_latents_does_not_depend_on_their_number() -> None:
    """Of twice as many latents each is nearer to another one, so that fewer random points were as near."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(2000, 24)) * np.geomspace(1, 0.05, 24)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    random = rng.normal(size=(500, 24))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    few, many = coverage(points[:64], random), coverage(points[:1024], random)
    low, high = np.quantile(few, [0.025, 0.975])
    assert 0.02 < many.mean() < 0.9
    assert low <= many.mean() <= high
    assert np.isnan(coverage(points[:31], random)).all()


def test_scene_displacement_measures_the_movement_of_the_frames() -> None:
    scene = np.random.default_rng(0).uniform(size=(16, 16, 3))
    frames = np.stack([np.roll(scene, (t, -2 * t), axis=(0, 1)) for t in range(4)])[None]
    np.testing.assert_allclose(scene_displacement(frames), [[6, 3]], atol=0.3)  # the scene moves left and down


def test_scene_displacement_ignores_blur_and_a_fixed_pattern() -> None:
    rng = np.random.default_rng(1)
    spectrum = np.fft.fft2(rng.normal(size=(32, 32))) * (np.abs(np.fft.fftfreq(32)) < 0.15)[:, None]
    scene = np.fft.ifft2(spectrum * (np.abs(np.fft.fftfreq(32)) < 0.15)).real[..., None]
    pattern = 0.05 * rng.normal(size=(32, 32, 1)) * scene.std()
    frames = np.stack([np.roll(scene, (0, -t), axis=(0, 1)) + pattern for t in range(5)])[None]
    np.testing.assert_allclose(scene_displacement(frames), [[4, 0]], atol=0.5)


def test_the_action_compass_compares_displacements_with_action_buttons(simulator: Simulator) -> None:
    moves = iter([np.full((2, 2), -1.0), np.zeros((2, 2)), np.array([[1.0, 0], [-1, 0]])])
    compass = action_compass(simulator, 2, 1, displacement=lambda frames: next(moves))
    assert compass.actions == ("LEFT", "none", "RIGHT")
    np.testing.assert_array_equal(compass.agreement, [1, np.nan, 0.5])

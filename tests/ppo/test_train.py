"""Complete training runs: they learn, write their files, and stop with clear errors."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError, OutputError
from rl_clarity.formats import load_agent, read
from rl_clarity.jobs import locked
from rl_clarity.ppo import train
from rl_clarity.ppo.logs import ProgressLog, read_csv
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.trainer import COLUMNS, DivergenceError, Trainer, TrainingState
from rl_clarity.recordings.recording import open_recording
from tests.ppo.small import COLUMNS_ID, make_trainer, parameters, tiny
from tests.ppo.toys import ACTIONS, Columns, bright_column
from tests.ranks import find_mpiexec


@pytest.mark.slow
def test_ppo_learns_which_column_is_bright() -> None:
    trainer = make_trainer(Columns)
    returns = [trainer.update()["mean_return"] for _ in range(25)]
    assert returns[0] < 2.2  # of 4: a third of random actions is correct
    assert returns[-1] > 3.6
    rng = np.random.default_rng(9)
    images = np.stack([bright_column(column, rng) for column in range(ACTIONS)])
    logits, values, _ = trainer.learner.act(images, np.zeros(ACTIONS, bool), ())
    np.testing.assert_array_equal(logits.argmax(1), range(ACTIONS))
    assert (values > 0.5).all()


def test_the_same_seed_trains_the_same_agent() -> None:
    first, second, other = make_trainer(Columns), make_trainer(Columns), make_trainer(Columns, seed=1)
    for trainer in (first, second, other):
        trainer.update()
    assert all(np.array_equal(array, parameters(second)[name]) for name, array in parameters(first).items())
    assert any(not np.array_equal(array, parameters(other)[name]) for name, array in parameters(first).items())


def test_a_checkpoint_can_be_loaded_as_an_agent(tmp_path: Path) -> None:
    summary = train(tmp_path, **tiny(2, reward_processing="clip"))
    assert summary.checkpoint == tmp_path / "checkpoint.jd"
    assert summary.timesteps == 64
    agent = load_agent(summary.checkpoint, env_id=COLUMNS_ID)
    assert agent.num_actions == ACTIONS
    assert agent.observation_shape == (16, 16, 3)
    assert agent.metadata["env_id"] == COLUMNS_ID
    assert agent.metadata["lambda"] == 0.95
    outputs = agent.forward(np.zeros((2, 16, 16, 3), np.uint8))
    assert outputs.policy_logits is not None
    assert np.isfinite(outputs.policy_logits).all()


def test_progress_csv_has_one_row_per_update(tmp_path: Path) -> None:
    train(tmp_path, **tiny(2))
    train(tmp_path, **tiny(5, save_interval=2))
    rows = read_csv(tmp_path / "progress.csv")
    assert [int(row["update"]) for row in rows] == [1, 2, 3, 4, 5]
    assert [int(row["timesteps"]) for row in rows] == [32, 64, 96, 128, 160]
    assert list(rows[0]) == list(COLUMNS)
    assert not list((tmp_path).glob(".*")), "temporary files remain"


def test_the_save_all_option_keeps_every_checkpoint(tmp_path: Path) -> None:
    train(tmp_path, **tiny(3, save_interval=1, save_all=True))
    weights = [read(tmp_path / f"checkpoint-{update}.jd").parameters["ppo2_model/pi/w:0"] for update in (1, 2, 3)]
    assert not np.array_equal(weights[0], weights[2])
    np.testing.assert_array_equal(weights[2], read(tmp_path / "checkpoint.jd").parameters["ppo2_model/pi/w:0"])


def test_tensorboard_event_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    monkeypatch.setitem(sys.modules, "tensorboard", None)  # training does not need it
    train(tmp_path, **tiny(2, tensorboard=True))
    (path,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    events = [
        tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))
    ]  # TensorFlow verifies the checksums
    assert events[0].file_version == "brain.Event:2"
    rows = list(csv.DictReader((tmp_path / "progress.csv").open()))
    assert [event.step for event in events[1:]] == [int(row["timesteps"]) for row in rows]
    for event, row in zip(events[1:], rows, strict=True):
        scalars = {value.tag: value.simple_value for value in event.summary.value}
        assert scalars.keys() == row.keys() - {"update", "timesteps"}
        assert scalars["mean_return"] == pytest.approx(float(row["mean_return"]), rel=1e-5, nan_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("recurrent", [{}, {"use_lstm": True}, {"gru_units": 8}], ids=["none", "lstm", "gru"])
def test_episodes_are_recorded_with_their_agents(tmp_path: Path, recurrent: dict[str, Any]) -> None:
    options = tiny(5, **recurrent, record_every=2)
    train(tmp_path, **options)
    recording = open_recording(tmp_path / "tensorboard")
    assert {row["number"] % 2 for row in recording.table()} == {0}
    assert recording.metadata["action_combos"]
    compared = 0
    for episode in recording:
        start = int(episode.facts["start_step"])
        assert episode.facts["training_step"] == start
        rows = slice(0, options["num_steps"] - start // options["num_envs"] % options["num_steps"])  # before an update
        agent: Any = load_agent(recording.checkpoint(episode) or "")
        states = None if episode.states is None else tuple(part[rows] for part in episode.states)
        observations = episode.observations[rows]
        outputs, _ = agent.step(observations, states, np.zeros(len(observations), bool))
        assert episode.policy_logits is not None
        assert episode.values is not None
        np.testing.assert_allclose(episode.policy_logits[rows], outputs.policy_logits, atol=1e-5)
        np.testing.assert_allclose(episode.values[rows], outputs.values, atol=1e-5)
        assert (episode.states is not None) == bool(recurrent)
        compared += len(observations)
    assert compared > 8


def test_recording_does_not_change_training(tmp_path: Path) -> None:
    train(tmp_path / "a", **tiny(3))
    train(tmp_path / "b", **tiny(3, record_every=1))
    a, b = (read(tmp_path / name / "checkpoint.jd").parameters for name in "ab")
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name])


def test_train_refuses_an_empty_directory_name() -> None:
    with pytest.raises(OutputError, match="save_dir is empty"):
        train("", **tiny(1))


def test_train_without_a_directory_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(**tiny(1)).checkpoint is None
    assert not list(tmp_path.iterdir())


def test_a_nan_loss_stops_training_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    options = tiny(10, save_interval=1, env_id="tests.ppo.toys:RlClarityColumnsNan-v0")
    with pytest.raises(DivergenceError, match="update 6"):  # 8 steps an update, NaN after 40
        train(tmp_path, **options)
    checkpoint = read(tmp_path / "checkpoint.jd")
    assert all(np.isfinite(array).all() for array in checkpoint.parameters.values())
    assert TrainingState.load(tmp_path / "training-state.npz").values["updates"] == 5


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_train_refuses_keras_backends_other_than_tensorflow(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keras.backend.backend", lambda: backend)
    with pytest.raises(OptionError, match=f"KERAS_BACKEND is {backend}.*KERAS_BACKEND=tensorflow"):
        train(tmp_path / "run", **tiny(1))
    assert not (tmp_path / "run").exists()


def test_a_second_training_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with locked(str(tmp_path)), pytest.raises(OutputError, match=f"process {os.getpid()} on .*another directory"):
        train(tmp_path, **tiny(1))
    train(tmp_path, **tiny(1))


def test_progress_without_a_terminal_is_a_line_per_minute(capfd: pytest.CaptureFixture[str]) -> None:
    train(**tiny(3))
    first, second = (line for line in capfd.readouterr().err.splitlines() if line.startswith("update"))
    assert first.startswith("update 1  32 of 96 steps")
    assert "left" not in first  # its time includes compilation
    assert second.startswith("update 2  64 of 96 steps")
    assert second.endswith(" left")


def test_the_remaining_time_is_estimated_from_the_measured_speed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    log = ProgressLog(total=100_000, completed=20_000)
    row = {"mean_return": 1.0, "mean_length": 9.0, "steps_per_second": 1e9}  # the last update's own speed
    for update in range(1, 14):
        clock += 400 if update == 1 else 100  # the first update compiles functions
        log.write({**row, "update": update, "timesteps": 20_000 + 1000 * update})
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].endswith("  return 1.00  length 9")
    assert lines[1].endswith("10 steps/s  return 1.00  length 9  2.2 h left")  # 78,000 steps at 10 a second
    assert lines[-1].endswith("10 steps/s  return 1.00  length 9  1.9 h left")  # 67,000 at 10


def test_an_update_without_a_finished_episode_shows_no_return(capfd: pytest.CaptureFixture[str]) -> None:
    row = {"mean_return": np.nan, "mean_length": np.nan, "update": 1, "timesteps": 64}
    ProgressLog(total=128, completed=0).write(row)
    assert capfd.readouterr().err == "update 1  64 of 128 steps  no episode has ended\n"


@pytest.mark.parametrize("network", ["impala", "nature"])
def test_impala_and_nature_networks_can_be_trained(network: str) -> None:
    class LargeColumns(Columns):
        observation_shape = (48, 48, 3)

        def _draw(self) -> np.ndarray:
            return super()._draw().repeat(3, axis=1).repeat(3, axis=2)

    options = TrainOptions(env_name="columns", cnn=network, num_envs=4, num_steps=4, num_minibatches=2, ppo_epochs=1)
    trainer = Trainer(options, LargeColumns(4, seed=0))
    before = parameters(trainer)
    trainer.update()
    for name, array in parameters(trainer).items():
        assert not np.array_equal(array, before[name]), f"{name} did not change"


def test_training_in_bfloat16_is_close_to_float32(tmp_path: Path) -> None:
    for precision in ("float32", "bfloat16"):
        train(tmp_path / precision, **tiny(1, precision=precision))
    before, after = (read(tmp_path / name / "checkpoint.jd").parameters for name in ("float32", "bfloat16"))
    for name, array in before.items():
        np.testing.assert_allclose(array, after[name], atol=5e-3, err_msg=name)


@pytest.mark.slow
def test_an_atari_agent_can_be_trained(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    options: dict[str, Any] = {"env_kind": "atari", "env_id": "PongNoFrameskip-v4", "frame_stack": 4, "cnn": "nature"}
    options |= {"num_envs": 2, "num_steps": 8, "num_minibatches": 2, "timesteps_per_proc": 32, "tensorboard": False}
    train(tmp_path, **options, reward_processing="clip", epsilon_greedy=0.1)
    agent = load_agent(tmp_path / "checkpoint.jd")
    assert agent.observation_shape == (84, 84, 4)
    assert agent.metadata["frame_stack"] == 4


RANKS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from rl_clarity.ppo import train
from rl_clarity.ppo import trainer
from tests.ppo.small import tiny
trainers = []
update = trainer.Trainer.update
def record(self):
    row = update(self)
    trainers[:] = [self]
    return row
trainer.Trainer.update = record
from rl_clarity.jobs import communicator
rank = communicator().rank
for updates in (2, 4):
    options = tiny(updates, reward_processing="normalize", tensorboard=True, save_all=True)
    train(f"{sys.argv[2]}/directory-{rank}", **options)
np.savez(f"{sys.argv[2]}/rank-{rank}.npz", images=trainers[0].runner._observations, **{
    name.replace("/", "|"): array for name, array in trainers[0].learner.network.parameters().items()})
"""


@pytest.mark.slow
def test_mpi_ranks_share_parameters_but_play_different_environments(tmp_path: Path) -> None:
    repository = Path(__file__).resolve().parents[2]
    command = [find_mpiexec(), "-n", "2", sys.executable, "-c", RANKS, str(repository), str(tmp_path)]
    subprocess.run(command, check=True, timeout=300)
    first, second = (np.load(tmp_path / f"rank-{rank}.npz") for rank in (0, 1))
    for name in first.files:
        assert np.array_equal(first[name], second[name]) == (name != "images"), name
    assert not (tmp_path / "directory-1").exists(), "only rank 0 writes"
    assert [row["update"] for row in read_csv(tmp_path / "directory-0" / "progress.csv")] == ["1", "2", "3", "4"]
    with pytest.raises(OptionError, match="mpiexec -n 2"):
        train(tmp_path / "directory-0", **tiny(5, reward_processing="normalize"))

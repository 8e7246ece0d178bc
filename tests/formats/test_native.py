"""Native format: round trips of checkpoints, deterministic bytes, compatibility with safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy as safetensors_numpy

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import baselines, native
from rl_clarity.formats.architectures import build
from rl_clarity.formats.checkpoint import Checkpoint
from tests import state_dicts
from tests.formats import torch_writer


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari(lstm=True)))
    return formats.read(path, env_name="breakout", gamma=0.9)


def test_native_checkpoints_survive_a_round_trip(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "out" / "converted.safetensors"
    native.write(path, checkpoint)
    copy = formats.read(path)
    for field in ("format", "network", "metadata", "notes", "architecture"):
        assert getattr(copy, field) == getattr(checkpoint, field)
    assert set(copy.parameters) == set(checkpoint.parameters)
    assert all(np.array_equal(copy.parameters[name], array) for name, array in checkpoint.parameters.items())
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_writing_the_same_checkpoint_gives_the_same_bytes(checkpoint: Checkpoint, tmp_path: Path) -> None:
    for name in "ab":
        native.write(tmp_path / name, checkpoint)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_converted_baselines_checkpoints_compute_the_same_outputs(tmp_path: Path) -> None:
    path = tmp_path / "model.jd"
    baselines.write(
        path, build("nature", (44, 44, 4), 5).parameters(), {"cnn": "nature", "observation_shape": [44, 44, 4]}
    )
    formats.convert(path, tmp_path / "out.safetensors", env_name="coinrun")
    agents: list[Any] = [formats.load_agent(path), formats.load_agent(tmp_path / "out.safetensors")]
    original, converted = agents
    observations = np.random.default_rng(0).integers(0, 256, (2, 44, 44, 4), np.uint8)
    assert np.array_equal(original.forward(observations).values, converted.forward(observations).values)
    assert converted.metadata == {**original.metadata, "env_name": "coinrun"}
    formats.convert(tmp_path / "out.safetensors", tmp_path / "again.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_invalid_checkpoints_are_not_converted(tmp_path: Path) -> None:
    arrays = state_dicts.ppo_atari()
    arrays["actor.bias"][0] = np.nan
    (tmp_path / "agent.pt").write_bytes(torch_writer.save(arrays))
    with pytest.raises(CheckpointError, match=r"actor\.bias"):
        formats.convert(tmp_path / "agent.pt", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_the_safetensors_library_reads_native_checkpoints(checkpoint: Checkpoint, tmp_path: Path) -> None:
    native.write(tmp_path / "a", checkpoint)
    tensors = safetensors_numpy.load((tmp_path / "a").read_bytes())
    assert all(np.array_equal(tensors[name], array) for name, array in checkpoint.parameters.items())


def make_checkpoint(arrays: dict[str, Any]) -> Checkpoint:
    return Checkpoint(Path("agent"), "cleanrl", "ppo_atari", arrays, {})


def test_tensors_of_all_supported_data_types_are_stored(tmp_path: Path) -> None:
    codes = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
    arrays: dict[str, Any] = {code: np.arange(6).reshape(2, 3).astype(code) for code in codes}
    arrays |= {
        "big endian": np.arange(3, dtype=">f4"),
        "none": np.zeros((0, 2), np.float32),
        "scalar": np.float32(3),
    }
    arrays |= {"transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T}
    native.write(tmp_path / "a", make_checkpoint(arrays))
    parameters = formats.read(tmp_path / "a").parameters
    assert set(parameters) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(parameters[name], array)
        assert parameters[name].dtype == np.asarray(array).dtype.newbyteorder("=")


def test_safetensors_files_of_other_programs_are_rejected(tmp_path: Path) -> None:
    safetensors_numpy.save_file({"w": np.zeros(3, np.float32)}, tmp_path / "a", {"format": "pt"})
    with pytest.raises(CheckpointError, match="unknown format"):
        formats.read(tmp_path / "a")


def test_tensors_of_unsupported_data_types_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="complex"):
        native.write(tmp_path / "a", make_checkpoint({"w": np.zeros(3, "complex128")}))
    assert not list(tmp_path.iterdir())


def test_the_header_of_a_native_checkpoint_is_json(checkpoint: Checkpoint, tmp_path: Path) -> None:
    native.write(tmp_path / "a", checkpoint)
    data = (tmp_path / "a").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    header_metadata = json.loads(header["__metadata__"]["rl_clarity"])
    assert header_metadata["format"] == "cleanrl"
    assert header_metadata["network"] == "ppo_atari_lstm"
    assert header_metadata["metadata"]["gamma"] == 0.9

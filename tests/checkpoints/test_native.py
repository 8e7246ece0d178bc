"""The project's own format: a round trip of every kind of checkpoint, readable by others, atomic and repeatable."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rl_clarity.checkpoints as checkpoints
from rl_clarity.checkpoints import baselines, native, safetensors_file
from rl_clarity.errors import CheckpointError
from rl_clarity.networks import build
from tests import state_dicts
from tests.checkpoints import torch_writer


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari(lstm=True)))
    return checkpoints.read(path, env_name="breakout", gamma=0.9)


def test_round_trip(checkpoint, tmp_path):
    path = tmp_path / "out" / "converted.safetensors"
    native.write(path, checkpoint)
    copy = checkpoints.read(path)
    for field in ("format", "network", "metadata", "notes", "architecture"):
        assert getattr(copy, field) == getattr(checkpoint, field)
    assert list(copy.parameters) == list(checkpoint.parameters)
    assert all(np.array_equal(copy.parameters[name], array) for name, array in checkpoint.parameters.items())
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_same_checkpoint_gives_the_same_bytes(checkpoint, tmp_path):
    for name in "ab":
        native.write(tmp_path / name, checkpoint)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_baselines_checkpoints_convert_too(tmp_path):
    path = tmp_path / "model.jd"
    baselines.write(
        path, build("nature", (44, 44, 4), 5).parameters(), {"cnn": "nature", "observation_shape": [44, 44, 4]}
    )
    checkpoints.convert(path, tmp_path / "out.safetensors", env_name="coinrun")
    before, after = checkpoints.load_agent(path), checkpoints.load_agent(tmp_path / "out.safetensors")
    observations = np.random.default_rng(0).integers(0, 256, (2, 44, 44, 4), np.uint8)
    assert np.array_equal(before.forward(observations).values, after.forward(observations).values)
    assert after.metadata == {**before.metadata, "env_name": "coinrun"}
    checkpoints.convert(tmp_path / "out.safetensors", tmp_path / "again.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_what_makes_no_agent_is_not_converted(tmp_path):
    arrays = state_dicts.ppo_atari()
    arrays["actor.bias"][0] = np.nan
    (tmp_path / "agent.pt").write_bytes(torch_writer.save(arrays))
    with pytest.raises(CheckpointError, match=r"actor\.bias"):
        checkpoints.convert(tmp_path / "agent.pt", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_other_programs_read_the_tensors(checkpoint, tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    native.write(tmp_path / "a", checkpoint)
    found = numpy.load((tmp_path / "a").read_bytes())
    assert all(np.array_equal(found[name], array) for name, array in checkpoint.parameters.items())


def test_safetensors_of_all_types(tmp_path):
    arrays = {code: np.arange(6).reshape(2, 3).astype(code) for code in safetensors_file.DTYPES.values()}
    arrays |= {"big endian": np.arange(3, dtype=">f4"), "none": np.zeros((0, 2), np.float32), "one": np.float32(3)}
    safetensors_file.write(tmp_path / "a", arrays, {"key": "text"})
    found, metadata = safetensors_file.read(tmp_path / "a")
    assert metadata == {"key": "text"}
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == np.asarray(array).dtype.newbyteorder("=")


def test_safetensors_of_others_are_not_ours(tmp_path):
    safetensors_file.write(tmp_path / "a", {"w": np.zeros(3, np.float32)}, {"format": "pt"})
    with pytest.raises(CheckpointError, match="no known format"):
        checkpoints.read(tmp_path / "a")


def test_a_type_that_the_format_lacks(tmp_path):
    with pytest.raises(CheckpointError, match="complex"):
        safetensors_file.write(tmp_path / "a", {"w": np.zeros(3, complex)}, {})
    assert not list(tmp_path.iterdir())


def test_the_header_is_plain_json(checkpoint, tmp_path):
    native.write(tmp_path / "a", checkpoint)
    data = (tmp_path / "a").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    facts = json.loads(header["__metadata__"]["rl_clarity"])
    assert facts["format"] == "cleanrl"
    assert facts["network"] == "ppo_atari_lstm"
    assert facts["metadata"]["gamma"] == 0.9

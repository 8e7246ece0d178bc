"""joblib files of Baselines: contents, compression, mismatched metadata."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import baselines, safe_joblib
from rl_clarity.formats.architectures import build
from rl_clarity.formats.safe_files import Budget
from tests.golden_data import Golden


def read_joblib(path: Path) -> Any:
    return safe_joblib.load(path, Budget.for_file(path.stat().st_size))


def test_read_joblib_reads_the_same_contents_as_joblib(golden: Golden) -> None:
    ours, theirs = read_joblib(golden.checkpoint), joblib.load(golden.checkpoint)
    assert list(ours) == list(theirs)
    assert ours["args"] == theirs["args"]
    assert list(ours["params"]) == list(theirs["params"])
    for name, array in theirs["params"].items():
        assert ours["params"][name].dtype == array.dtype
        assert np.array_equal(ours["params"][name], array)


CONTENT: dict[str, dict[str, Any]] = {
    "params": {
        "a": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "big endian": np.arange(5, dtype=">f4"),
        "whole": np.arange(4, dtype=np.int64),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.float32(1.5),
    },
    "args": {"gamma": 0.9, "name": "x", "none": None, "list": [1, (2, 3)], "large": 10**30, "minus": -7},
}


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("compress", [0, ("zlib", 3), ("gzip", 3), ("bz2", 3), ("xz", 3), ("lzma", 3)])
def test_read_joblib_reads_every_compression_and_pickle_protocol(tmp_path: Path, protocol: int, compress: Any) -> None:
    path = tmp_path / "file"
    joblib.dump(CONTENT, path, compress=compress, protocol=protocol)
    loaded = read_joblib(path)
    assert loaded["args"] == CONTENT["args"]
    for name, array in CONTENT["params"].items():
        assert np.array_equal(loaded["params"][name], array), name
        assert np.asarray(loaded["params"][name]).dtype.kind == np.asarray(array).dtype.kind


def test_read_joblib_reads_arrays_pickled_by_numpy(tmp_path: Path) -> None:
    """Arrays pickled by NumPy, as inside objects that joblib does not look into."""
    path = tmp_path / "file"
    path.write_bytes(
        pickle.dumps({"params": {"a": np.arange(6.0).reshape(2, 3).T}, "args": {"n": np.int64(3)}}, protocol=4)
    )
    loaded = read_joblib(path)
    assert np.array_equal(loaded["params"]["a"], np.arange(6.0).reshape(2, 3).T)
    assert loaded["args"] == {"n": 3}


def test_joblib_reads_files_written_by_rl_clarity(tmp_path: Path) -> None:
    parameters = build("nature", (44, 44, 4), 5).parameters()
    args = {"cnn": "nature", "env_name": "pong", "observation_shape": [44, 44, 4]}
    path = tmp_path / "new" / "model.jd"
    baselines.write(path, parameters, args)
    assert [file.name for file in path.parent.iterdir()] == ["model.jd"]
    assert all(np.array_equal(joblib.load(path)["params"][name], array) for name, array in parameters.items())
    checkpoint = formats.read(path)
    assert checkpoint.metadata == {"env_kind": "procgen", "library": "baselines", **args}
    assert formats.build_agent(checkpoint).observation_shape == (44, 44, 4)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"cnn": "claer"}, "'claer'.*did you mean 'clear'"),
        ({"env_kind": "chess"}, "'chess'.*observation_shape"),
        ({"frame_stack": 2}, r"\(7, 7, 3, 16\).*needs \(7, 7, 6, 16\)"),
    ],
)
def test_metadata_must_match_the_tensors(tmp_path: Path, args: dict[str, Any], words: str) -> None:
    path = tmp_path / "model.jd"
    baselines.write(path, build("clear", (64, 64, 3), 5).parameters(), args)
    with pytest.raises(CheckpointError, match=f"model.jd: .*{words}"):
        formats.load_agent(path)


def test_arguments_of_load_agent_override_metadata_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.jd"
    baselines.write(path, build("nature", (84, 84, 4), 5).parameters(), {"cnn": "claer", "gamma": 0.9})
    agent = formats.load_agent(path, cnn="nature", env_kind="atari", frame_stack=4)
    with pytest.raises(CheckpointError, match="claer"):
        formats.load_agent(path)
    assert agent.metadata["gamma"] == 0.9


def test_a_checkpoint_without_a_valid_policy_head_is_refused(tmp_path: Path) -> None:
    for head in (None, np.zeros(5, np.float32), np.zeros((5, 0), np.float32)):
        buffer = io.BytesIO()
        joblib.dump({"params": {} if head is None else {baselines.POLICY_HEAD: head}, "args": {}}, buffer)
        (tmp_path / "model.jd").write_bytes(buffer.getvalue())
        with pytest.raises(CheckpointError, match=r"ppo2_model/pi/w:0.*\(features, actions\)"):
            formats.load_agent(tmp_path / "model.jd")

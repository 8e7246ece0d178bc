"""Checkpoints whose large weights are stored rounded."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.formats import torch_file
from rl_clarity.formats.safe_files import Budget, SafeZip
from rl_clarity.recordings.checkpoints import FULL_EVERY, decode_difference, encode_difference
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.recordings.rounded_weights import SMALLEST, RoundedWeights, round_weights
from tests.formats import torch_writer
from tests.formats.archive_writer import sb3_zip
from tests.recordings.episodes import step_values

TOLERANCE = 1e-5
SHAPE = (64, SMALLEST // 64)
SCALE = 0.02
Arrays = dict[str, np.ndarray]


def arrays(update: int = 0) -> Arrays:
    """Tensors of a network after an update; each update changes the large weight by a hundredth, and the others."""
    rng = np.random.default_rng(0)
    large = SCALE * rng.normal(size=SHAPE)
    for _ in range(update):
        large = large + 0.01 * SCALE * rng.normal(size=SHAPE)
    other = np.random.default_rng(update).normal(size=SHAPE)
    return {
        "body.bias": np.full(64, 0.1 * update, np.float32),
        "body.weight": large.astype(np.float32),
        "head.weight": rng.normal(size=(4, 64)).astype(np.float32),
        "running_mean": other.astype(np.float32),
        "weight_float64": other,
        "weight_int": (1000 * other).astype(np.int32),
        "weight_mask": other > 0,
        "weight_flat": other.astype(np.float32).ravel(),
    }


def read_torch(data: bytes) -> Arrays:
    file = torch_file.read(io.BytesIO(data), Budget.for_file(len(data)))
    return file.arrays(torch_file.state_dict(file.content))


def read_sb3(data: bytes) -> Arrays:
    return read_torch(SafeZip(io.BytesIO(data)).read("policy.pth"))


def save_npz(values: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **values)
    return file.getvalue()


def read_npz(data: bytes) -> Arrays:
    return dict(np.load(io.BytesIO(data)))


FORMATS: dict[str, Any] = {
    "pt": (torch_writer.save, read_torch),
    "zip": (sb3_zip, read_sb3),
    "safetensors": (save_safetensors, load_safetensors),
    "npz": (save_npz, read_npz),
}


def save(values: Arrays, path: str) -> None:
    Path(f"{path}.pt").write_bytes(torch_writer.save(values))


def record(location: Path, updates: int, **options: Any) -> StoredRecording:
    """Record an episode with an update before each step."""
    options = {"name": None, "on_error": "raise", "checkpoint_every": 1, **options}
    with Recorder(location, **options) as recorder:
        for step in range(updates):
            recorder.agent(partial(save, arrays(step)))
            recorder.add(**step_values(0, step), terminated=step == updates - 1)
    return StoredRecording(location)


def scale(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))


def test_rounding_errors_of_weights_do_not_accumulate_over_updates(tmp_path: Path) -> None:
    updates = FULL_EVERY + 4
    recording = record(tmp_path, updates, checkpoint_tolerance=TOLERANCE)
    errors = []
    for step in range(updates):
        path = recording.checkpoint(recording[0], step)
        assert path is not None
        stored, original = read_torch(Path(path).read_bytes()), arrays(step)
        assert stored.keys() == original.keys()
        weight = stored.pop("body.weight"), original.pop("body.weight")
        errors.append(np.abs(weight[0].astype(np.float64) - weight[1]).max() / scale(weight[1]))
        for name, values in original.items():
            np.testing.assert_array_equal(stored[name], values)
            assert stored[name].dtype == values.dtype
    assert max(errors) <= TOLERANCE
    whole = [step for step, error in enumerate(errors) if error == 0]
    assert whole == [0, FULL_EVERY]
    assert recording.metadata["checkpoint_tolerance"] == TOLERANCE


def test_rounded_checkpoint_differences_are_smaller(tmp_path: Path) -> None:
    sizes = {}
    for name, tolerance in (("exact", None), ("rounded", TOLERANCE)):
        recording = record(tmp_path / name, 3, checkpoint_tolerance=tolerance)
        assert recording.metadata.get("checkpoint_tolerance") == tolerance
        sizes[name] = (tmp_path / name / "agents/00002.pt.diff").stat().st_size
    assert sizes["rounded"] < sizes["exact"] - 0.75 * SMALLEST


@pytest.mark.parametrize("name", FORMATS)
def test_checkpoints_of_each_format_stay_valid_after_rounding(name: str) -> None:
    write, read = FORMATS[name]
    data, base = write(arrays(1)), write(arrays(0))
    rounded, weights = round_weights(data, TOLERANCE)
    assert round_weights(data, TOLERANCE) == (rounded, weights)
    assert [one.size for one in weights] == [SMALLEST]
    assert len(rounded) == len(data)
    stored, original = read(rounded), arrays(1)
    assert 0 < np.abs(stored["body.weight"] - original["body.weight"]).max() < 1.01 * TOLERANCE * SCALE
    np.testing.assert_array_equal(stored["head.weight"], original["head.weight"])
    if zipfile.is_zipfile(io.BytesIO(rounded)):
        assert zipfile.ZipFile(io.BytesIO(rounded)).testzip() is None
    difference = encode_difference(rounded, base, weights)
    assert decode_difference(difference, base, "x") == rounded
    assert len(difference) < len(encode_difference(data, base)) - 0.75 * SMALLEST


def test_torch_load_reads_rounded_checkpoints(tmp_path: Path) -> None:
    """Its archives have checksums after the data, and tensors that share a storage."""
    torch = pytest.importorskip("torch")
    weight = torch.as_tensor(arrays()["body.weight"])
    path = tmp_path / "agent.pt"
    torch.save({"agent": {"a.weight": weight, "b.weight": weight}, "optimizer": {"state": {0: {"step": 3}}}}, path)
    rounded, weights = round_weights(path.read_bytes(), TOLERANCE)
    assert len(weights) == 1
    assert zipfile.ZipFile(io.BytesIO(rounded)).testzip() is None
    loaded = torch.load(io.BytesIO(rounded), weights_only=True)
    assert torch.equal(loaded["agent"]["a.weight"], loaded["agent"]["b.weight"])
    assert 0 < (loaded["agent"]["a.weight"] - weight).abs().max() <= TOLERANCE * scale(weight.numpy())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_tensors_with_nan_or_infinity_are_stored_exactly(value: float) -> None:
    weight = arrays()["body.weight"]
    weight[3, 4] = value
    data = save_safetensors({"weight": weight, "zero.weight": np.zeros(SHAPE, np.float32)})
    assert round_weights(data, TOLERANCE) == (data, [])
    finite = save_safetensors({"weight": arrays()["body.weight"], "zero.weight": np.ones(SHAPE, np.float32)})
    rounded, weights = round_weights(finite, TOLERANCE)
    assert len(weights) == 2
    assert decode_difference(encode_difference(rounded, data, weights), data, "x") == rounded


@pytest.mark.parametrize("tolerance", [1e-9, 1e-12, 1e-44])
def test_tolerances_below_float_precision_keep_weights_exact(tolerance: float) -> None:
    data = torch_writer.save({"weight": np.abs(arrays()["body.weight"]) + 1})
    assert round_weights(data, tolerance)[0] == data


@pytest.mark.parametrize("base", [b"", b"\xff" * 1000, b"\xff" * 2**20])
def test_differences_to_any_previous_file_are_decoded_exactly(base: bytes) -> None:
    rounded, weights = round_weights(torch_writer.save(arrays()), TOLERANCE)
    assert decode_difference(encode_difference(rounded, base, weights), base, "x") == rounded


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no zip", b"text", b"\x80\x02N."])
def test_files_that_are_not_checkpoints_are_not_rounded(data: bytes) -> None:
    assert round_weights(data, TOLERANCE) == (data, [])


@pytest.mark.parametrize(
    "weights",
    [
        [RoundedWeights(4, 10, -20), RoundedWeights(40, 5, -20)],
        [RoundedWeights(2**63, 10, -20)],
        [RoundedWeights(0, 2**62, -20)],
        [RoundedWeights(0, 10, 5000)],
    ],
)
def test_damaged_lists_of_rounded_weights_are_refused(weights: list[RoundedWeights]) -> None:
    from rl_clarity.recordings import checkpoints

    data = bytes(400)
    header = checkpoints._HEADER.pack(b"RLCW", 400, hashlib.sha256(data).digest())
    listed = checkpoints._COUNT.pack(len(weights)) + b"".join(checkpoints._WEIGHTS.pack(*one) for one in weights)
    body = zstandard.ZstdCompressor().compress(data)
    with pytest.raises(SamplesError, match=r"x is damaged \(its tensors overlap, or are not in the file\)"):
        decode_difference(header + listed + body, data, "x")
    with pytest.raises(SamplesError, match="damaged"):
        decode_difference(header + checkpoints._COUNT.pack(2**32 - 1) + body, data, "x")


def test_a_continued_recording_still_declares_rounded_checkpoints(tmp_path: Path) -> None:
    record(tmp_path / "rounded", 2, checkpoint_tolerance=TOLERANCE)
    assert record(tmp_path / "rounded", 2).metadata["checkpoint_tolerance"] == TOLERANCE
    record(tmp_path / "exact", 2)
    with pytest.raises(SamplesError, match=r"different metadata \(checkpoint_tolerance\)"):
        record(tmp_path / "exact", 2, checkpoint_tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_every": 1, "checkpoint_tolerance": 0}, "must be None, or above 0 and up to 0.001"),
        ({"checkpoint_every": 1, "checkpoint_tolerance": 0.1}, "checkpoint_tolerance=0.1 must be None, or above 0"),
        ({"checkpoint_every": 1, "checkpoint_tolerance": float("nan")}, "checkpoint_tolerance=nan must be"),
        ({"checkpoint_tolerance": 1e-5}, "needs checkpoint_every"),
        ({"metadata": {"checkpoint_tolerance": 1e-5}}, "is reserved for the recorder"),
    ],
)
def test_invalid_rounding_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        Recorder(tmp_path, **options)
    assert not any(tmp_path.iterdir())


def test_invalid_tolerances_in_metadata_are_refused(tmp_path: Path) -> None:
    record(tmp_path, 1, checkpoint_tolerance=TOLERANCE)
    path = tmp_path / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "checkpoint_tolerance": 1}))
    with pytest.raises(SamplesError, match="checkpoint_tolerance"):
        StoredRecording(tmp_path)

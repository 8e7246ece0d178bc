"""Hostile and damaged checkpoints: no code runs, memory stays small, and the error explains what is wrong."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import textwrap
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from tests import state_dicts
from tests.formats import hostile_files, hostile_pickles, torch_writer
from tests.formats.archive_writer import sb3_data, sb3_zip
from tests.formats.torch_writer import name, pickled

MEMORY = 256 << 20
FORMATS = {
    "joblib": hostile_files.joblib_files,
    "torch": hostile_files.torch_files,
    "sb3": hostile_files.sb3_files,
    "native": hostile_files.native_files,
}


def build(path: Path) -> None:
    formats.build_agent(formats.read(path))


@pytest.mark.parametrize("kind", FORMATS)
def test_hostile_checkpoint_files_are_rejected_without_running_code(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")  # before memory is measured
    marker = tmp_path / "it ran"
    path = tmp_path / "checkpoint"
    accepted, unclear, large = [], [], []
    for what, data in FORMATS[kind](marker).items():
        path.write_bytes(data)
        tracemalloc.start()
        try:
            build(path)
            accepted.append(what)
        except CheckpointError as error:
            if not str(error).startswith(str(path)) or len(str(error)) > 3000:
                unclear.append((what, str(error)[:200]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if peak > MEMORY:
            large.append((what, peak))
        assert not marker.exists(), what
    assert not accepted
    assert not unclear
    assert not large


def test_pickle_would_run_the_code_in_the_hostile_files(tmp_path: Path) -> None:
    """Python's own loader runs the code of many of them."""
    ran = 0
    for data in hostile_pickles.running(tmp_path / "marker").values():
        with contextlib.suppress(Exception):
            pickle.loads(data)
        ran += (tmp_path / "marker").exists()
        (tmp_path / "marker").unlink(missing_ok=True)
    assert ran >= 8


def test_pickled_data_of_sb3_zips_are_ignored_except_for_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    hostile = {":type:": "<class 'function'>", ":serialized:": "not base64 \u2603"}
    path.write_bytes(sb3_zip(state_dicts.sb3(), data=sb3_data(lr_schedule=hostile)))
    checkpoint = formats.read(path)
    assert checkpoint.metadata["gamma"] == 0.97
    assert "serialized" not in str(checkpoint.metadata) + str(checkpoint.architecture)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("a whole module", ["__main__.Agent", "torch.load", "TorchAgent"]),
        ("archive: os.system", ["os.system", "no code was run"]),
        ("no state dict", ["'epoch'", "state_dict"]),
        ("a damaged storage", ["CRC"]),
        ("a tensor beyond its storage", ["beyond its storage"]),
    ],
)
def test_errors_of_unreadable_checkpoints_name_the_problem_and_the_fix(tmp_path: Path, what: str, words: str) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(hostile_files.torch_files(tmp_path / "marker")[what])
    with pytest.raises(CheckpointError) as raised:
        formats.read(path)
    for word in words:
        assert word in str(raised.value)
    assert ("torch.load" in str(raised.value)) == (what == "a whole module")  # no advice to run hostile code


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("policy.jd", pickled(name("my_program.agents", "Agent") + b")\x81"), ["joblib.load", "numpy.asarray"]),
        (
            "agent.pt",
            torch_writer.archive(pickled(name("my_program", "Net") + b")\x81"), {}),
            ["torch.load", "TorchAgent"],
        ),
        (
            "state.pkl",
            pickled(name("ray.rllib.policy", "Policy") + b")\x81"),
            ["RLModule.from_checkpoint", "TorchAgent"],
        ),
    ],
)
def test_checkpoints_with_custom_objects_are_refused_with_a_script(
    tmp_path: Path, file: str, content: bytes, words: str
) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as raised:
        formats.read(path)
    script = textwrap.dedent(str(raised.value).partition("\n")[2])
    compile(script, "script", "exec")
    assert len(script.strip().splitlines()) <= 12
    assert str(path) in script
    for word in words:
        assert word in script


@pytest.mark.slow
def test_the_suggested_script_for_pickled_modules_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the suggested script unchanged where the module's class can be imported."""
    torch = pytest.importorskip("torch")
    (tmp_path / "my_agent.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv, self.pi, self.v = nn.Conv2d(3, 4, 8, 8), nn.Linear(256, 5), nn.Linear(256, 1)\n\n"
        "    def forward(self, x):\n        x = self.conv(x).relu().flatten(1)\n        return self.pi(x), self.v(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    module: Any = importlib.import_module("my_agent")
    torch.save(module.Net(), tmp_path / "agent.pt")
    with pytest.raises(CheckpointError) as raised:
        formats.read(tmp_path / "agent.pt")
    collected: list[Any] = []

    def record(*values: Any) -> Any:
        collected.append(values)
        return values[::-1]

    monkeypatch.setattr("rl_clarity.collect", record)
    monkeypatch.setattr("rl_clarity.generate", record)
    exec(textwrap.dedent(str(raised.value).partition("\n")[2]), {"env": "an environment"})
    (agent, _), generated = collected
    assert generated == (agent, "an environment", agent, "out")
    assert agent.forward(np.zeros((2, 64, 64, 3), np.uint8)).policy_logits.shape == (2, 5)
    assert (tmp_path / "state_dict.pt").is_file()


def test_the_error_for_rllib_checkpoints_explains_the_conversion(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint_000100"
    folder.mkdir()
    (folder / "rllib_checkpoint.json").write_text("{}")
    (folder / "algorithm_state.pkl").write_bytes(b"\x80\x04N.")
    for path in (folder, folder / "algorithm_state.pkl"):
        with pytest.raises(CheckpointError, match=r"RLModule\.from_checkpoint"):
            formats.read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello", "unknown format.*joblib"),
        (b"", "is an empty file"),
        (b"\x89HDF\r\n\x1a\n", "save the model again"),
        (torch_writer.save({"w": np.zeros((2, 3), np.float32)}), r"unsupported program.*w \(2, 3\).*TorchAgent"),
    ],
)
def test_files_of_an_unknown_format_are_refused_with_an_explanation(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"(?s){words}"):
        formats.read(path)


def test_missing_checkpoint_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        formats.read(tmp_path / "missing.jd")
    (tmp_path / "model.jd").touch()
    with pytest.raises(CheckpointError, match=r"folder.*model\.jd"):
        formats.read(tmp_path)


def valid_files() -> dict[str, bytes]:
    arrays = {"ppo2_model/pi/w:0": np.arange(12, dtype=np.float32).reshape(3, 4)}
    content = {"params": arrays, "args": {"cnn": "clear", "env_name": "coinrun", "lambda": 0.95}}
    small = {name: array[:1, :1] if array.ndim > 1 else array[:1] for name, array in state_dicts.baby_a3c().items()}
    small_cnn = {f"features_extractor.cnn.{i}.weight": np.ones((1, 1, 1, 1), np.float32) for i in (0, 2)}
    return {
        "joblib": hostile_files.dumped(content),
        "packed": hostile_files.dumped(content, compress=("zlib", 3)),
        "archive": torch_writer.save(small),
        "stream": torch_writer.save_stream(small),
        "sb3": sb3_zip(small_cnn),
    }


@pytest.mark.parametrize("kind", valid_files())
def test_corrupted_or_truncated_files_raise_only_checkpoint_errors(kind: str, tmp_path: Path) -> None:
    """Data without a checksum may change unnoticed."""
    valid = valid_files()[kind]
    path = tmp_path / "checkpoint"
    path.write_bytes(valid)
    formats.read(path)
    rng = np.random.default_rng(0)
    rejected = 0
    for i in range(200):
        data = bytearray(valid)
        if i % 4:
            for at in rng.integers(len(data), size=rng.integers(1, 4)):
                data[at] ^= 1 << rng.integers(8)
        else:
            del data[rng.integers(len(data)) :]
        path.write_bytes(data)
        try:
            formats.read(path)
        except CheckpointError:
            rejected += 1
    assert rejected > 50

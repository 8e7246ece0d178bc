"""Small simulator files that claim large networks are refused before anything of that size is allocated."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import CheckpointError
from rl_clarity.world_models.files import KEY, load_simulator, save_simulator
from rl_clarity.world_models.simulator import Simulator
from tests.formats.measure_inspect import status

MEMORY = 100 << 20


def with_size(data: bytes, **changed: Any) -> bytes:
    """The same simulator file with other widths in its header."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    content = json.loads(header["__metadata__"][KEY])
    content["size"] |= changed
    header["__metadata__"][KEY] = json.dumps(content)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def test_a_named_pipe_is_refused_as_simulator_file(agent: KerasAgent, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match=r"a\.safetensors is not a file"):
        load_simulator(tmp_path / "a.safetensors", agent)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is measured by Linux")
@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": 4096},
        {"hidden": 16384},
        {"channels": [2048, 2048]},
        {"channels": [16384, 16384]},
        {"variables": 4096, "classes": 4096},
        {"deterministic": 4096},
        {"hidden": 16384, "latent": 16384, "channels": [16384] * 8},
    ],
    ids=str,
)
def test_simulator_sizes_that_contradict_the_tensors_are_refused_early(
    changed: dict[str, Any], simulator: Simulator, agent: KerasAgent, tmp_path: Path
) -> None:
    path = save_simulator(simulator, tmp_path / "a.safetensors")
    path.write_bytes(with_size(path.read_bytes(), **changed))
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = status("VmRSS")
    with pytest.raises(CheckpointError, match=r"must have the shape|do not fit its size"):
        load_simulator(path, agent)
    assert status("VmHWM") - before < MEMORY

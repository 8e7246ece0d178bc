"""Small files that try to take much memory or time are refused early: one budget for a file and all inside it."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import safe_pickle, torch_file
from rl_clarity.formats.safe_files import MAX_ITEMS, BoundedReader, Budget, parse_json
from rl_clarity.formats.safe_joblib import NAMES
from tests.formats import torch_writer
from tests.formats.hostile_sizes import FILES, GET_FIRST, GET_SECOND, LIMIT, agent, in_list, keras_file, layer, memoized
from tests.formats.torch_writer import constant, name

SECONDS = 5
MEMORY = 500 << 20

QUICK = {
    "joblib: keys with one hash": "integer of more than 60 bits as a key",
    "joblib: keys of the memory with one hash": "integer of more than 60 bits as a key",
    "joblib: a call with many arguments, repeated": "items",
    "joblib: a line of digits": "a line of more than",
    "joblib: large observations": "layer 'observations' computes 60000 x 60000 x 3 activations|must be three integers",
    "torch: a shared storage": "claims to unpack to",
    "sb3: a zip in a zip": "claims to unpack to",
    "sb3: a deep list": "nested more than 64 levels deep",
    "sb3: a list of lists": "items",
    "sb3: more than 8 MB": "bytes of JSON",
    "zip: many members": "a zip file with a directory of",
    "keras: a layer that enlarges": "layer 'l0' computes 32768 x 32768 x 3 activations",
    "keras: layers that pad": "layer 'l14' computes 3008 x 3008 x 3 activations",
    "keras: a long chain in reverse order": "4003 layers",
    "keras: models that call models": "more than 1024 layer calls",
    "native: a long text": "its metadata env_name='xxx.* must be",
}


@pytest.mark.parametrize("what", QUICK)
def test_small_files_that_expand_to_large_content_are_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(FILES[what]())
    with pytest.raises(CheckpointError, match=QUICK[what]):
        formats.build_agent(formats.read(path))


def test_inputs_of_keras_layers_count_toward_the_limit_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "wide.keras"
    path.write_bytes(keras_file(agent([layer("Add", "sum", ["in"] * 2000)], "sum")))
    with pytest.raises(CheckpointError, match="more than 1024 layer calls"):
        formats.load_agent(path)


def unpickle(data: bytes, budget: Budget) -> object:
    return safe_pickle.load(BoundedReader(io.BytesIO(data), len(data), budget), NAMES)


def test_pickle_operations_arguments_and_text_count_toward_the_limit() -> None:
    def items(data: bytes) -> int:
        budget = Budget.for_file(0)
        unpickle(data, budget)
        return MAX_ITEMS - budget.items

    dtype = memoized(name("numpy", "dtype"), constant(tuple("x" * 50)))
    calls = [in_list((GET_FIRST + GET_SECOND + pickle.REDUCE) * n, dtype) for n in (0, 10)]
    assert items(calls[1]) - items(calls[0]) >= 10 * 50
    assert items(constant("x" * 6400)[:0] + pickle.dumps("x" * 6400, protocol=2)) >= 100


def test_inner_archives_and_tensors_share_the_memory_budget_of_the_file() -> None:
    data = torch_writer.save({"w": np.zeros(1000, np.float32)})
    budget = Budget.for_file(len(data))
    content = torch_file.read(io.BytesIO(data), budget)
    before = budget.bytes
    content.arrays({f"w{i}": tensor for i, tensor in enumerate([content.content["w"]] * 3)})
    assert before - budget.bytes == 4 * 4000  # the storage, and three tensors in it


def test_json_counts_toward_the_budget_and_has_a_limited_depth() -> None:
    budget = Budget.for_file(0)
    parse_json(json.dumps([[0] * 10] * 10).encode(), "data", budget)
    assert MAX_ITEMS - budget.items >= 100
    with pytest.raises(CheckpointError, match="data is nested more than 64 levels deep"):
        parse_json(b"[" * 70 + b"]" * 70, "data", budget)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is measured by Linux")
def test_inspecting_small_files_takes_little_time_and_memory(tmp_path: Path) -> None:
    """5 seconds and 500 MB beyond the memory of the imported framework, for any file of less than 10 MB."""
    paths = []
    for number, make in enumerate(FILES.values()):
        path = tmp_path / str(number)
        path.write_bytes(make())
        assert path.stat().st_size < LIMIT
        paths.append(str(path))
    command = [sys.executable, "-m", "tests.formats.measure_inspect", *paths]
    output = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    results = dict(zip(FILES, map(json.loads, output.splitlines()), strict=True))
    assert len(results) >= 40
    assert not {what: seconds for what, (_, seconds, _, _) in results.items() if seconds > SECONDS}
    assert not {what: memory for what, (_, _, memory, _) in results.items() if memory > MEMORY}
    assert not [what for what, (_, _, _, message) in results.items() if message == "MemoryError"]

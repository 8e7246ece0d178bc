"""Files of other libraries are refused with the library's name, and with a script that wraps their networks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from tests import state_dicts
from tests.formats import torch_writer

GUIDE = "docs/guides/libraries.md"
PARAMETERS = {"params": {"Conv_0": {"kernel": np.ones((3, 3, 3, 8), "f4"), "bias": np.zeros(8, "f4")}}}
KERNEL = np.ones((4, 3, 8, 8), "f4")


def msgpack(path: Path) -> None:
    serialization = pytest.importorskip("flax.serialization")
    path.write_bytes(serialization.to_bytes(PARAMETERS))


def orbax(path: Path) -> None:
    checkpointer = pytest.importorskip("orbax.checkpoint").StandardCheckpointer()
    checkpointer.save(path, PARAMETERS)
    checkpointer.wait_until_finished()


def torch_file(tensors: dict[str, np.ndarray]) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(torch_writer.save(tensors)), None)[1]


FILES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "flax": (msgpack, r"Flax \(msgpack\)", "msgpack_restore"),
    "orbax": (orbax, "orbax", "StandardCheckpointer"),
    "pickle": (lambda path: joblib.dump({"weights": KERNEL}, path), "no dict 'params'.*Baselines", "JaxAgent"),
    "rl_games": (torch_file({"a2c_network.actor_cnn.0.weight": KERNEL}), "state dict of rl_games", "TorchAgent"),
    "tianshou": (torch_file({"actor.preprocess.net.0.weight": KERNEL}), "state dict of tianshou", "TorchAgent"),
    "changed": (
        torch_file({**state_dicts.ppo_atari(side=84), "attention.weight": KERNEL}),
        r"tensors that the network does not have.*'attention.weight'.*'ppo_atari' of cleanrl",
        "TorchAgent",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_checkpoints_of_other_libraries_are_refused_with_a_wrapper_script(tmp_path: Path, name: str) -> None:
    write, message, words = FILES[name]
    write(tmp_path / name)
    with pytest.raises(CheckpointError, match=message) as refused:
        formats.load_agent(tmp_path / name)
    script = refused.value.script
    compile(textwrap.dedent(script), "script", "exec")
    assert len(script.strip().splitlines()) <= 12
    assert words in script
    assert GUIDE in script


def test_pickled_numpy_numbers_are_refused_with_a_wrapper_script(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "agent.pth"
    torch.save({"model": {"a2c_network.value.weight": torch.ones(3)}, "mean": np.float64(3.0)}, path)
    with pytest.raises(CheckpointError, match="pickled numpy") as refused:
        formats.read(path)
    assert GUIDE in refused.value.script


def test_the_suggested_wrapper_script_for_flax_parameters_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the suggested script unchanged, where the module can be imported."""
    linen = pytest.importorskip("flax.linen")
    import jax

    path, collected = tmp_path / "agent.msgpack", list[Any]()
    (tmp_path / "my_program.py").write_text(
        "from flax import linen\n\n\nclass Net(linen.Module):\n    @linen.compact\n    def __call__(self, x):\n"
        "        x = linen.relu(linen.Conv(4, (8, 8), 8)(x)).reshape(len(x), -1)\n"
        "        return linen.Dense(5)(x), linen.Dense(1)(x)\n\n\nnetwork = Net()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib

    network = importlib.import_module("my_program").network
    assert isinstance(network, linen.Module)
    import flax.serialization

    path.write_bytes(flax.serialization.to_bytes(network.init(jax.random.key(0), jax.numpy.zeros((1, 64, 64, 3)))))
    with pytest.raises(CheckpointError) as refused:
        formats.read(path)
    monkeypatch.setattr("rl_clarity.collect", lambda *values: values)
    monkeypatch.setattr("rl_clarity.generate", lambda agent, *values: collected.append(agent))
    exec(textwrap.dedent(refused.value.script), {"env": "an environment"})
    assert collected[0].forward(np.zeros((2, 64, 64, 3), np.uint8)).policy_logits.shape == (2, 5)

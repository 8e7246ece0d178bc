"""The guide to networks of other libraries: its code runs, and the agents compute what the libraries do.

Libraries that are not installed are skipped. `docs/guides/libraries.md` says with which versions its code was tested.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "libraries.md"
SECTIONS = re.split(r"^## (.*)\n", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
TEXTS = dict(zip(SECTIONS[1::2], SECTIONS[2::2], strict=True))
REQUIRED = {
    "TorchRL": "torchrl",
    "tianshou": "tianshou",
    "Sample Factory": "sample_factory",
    "PufferLib": "pufferlib",
    "RLlib": "ray.rllib",
    "rl_games": "rl_games",
    "PureJaxRL": "flax",
    "Equinox": "equinox",
    "Flax NNX": "flax",
}
"""The packages that the sections need."""
EXPECTED = {
    "TorchRL": "module.get_policy_head()(module.module[0](TensorDict({'pixels': x}, [len(x)])))['logits']",
    "tianshou": "module['actor'](x)[0].log()",
    "Sample Factory": "module(module.normalize_obs({'obs': x * 255}), None)['action_logits']",
    "PufferLib": "module.forward_eval(x * 255)[0] if hasattr(module, 'forward_eval') else module(x * 255)[0]",
    "RLlib": "module.forward_inference({'obs': x.permute(0, 2, 3, 1) * 255})['action_dist_inputs']",
    "rl_games": "module({'is_train': False, 'obs': x.permute(0, 2, 3, 1)})['logits']",
    "PureJaxRL": "network.apply(parameters, x).__getitem__(0).logits",
    "Equinox": "jax.vmap(lambda image: model['actor'](model['body'](image).reshape(-1)))(x)",
    "Flax NNX": "nnx.merge(graph, parameters)(x)[0]",
}
"""Logits as each library computes them itself, for `x` from 0 to 1 in its layout."""
JAX = ("PureJaxRL", "Equinox", "Flax NNX")
"""Sections that need no PyTorch."""


def blocks(section: str) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```", TEXTS[section], re.DOTALL | re.MULTILINE)


def test_every_library_in_the_guide_is_tested() -> None:
    assert set(TEXTS) - {"Files of Flax and orbax"} == set(REQUIRED) == set(EXPECTED)
    for section in TEXTS:
        for block in blocks(section):
            compile(block, section, "exec")


@pytest.mark.parametrize("section", REQUIRED)
def test_documented_code_for_each_library_gives_an_agent_of_equal_outputs(
    section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = REQUIRED[section]
    if importlib.util.find_spec(package.partition(".")[0]) is None:
        pytest.skip(f"{package} is not installed")
    if section not in JAX:
        torch = pytest.importorskip("torch")
        monkeypatch.setattr(torch.jit, "script", torch.jit.script)  # which is restored
        torch.manual_seed(0)
    namespace: dict[str, Any] = {"rl_clarity": rl_clarity}
    for block in blocks(section):
        exec(compile(block, f"libraries.md, {section}", "exec"), namespace)
    agent: Any = namespace["agent"]
    observations = np.random.default_rng(0).integers(0, 256, (3, *agent.observation_shape), np.uint8)
    x: Any = observations.astype(np.float32) / 255
    if section in JAX:
        x = np.moveaxis(x, -1, 1) if section == "Equinox" else x
        expected = np.asarray(eval(EXPECTED[section], {**namespace, "x": x}))
    else:
        namespace["module"].eval()
        with torch.no_grad():
            x = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
            expected = eval(EXPECTED[section], {**namespace, "x": x}).numpy()
    logits = agent.forward(observations).policy_logits
    difference = logits - logits.mean(axis=1, keepdims=True) - expected + expected.mean(axis=1, keepdims=True)
    assert np.abs(difference).max() <= 1e-5 * max(1, np.abs(expected).max())  # some return log probabilities
    assert len(agent.layers) >= 2
    layer = next(iter(agent.layers))
    assert np.abs(rl_clarity.integrated_gradients(agent, observations, layer, steps=3)).sum() > 0


def test_flax_parameters_are_restored_as_the_guide_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serialization = pytest.importorskip("flax.serialization")
    checkpoint = pytest.importorskip("orbax.checkpoint")
    parameters = {"params": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}}
    (tmp_path / "agent.msgpack").write_bytes(serialization.to_bytes(parameters))
    checkpointer = checkpoint.StandardCheckpointer()
    checkpointer.save(tmp_path / "checkpoint", parameters)
    checkpointer.wait_until_finished()
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("Files of Flax and orbax")
    for lines in (block, re.sub(r"^parameters = orbax.*$", "", block, flags=re.MULTILINE)):
        namespace: dict[str, Any] = {}
        exec(lines.replace("/path/of/checkpoint", str(tmp_path / "checkpoint")), namespace)
        assert np.array_equal(namespace["parameters"]["params"]["kernel"], parameters["params"]["kernel"])

"""Networks in ONNX compute what the agents compute, and layers are replaced as by `forward(write=...)`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.onnx_export import KEY, export_onnx
from rl_clarity.base.errors import OptionError, OutputError

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime: Any = pytest.importorskip("onnxruntime")

from tests.live.torch_networks import with_state  # noqa: E402

SHAPE = (16, 16, 3)


class Recurrent(torch.nn.Module):
    """Two layers and a cell. Its square root is differentiable at 0 by a small number, which must not get lost."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, stride=2)
        self.dense = torch.nn.Linear(8 * 7 * 7, 12)
        self.cell = torch.nn.GRUCell(12, 6)
        self.policy, self.value = torch.nn.Linear(6, 4), torch.nn.Linear(6, 1)

    def forward(self, x: Any, state: Any) -> Any:
        x = torch.relu(self.convolution(x))
        x = torch.sqrt(x * x + 1e-8)
        state = self.cell(torch.relu(self.dense(x.flatten(1))), state)
        return self.policy(state), self.value(state), state


class Unknown(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.policy = torch.nn.Linear(768, 8), torch.nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.dense(x.flatten(1)))
        return self.policy(torch.special.i0(x))


def recurrent_agent() -> Any:
    torch.manual_seed(0)
    return with_state(Recurrent(), SHAPE, np.full(6, 0.5, np.float32))


def run(
    content: bytes, agent: Any, observations: np.ndarray, state: Any, **changes: np.ndarray
) -> dict[str, np.ndarray]:
    session = runtime.InferenceSession(content)
    count = len(observations)
    arrays = {"observations": observations.astype(np.float32), "keep": np.ones(len(agent.layers), np.float32)}
    arrays |= {f"state.{i}": part for i, part in enumerate(state or ())}
    arrays |= {f"write.{i}": np.zeros((count, *shape), np.float32) for i, shape in enumerate(agent.layers.values())}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {**arrays, **changes}), strict=True))


def inputs(agent: Any, count: int) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(0)
    state = agent.initial_state(count)
    return (
        rng.integers(0, 256, (count, *agent.observation_shape), np.uint8),
        state and tuple(rng.normal(size=part.shape).astype(np.float32) for part in state),
    )


def test_an_exported_onnx_network_computes_the_agents_outputs() -> None:
    agent = recurrent_agent()
    content = export_onnx(agent)
    for count in (1, 5):
        observations, state = inputs(agent, count)
        expected = agent.forward(observations, state, read=list(agent.layers))
        outputs = run(content, agent, observations, state)
        np.testing.assert_allclose(outputs["policy_logits"], expected.policy_logits, atol=1e-6)
        np.testing.assert_allclose(outputs["values"][:, 0], expected.values, atol=1e-6)
        np.testing.assert_allclose(outputs["after.0"], expected.state[0], atol=1e-6)
        for i, layer in enumerate(agent.layers):
            np.testing.assert_allclose(outputs[f"layer.{i}"], expected.sites[layer], atol=1e-6)
    facts = json.loads(runtime.InferenceSession(content).get_modelmeta().custom_metadata_map[KEY])
    assert facts["layers"] == list(agent.layers)
    assert facts["states"] == [[0.5] * 6]
    assert facts["observation_shape"] == list(SHAPE)


def test_replacing_a_layer_in_onnx_equals_writing_it_in_forward() -> None:
    agent = recurrent_agent()
    (observations, state), layer = inputs(agent, 3), next(iter(agent.layers))
    values = np.random.default_rng(1).random((3, *agent.layers[layer])).astype(np.float32)
    expected = agent.forward(observations, state, write={layer: values})
    changes = {"keep": np.zeros(1, np.float32), "write.0": values}
    outputs = run(export_onnx(agent), agent, observations, state, **changes)
    np.testing.assert_allclose(outputs["policy_logits"], expected.policy_logits, atol=1e-6)
    assert np.abs(outputs["policy_logits"] - agent.forward(observations, state).policy_logits).max() > 1e-3


def test_agents_that_cannot_be_exported_to_onnx_are_refused() -> None:
    agent = recurrent_agent()
    with pytest.raises(OptionError, match="without edits"):
        export_onnx(rl_clarity.edit(agent, Ablate(next(iter(agent.layers)), unit=0)))
    with pytest.raises(OptionError, match=r"No ONNX function found for .*bessel_i0"):
        export_onnx(rl_clarity.TorchAgent(Unknown(), SHAPE, heads=("policy_logits",)))
    with pytest.raises(OptionError, match="exported by PyTorch"):
        export_onnx(object())  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_included_agent_is_converted_to_onnx(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    rl_clarity.convert("models:starpilot-lstm", path)
    agent: Any = rl_clarity.load_agent("models:starpilot-lstm")
    observations, state = inputs(agent, 2)
    expected = agent.forward(observations, state)
    outputs = run(path.read_bytes(), agent, observations, state)
    np.testing.assert_allclose(outputs["policy_logits"], expected.policy_logits, atol=1e-4)
    np.testing.assert_allclose(outputs["after.1"], expected.state[1], atol=1e-4)
    with pytest.raises(OutputError, match="exists"):
        rl_clarity.convert("models:starpilot-lstm", path)
    with pytest.raises(OutputError, match=r"\.safetensors or \.onnx"):
        rl_clarity.convert("models:starpilot-lstm", tmp_path / "network.pt")

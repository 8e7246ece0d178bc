"""What a state dict does not record: assumed, overridden by metadata, and checked against outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError, OptionError
from rl_clarity.cli import main
from tests import state_dicts
from tests.formats import reference as ref
from tests.formats import torch_writer

load_agent: Any = formats.load_agent
"""Not typed, because the network decides which outputs are None."""
PARAMETERS = state_dicts.ppo_atari(side=36)
SHAPE = {"observation_shape": [36, 36, 4]}
OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (3, 36, 36, 4), np.uint8)
Arrays = dict[str, np.ndarray]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(PARAMETERS))
    return path


def network(activation: Any = ref.relu, divisor: float = 255) -> Arrays:
    """Return observations, logits and values as a program with this activation function and scale computes them."""
    x = OBSERVATIONS.transpose(0, 3, 1, 2) / divisor
    for name, stride in (("network.0", 4), ("network.2", 2), ("network.4", 1)):
        x = activation(ref.conv(x, PARAMETERS, name, stride, 0))
    x = activation(ref.dense(x, PARAMETERS, "network.7"))
    logits, values = (ref.dense(x, PARAMETERS, head) for head in ("actor", "critic"))
    return {"observations": OBSERVATIONS, "logits": logits, "values": values[:, 0]}


@pytest.mark.parametrize(
    ("metadata", "computed"),
    [({}, network()), ({"activation": "elu"}, network(ref.elu)), ({"input_divisor": 1}, network(divisor=1))],
    ids=["as in the script", "ELU", "divided by 1"],
)
def test_metadata_override_assumptions_about_a_state_dict(
    checkpoint: Path, metadata: dict[str, Any], computed: Arrays
) -> None:
    outputs = load_agent(checkpoint, **SHAPE, **metadata).forward(OBSERVATIONS)
    scale = np.abs(computed["values"]).max()
    assert np.abs(outputs.values - computed["values"]).max() < 1e-5 * scale
    assert np.abs(outputs.policy_logits - computed["logits"]).max() < 1e-5 * max(
        scale, np.abs(computed["logits"]).max()
    )


def test_an_unknown_activation_is_refused(checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="activation='gellu' must be one of tanh, relu"):
        load_agent(checkpoint, activation="gellu", **SHAPE)


@pytest.mark.parametrize("outputs", [["logits"], ["values"], ["logits", "values"]])
@pytest.mark.parametrize("computed", [network(ref.elu), network(divisor=255**2)], ids=["ELU", "divided twice"])
def test_outputs_that_deviate_from_the_check_are_refused(
    checkpoint: Path, computed: Arrays, outputs: list[str]
) -> None:
    check = {name: computed[name] for name in ("observations", *outputs)}
    actual, expected = network()[outputs[0]], computed[outputs[0]]
    if outputs[0] == "logits":
        actual, expected = (array - array.mean(axis=1, keepdims=True) for array in (actual, expected))
    deviation = f"{np.abs(actual - expected).max():.3g}".rstrip("0")
    with pytest.raises(
        CheckpointError, match=f"{outputs[0]} deviate.* by up to {deviation}.*activation='relu', input_divisor=255"
    ):
        load_agent(checkpoint, check=check, **SHAPE)


def test_correct_outputs_pass_the_check_in_every_layout(checkpoint: Path, tmp_path: Path) -> None:
    computed = network()
    load_agent(checkpoint, check=computed, **SHAPE)
    first = {**computed, "observations": OBSERVATIONS.transpose(0, 3, 1, 2), "values": computed["values"][:, None]}
    arrays: Any = first
    np.savez(tmp_path / "outputs.npz", **arrays)
    load_agent(checkpoint, check=tmp_path / "outputs.npz", **SHAPE)
    probabilities = np.exp(computed["logits"])
    logs = np.log(probabilities / probabilities.sum(axis=1, keepdims=True))
    load_agent(checkpoint, check={"observations": OBSERVATIONS, "logits": logs}, **SHAPE)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"logits": network()["logits"]}, "'observations' are needed"),
        ({"observations": OBSERVATIONS}, "at least one of 'logits', 'values', 'q_values'"),
        ({**network(), "logit": np.zeros(3)}, "'logit', "),
        ({"observations": OBSERVATIONS, "q_values": np.zeros((3, 4))}, "the agent has none"),
        ({"observations": OBSERVATIONS, "logits": np.zeros((3, 5))}, r"the agent has those of shape \(3, 4\)"),
        (3, "not a int"),
        ("nowhere.npz", "nowhere.npz cannot be read"),
        (__file__, "cannot be read"),
    ],
)
def test_invalid_arrays_for_the_output_check_are_refused(checkpoint: Path, check: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load_agent(checkpoint, check=check, **SHAPE)


def test_inspect_reports_assumptions_and_checks_them(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays: Any = network(ref.elu)
    np.savez(tmp_path / "outputs.npz", **arrays)
    shape = ["--metadata", "observation_shape", "[36,36,4]"]
    assert main(["inspect", str(checkpoint), *shape]) == 0
    printed = capsys.readouterr().out
    for text in ("activation: relu", "input_divisor: 255", "those of the program are assumed"):
        assert text in printed
    command = ["inspect", str(checkpoint), "--check", str(tmp_path / "outputs.npz"), *shape]
    assert main(command) == 1
    assert "deviate" in capsys.readouterr().err
    assert main([*command, "activation", "elu"]) == 0
    assert "activation: elu" in capsys.readouterr().out


@pytest.mark.parametrize("root", ["agent", "model", "network", "weights"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod."])
def test_state_dicts_nested_under_common_keys_and_prefixes_are_read(tmp_path: Path, root: str, prefix: str) -> None:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save({prefix + name: array for name, array in PARAMETERS.items()}, root))
    assert set(formats.read(path).parameters) == set(PARAMETERS)


def test_files_with_several_state_dicts_are_refused_with_advice(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "agent.pt"
    torch.save({name: {"weight": torch.ones(2)} for name in ("actor", "critic")}, path)
    with pytest.raises(CheckpointError, match=r"several state dicts; it has 'actor', 'critic'.*network.state_dict\(\)"):
        formats.read(path)

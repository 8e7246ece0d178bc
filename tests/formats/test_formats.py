"""Checkpoints of other programs: the same outputs and activations as in those programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.agents.capabilities import before_step
from rl_clarity.cli import main

load_agent: Any = formats.load_agent
"""Not typed, because the network decides which outputs are None."""
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Case:
    file: str
    format: str
    network: str
    layers: str = ""
    """Name of the layer after a convolution, from the name of the convolution."""


CASES = {
    "sb3-ppo": Case("ppo-BreakoutNoFrameskip-v4.zip", "sb3", "actor_critic"),
    "sb3-dqn": Case("dqn-BreakoutNoFrameskip-v4.zip", "sb3", "q_network"),
    "sb3-recurrent-ppo": Case("ppo_lstm-BreakoutNoFrameskip-v4.zip", "sb3", "actor_critic"),
    "cleanrl-ppo-atari": Case("agent.pt", "cleanrl", "ppo_atari", "{}.relu"),
    "cleanrl-ppo-procgen": Case("agent.pt", "cleanrl", "ppo_procgen"),
    "cleanrl-dqn-atari": Case("dqn_atari.cleanrl_model", "cleanrl", "dqn_atari", "{}.relu"),
    "procgen-pytorch": Case("model_25165824.pth", "procgen_pytorch", "impala"),
    "procgen-pytorch-recurrent": Case("model_200015872.pth", "procgen_pytorch", "impala_gru"),
    "keras": Case("agent.keras", "keras", "Functional"),
}
IMPALA_LAYERS = {
    "cleanrl-ppo-procgen": {
        "network.0.conv": "network.0.res_block0.relu0",
        "network.0.res_block0.conv0": "network.0.res_block0.relu1",
        "network.0.res_block0.conv1": "network.0.res_block1.relu0",
        "network.2.res_block1.conv1": "network.relu",
    },
    "procgen-pytorch": {
        "embedder.block1.conv": "embedder.block1.res1.relu0",
        "embedder.block2.res1.conv2": "embedder.block2.res2.relu0",
        "embedder.block3.res2.conv1": "embedder.block3.res2.relu1",
        "embedder.block3.res2.conv2": "embedder.relu",
    },
    "keras": {"conv_a": "conv_a", "conv_b": "relu_b", "conv_c": "relu_c"},
}
IMPALA_LAYERS["procgen-pytorch-recurrent"] = IMPALA_LAYERS["procgen-pytorch"]


Arrays = dict[str, np.ndarray]
Loaded = tuple[str, Path, Arrays, Any]


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, shared_formats: Path) -> Loaded:
    name = request.param
    with np.load(shared_formats / name / "expected.npz") as arrays:
        expected = {key: arrays[key] for key in arrays.files}
    path = shared_formats / name / CASES[name].file
    return name, path, expected, load_agent(path, env_name="somewhere")


def difference(outputs: Any, expected: Any, at: Any = slice(None)) -> float:
    names = [name for name in ("policy_logits", "values", "q_values") if name in expected]
    assert {name for name in ("policy_logits", "values", "q_values") if getattr(outputs, name) is not None} == set(
        names
    )
    return max(float(np.abs(getattr(outputs, name) - expected[name][at]).max()) for name in names)


def test_checkpoint_formats_are_recognized_by_content(case: Loaded, tmp_path: Path) -> None:
    name, path, _, _ = case
    nameless = tmp_path / "file"
    nameless.write_bytes(path.read_bytes())
    checkpoint = formats.read(nameless, gamma=0.5, env_name="x")
    assert (checkpoint.format, checkpoint.network) == (CASES[name].format, CASES[name].network)
    assert checkpoint.metadata["gamma"] == 0.5  # overrides the file's own
    assert checkpoint.metadata["env_name"] == "x"


def test_outputs_equal_those_of_the_original_program(case: Loaded) -> None:
    name, _, expected, agent = case
    observations = expected["observations"]
    if "firsts" in expected:
        state = agent.initial_state(observations.shape[1])
        for t, (now, firsts) in enumerate(zip(observations, expected["firsts"], strict=True)):
            outputs, state = agent.step(now, state, firsts)
            assert difference(outputs, expected, t) < TOLERANCE
            hidden = [expected[key][t] for key in expected if key.startswith("hidden")]
            assert len(state) == len(hidden)
            for part, reference in zip(state, hidden, strict=True):
                assert np.abs(part - reference).max() < TOLERANCE
    else:
        assert difference(agent.forward(observations), expected) < TOLERANCE
    assert agent.metadata["env_name"] == "somewhere", name


def _activation(name: str, conv: str) -> str:
    """Return the layer after a convolution. Those of Stable-Baselines3 follow it in a `Sequential`."""
    if CASES[name].format != "sb3":
        return CASES[name].layers.format(conv)
    sequential, _, position = conv.removeprefix("q_net.").rpartition(".")
    return f"{sequential}.{int(position) + 1}"


def test_activations_equal_those_of_the_original_program(case: Loaded) -> None:
    name, _, expected, agent = case
    observations = expected["observations"]
    frames = observations[0] if "firsts" in expected else observations[:2]
    convolutions = {key.removeprefix("acts."): key for key in expected if key.startswith("acts.")}
    layers = IMPALA_LAYERS.get(name) or {conv: _activation(name, conv) for conv in convolutions}
    for conv, layer in layers.items():
        reference = expected[convolutions[conv]]
        assert np.abs(agent.activations(frames, layer) - reference).max() < TOLERANCE


def test_converted_checkpoints_compute_the_same_outputs(case: Loaded, tmp_path: Path) -> None:
    _, path, expected, agent = case
    written = formats.read(path, env_name="somewhere")
    assert main(["convert", str(path), str(tmp_path / "copy.safetensors"), "--metadata", "env_name", "somewhere"]) == 0
    copy = formats.read(tmp_path / "copy.safetensors")
    assert (copy.format, copy.network, copy.metadata) == (written.format, written.network, written.metadata)
    assert copy.notes == written.notes
    observations = expected["observations"][0] if "firsts" in expected else expected["observations"]
    original, converted = agent.forward(observations), formats.build_agent(copy).forward(observations)
    for name in ("policy_logits", "values", "q_values"):
        if getattr(original, name) is not None:
            assert np.array_equal(getattr(original, name), getattr(converted, name))


def test_replay_from_saved_states_gives_the_saved_outputs(case: Loaded) -> None:
    """Attribution starts from the states before each step, after resets at the ends of episodes."""
    _, _, expected, agent = case
    if "firsts" not in expected:
        assert agent.initial_state(2) is None
        return
    observations, firsts = expected["observations"], expected["firsts"]
    state = agent.initial_state(observations.shape[1])
    states_before, rollout = [], []
    for now, first in zip(observations, firsts, strict=True):
        states_before.append(before_step(agent, state, first))
        outputs, state = agent.step(now, state, first)
        rollout.append(outputs.policy_logits)
    steps = np.prod(firsts.shape)
    states = tuple(np.stack(parts).reshape(steps, -1) for parts in zip(*states_before, strict=True))
    replayed, _ = agent.step(observations.reshape(steps, *observations.shape[2:]), states, np.zeros(steps, bool))
    assert np.abs(replayed.policy_logits - np.concatenate(rollout)).max() < 1e-5


@pytest.fixture(scope="module")
def folder(shared_formats: Path) -> Path:
    return shared_formats / "baby-a3c"


@pytest.fixture(scope="module")
def expected(folder: Path) -> Arrays:
    with np.load(folder / "breakout-v4" / "expected.npz") as arrays:
        return {key: arrays[key] for key in arrays.files}


@pytest.fixture(scope="module")
def agent(folder: Path) -> Any:
    return load_agent(folder / "breakout-v4" / "model.80.tar", env_name="breakout")


class TestBabyA3C:
    def test_preprocessing_equals_that_of_baby_a3c(self, agent: Any, expected: Any) -> None:
        for part in ("", "start."):
            observations = agent.preprocess(expected[f"{part}observations"])
            assert observations.dtype == np.float32
            assert np.array_equal(observations, expected[f"{part}preprocessed"])

    @pytest.mark.parametrize("part", ["", "start."])
    def test_outputs_equal_those_of_the_original_program(self, agent: Any, expected: Any, part: str) -> None:
        observations = agent.preprocess(expected[f"{part}observations"])
        state = agent.initial_state(1) if part else (expected["initial_hidden"][None],)
        for t, observation in enumerate(observations):
            outputs, state = agent.step(observation[None], state, np.zeros(1, bool))
            assert np.abs(outputs.policy_logits[0] - expected[f"{part}policy_logits"][t]).max() < TOLERANCE
            assert np.abs(outputs.values[0] - expected[f"{part}values"][t]) < TOLERANCE
            assert np.abs(state[0][0] - expected[f"{part}hidden"][t]).max() < TOLERANCE

    def test_activations_equal_those_of_the_original_program(self, agent: Any, expected: Any) -> None:
        observations = expected["preprocessed"][:2]
        assert list(agent.layers) == ["conv1", "conv2", "conv3", "conv4"]
        for layer in agent.layers:
            reference = expected[f"acts.{layer}"]
            assert np.abs(agent.activations(observations, f"{layer}.elu") - reference).max() < TOLERANCE
            assert np.abs(agent.activations(observations, layer) - reference).max() > 0.01  # before the ELU

    def test_converted_checkpoints_compute_the_same_outputs(
        self, folder: Path, agent: Any, expected: Any, tmp_path: Path
    ) -> None:
        source = str(folder / "breakout-v4" / "model.80.tar")
        assert main(["convert", source, str(tmp_path / "copy.safetensors"), "--metadata", "env_name", "breakout"]) == 0
        copy = load_agent(tmp_path / "copy.safetensors")
        assert copy.metadata == agent.metadata
        frames = copy.preprocess(expected["observations"][:4])
        assert np.array_equal(frames, expected["preprocessed"][:4])
        assert np.array_equal(copy.forward(frames).policy_logits, agent.forward(frames).policy_logits)

    def test_uint8_observations_give_the_same_outputs_as_floats(self, agent: Any, expected: Any) -> None:
        floats = expected["preprocessed"][:3]
        integers = np.rint(floats * 255).astype(np.uint8)
        assert np.array_equal(agent.forward(integers).policy_logits, agent.forward(floats).policy_logits)

    @pytest.mark.parametrize("n", [1, 50, 100])
    def test_checkpoints_saved_during_training_have_the_expected_outputs(self, folder: Path, n: int) -> None:
        folder = folder / "models_model7-02-17-20-41"
        with np.load(folder / "expected.npz") as arrays:
            agent = load_agent(folder / f"model.{n}.tar")
            observations, state = agent.preprocess(arrays["observations"][:6]), None
            assert np.array_equal(observations, arrays["preprocessed"][:6])
            for t, observation in enumerate(observations):
                outputs, state = agent.step(observation[None], state, np.zeros(1, bool))
                assert np.abs(outputs.policy_logits[0] - arrays[f"{n}.policy_logits"][t]).max() < TOLERANCE
                assert np.abs(state[0][0] - arrays[f"{n}.hidden"][t]).max() < TOLERANCE


def test_observations_may_have_channels_first_or_last(shared_formats: Path) -> None:
    agent = load_agent(shared_formats / "cleanrl-ppo-atari" / "agent.pt")
    with np.load(shared_formats / "cleanrl-ppo-atari" / "expected.npz") as arrays:
        first = arrays["observations"]
    last = first.transpose(0, 2, 3, 1)
    assert agent.observation_shape == (84, 84, 4)
    assert np.array_equal(agent.forward(first).policy_logits, agent.forward(last).policy_logits)
    gradients, others = (agent.gradients(o[:1], "input", ["value"]) for o in (first, last))
    assert np.array_equal(gradients, others.transpose(0, 1, 4, 2, 3))


def test_dqn_checkpoints_do_not_use_the_target_network(shared_formats: Path) -> None:
    path = shared_formats / "sb3-dqn" / "dqn-BreakoutNoFrameskip-v4.zip"
    checkpoint = formats.read(path)
    online, target = (checkpoint.parameters[f"{name}.q_net.0.weight"] for name in ("q_net", "q_net_target"))
    assert not np.array_equal(online, target)


def test_later_episodes_do_not_start_from_the_learned_initial_state(shared_formats: Path) -> None:
    """As in the original program: after a reset, the state is zero."""
    agent = load_agent(shared_formats / "procgen-pytorch-recurrent" / "model_200015872.pth")
    initial = agent.initial_state(2)
    assert np.abs(initial[0]).max() > 0.1
    first: Any = before_step(agent, initial, np.array([True, True]))
    assert np.array_equal(first[0], initial[0])
    later = (initial[0] + 1,)
    reset: Any = before_step(agent, later, np.array([True, False]))
    assert np.array_equal(reset[0], [initial[0][0] * 0, later[0][1]])

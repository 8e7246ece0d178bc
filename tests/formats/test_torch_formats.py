"""State dicts of other programs, written like `torch.save` does: recognized and read exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile
from tests import state_dicts
from tests.formats import torch_writer
from tests.formats.archive_writer import sb3_data, sb3_zip

load_agent: Any = formats.load_agent
build_agent: Any = formats.build_agent
"""Not typed, because the network decides which outputs are None."""

FILES = {
    "ppo_atari": lambda: torch_writer.save(state_dicts.ppo_atari()),
    "ppo_atari_lstm": lambda: torch_writer.save(state_dicts.ppo_atari(lstm=True, channels=1)),
    "ppo_procgen": lambda: torch_writer.save(state_dicts.ppo_procgen()),
    "dqn_atari": lambda: torch_writer.save(state_dicts.dqn_atari()),
    "impala": lambda: torch_writer.save(state_dicts.procgen_pytorch(), "state_dict"),
    "impala_gru": lambda: torch_writer.save(state_dicts.procgen_pytorch(gru=True), "model_state_dict"),
    "gru": lambda: torch_writer.save_stream(state_dicts.baby_a3c()),
    "actor_critic": lambda: sb3_zip(state_dicts.sb3()),
    "q_network": lambda: sb3_zip(state_dicts.sb3_dqn()),
}
PARAMETERS = {
    "ppo_atari": state_dicts.ppo_atari,
    "impala_gru": lambda: state_dicts.procgen_pytorch(gru=True),
    "gru": state_dicts.baby_a3c,
    "q_network": state_dicts.sb3_dqn,
}


@pytest.fixture(scope="module", params=FILES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Checkpoint]:
    path = tmp_path_factory.mktemp(request.param) / "model"
    path.write_bytes(FILES[request.param]())
    return request.param, formats.read(path, env_name="coinrun")


def test_state_dicts_of_known_programs_are_recognized_and_read(loaded: tuple[str, Checkpoint]) -> None:
    name, checkpoint = loaded
    assert checkpoint.network == name
    if name in PARAMETERS:
        expected = PARAMETERS[name]()
        assert set(checkpoint.parameters) == set(expected)
        assert all(np.array_equal(checkpoint.parameters[key], array) for key, array in expected.items())


def test_metadata_describe_the_environment(loaded: tuple[str, Checkpoint]) -> None:
    name, checkpoint = loaded
    agent = build_agent(checkpoint)
    spec = spec_from_metadata(agent.metadata, num_actions=agent.num_actions)
    assert isinstance(spec, EnvironmentSpec)
    assert spec.name == "coinrun"
    assert spec.kind == ("procgen" if "impala" in name or "procgen" in name else "atari")
    if spec.kind == "atari" and name != "gru":
        assert spec.options["frame_stack"] == agent.observation_shape[2]
    assert agent.observation_shape[2] == (
        3 if spec.kind == "procgen" else 4 if "lstm" not in name and name != "gru" else 1
    )
    assert 0 < agent.metadata["gamma"] < 1


def test_checkpoints_without_an_environment_name_cannot_be_played(tmp_path: Path) -> None:
    path = tmp_path / "agent.pt"
    path.write_bytes(FILES["ppo_procgen"]())
    with pytest.raises(EnvironmentSetupError, match="env_name"):
        spec_from_metadata(load_agent(path).metadata)


def test_float64_parameters_are_converted_to_float32(tmp_path: Path) -> None:
    """Counters are integers, and some programs save float64; networks use float32."""
    arrays = {name: array.astype(np.float64) for name, array in state_dicts.ppo_atari().items()}
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(arrays))
    observations = np.random.default_rng(0).integers(0, 256, (2, 4, 84, 84), np.uint8)
    doubles = load_agent(path).forward(observations)
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari()))
    assert np.array_equal(doubles.values, load_agent(path).forward(observations).values)


@pytest.mark.parametrize("stream", [False, True])
def test_files_written_by_torch_save_are_read(tmp_path: Path, stream: bool) -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    content: dict[str, Any] = {
        "state_dict": {
            "plain": values,
            "transposed": values.permute(2, 0, 1),
            "part": values[1, 1:, ::2],
            "parameter": torch.nn.Parameter(torch.ones(3)),
            "half": torch.tensor([0.5, -2.0], dtype=torch.float16),
            "bfloat16": torch.tensor([0.5, -2.0], dtype=torch.bfloat16),
            "count": torch.tensor(7),
            "flags": torch.tensor([True, False]),
            "empty": torch.zeros(0, 4),
        },
        "epoch": 3,
    }
    path = tmp_path / "file"
    torch.save(content, path, _use_new_zipfile_serialization=not stream)
    tensors = CheckpointFile(path).tensors()
    for name, tensor in content["state_dict"].items():
        expected = tensor.detach().float().numpy() if name == "bfloat16" else tensor.detach().numpy()
        assert tensors[name].dtype == expected.dtype
        assert np.array_equal(tensors[name], expected), name


class TestSb3:
    def read(self, tmp_path: Path, arrays: Any = None, **data: Any) -> Checkpoint:
        path = tmp_path / "model.zip"
        path.write_bytes(sb3_zip(state_dicts.sb3() if arrays is None else arrays, data=sb3_data(**data)))
        return formats.read(path)

    def test_hyperparameters_are_read_from_an_sb3_zip(self, tmp_path: Path) -> None:
        metadata = self.read(tmp_path).metadata
        assert metadata["gamma"] == 0.97
        assert metadata["lambda"] == 0.9
        assert metadata["frame_stack"] == 4

    def test_other_image_shapes_are_not_treated_as_atari(self, tmp_path: Path) -> None:
        checkpoint = self.read(tmp_path, state_dicts.sb3(channels=3, side=44), shape=(3, 44, 44))
        assert checkpoint.metadata["env_kind"] == "gymnasium"
        assert build_agent(checkpoint).observation_shape == (44, 44, 3)

    @pytest.mark.parametrize(("channels", "kind"), [(4, "atari"), (1, "atari"), (3, "gymnasium")])
    def test_gray_84x84_observations_are_assumed_to_be_atari_frames(
        self, tmp_path: Path, channels: int, kind: str
    ) -> None:
        checkpoint = self.read(tmp_path, state_dicts.sb3(channels=channels), shape=(channels, 84, 84))
        assert checkpoint.metadata["env_kind"] == kind
        assert any("env_kind=gymnasium" in note for note in checkpoint.notes) == (kind == "atari")

    def test_normalize_images_false_disables_observation_scaling(self, tmp_path: Path) -> None:
        observations = np.random.default_rng(0).integers(0, 256, (2, 84, 84, 4), np.uint8)
        plain, raw = (
            build_agent(self.read(tmp_path, policy_kwargs={"normalize_images": scaled})) for scaled in (True, False)
        )
        assert np.abs(raw.forward(observations).values).max() > 10 * np.abs(plain.forward(observations).values).max()
        # Gradients are with respect to observations / 255 for both.
        assert (
            raw.gradients(observations, "input", ["value"]).std()
            > 10 * plain.gradients(observations, "input", ["value"]).std()
        )

    def test_the_activation_function_of_dense_layers_is_read_from_an_sb3_zip(self, tmp_path: Path) -> None:
        arrays = state_dicts.sb3(net_arch=(6,))
        observations = np.random.default_rng(0).integers(0, 256, (2, 84, 84, 4), np.uint8)
        values = []
        for kwargs in ({}, {"activation_fn": "<class 'torch.nn.modules.activation.ReLU'>"}):
            values.append(build_agent(self.read(tmp_path, arrays, policy_kwargs=kwargs)).forward(observations).values)
        assert not np.allclose(values[0], values[1])

"""Zips of Stable-Baselines3 (PPO, A2C, DQN with `CnnPolicy`) and sb3-contrib (RecurrentPPO with `CnnLstmPolicy`).

Members: `data`, JSON in which some values are pickles in base64 (never read), and `policy.pth`, a state dict.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.checkpoints import torch_file
from rl_clarity.checkpoints.bounded import brief, check_size
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256
from rl_clarity.checkpoints.safe_zip import MAGIC, SafeZip
from rl_clarity.errors import CheckpointError

if TYPE_CHECKING:
    from rl_clarity.agents.keras_agent import KerasAgent

DESCRIPTION = "Stable-Baselines3 and sb3-contrib (.zip: PPO, A2C, DQN, RecurrentPPO with a CnnPolicy)"
MEMBERS = ("data", "policy.pth")
ATARI_SIDES = [84, 84]
ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "GELU": "gelu", "SiLU": "silu", "Identity": "linear"}
OTHER_POLICIES = (
    "With Stable-Baselines3 at hand: rl_clarity.TorchAgent(model.policy, (height, width, channels), input_divisor=1, "
    "forward=lambda policy, x, _: (policy.get_distribution(x).distribution.logits, policy.predict_values(x)))"
)
TOWERS = (
    "features_extractor.",
    "pi_features_extractor.",
    "vf_features_extractor.",
    "q_net.",
    "q_net_target.",
    "mlp_extractor.",
    "lstm_actor.",
    "lstm_critic.",
    "critic.",
    "action_net.",
    "value_net.",
)


def sniff(path: Path, head: bytes) -> bool:
    if not head.startswith(MAGIC):
        return False
    with path.open("rb") as file:
        members = SafeZip(file).members
    return all(name in members for name in MEMBERS)


def read(path: Path) -> Checkpoint:
    """Read a zip. Raises CheckpointError if it is damaged, or of a policy that does not look at pictures."""
    check_size(path)
    with path.open("rb") as file:
        archive = SafeZip(file)
        data = archive.read_json("data")
        content = torch_file.read(io.BytesIO(archive.read("policy.pth")))
    if not isinstance(data, dict) or not isinstance(content.content, dict):
        raise CheckpointError("its data or its policy is not a dict")
    tensors = {name: tensor for name, tensor in content.content.items() if isinstance(tensor, torch_file.StoredTensor)}
    parameters = content.arrays(tensors)
    network = _network(parameters, data)
    shape = _observation_shape(parameters, data)
    architecture = {"observation_shape": shape, **_policy_options(data.get("policy_kwargs"))}
    return Checkpoint(
        path, "sb3", network, parameters, _metadata(data, shape), sha256(path), _notes(shape), architecture
    )


def agent(checkpoint: Checkpoint) -> KerasAgent:
    """The agent of a checkpoint; its observations have their channels last, as environments give them, or first."""
    from rl_clarity.agents.keras_agent import KerasAgent
    from rl_clarity.networks import sb3

    architecture = checkpoint.architecture
    height, width, channels = map(int, architecture["observation_shape"])
    build = sb3.q_network if checkpoint.network == "q_network" else sb3.actor_critic
    options = {"activation": architecture["activation"]} if architecture.get("activation") else {}
    network = build(checkpoint.parameters, (height, width, channels), **options)
    return KerasAgent(network, checkpoint.metadata, input_divisor=255 if architecture["normalize_images"] else 1)


def _network(parameters: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    others = [name for name in parameters if not name.startswith(TOWERS)]
    has_cnn = any(".cnn.0." in f".{name}" for name in parameters)
    if "log_std" in parameters:
        raise CheckpointError("its actions are continuous (it has a tensor 'log_std'); discrete ones are known")
    if others or not has_cnn:
        policy = _text(data.get("policy_class"), "__module__") or "its policy"
        found = f"tensors such as {brief(others[0])}" if others else "no tensor features_extractor.cnn.0.weight"
        raise CheckpointError(
            f"{policy} is not a CnnPolicy of PPO, A2C, DQN or RecurrentPPO: it has {found}. {OTHER_POLICIES}"
        )
    return "q_network" if any(name.startswith("q_net.") for name in parameters) else "actor_critic"


def _observation_shape(parameters: Mapping[str, Any], data: Mapping[str, Any]) -> list[int]:
    """(H, W, C); the file has (C, H, W), or nothing in the oldest versions, which were made for Atari's 84 x 84."""
    shape = _field(data.get("observation_space"), "_shape")
    if shape is None:
        kernel = next(array for name, array in parameters.items() if name.endswith("cnn.0.weight"))
        shape = [kernel.shape[1] if kernel.ndim == 4 else 0, 84, 84]
    if not isinstance(shape, list) or len(shape) != 3 or not all(type(n) is int and 1 <= n <= 65536 for n in shape):
        raise CheckpointError(f"observation_space has the shape {brief(shape)}; (channels, height, width) is known")
    channels, height, width = shape
    return [height, width, channels]


def _policy_options(kwargs: Any) -> dict[str, Any]:
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    options: dict[str, Any] = {"normalize_images": kwargs.get("normalize_images", True) is not False}
    if "activation_fn" in kwargs:  # "<class 'torch.nn.modules.activation.ReLU'>"
        name = str(kwargs["activation_fn"])[:200].rstrip("'>").rpartition(".")[2]
        if name not in ACTIVATIONS:
            raise CheckpointError(f"activation_fn {brief(name)} is not known; known are {', '.join(ACTIVATIONS)}")
        options["activation"] = ACTIVATIONS[name]
    return options


def _metadata(data: Mapping[str, Any], shape: list[int]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"library": "stable-baselines3"}
    for key, name in (("gamma", "gamma"), ("gae_lambda", "lambda")):
        value = data.get(key)
        if isinstance(value, int | float):
            if not 0 <= value <= 1:  # nor is NaN
                raise CheckpointError(f"its {key} is {brief(value)}; it is a share, from 0 to 1")
            metadata[name] = value
    if shape[:2] != ATARI_SIDES:
        return {**metadata, "env_kind": "gymnasium"}
    return {
        **metadata,
        "env_kind": "atari",
        "frame_stack": shape[2],
        "frame_stack_padding": "zeros",
        "episodic_life": True,
    }


def _notes(shape: list[int]) -> tuple[str, ...]:
    notes = ["the file does not say which environment it is for: give env_name"]
    if shape[:2] == ATARI_SIDES:
        notes.append("its observations are 84 x 84: taken to be an Atari game's, with Stable-Baselines3's own wrapper")
    return tuple(notes)


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _text(value: Any, key: str) -> str | None:
    text = _field(value, key)
    return text[:80] if isinstance(text, str) else None

"""Zips of Stable-Baselines3 (PPO, A2C, DQN with `CnnPolicy`) and sb3-contrib (RecurrentPPO with `CnnLstmPolicy`).

Members: `data`, JSON in which some values are pickles in base64 (never read), and `policy.pth`, a state dict.

The networks have Nature's body, a dense layer (`features_dim`), optional LSTMs, optional dense layers (`net_arch`) and
linear heads. Policy and value may have separate bodies (`share_features_extractor=False`).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import Network, StatePart
from rl_clarity.errors import CheckpointError
from rl_clarity.formats import torch_file
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.safe_files import Budget, SafeZip, brief, check_size
from rl_clarity.formats.torch_layers import TorchLayers, nature

MEMBERS = ("data", "policy.pth")
ATARI_SIDES = [84, 84]
MAX_LAYERS = 16
ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "GELU": "gelu", "SiLU": "silu", "Identity": "linear"}
OTHER_POLICIES = (
    "With Stable-Baselines3 installed: rl_clarity.TorchAgent(model.policy, (height, width, channels), input_divisor=1, "
    "forward=lambda policy, x, _: (policy.get_distribution(x).distribution.logits, policy.predict_values(x)))"
)
SHARED, POLICY, VALUE = "features_extractor", "pi_features_extractor", "vf_features_extractor"
PARTS = (
    *(f"{body}." for body in (SHARED, POLICY, VALUE)),
    *("q_net.", "q_net_target.", "mlp_extractor.", "lstm_actor.", "lstm_critic.", "critic."),
    *("action_net.", "value_net."),
)
NOTE = "the file does not name the environment: give env_name"
ATARI_NOTE = "observations of 84 x 84 are assumed to be an Atari game's, in Stable-Baselines3's own wrapper"


def recognize(file: CheckpointFile) -> bool:
    return file.members.issuperset(MEMBERS)


def read(file: CheckpointFile) -> Checkpoint:
    """Read a zip. Raises CheckpointError if it is damaged, or of a policy without image observations."""
    with file.path.open("rb") as opened:
        archive = SafeZip(opened, Budget.for_file(check_size(file.path)))
        data = archive.read_json("data")
        content = torch_file.read(io.BytesIO(archive.read("policy.pth")), archive.budget)
    if not isinstance(data, dict) or not isinstance(content.content, dict):
        raise CheckpointError("its data or its policy is not a dict")
    tensors = {name: tensor for name, tensor in content.content.items() if isinstance(tensor, torch_file.StoredTensor)}
    parameters = content.arrays(tensors)
    network = _network(parameters, data)
    shape = _observation_shape(parameters, data)
    architecture = {"observation_shape": shape, **_policy_options(data.get("policy_kwargs"))}
    notes = (NOTE, ATARI_NOTE) if shape[:2] == ATARI_SIDES else (NOTE,)
    metadata = _metadata(data, shape)
    return Checkpoint(file.path, "sb3", network, parameters, metadata, file.sha256, notes, architecture)


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent; raises CheckpointError where a tensor does not fit."""
    architecture = checkpoint.architecture
    height, width, channels = map(int, architecture["observation_shape"])
    build = q_network if checkpoint.network == "q_network" else actor_critic
    options = {"activation": architecture["activation"]} if architecture.get("activation") else {}
    network = build(checkpoint.parameters, (height, width, channels), **options)
    return KerasAgent(network, checkpoint.metadata, input_divisor=255 if architecture["normalize_images"] else 1)


FORMAT = Format(
    "Stable-Baselines3 and sb3-contrib (.zip: PPO, A2C, DQN, RecurrentPPO with a CnnPolicy)",
    recognize,
    read,
    build_agent,
)


def _network(parameters: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    unknown = [name for name in parameters if not name.startswith(PARTS)]
    has_cnn = any(".cnn.0." in f".{name}" for name in parameters)
    if "log_std" in parameters:
        raise CheckpointError("its actions are continuous (it has a tensor 'log_std'); discrete ones are needed")
    if unknown or not has_cnn:
        policy = _field(data.get("policy_class"), "__module__")
        name = policy[:80] if isinstance(policy, str) else "its policy"
        tensors = f"tensors such as {brief(unknown[0])}" if unknown else "no tensor features_extractor.cnn.0.weight"
        raise CheckpointError(
            f"{name} is not a CnnPolicy of PPO, A2C, DQN or RecurrentPPO: it has {tensors}. {OTHER_POLICIES}"
        )
    return "q_network" if any(name.startswith("q_net.") for name in parameters) else "actor_critic"


def _observation_shape(parameters: Mapping[str, Any], data: Mapping[str, Any]) -> list[int]:
    """(H, W, C); the file has (C, H, W), or nothing in the oldest versions, which were made for Atari's 84 x 84."""
    shape = _field(data.get("observation_space"), "_shape")
    if shape is None:
        kernel = next(array for name, array in parameters.items() if name.endswith("cnn.0.weight"))
        shape = [kernel.shape[1] if kernel.ndim == 4 else 0, 84, 84]
    if not isinstance(shape, list) or len(shape) != 3 or not all(type(n) is int and 1 <= n <= 65536 for n in shape):
        raise CheckpointError(f"observation_space has the shape {brief(shape)}; it must be (channels, height, width)")
    channels, height, width = shape
    return [height, width, channels]


def _policy_options(kwargs: Any) -> dict[str, Any]:
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    options: dict[str, Any] = {"normalize_images": kwargs.get("normalize_images", True) is not False}
    if "activation_fn" in kwargs:  # "<class 'torch.nn.modules.activation.ReLU'>"
        name = str(kwargs["activation_fn"])[:200].rstrip("'>").rpartition(".")[2]
        if name not in ACTIVATIONS:
            raise CheckpointError(f"unsupported activation_fn {brief(name)}; available: {', '.join(ACTIVATIONS)}")
        options["activation"] = ACTIVATIONS[name]
    return options


def _metadata(data: Mapping[str, Any], shape: list[int]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"library": "stable-baselines3"}
    for key, name in (("gamma", "gamma"), ("gae_lambda", "lambda")):
        value = data.get(key)
        if isinstance(value, int | float):
            if not 0 <= value <= 1:  # catches NaN, too
                raise CheckpointError(f"its {key} is {brief(value)}; it must be from 0 to 1")
            metadata[name] = value
    if shape[:2] != ATARI_SIDES:
        return {**metadata, "env_kind": "gymnasium"}
    atari = {"frame_stack": shape[2], "frame_stack_padding": "zeros", "episodic_life": True}
    return {**metadata, "env_kind": "atari", **atari}


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def actor_critic(
    parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int], *, activation: str = "tanh"
) -> Network:
    """PPO's, A2C's or RecurrentPPO's network; `activation` is that of `net_arch`'s layers."""
    parameters, policy_body, value_body = _bodies(parameters)
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    policy = value = _features(layers, observations, policy_body)
    if value_body != policy_body:
        value = _features(layers, observations, value_body)
    policy, value, states = _recurrent(layers, policy, value)
    policy = _dense_layers(layers, policy, "mlp_extractor.policy_net", activation)
    value = _dense_layers(layers, value, "mlp_extractor.value_net", activation)
    heads = {"policy_logits": layers.dense(policy, "action_net"), "values": layers.dense(value, "value_net")}
    return layers.builder.finish([observations], heads, states)


def q_network(
    parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int], *, activation: str = "relu"
) -> Network:
    """DQN's online network; the target network, an older copy, is left out."""
    layers = TorchLayers({name: array for name, array in parameters.items() if not name.startswith("q_net_target.")})
    observations = layers.builder.input(observation_shape, "observations")
    x = _features(layers, observations, f"q_net.{SHARED}")
    *hidden, last = _indices(layers, "q_net.q_net") or [0]
    x = _dense_layers(layers, x, "q_net.q_net", activation, hidden)
    return layers.builder.finish([observations], {"q_values": layers.dense(x, f"q_net.q_net.{last}")})


def _bodies(parameters: Mapping[str, np.ndarray]) -> tuple[Mapping[str, np.ndarray], str, str]:
    """Remove aliases of the shared body; return the parameters, and the names of the policy's and value's bodies."""
    for body in (POLICY, VALUE):
        if _is_alias(parameters, body):
            parameters = {name: array for name, array in parameters.items() if not name.startswith(f"{body}.")}
    policy, value = (
        body if any(name.startswith(f"{body}.") for name in parameters) else SHARED for body in (POLICY, VALUE)
    )
    return parameters, policy, value


def _is_alias(parameters: Mapping[str, np.ndarray], body: str) -> bool:
    originals = {name: SHARED + name.removeprefix(body) for name in parameters if name.startswith(f"{body}.")}
    return all(b in parameters and np.array_equal(parameters[a], parameters[b]) for a, b in originals.items())


def _features(layers: TorchLayers, observations: Any, body: str) -> Any:
    x = nature(layers, observations, f"{body}.cnn")
    return layers.relu(layers.dense(x, f"{body}.linear.0"), f"{body}.linear.0.relu")


def _recurrent(layers: TorchLayers, policy: Any, value: Any) -> tuple[Any, Any, list[StatePart]]:
    """LSTMs of RecurrentPPO: one each for policy and value, one for both, or none for the value."""
    if not layers.uses("lstm_actor"):
        return policy, value, []
    policy, states = _lstm(layers, policy, "lstm_actor")
    if layers.uses("lstm_critic"):
        value, more = _lstm(layers, value, "lstm_critic")
        return policy, value, states + more
    return policy, layers.dense(value, "critic") if layers.uses("critic") else policy, states


def _lstm(layers: TorchLayers, x: Any, name: str) -> tuple[Any, list[StatePart]]:
    states: list[StatePart] = []
    for i in range(MAX_LAYERS):
        if i and not layers.has(f"{name}.weight_ih_l{i}"):
            break
        x, more = layers.lstm(x, name, suffix=f"_l{i}")
        states += more
    return x, states


def _dense_layers(
    layers: TorchLayers, x: Any, prefix: str, activation: str, indices: Sequence[int] | None = None
) -> Any:
    """Dense layers, each followed by the activation; by default all layers of a `Sequential`."""
    for i in _indices(layers, prefix) if indices is None else indices:
        name = f"{prefix}.{i}"
        x = layers.activation(layers.dense(x, name), activation, f"{name}.{activation}")
    return x


def _indices(layers: TorchLayers, prefix: str) -> list[int]:
    """Indices of the dense layers in a `Sequential`."""
    return [i for i in range(2 * MAX_LAYERS) if layers.has(f"{prefix}.{i}")]

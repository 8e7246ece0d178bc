"""Zips of Stable-Baselines3 (PPO, A2C, DQN with `CnnPolicy`) and sb3-contrib (RecurrentPPO with `CnnLstmPolicy`).

The members are `data`, JSON in which some values are also pickles in base64, and `policy.pth`, a state dict. The only
pickle that is read is that of the policy class, for the class's name.

The networks have Nature's body, a dense layer (`features_dim`), optional LSTMs, optional dense layers (`net_arch`) and
linear heads. Policy and value may have separate bodies (`share_features_extractor=False`).
"""

from __future__ import annotations

import base64
import io
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import Network, StatePart
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import safe_pickle, torch_file
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.safe_files import BoundedReader, Budget, SafeZip, brief
from rl_clarity.formats.torch_layers import ACTIVATIONS, TorchLayers, nature

MEMBERS = ("data", "policy.pth")
ATARI_SIDES = [84, 84]
MAX_LAYERS = 16
NATURE_CNN = "stable_baselines3.common.torch_layers.NatureCNN"
POLICIES: safe_pickle.Names = {
    (module, name): safe_pickle.Name(value=f"{module}.{name}")
    for module, names in {
        "stable_baselines3.common.policies": ("ActorCriticPolicy", "ActorCriticCnnPolicy"),
        "stable_baselines3.dqn.policies": ("DQNPolicy", "CnnPolicy"),
        "sb3_contrib.common.recurrent.policies": ("RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy"),
    }.items()
    for name in names
}
"""Policies whose network depends only on the features extractor and the other `policy_kwargs`."""
LIBRARIES = ("stable_baselines3.", "sb3_contrib.")
MASKABLE = "sb3_contrib.common.maskable.policies."
EXPLAINED = (MASKABLE, "sb3_contrib.qrdqn.policies.")
"""Policies that `integrations.sb3` explains, although their zips are not read."""
WAY_OUT = (
    ". With Stable-Baselines3 it can be explained as it is: from rl_clarity.integrations import sb3; "
    "model = PPO.load(path, env=env), or the model in memory after training; "
    "agent, env = sb3.agent(model), sb3.environment(model); "
    "rl_clarity.generate(agent, *rl_clarity.collect(agent, env), 'page')"
)
OWN_FORWARD = (
    ". With Stable-Baselines3: rl_clarity.TorchAgent(model.policy, (height, width, channels), input_divisor=1, "
    "forward=...), with a function forward(policy, observations, state) that "
)
SHARED, POLICY, VALUE = "features_extractor", "pi_features_extractor", "vf_features_extractor"
PARTS = (
    *(f"{body}." for body in (SHARED, POLICY, VALUE)),
    *("q_net.", "q_net_target.", "mlp_extractor.", "lstm_actor.", "lstm_critic.", "critic."),
    *("action_net.", "value_net."),
)
ATARI_NOTE = (
    "gray observations of 84 x 84 are assumed to be an Atari game's, in Stable-Baselines3's own wrapper; give "
    "env_kind=gymnasium for another environment"
)


def recognize(file: CheckpointFile) -> bool:
    return file.members.issuperset(MEMBERS)


def read(file: CheckpointFile) -> Checkpoint:
    """Read a zip. Raises CheckpointError if it is damaged, or does not determine what the network computes."""
    with file.path.open("rb") as opened:
        archive = SafeZip(opened, file.budget)
        data = archive.read_json("data")
        content = torch_file.read(io.BytesIO(archive.read("policy.pth")), archive.budget)
    if not isinstance(data, dict) or not isinstance(content.content, dict):
        raise CheckpointError("its data or its policy is not a dict")
    tensors = {name: tensor for name, tensor in content.content.items() if isinstance(tensor, torch_file.StoredTensor)}
    options = data["policy_kwargs"] if isinstance(data.get("policy_kwargs"), dict) else {}
    _check_policy(data, options, archive.budget)
    parameters = content.arrays(tensors)
    network = _network(parameters)
    space = _field(data, "observation_space")
    shape = _observation_shape(parameters, space)
    architecture = {"observation_shape": shape, **_scale(space, options), **_activation(options)}
    metadata = _metadata(data, shape, str(_field(space, "dtype")))
    notes = (ATARI_NOTE,) if metadata["env_kind"] == "atari" else ()
    return Checkpoint(file.path, "sb3", network, parameters, metadata, file.sha256, notes, architecture)


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent. Raises CheckpointError if a tensor does not fit."""
    architecture = checkpoint.architecture
    height, width, channels = map(int, architecture["observation_shape"])
    build = q_network if checkpoint.network == "q_network" else actor_critic
    options = {"activation": architecture["activation"]} if architecture.get("activation") else {}
    divisor, offset = 255.0, 0.0
    if not architecture["normalize_images"]:
        low, high = _value_range(architecture.get("value_range", [0, 255]), checkpoint.metadata)
        divisor, offset = 255 / (high - low), low
    network = build(checkpoint.parameters, (height, width, channels), offset=offset, **options)
    return KerasAgent(network, checkpoint.metadata, input_divisor=divisor)


FORMAT = Format(
    "Stable-Baselines3 and sb3-contrib (.zip: PPO, A2C, DQN, RecurrentPPO with a CnnPolicy)",
    recognize,
    read,
    build_agent,
)


def _check_policy(data: Mapping[str, Any], options: Mapping[str, Any], budget: Budget) -> None:
    """Raise CheckpointError unless the policy's classes are the library's and its actions are discrete."""
    space, actions = (_class_name(_field(data.get(key), ":type:")) for key in ("observation_space", "action_space"))
    if space.endswith(".Dict"):
        raise CheckpointError(
            f"its observations are a Dict; zips with single images are read{OWN_FORWARD}adds the others"
        )
    policy = _policy_class(data.get("policy_class"), budget)
    known = policy in (name.value for name in POLICIES.values())
    shape = _field(data.get("observation_space"), "_shape")
    is_image = shape is None or (isinstance(shape, list) and len(shape) == 3)
    is_explained = known or policy.startswith(EXPLAINED) or not policy.startswith(LIBRARIES)
    way_out = WAY_OUT if is_image and is_explained else ""
    if policy.startswith(MASKABLE):
        raise CheckpointError(f"its policy, {policy}, needs the action masks of its environment, unlike run{way_out}")
    if not known:
        raise CheckpointError(f"its policy is {policy}; those of PPO, A2C, DQN and RecurrentPPO are read{way_out}")
    if not actions.endswith(".Discrete"):
        raise CheckpointError(
            f"its actions are {brief(actions.rpartition('.')[2])}; zips with Discrete actions are read"
            + (f"{OWN_FORWARD}returns logits of one dimension of the actions, and values" if is_image else "")
        )
    extractor = _class_name(options.get("features_extractor_class", f"<class '{NATURE_CNN}'>"))
    if extractor != NATURE_CNN:
        raise CheckpointError(
            f"its features_extractor_class is {brief(extractor)}; the zip does not contain what that class computes, "
            f"and only {NATURE_CNN} is known{way_out}"
        )


def _policy_class(value: Any, budget: Budget) -> str:
    """Return the full name of the policy class from its pickle, without importing anything."""
    pickled = base64.b64decode(str(_field(value, ":serialized:")))
    try:
        return str(safe_pickle.load(BoundedReader(io.BytesIO(pickled), len(pickled), budget), POLICIES).value)
    except safe_pickle.RefusedError as error:
        if error.name.split(".")[0] in sys.stdlib_module_names:
            raise
        by_value = error.name.startswith("cloudpickle.")  # in this case the class's name is not the first in the pickle
        return f"a class of {brief(_field(value, '__module__'))}" if by_value else error.name


def _class_name(text: Any) -> str:
    """Return a full name from the text of a class, `<class 'torch.nn.modules.activation.ReLU'>`."""
    match = re.fullmatch(r"<class '(.*)'>", str(text))
    return match[1] if match else str(text)


def _network(parameters: Mapping[str, Any]) -> str:
    unknown = [name for name in parameters if not name.startswith(PARTS)]
    if not any(".cnn.0." in name for name in parameters):
        raise CheckpointError(
            "its policy has no convolutions (no tensor features_extractor.cnn.0.weight): agents with a CnnPolicy, "
            "which see images, are explained"
        )
    if unknown:
        raise CheckpointError(f"its policy has tensors that no CnnPolicy has, such as {brief(unknown[0])}")
    return "q_network" if any(name.startswith("q_net.") for name in parameters) else "actor_critic"


def _observation_shape(parameters: Mapping[str, Any], space: Any) -> list[int]:
    """Return the input shape (H, W, C). The file has (C, H, W); the oldest versions have none and assume 84 x 84."""
    shape = _field(space, "_shape")
    if shape is None:
        kernel = next(array for name, array in parameters.items() if name.endswith("cnn.0.weight"))
        shape = [kernel.shape[1] if kernel.ndim == 4 else 0, 84, 84]
    if not isinstance(shape, list) or len(shape) != 3 or not all(type(n) is int and 1 <= n <= 65536 for n in shape):
        raise CheckpointError(f"observation_space has the shape {brief(shape)}; it must be (channels, height, width)")
    channels, height, width = shape
    return [height, width, channels]


def _scale(space: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how observations from 0 to 255 are converted to the network's input, as in the library's `preprocess_obs`.

    The library divides uint8 from 0 to 255 by 255, unless told not to, and passes on everything else. `value_range` are
    the network's inputs for 0 and 255: the bounds of the space, which environments stretch to 0 to 255.
    """
    low, high = _bounds(space, "low", min), _bounds(space, "high", max)
    if _field(space, "dtype") in (None, "uint8") and (low, high) in ((0, 255), (None, None)):
        return {"normalize_images": options.get("normalize_images", True) is not False, "value_range": [0, 255]}
    bounded = low is not None and high is not None and np.isfinite([low, high]).all()
    return {"normalize_images": False, "value_range": [low, high] if bounded else None}


def _bounds(space: Any, name: str, choose: Any) -> float | None:
    """Return the least or greatest number of those that NumPy printed, which may be abbreviated."""
    text = _field(space, name)
    if text is None:
        return None
    return float(choose(float(number) for number in re.sub(r"[][]|\.{3}", " ", str(text)).split()))


def _value_range(recorded: Any, metadata: Mapping[str, Any]) -> tuple[float, float]:
    """Return the network's inputs for 0 and 255. Raises CheckpointError if the file does not determine them."""
    value_range = metadata.get("value_range") or recorded
    if value_range is None:
        raise CheckpointError(
            "its observation space has no bounds: give the metadata value_range, the values of black and white"
        )
    low, high = map(float, value_range)
    if not low < high or (value_range is recorded and low < -1):
        raise CheckpointError(
            f"its observations range from {low:g} to {high:g}, as those of VecNormalize do, whose statistics are not "
            "in the zip; if black is the lowest value and white the highest, give the metadata value_range"
        )
    return low, high


def _activation(options: Mapping[str, Any]) -> dict[str, str]:
    if "activation_fn" not in options:
        return {}
    module, _, name = _class_name(options["activation_fn"]).rpartition(".")
    if not module.startswith("torch.nn.modules.") or name not in ACTIVATIONS:
        raise CheckpointError(
            f"unsupported activation_fn {brief(options['activation_fn'])}; available: {', '.join(ACTIVATIONS)} of "
            f"torch.nn{WAY_OUT}"
        )
    return {"activation": ACTIVATIONS[name]}


def _metadata(data: Mapping[str, Any], shape: list[int], dtype: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"library": "stable-baselines3"}
    for key, name in (("gamma", "gamma"), ("gae_lambda", "lambda")):
        value = data.get(key)
        if isinstance(value, int | float):
            if not 0 <= value <= 1:  # also true for NaN
                raise CheckpointError(f"its {key} is {brief(value)}; it must be from 0 to 1")
            metadata[name] = value
    if isinstance(data.get("num_timesteps"), int):
        metadata["training_step"] = data["num_timesteps"]
    if shape[:2] != ATARI_SIDES or shape[2] == 3 or dtype not in ("uint8", "None"):
        return {**metadata, "env_kind": "gymnasium"}
    atari = {"frame_stack": shape[2], "frame_stack_padding": "zeros", "episodic_life": True}
    return {**metadata, "env_kind": "atari", **atari}


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def actor_critic(
    parameters: Mapping[str, np.ndarray],
    observation_shape: tuple[int, int, int],
    *,
    activation: str = "tanh",
    offset: float = 0,
) -> Network:
    """Build the network of PPO, A2C or RecurrentPPO. `activation` is that of `net_arch`, `offset` is added to its
    input.
    """
    parameters, policy_body, value_body = _bodies(parameters)
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    x = _shifted(observations, offset)
    policy = value = _features(layers, x, policy_body)
    if value_body != policy_body:
        value = _features(layers, x, value_body)
    policy, value, states = _recurrent(layers, policy, value)
    policy = _dense_layers(layers, policy, "mlp_extractor.policy_net", activation)
    value = _dense_layers(layers, value, "mlp_extractor.value_net", activation)
    heads = {"policy_logits": layers.dense(policy, "action_net"), "values": layers.dense(value, "value_net")}
    return layers.builder.finish([observations], heads, states)


def q_network(
    parameters: Mapping[str, np.ndarray],
    observation_shape: tuple[int, int, int],
    *,
    activation: str = "relu",
    offset: float = 0,
) -> Network:
    """Build DQN's online network. The target network, an older copy, is ignored."""
    layers = TorchLayers({name: array for name, array in parameters.items() if not name.startswith("q_net_target.")})
    observations = layers.builder.input(observation_shape, "observations")
    x = _features(layers, _shifted(observations, offset), f"q_net.{SHARED}")
    *hidden, last = _indices(layers, "q_net.q_net") or [0]
    x = _dense_layers(layers, x, "q_net.q_net", activation, hidden)
    return layers.builder.finish([observations], {"q_values": layers.dense(x, f"q_net.q_net.{last}")})


def _bodies(parameters: Mapping[str, np.ndarray]) -> tuple[Mapping[str, np.ndarray], str, str]:
    """Remove duplicates of the shared body. Return the parameters, and the names of the bodies of policy and value."""
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


def _shifted(observations: Any, offset: float) -> Any:
    return observations + offset if offset else observations


def _features(layers: TorchLayers, x: Any, body: str) -> Any:
    x = nature(layers, x, f"{body}.cnn")
    return layers.activate(layers.dense(x, f"{body}.linear.0"), f"{body}.linear.0")


def _recurrent(layers: TorchLayers, policy: Any, value: Any) -> tuple[Any, Any, list[StatePart]]:
    """Build the LSTMs of RecurrentPPO: one each for policy and value, a shared one, or none for the value."""
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
    """Apply dense layers, each followed by the activation; by default all layers of a `Sequential`."""
    for i in _indices(layers, prefix) if indices is None else indices:
        name = f"{prefix}.{i}"
        x = layers.activate(layers.dense(x, name), name, activation)
    return x


def _indices(layers: TorchLayers, prefix: str) -> list[int]:
    """Return the indices of the dense layers in a `Sequential`."""
    return [i for i in range(2 * MAX_LAYERS) if layers.has(f"{prefix}.{i}")]

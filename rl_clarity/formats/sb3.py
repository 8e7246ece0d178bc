"""Read zip files of Stable-Baselines3 (PPO, A2C, DQN, SAC, TD3, DDPG) and sb3-contrib (RecurrentPPO, MaskablePPO, TRPO,
QRDQN, TQC).

A zip file has the members `data`, which is JSON in which some values are also stored as pickles in base64, and
`policy.pth`, which contains a state dict. The only pickle in `data` that is read is the one of the policy class, to
determine the name of the class.

The features extractor passes images through the Nature CNN and a dense layer (`features_dim`), or flattens them. It
does not change vectors, and it concatenates the features of the entries of a dictionary. Optional LSTMs, optional dense
layers (`net_arch`) and linear heads follow. Policy and value may have separate features extractors
(`share_features_extractor=False`).
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.actions import Factor, count_outputs
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import CheckpointError
from rl_clarity.environments.images import image_axes
from rl_clarity.formats import safe_pickle, torch_file
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.safe_files import BoundedReader, Budget, SafeZip, brief
from rl_clarity.formats.sb3_networks import (
    CLIP_MEAN,
    NETWORKS,
    POLICY,
    SHARED,
    VALUE,
    actor_critic,
    is_state_dependent,
    q_network,
)
from rl_clarity.formats.sb3_spaces import Entry, action_factors, class_name, numbers, read_actions, read_dictionary
from rl_clarity.formats.torch_layers import ACTIVATIONS

MEMBERS = ("data", "policy.pth")
ATARI_SIDES = [84, 84]
N_QUANTILES = 200
"""Default number of quantiles of each action value in QRDQN."""
EXTRACTORS = tuple(
    f"stable_baselines3.common.torch_layers.{name}" for name in ("NatureCNN", "FlattenExtractor", "CombinedExtractor")
)
POLICIES: safe_pickle.Names = {
    (module, name): safe_pickle.Name(value=f"{module}.{name}")
    for module, names in {
        "stable_baselines3.common.policies": (
            *("ActorCriticPolicy", "ActorCriticCnnPolicy", "MultiInputActorCriticPolicy"),
        ),
        "stable_baselines3.dqn.policies": ("DQNPolicy", "CnnPolicy", "MultiInputPolicy"),
        "stable_baselines3.sac.policies": ("SACPolicy", "CnnPolicy", "MultiInputPolicy"),
        "stable_baselines3.td3.policies": ("TD3Policy", "CnnPolicy", "MultiInputPolicy"),
        "sb3_contrib.qrdqn.policies": ("QRDQNPolicy", "CnnPolicy", "MultiInputPolicy"),
        "sb3_contrib.tqc.policies": ("TQCPolicy", "CnnPolicy", "MultiInputPolicy"),
        "sb3_contrib.common.maskable.policies": (
            *("MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy"),
        ),
        "sb3_contrib.common.recurrent.policies": (
            *("RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy"),
        ),
    }.items()
    for name in names
}
"""Policies whose network depends only on the features extractor and the other `policy_kwargs`."""
LIBRARIES = ("stable_baselines3.", "sb3_contrib.")
MASKABLE = "sb3_contrib.common.maskable.policies."
EXPLAINED = ("sb3_contrib.crossq.policies.",)
"""Prefixes of policies that `integrations.sb3` explains, although their zip files cannot be read."""
WAY_OUT = (
    ". With Stable-Baselines3, the model can be explained in memory (see docs/guides/sb3.md): "
    "from rl_clarity.integrations import sb3; model = PPO.load(path, env=env), with your algorithm's class for PPO; "
    "sb3.explain(model, 'page')"
)
OWN_NETWORK = (
    ". Its network can be explained in memory as your own (see docs/guides/own-network.md): "
    "rl_clarity.TorchAgent(model.policy, shape, input_divisor=1, forward=...)"
)
PARTS = (
    *(f"{body}." for body in (SHARED, POLICY, VALUE)),
    *("quantile_net.", "quantile_net_target."),
    *("q_net.", "q_net_target.", "mlp_extractor.", "lstm_actor.", "lstm_critic.", "critic."),
    *("actor.", "actor_target.", "critic_target.", "action_net.", "value_net.", "log_std"),
)
ATARI_NOTE = (
    "gray observations of 84 x 84 pixels are assumed to come from an Atari game in Stable-Baselines3's wrapper; pass "
    "env_kind=gymnasium for any other environment"
)
VECTOR_NOTE = (
    "the network gets observations as the environment returns them. If VecNormalize normalized them in training, "
    "explain the model in memory with rl_clarity.integrations.sb3.explain, because the zip does not contain the "
    "statistics of VecNormalize"
)
MASK_NOTE = (
    "actions are chosen among those that the environment's method action_masks() allows; pass action_masks=False to "
    "choose among all actions"
)
ACTIONS = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")


def recognize(file: CheckpointFile) -> bool:
    return file.members.issuperset(MEMBERS)


def read(file: CheckpointFile) -> Checkpoint:
    """Read a zip file. Raises CheckpointError if it is damaged, or does not determine what the network computes."""
    with file.path.open("rb") as opened:
        archive = SafeZip(opened, file.budget)
        data = archive.read_json("data")
        content = torch_file.read(io.BytesIO(archive.read("policy.pth")), archive.budget)
    if not isinstance(data, dict) or not isinstance(content.content, dict):
        raise CheckpointError("its data or its policy is not a dict")
    tensors = {name: tensor for name, tensor in content.content.items() if isinstance(tensor, torch_file.StoredTensor)}
    options = data["policy_kwargs"] if isinstance(data.get("policy_kwargs"), dict) else {}
    policy = _check_policy(data, options, archive.budget)
    parameters = content.arrays(tensors)
    network = _network(parameters)
    space: Any = data.get("observation_space")
    entries: list[Entry] = []
    if _field(space, "spaces") is not None:
        entries, space = read_dictionary(_field(space, "spaces"))
    shape = _observation_shape(parameters, space)
    is_vector = shape[:2] == [1, 1]
    architecture: dict[str, Any] = {"observation_shape": shape, **_activation(options)}
    if not is_vector and not any(".cnn.0." in name for name in parameters):
        axes = image_axes(tuple(space["_shape"]))
        shape[:] = [space["_shape"][axis] for axis in axes]
        architecture["flattened_axes"] = axes
    architecture |= {} if is_vector else _scale(space, options)
    architecture |= {"entries": entries} if entries else {}
    if head := _head(options, parameters):
        architecture["head"] = head
    maskable = policy.startswith(MASKABLE)
    if (actions := read_actions(data["action_space"], maskable=maskable)) is not None:
        architecture["actions"] = actions
    elif "log_std" in parameters:
        raise CheckpointError("its policy has standard deviations (log_std), but its actions are Discrete")
    metadata = _metadata(data, shape, str(_field(space, "dtype")), maskable=maskable)
    notes = [ATARI_NOTE] if metadata["env_kind"] == "atari" else [VECTOR_NOTE] if is_vector or entries else []
    notes += [MASK_NOTE] if maskable else []
    return Checkpoint(file.path, "sb3", network, parameters, metadata, file.sha256, tuple(notes), architecture)


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent. Raises CheckpointError if a tensor does not fit."""
    architecture = checkpoint.architecture
    height, width, channels = map(int, architecture["observation_shape"])
    names = ("activation", "entries", "head", "flattened_axes")
    options = {name: architecture[name] for name in names if architecture.get(name)}
    divisor: float | None = None if (height, width) == (1, 1) else 255.0
    if divisor and not architecture["normalize_images"]:
        low, high = _value_range(architecture.get("value_range", [0, 255]), checkpoint.metadata)
        divisor, options["offset"] = 255 / (high - low), low
    network = NETWORKS[checkpoint.network](checkpoint.parameters, (height, width, channels), **options)
    outputs = int(network.model.outputs[0].shape[-1])
    return KerasAgent(
        network, checkpoint.metadata, input_divisor=divisor, actions=_actions(checkpoint, architecture, outputs)
    )


FORMAT = Format(
    "Stable-Baselines3 and sb3-contrib (.zip: PPO, A2C, TRPO, DQN, QRDQN, SAC, TQC, TD3, DDPG, RecurrentPPO, "
    "MaskablePPO)",
    recognize,
    read,
    build_agent,
)


def _check_policy(data: Mapping[str, Any], options: Mapping[str, Any], budget: Budget) -> str:
    """Return the full name of the policy class. Raises CheckpointError if this class, the features extractor or one of
    the spaces is not supported.
    """
    policy = _policy_class(data.get("policy_class"), budget)
    known = policy in (name.value for name in POLICIES.values())
    space, actions = (class_name(_field(data.get(key), ":type:")) for key in ("observation_space", "action_space"))
    is_explained = known or policy.startswith(EXPLAINED) or not policy.startswith(LIBRARIES)
    way_out = WAY_OUT if is_explained else OWN_NETWORK
    if not known:
        raise CheckpointError(
            f"its policy is {policy}; only policies of PPO, A2C, TRPO, DQN, QRDQN, SAC, TQC, TD3, DDPG, RecurrentPPO "
            f"and MaskablePPO are supported{way_out}"
        )
    if space.rpartition(".")[2] not in ("Box", "Dict"):
        raise CheckpointError(
            f"its observation space is a {brief(space.rpartition('.')[2])}; only a Box, and a Dict of an image and "
            "numbers, are supported"
        )
    if actions.rpartition(".")[2] not in ACTIONS:
        raise CheckpointError(
            f"its action space is a {brief(actions.rpartition('.')[2])}; only {', '.join(ACTIONS)} are supported"
        )
    extractor = class_name(options.get("features_extractor_class", f"<class '{EXTRACTORS[0]}'>"))
    if extractor not in EXTRACTORS:
        raise CheckpointError(
            f"its features_extractor_class is {brief(extractor)}, whose code is not in the zip; only "
            f"{', '.join(EXTRACTORS)} are known{way_out}"
        )
    return policy


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


def _network(parameters: Mapping[str, Any]) -> str:
    unknown = [name for name in parameters if not name.startswith(PARTS)]
    if unknown:
        raise CheckpointError(f"its policy has tensors that no policy of the library has, such as {brief(unknown[0])}")
    for prefix, network in (("q_net.", "q_network"), ("quantile_net.", "q_network"), ("actor.", "actor")):
        if any(name.startswith(prefix) for name in parameters):
            return network
    return "actor_critic"


def _actions(checkpoint: Checkpoint, architecture: Mapping[str, Any], outputs: int) -> list[Factor] | None:
    """Return the factors of an action, or None for a single choice. Raises CheckpointError if they do not fit the
    number of the network's outputs.
    """
    described = architecture.get("actions")
    if described is None:
        return None
    stds: list[float | None] = [None] * len(described)
    is_squashed = is_actor = checkpoint.network == "actor"
    if any(is_state_dependent(checkpoint.parameters, name) for name in ("log_std", "actor.log_std")):
        is_squashed = is_actor or bool(architecture.get("head", {}).get("squash_output"))
    elif "log_std" in checkpoint.parameters:
        stds = np.exp(np.asarray(checkpoint.parameters["log_std"], np.float32)).tolist()
    elif is_actor and "actor.log_std.weight" not in checkpoint.parameters:
        stds = [0.0] * len(described)
    if len(stds) == len(described):
        factors = action_factors(described, stds, squashed=is_squashed)
        if count_outputs(factors) == outputs:
            return factors
    raise CheckpointError(
        f"its action_space has {len(described)} factors, which do not match the {outputs} outputs of its policy"
    )


def _observation_shape(parameters: Mapping[str, Any], space: Any) -> list[int]:
    """Return the input shape, (H, W, C) for an image or (1, 1, n) for a vector. The file stores the shape of an image
    as (C, H, W). Files of the oldest versions have no shape; their images have 84 x 84 pixels.
    """
    shape = _field(space, "_shape")
    if shape is None:
        kernels = (array for name, array in parameters.items() if name.endswith("cnn.0.weight"))
        depths = [array.shape[1] for array in kernels if array.ndim == 4]
        shape = [depths[0] if depths else 0, 84, 84]
    is_list = isinstance(shape, list) and all(type(n) is int and 1 <= n <= 65536 for n in shape)
    if not is_list or len(shape) not in (1, 3):
        raise CheckpointError(
            f"observation_space has the shape {brief(shape)}; it must be (channels, height, width) for an image, or "
            "(n,) for a vector"
        )
    channels, height, width = (shape[0], 1, 1) if len(shape) == 1 else shape
    return [height, width, channels]


def _scale(space: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that determine how observations from 0 to 255 are converted to the network's input. The
    conversion follows the library's `preprocess_obs`.

    The library divides uint8 images with the bounds 0 and 255 by 255, unless `normalize_images` is False, and does not
    change other images. `value_range` contains the network's inputs for the observed values 0 and 255. They are the
    bounds of the observation space, which this package's environments rescale to 0 and 255.
    """
    low, high = _bounds(space, "low", min), _bounds(space, "high", max)
    if _field(space, "dtype") in (None, "uint8") and (low, high) in ((0, 255), (None, None)):
        return {"normalize_images": options.get("normalize_images", True) is not False, "value_range": [0, 255]}
    bounded = low is not None and high is not None and np.isfinite([low, high]).all()
    return {"normalize_images": False, "value_range": [low, high] if bounded else None}


def _bounds(space: Any, name: str, choose: Any) -> float | None:
    """Return the smallest or largest number in the array `name` of the space (`choose` is `min` or `max`), or None if
    the space does not have this array. The array is in the form that NumPy prints, which may be abbreviated.
    """
    text = _field(space, name)
    if text is None:
        return None
    return float(choose(numbers(text)))


def _value_range(recorded: Any, metadata: Mapping[str, Any]) -> tuple[float, float]:
    """Return the network's inputs for the observed values 0 and 255. Raises CheckpointError if neither the metadata nor
    the file determines them.
    """
    value_range = metadata.get("value_range") or recorded
    if value_range is None:
        raise CheckpointError(
            "its observation space has no bounds: pass the metadata value_range, the values of black and white"
        )
    low, high = map(float, value_range)
    if not low < high or (value_range is recorded and low < -1):
        raise CheckpointError(
            f"its observations range from {low:g} to {high:g}, like observations that VecNormalize normalized, whose "
            "statistics are not in the zip. If black is the lowest value and white the highest, pass the metadata "
            "value_range"
        )
    return low, high


def _head(options: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the outputs that the tensors do not contain: the options in `Head`, and `squash_output` for
    gSDE.
    """
    if any(name.startswith("quantile_net.") for name in parameters):
        return {"n_quantiles": options.get("n_quantiles", N_QUANTILES)}
    if not any(is_state_dependent(parameters, name) for name in ("log_std", "actor.log_std")):
        return {}
    limit = options.get("clip_mean", CLIP_MEAN)
    if not isinstance(limit, int | float) or not 0 <= limit < np.inf:
        raise CheckpointError(f"its clip_mean is {brief(limit)}; it must be a number of at least 0")
    flags = {name: options.get(name) is True for name in ("use_expln", "squash_output")}
    return {"clip_mean": limit, **flags}


def _activation(options: Mapping[str, Any]) -> dict[str, str]:
    if "activation_fn" not in options:
        return {}
    module, _, name = class_name(options["activation_fn"]).rpartition(".")
    if not module.startswith("torch.nn.modules.") or name not in ACTIVATIONS:
        raise CheckpointError(
            f"unsupported activation_fn {brief(options['activation_fn'])}; available: {', '.join(ACTIVATIONS)} of "
            f"torch.nn{WAY_OUT}"
        )
    return {"activation": ACTIVATIONS[name]}


def _metadata(data: Mapping[str, Any], shape: list[int], dtype: str, *, maskable: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"library": "stable-baselines3", **({"action_masks": True} if maskable else {})}
    for key, name in (("gamma", "gamma"), ("gae_lambda", "lambda")):
        value = data.get(key)
        if isinstance(value, int | float):
            if not 0 <= value <= 1:  # also true for NaN
                raise CheckpointError(f"its {key} is {brief(value)}; it must be from 0 to 1")
            metadata[name] = value
    if isinstance(data.get("num_timesteps"), int):
        metadata["training_step"] = data["num_timesteps"]
    # A maskable policy needs an environment with the method `action_masks`, which Atari games do not have.
    if maskable or shape[:2] != ATARI_SIDES or shape[2] == 3 or dtype not in ("uint8", "None"):
        return {**metadata, "env_kind": "gymnasium"}
    atari = {"frame_stack": shape[2], "frame_stack_padding": "zeros", "episodic_life": True}
    return {**metadata, "env_kind": "atari", **atari}


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


__all__ = ["FORMAT", "actor_critic", "q_network"]

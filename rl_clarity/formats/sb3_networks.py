"""Build the networks of Stable-Baselines3 and sb3-contrib from their state dicts.

Keras operations are named after the library's submodules, as in `rl_clarity.integrations.sb3`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from rl_clarity.agents.network import Network, StatePart
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.safe_files import brief
from rl_clarity.formats.sb3_spaces import Entry
from rl_clarity.formats.torch_layers import TorchLayers, nature

MAX_LAYERS = 16
LOG_STD_RANGE = (-20, 2)
"""Range to which SAC clips the logarithm of the standard deviation."""
SHARED, POLICY, VALUE = "features_extractor", "pi_features_extractor", "vf_features_extractor"

CLIP_MEAN = 2.0
"""Default limit to which SAC and TQC with gSDE clip the absolute values of their means."""
EPSILON = 1e-6
"""A small number that is added to the variances of gSDE."""

Head = Mapping[str, Any]
"""Options of the outputs that the tensors do not contain: `use_expln` and `clip_mean` for gSDE, `n_quantiles` for
QRDQN."""
Parameters = Mapping[str, np.ndarray]
Shape = tuple[int, int, int]


def actor_critic(
    parameters: Parameters,
    observation_shape: Shape,
    *,
    activation: str = "tanh",
    offset: float = 0,
    entries: Sequence[Entry] = (),
    head: Head = MappingProxyType({}),
    flattened_axes: Sequence[int] = (),
) -> Network:
    """Build the network of PPO, A2C, TRPO, MaskablePPO or RecurrentPPO.

    Args:
        parameters: the state dict
        observation_shape: (H, W, C) of the image, or (1, 1, n) of a vector
        activation: activation function of the layers of `net_arch`
        offset: number that is added to the values of the image
        entries: entries of the observation space if it is a dictionary, in the same order
        head: options of the outputs, see `Head`
        flattened_axes: indices of the axes height, width and channel in the observation space, if the policy flattens
            the image; empty if convolutions process it
    """
    parameters, policy_body, value_body = _bodies(parameters)
    extractor = _Extractor(parameters, "", observation_shape, offset, entries, flattened_axes)
    layers = extractor.layers
    policy = value = extractor.features(policy_body)
    if value_body != policy_body:
        value = extractor.features(value_body)
    policy, value, states = _recurrent(layers, policy, value)
    policy = _dense_layers(layers, policy, "mlp_extractor.policy_net", activation)
    value = _dense_layers(layers, value, "mlp_extractor.value_net", activation)
    outputs = layers.dense(policy, "action_net")
    if is_state_dependent(parameters, "log_std"):
        outputs = _with_log_stds(layers, outputs, policy, "log_std", head)
    elif "log_std" in parameters:
        _store(layers, "log_std", (layers.size("log_std"),))
    return extractor.finish({"policy_logits": outputs, "values": layers.dense(value, "value_net")}, states)


def q_network(
    parameters: Parameters,
    observation_shape: Shape,
    *,
    activation: str = "relu",
    offset: float = 0,
    entries: Sequence[Entry] = (),
    head: Head = MappingProxyType({}),
    flattened_axes: Sequence[int] = (),
) -> Network:
    """Build the online network of DQN, or of QRDQN, whose action values are the means of its quantiles. The target
    network is ignored. The arguments are those of `actor_critic`.
    """
    from keras import ops

    count = head.get("n_quantiles")
    net = "q_net" if count is None else "quantile_net"
    kept = {name: array for name, array in parameters.items() if not name.startswith(f"{net}_target.")}
    extractor = _Extractor(kept, net, observation_shape, offset, entries, flattened_axes)
    layers, x = extractor.layers, extractor.features(f"{net}.{SHARED}")
    *hidden, last = _indices(layers, f"{net}.{net}") or [0]
    x = _dense_layers(layers, x, f"{net}.{net}", activation, hidden)
    outputs = layers.dense(x, f"{net}.{net}.{last}")
    if count is not None:
        if type(count) is not int or count < 1 or outputs.shape[-1] % count:
            raise CheckpointError(
                f"its n_quantiles is {brief(count)}, but its {outputs.shape[-1]} outputs are not a multiple of that"
            )
        outputs = ops.mean(ops.reshape(outputs, (-1, count, outputs.shape[-1] // count)), axis=1)
    return extractor.finish({"q_values": outputs})


def actor(
    parameters: Parameters,
    observation_shape: Shape,
    *,
    activation: str = "relu",
    offset: float = 0,
    entries: Sequence[Entry] = (),
    head: Head = MappingProxyType({}),
    flattened_axes: Sequence[int] = (),
) -> Network:
    """Build the actor of SAC, TQC, TD3 or DDPG without its final hyperbolic tangent. Critics and target networks are
    ignored. The arguments are those of `actor_critic`.

    The outputs are means (B, n). In SAC and TQC each mean is followed by the logarithm of its standard deviation,
    (B, n, 2).
    """
    from keras import ops

    kept = {name: array for name, array in parameters.items() if name.startswith("actor.")}
    extractor = _Extractor(kept, "actor", observation_shape, offset, entries, flattened_axes)
    layers, x = extractor.layers, extractor.features(f"actor.{SHARED}")
    if not layers.has("actor.log_std"):
        *hidden, last = _indices(layers, "actor.mu") or [0]
        x = _dense_layers(layers, x, "actor.mu", activation, hidden)
        return extractor.finish({"policy_logits": layers.dense(x, f"actor.mu.{last}")})
    x = _dense_layers(layers, x, "actor.latent_pi", activation)
    if is_state_dependent(kept, "actor.log_std"):
        means = layers.dense(x, "actor.mu.0" if layers.has("actor.mu.0") else "actor.mu")
        if layers.has("actor.mu.0"):
            limit = float(head.get("clip_mean", CLIP_MEAN))
            means = ops.clip(means, -limit, limit)
        return extractor.finish({"policy_logits": _with_log_stds(layers, means, x, "actor.log_std", head)})
    log_stds = ops.clip(layers.dense(x, "actor.log_std"), *LOG_STD_RANGE)
    outputs = ops.stack([layers.dense(x, "actor.mu"), log_stds], axis=-1)
    return extractor.finish({"policy_logits": outputs})


NETWORKS: Mapping[str, Callable[..., Network]] = {"actor_critic": actor_critic, "q_network": q_network, "actor": actor}


class _Extractor:
    """The inputs of a network, and its features extractors. The features of an image are the outputs of the Nature CNN
    or the flattened pixels, and those of a vector are its values. For a dictionary, the features of its entries are
    concatenated.
    """

    def __init__(
        self,
        parameters: Parameters,
        module: str,
        shape: Shape,
        offset: float,
        entries: Sequence[Entry],
        flattened_axes: Sequence[int],
    ) -> None:
        self._is_vector = shape[:2] == (1, 1)
        self._flattened_axes = flattened_axes
        self.layers = TorchLayers(parameters, module=module, vectors=self._is_vector)
        builder = self.layers.builder
        self._observations, self._entries = builder.input(shape, "observations"), entries
        self._shifted = self._observations + offset if offset else self._observations
        self._image = next((entry["name"] for entry in entries if len(entry["shape"]) == 3), None)
        held = [entry for entry in entries if entry["name"] != self._image]
        self._held = {entry["name"]: builder.input(tuple(entry["shape"]), f"held_{i}") for i, entry in enumerate(held)}

    def features(self, body: str) -> Any:
        """Return the features (B, n) that the features extractor `body` computes, or (B, 1, 1, n) for vectors."""
        import keras

        if self._is_vector:  # a site, through which all paths pass, as in memory
            return keras.layers.Identity(name=self.layers.operation_name(f"{body}.flatten"))(self._shifted)
        if not self._entries:
            return self._image_features(body, flatten=f"{body}.flatten")
        parts = [
            self._image_features(f"{body}.extractors.{entry['name']}")
            if entry["name"] == self._image
            else _encoded(self._held[entry["name"]], entry)
            for entry in self._entries
        ]
        return keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]

    def finish(self, heads: Mapping[str, Any], states: Sequence[StatePart] = ()) -> Network:
        """Return the network with the given heads. The entries of a dictionary other than the image become held inputs,
        which are appended to the recurrent states.
        """
        import keras

        held = [(x, x, np.zeros(x.shape[1:], np.float32)) for x in self._held.values()]
        flat = {name: keras.layers.Flatten()(head) if len(head.shape) > 2 else head for name, head in heads.items()}
        network = self.layers.builder.finish([self._observations], flat, [*states, *held])
        return dataclasses.replace(network, image=self._image, held_inputs=tuple(self._held))

    def _image_features(self, body: str, *, flatten: str | None = None) -> Any:
        import keras

        if self._flattened_axes:  # (B, H, W, C) in the order of the space's axes
            x = keras.layers.Permute([int(axis) + 1 for axis in np.argsort(self._flattened_axes)])(self._shifted)
            return keras.layers.Reshape((-1,), name=self.layers.operation_name(flatten or body))(x)
        x = nature(self.layers, self._shifted, f"{body}.cnn")
        return self.layers.activate(self.layers.dense(x, f"{body}.linear.0"), f"{body}.linear.0")


def _encoded(x: Any, entry: Entry) -> Any:
    """Return the features (B, n) of a dictionary entry. Discrete values become one-hot vectors."""
    import keras
    from keras import ops

    if "sizes" not in entry:
        return keras.layers.Reshape((-1,))(x)
    columns = [x] if not entry["shape"] else [x[:, i] for i in range(len(entry["sizes"]))]
    parts = [ops.one_hot(ops.cast(column, "int32"), n) for column, n in zip(columns, entry["sizes"], strict=True)]
    return ops.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def is_state_dependent(parameters: Parameters, log_std: str) -> bool:
    """Return whether the policy uses gSDE. In this case the tensor `log_std` is a matrix instead of a vector or a
    layer.
    """
    return log_std in parameters and parameters[log_std].ndim == 2


def _with_log_stds(layers: TorchLayers, means: Any, latent: Any, name: str, head: Head) -> Any:
    """Return each of the means (B, ..., n) with the logarithm of its standard deviation in gSDE, as an array
    (B, ..., n, 2).

    The noise of an action is the product of the policy's last layer with a matrix of normal noise (Raffin et al., 2021,
    https://arxiv.org/abs/2005.05719).
    """
    from keras import ops

    _store(layers, name, (int(latent.shape[-1]), 1 if layers.size(name, axis=1) == 1 else int(means.shape[-1])))
    log_std = np.asarray(layers.parameters[name], np.float32)
    stds = np.exp(log_std)
    if head.get("use_expln"):
        stds = np.where(log_std <= 0, stds, np.log1p(np.maximum(log_std, 0) + EPSILON) + 1)
    variances = np.broadcast_to(stds**2, (len(stds), means.shape[-1]))
    return ops.stack([means, ops.log(ops.matmul(ops.square(latent), variances) + EPSILON) / 2], axis=-1)


def _store(layers: TorchLayers, name: str, shape: tuple[int, ...]) -> None:
    """Add a tensor of standard deviations, which belongs to no layer, to the network's parameters."""
    import keras

    layers.builder.expect(name, shape)
    layers.builder.store(name, keras.Variable(np.zeros(shape, np.float32)))


def _bodies(parameters: Parameters) -> tuple[Parameters, str, str]:
    """Remove duplicates of the shared features extractor. Return the remaining parameters, and the names of the
    features extractors of policy and value.
    """
    for body in (POLICY, VALUE):
        if _is_alias(parameters, body):
            parameters = {name: array for name, array in parameters.items() if not name.startswith(f"{body}.")}
    policy, value = (
        body if any(name.startswith(f"{body}.") for name in parameters) else SHARED for body in (POLICY, VALUE)
    )
    return parameters, policy, value


def _is_alias(parameters: Parameters, body: str) -> bool:
    originals = {name: SHARED + name.removeprefix(body) for name in parameters if name.startswith(f"{body}.")}
    return all(b in parameters and np.array_equal(parameters[a], parameters[b]) for a, b in originals.items())


def _recurrent(layers: TorchLayers, policy: Any, value: Any) -> tuple[Any, Any, list[StatePart]]:
    """Build the LSTMs of RecurrentPPO: separate LSTMs for policy and value, a shared LSTM, or an LSTM for the policy
    and a dense layer for the value.
    """
    if not layers.uses("lstm_actor"):
        return policy, value, []
    before, (policy, states) = value, _lstm(layers, policy, "lstm_actor")
    if layers.uses("lstm_critic"):
        value, more = _lstm(layers, before, "lstm_critic")
        return policy, value, states + more
    return policy, layers.dense(value, "critic") if layers.uses("critic") else policy, states


def _lstm(layers: TorchLayers, x: Any, name: str) -> tuple[Any, list[StatePart]]:
    import keras

    states: list[StatePart] = []
    x = keras.layers.Flatten()(x) if layers.vectors else x
    for i in range(MAX_LAYERS):
        if i and not layers.has(f"{name}.weight_ih_l{i}"):
            break
        x, more = layers.lstm(x, name, suffix=f"_l{i}")
        states += more
    return keras.layers.Reshape((1, 1, x.shape[-1]))(x) if layers.vectors else x, states


def _dense_layers(
    layers: TorchLayers, x: Any, prefix: str, activation: str, indices: Sequence[int] | None = None
) -> Any:
    """Apply the dense layers of a `Sequential` at `indices` (by default all of them), each followed by the
    activation.
    """
    for i in _indices(layers, prefix) if indices is None else indices:
        name = f"{prefix}.{i}"
        x = layers.activate(layers.dense(x, name), name, activation)
    return x


def _indices(layers: TorchLayers, prefix: str) -> list[int]:
    """Return the indices of the dense layers in a `Sequential`."""
    return [i for i in range(2 * MAX_LAYERS) if layers.has(f"{prefix}.{i}")]

"""The Keras layers that a file may contain, with their supported options and the shapes of their variables.

Layers are created from plain values only. Initializers, regularizers and constraints are ignored, because they do not
affect what a trained network computes. To support another layer, add a line to `LAYERS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rl_clarity.base.errors import CheckpointError

Shape = tuple[int, ...]
Variables = Callable[[Mapping[str, Any], Shape], list[Shape]]

RECTIFIERS = ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "swish", "mish", "hard_swish")
SIGMOIDS = ("tanh", "sigmoid", "hard_sigmoid", "hard_silu", "softsign", "softplus", "softmax", "log_softmax")
ACTIVATIONS = frozenset(("linear", *RECTIFIERS, *SIGMOIDS, "exponential"))
IGNORED = frozenset(("name", "trainable", "dtype", "data_format", "seed", "momentum", "synchronized"))
IGNORED |= {"renorm_clipping", "renorm_momentum"}  # has no effect, because `renorm` is not supported
IGNORED_ENDINGS = ("_initializer", "_regularizer", "_constraint")
MAX_VALUE = 1 << 20


@dataclass(frozen=True)
class LayerKind:
    """The supported options of a layer class, and a function that returns the shapes of its variables."""

    options: frozenset[str]
    variables: Variables


def _none(_options: Mapping[str, Any], _shape: Shape) -> list[Shape]:
    return []


def _pair(value: Any) -> tuple[int, int]:
    height, width = value if isinstance(value, list | tuple) else (value, value)
    return int(height), int(width)


def _with_bias(options: Mapping[str, Any], shapes: list[Shape], size: int) -> list[Shape]:
    return [*shapes, (size,)] if options.get("use_bias", True) else shapes


def _conv(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    kernel = (*_pair(options["kernel_size"]), shape[-1] // int(options.get("groups", 1)), int(options["filters"]))
    return _with_bias(options, [kernel], kernel[-1])


def _depthwise(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    multiplier = int(options.get("depth_multiplier", 1))
    return _with_bias(options, [(*_pair(options["kernel_size"]), shape[-1], multiplier)], shape[-1] * multiplier)


def _separable(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    multiplier, filters = int(options.get("depth_multiplier", 1)), int(options["filters"])
    depthwise = (*_pair(options["kernel_size"]), shape[-1], multiplier)
    return _with_bias(options, [depthwise, (1, 1, shape[-1] * multiplier, filters)], filters)


def _dense(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    return _with_bias(options, [(shape[-1], int(options["units"]))], int(options["units"]))


def _scale_and_center(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    axis = options.get("axis", -1)
    axes = axis if isinstance(axis, list | tuple) else [axis]
    # Axes count the batch, `shape` does not include it.
    size = tuple(shape[axis if axis < 0 else axis - 1] for axis in map(int, axes))
    return [size] * (bool(options.get("scale", True)) + bool(options.get("center", True)))


def _batch_normalization(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    axis = int(options.get("axis", -1))
    return _scale_and_center(options, shape) + [(shape[axis if axis < 0 else axis - 1],)] * 2


def _prelu(options: Mapping[str, Any], shape: Shape) -> list[Shape]:
    shared = options.get("shared_axes") or ()
    return [tuple(1 if i + 1 in shared else length for i, length in enumerate(shape))]


def _kind(options: str, variables: Variables = _none) -> LayerKind:
    return LayerKind(frozenset(options.split()), variables)


_CONV = "kernel_size strides padding dilation_rate activation use_bias"
_POOL = "pool_size strides padding"
LAYERS: Mapping[str, LayerKind] = {
    "Conv2D": _kind(f"filters groups {_CONV}", _conv),
    "DepthwiseConv2D": _kind(f"depth_multiplier {_CONV}", _depthwise),
    "SeparableConv2D": _kind(f"filters depth_multiplier {_CONV}", _separable),
    "Dense": _kind("units activation use_bias", _dense),
    "BatchNormalization": _kind("axis epsilon center scale", _batch_normalization),
    "LayerNormalization": _kind("axis epsilon center scale", _scale_and_center),
    "GroupNormalization": _kind("groups axis epsilon center scale", _scale_and_center),
    "Activation": _kind("activation"),
    "ReLU": _kind("max_value negative_slope threshold"),
    "LeakyReLU": _kind("negative_slope"),
    "ELU": _kind("alpha"),
    "PReLU": _kind("shared_axes", _prelu),
    "MaxPooling2D": _kind(_POOL),
    "AveragePooling2D": _kind(_POOL),
    "GlobalMaxPooling2D": _kind("keepdims"),
    "GlobalAveragePooling2D": _kind("keepdims"),
    "ZeroPadding2D": _kind("padding"),
    "Cropping2D": _kind("cropping"),
    "UpSampling2D": _kind("size interpolation"),
    "Rescaling": _kind("scale offset"),
    "Flatten": _kind(""),
    "Reshape": _kind("target_shape"),
    "Permute": _kind("dims"),
    "Dropout": _kind("rate noise_shape"),
    "SpatialDropout2D": _kind("rate"),
    "GaussianNoise": _kind("stddev"),
    "Identity": _kind(""),
    "Add": _kind(""),
    "Subtract": _kind(""),
    "Multiply": _kind(""),
    "Average": _kind(""),
    "Maximum": _kind(""),
    "Minimum": _kind(""),
    "Concatenate": _kind("axis"),
}


def layer_options(class_name: str, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of a layer from its config. Raises CheckpointError for an unsupported layer or
    option.
    """
    if class_name not in LAYERS:
        raise CheckpointError(
            f"layer {name!r} is a {class_name}, which is not supported in files (no code was run). Supported layers: "
            f"{', '.join(LAYERS)}. For other models, use rl_clarity.KerasAgent(model)"
        )
    known = LAYERS[class_name].options
    for key, value in config.items():
        ignored = key in IGNORED or key.endswith(IGNORED_ENDINGS) or value in (None, False, [], {})
        if key not in known and not ignored:
            raise CheckpointError(f"layer {name!r}, a {class_name}: {key}={str(value)[:80]!r} is not supported")
    if config.get("data_format", "channels_last") not in ("channels_last", None):
        raise CheckpointError(
            f"layer {name!r} has data_format={config['data_format']!r}; only channels_last is supported"
        )
    _check_dtype(name, config.get("dtype"))
    return {key: _plain(name, key, config[key]) for key in known if key in config}


def _check_dtype(name: str, dtype: Any) -> None:
    if isinstance(dtype, dict):
        policy = dtype.get("class_name")
        dtype = (dtype.get("config") or {}).get("name") if policy == "DTypePolicy" else policy
    if dtype not in (None, "float32"):
        raise CheckpointError(f"layer {name!r} computes in {str(dtype)[:80]!r}; only float32 is supported")


def _plain(name: str, key: str, value: Any) -> Any:
    if key == "activation":
        if value is None:
            return "linear"
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise CheckpointError(
                f"layer {name!r} has the unsupported activation {str(value)[:80]!r}; available: {sorted(ACTIVATIONS)}"
            )
        return value
    if isinstance(value, list | tuple):
        return tuple(_plain(name, "", item) for item in value)
    if isinstance(value, dict) or (isinstance(value, int | float) and not -MAX_VALUE <= value <= MAX_VALUE):
        raise CheckpointError(f"layer {name!r}: {key}={str(value)[:80]!r} is not a valid value")
    if isinstance(value, float) and not math.isfinite(value):
        raise CheckpointError(f"layer {name!r}: {key}={value} is not finite")
    return value

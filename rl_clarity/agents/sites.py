"""Name the sites of a network (full names as in TensorFlow 1, short names for users), and choose its layers."""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.agents.protocol import Site
from rl_clarity.base.errors import OptionError

INPUT = "input"
ACTIVATIONS = (
    "relu",
    "relu6",
    "leakyrelu",
    "prelu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "hardswish",
    "tanh",
)
BLOCKS = ("transformerencoderlayer",)
"""Kinds of residual blocks without sites inside, because PyTorch may compute a block in a single call."""


def feature_maps(sites: Sequence[Site]) -> list[Site]:
    """Return the sites of shape (h, w, c) except for the input and the state. Layers are chosen from them."""
    return [site for site in sites if len(site.shape) == 3 and site.kind not in ("input", "state")]


def layer_kinds(maps: Sequence[Site]) -> tuple[str, ...]:
    """Return the kinds of operation that count as layers: ReLUs, or else other activations, or else convolutions,
    or else dense layers.
    """
    kinds = {site.kind for site in maps}
    if "relu" in kinds:
        return ("relu",)
    return tuple(kind for kind in ACTIVATIONS if kind in kinds) or ("conv2d" if "conv2d" in kinds else "dense",)


@dataclass(frozen=True)
class Layer:
    """A chosen layer: its short name, its site, and a readable label if it differs from the name."""

    name: str
    site: Site
    label: str | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(h, w, c)."""
        height, width, channels = self.site.shape
        return height, width, channels


def layers_of_kinds(maps: Sequence[Site], kinds: Sequence[str], bottleneck_only: bool) -> list[Layer]:
    """Return the feature maps that operations of these kinds compute, optionally only those after a bottleneck."""
    sites = [site for site in maps if site.kind in kinds and (site.after_bottleneck or not bottleneck_only)]
    return [Layer(name, site) for name, site in zip(short_names([site.name for site in sites]), sites, strict=True)]


def default_layers(sites: Sequence[Site]) -> list[Layer]:
    """Return the layers that are explained by default, in the order of computation: those through which every path from
    the observations to the outputs passes.

    In a network without skip connections, they are its ReLUs. In a residual network, they are the outputs of the
    residual blocks, `block1`, `block2`, ..., or of an activation that follows the block. Of consecutive blocks of the
    same shape, only the last is chosen. If there are no such layers, they are the ReLUs after a bottleneck. In networks
    without ReLUs, operations of other kinds replace them (see `layer_kinds`).
    """
    maps = feature_maps(sites)
    kinds = layer_kinds(maps)
    plain = layers_of_kinds(maps, kinds, bottleneck_only=True)
    chosen: list[tuple[Site, bool]] = []  # each with whether it is the output of a residual block
    skipped = in_block = False
    for site in maps:
        if site.bypassed:
            skipped = skipped or site.kind in ("conv2d", *kinds)
            continue
        joins, skipped = skipped or (site.kind in BLOCKS and kinds == ("conv2d",)), False
        if in_block and site.shape == chosen[-1][0].shape and (joins or site.kind != "conv2d"):
            chosen[-1] = site, True
            continue
        in_block = joins
        if joins or site.kind in kinds:
            chosen.append((site, joins))
    names = {layer.site: layer.name for layer in plain}
    components = {part for site in sites for part in re.split("[/.]", site.name)}
    prefix = "block"
    while any(re.fullmatch(rf"{prefix}\d+", part) for part in components):
        prefix += "_"
    numbers = itertools.count(1)
    layers = [_block(site, prefix, next(numbers)) if block else Layer(names[site], site) for site, block in chosen]
    return layers or plain


def _block(site: Site, prefix: str, number: int) -> Layer:
    return Layer(f"{prefix}{number}", site, f"block {number}, {' x '.join(map(str, site.shape))}")


def layer_labels(sites: Sequence[Site], layers: Sequence[Layer]) -> list[str | None]:
    """Return a readable label of each layer, or None if its name serves as its label.

    If a framework generated the names (`features.2`, `Relu_1`), layers are counted in the labels: `conv 3`, or
    `block 2, conv 3` inside a residual block. An activation after a convolution gets the convolution's label.
    """
    if not any(layer.label is None and re.search(r"[/.]|(^|_)\d+$", layer.name) for layer in layers):
        return [layer.label for layer in layers]
    numbers = _numbers(sites)
    labels = [layer.label or numbers.get(layer.site) for layer in layers]
    return [
        f"{label}, {layer.site.kind}" if layer.site.kind in ACTIVATIONS and label and labels.count(label) > 1 else label
        for layer, label in zip(layers, labels, strict=True)
    ]


def _numbers(sites: Sequence[Site]) -> dict[Site, str]:
    """Return labels of feature maps, such as `conv 3`, or `block 2, conv 1` inside a residual block.

    Outside of residual blocks, bypassed feature maps have no label, because a number would not distinguish branches.
    """
    maps = feature_maps(sites)
    defaults = {layer.site: layer.label for layer in default_layers(sites)}
    blocks: dict[Site, str | None] = {}
    block = None
    for site in reversed(maps):
        block = defaults.get(site, block)  # the one that ends next
        blocks[site] = block
    numbers: dict[Site, str] = {}
    counts = Counter[str]()
    for before, site in zip([None, *maps], maps, strict=False):
        block = blocks[site]
        if site.bypassed and block is None:
            continue
        if before in numbers and before.kind == "conv2d" and site.kind in ACTIVATIONS:
            numbers[site] = numbers[before]
            continue
        kind = site.kind.removesuffix("2d")
        name = f"{block.partition(',')[0]}, {kind}" if block else kind
        counts[name] += 1
        numbers[site] = f"{name} {counts[name]}"
    return numbers


def layer_shapes(sites: Sequence[Site]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's layers by short name."""
    return {layer.name: layer.shape for layer in default_layers(sites)}


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without the components with which all of them begin or end. A single name keeps its last
    component.
    """
    parts = [name.split("/") for name in names]
    if len(parts) < 2:
        return [name[-1] for name in parts]
    shortest = min(map(len, parts))
    prefix = 0
    while prefix < shortest - 1 and len({tuple(name[: prefix + 1]) for name in parts}) == 1:
        prefix += 1
    suffix = 0
    while prefix + suffix < shortest - 1 and len({tuple(name[len(name) - suffix - 1 :]) for name in parts}) == 1:
        suffix += 1
    return ["/".join(name[prefix : len(name) - suffix]) for name in parts]


def find_site(sites: Sequence[Site], name: str) -> Site:
    """Return the site with a full name, or the feature map with a short name.

    Raises OptionError, which suggests the nearest name, for an unknown site.
    """
    for site in sites:
        if name in (site.name, site.name.replace("/", ".")):  # names in PyTorch have dots
            return site
    defaults = default_layers(sites)
    for layer in defaults:
        if layer.name == name:
            return layer.site
    maps = feature_maps(sites)
    shown = layer_kinds(maps)
    # layers take precedence
    for kind in sorted({site.kind for site in maps}, key=lambda kind: (kind not in shown, kind)):
        for bottleneck_only in (False, True):
            for layer in layers_of_kinds(maps, [kind], bottleneck_only):
                if layer.name == name:
                    return layer.site
    for candidates in (maps, sites):  # skip components that only one name has
        inside = [site for site in candidates if f"/{name}/" in f"/{site.name}/"]
        if len(inside) == 1:
            return inside[0]
    layers = [layer.name for layer in defaults]
    others = [site.name for site in sites if site not in maps]
    near = difflib.get_close_matches(str(name), [*layers, *others], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"unknown layer {name!r}; available layers: {', '.join(layers)}{hint}")

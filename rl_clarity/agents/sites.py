"""Names of sites: full as TensorFlow 1 wrote them, short for people; which sites are an agent's layers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from rl_clarity.agents.protocol import Site
from rl_clarity.errors import OptionError

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


def feature_maps(sites: Sequence[Site]) -> list[Site]:
    """Results (h, w, c) of operations: what layers are chosen from."""
    return [site for site in sites if len(site.shape) == 3 and site.kind not in ("input", "state")]


def layer_kinds(maps: Sequence[Site]) -> tuple[str, ...]:
    """Kinds of operation that are a network's layers: ReLUs; without ReLUs other activations, else convolutions."""
    kinds = {site.kind for site in maps}
    if "relu" in kinds:
        return ("relu",)
    return tuple(kind for kind in ACTIVATIONS if kind in kinds) or ("conv2d",)


def layer_shapes(sites: Sequence[Site]) -> dict[str, tuple[int, ...]]:
    """Shapes of a network's layers by short name."""
    maps = feature_maps(sites)
    kinds = layer_kinds(maps)
    chosen = [site for site in maps if site.kind in kinds]
    return {name: site.shape for name, site in zip(short_names([site.name for site in chosen]), chosen, strict=True)}


def short_names(names: Sequence[str]) -> list[str]:
    """The names without their longest common prefix and suffix of components; a single name keeps its last one."""
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
    """The site with that full name, or the feature map with that short name among those of its kind.

    Raises OptionError, with the nearest name, for an unknown site.
    """
    for site in sites:
        if name in (site.name, site.name.replace("/", ".")):  # PyTorch's names have dots
            return site
    maps = feature_maps(sites)
    shown = layer_kinds(maps)
    for kind in sorted({site.kind for site in maps}, key=lambda kind: (kind not in shown, kind)):  # layers first
        for bottleneck_only in (False, True):
            chosen = [site for site in maps if site.kind == kind and (site.after_bottleneck or not bottleneck_only)]
            for short, site in zip(short_names([site.name for site in chosen]), chosen, strict=True):
                if short == name:
                    return site
    for candidates in (maps, sites):  # a component of one name only
        inside = [site for site in candidates if f"/{name}/" in f"/{site.name}/"]
        if len(inside) == 1:
            return inside[0]
    layers = list(layer_shapes(sites))
    others = [site.name for site in sites if site not in maps]
    near = difflib.get_close_matches(str(name), [*layers, *others], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"unknown layer {name!r}; available layers: {', '.join(layers)}{hint}")

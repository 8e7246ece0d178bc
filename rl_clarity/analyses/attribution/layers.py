"""Which layers of an agent are explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, Site
from rl_clarity.agents.sites import feature_maps, layer_kinds, short_names
from rl_clarity.errors import OptionError


@dataclass(frozen=True)
class Layer:
    """A chosen layer: the name that is shown, and its site."""

    name: str
    site: Site

    @property
    def shape(self) -> tuple[int, int, int]:
        """(h, w, c)."""
        height, width, channels = self.site.shape
        return height, width, channels


def select_layers(
    agent: Agent,
    *,
    name_contains_one_of: Sequence[str] | None = None,
    op_is_one_of: Sequence[str] = ("relu",),
    bottleneck_only: bool = True,
    discard_first_n: int = 0,
) -> list[str]:
    """Return the short names of the layers that meet all conditions, in the order of computation.

    Args:
        name_contains_one_of: only operations whose full name contains one of these
        op_is_one_of: kinds of operation, in lower case; `relu` stands for other activations in a network without ReLUs
        bottleneck_only: only operations such that every path from an earlier convolution to them passes through a
            bottleneck of the network (a node without which no path leads from the input to the outputs)
        discard_first_n: drop the first n of those

    Raises OptionError for an object that is not an agent and, with the available layers, if no layer is left.
    """
    layers = choose_layers(
        agent,
        name_contains_one_of=name_contains_one_of,
        op_is_one_of=op_is_one_of,
        bottleneck_only=bottleneck_only,
        discard_first_n=discard_first_n,
    )
    return [layer.name for layer in layers]


def choose_layers(
    agent: Agent,
    *,
    name_contains_one_of: Sequence[str] | None = None,
    op_is_one_of: Sequence[str] = ("relu",),
    bottleneck_only: bool = True,
    discard_first_n: int = 0,
) -> list[Layer]:
    """Return the layers that meet all conditions, with their sites; see `select_layers`."""
    maps = feature_maps(require(agent, "sites", for_="select_layers").sites)
    for name, words in (("name_contains_one_of", name_contains_one_of), ("op_is_one_of", op_is_one_of)):
        if isinstance(words, str):
            raise OptionError(f"layer_kwargs.{name}={words!r} must be a sequence: {[words]!r}")
    kinds: Sequence[str] = [kind.lower() for kind in op_is_one_of]
    if "relu" in kinds and not any(site.kind in kinds for site in maps):
        kinds = layer_kinds(maps)
    sites = [site for site in maps if site.kind in kinds and (site.after_bottleneck or not bottleneck_only)]
    layers = [Layer(name, site) for name, site in zip(short_names([site.name for site in sites]), sites, strict=True)]
    if not layers:
        available = ", ".join(sorted({site.kind for site in maps})) or "none"
        raise OptionError(
            f"layer_kwargs: no operation of kind {list(kinds)} with bottleneck_only={bottleneck_only}; available "
            f"kinds: {available}"
        )
    available = ", ".join(layer.name for layer in layers)
    parts = name_contains_one_of
    named = [layer for layer in layers if parts is None or any(part in layer.site.name for part in parts)]
    if parts is not None and not named:
        raise OptionError(f"layer_kwargs.name_contains_one_of={list(parts)} matches none of the layers {available}")
    if not named[max(discard_first_n, 0) :]:
        raise OptionError(f"layer_kwargs.discard_first_n={discard_first_n} leaves none of the layers {available}")
    return named[max(discard_first_n, 0) :]

"""Select the layers of an agent to explain."""

from __future__ import annotations

from collections.abc import Sequence

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, Site
from rl_clarity.agents.sites import Layer, default_layers, feature_maps, layer_kinds, layers_of_kinds
from rl_clarity.base.errors import OptionError


def select_layers(
    agent: Agent,
    *,
    name_contains_one_of: Sequence[str] | None = None,
    op_is_one_of: Sequence[str] | None = None,
    bottleneck_only: bool = True,
    discard_first_n: int = 0,
) -> list[str]:
    """Return the short names of the layers that meet all conditions, in the order of computation.

    By default they are the layers through which every path from the input to the outputs passes: the ReLUs of a network
    without skip connections, or the outputs of the residual blocks of a residual network (`block1`, `block2`, ...;
    among consecutive blocks of the same shape, only the last one).

    Args:
        name_contains_one_of: only layers whose short or full name contains one of these strings
        op_is_one_of: select operations of these kinds instead, in lower case; `relu` selects the other activation
            functions of a network without ReLUs. Skip connections bypass the ReLUs inside residual blocks, so
            attribution to these ReLUs omits a part of the output that differs between observations
        bottleneck_only: only operations that every path from an earlier convolution reaches through a bottleneck of the
            network (a node that all paths from the input to the outputs pass through). If False, all operations of the
            kinds, by default all ReLUs
        discard_first_n: drop the first n of the remaining layers

    Raises OptionError for an object that is not an agent, for a string in place of a sequence of strings, and if no
    layer is left; the message then lists what is available.
    """
    layers = choose_layers(
        agent,
        name_contains_one_of=name_contains_one_of,
        op_is_one_of=op_is_one_of,
        bottleneck_only=bottleneck_only,
        discard_first_n=discard_first_n,
    )
    return [layer.name for layer in layers]


def default_layer(agent: Agent) -> str:
    """Return the name of the layer that pages open with: the first of `select_layers`, with the finest resolution.

    Attribution to this layer predicts the effects of removing objects from the game better than attribution to the
    agent's other layers (`docs/truth.md` has the numbers).

    Raises OptionError for an object that is not an agent, and for an agent without such layers.
    """
    return choose_layers(agent)[0].name


def choose_layers(
    agent: Agent,
    *,
    name_contains_one_of: Sequence[str] | None = None,
    op_is_one_of: Sequence[str] | None = None,
    bottleneck_only: bool = True,
    discard_first_n: int = 0,
) -> list[Layer]:
    """Return the layers that meet all conditions, with their sites; see `select_layers`."""
    sites = require(agent, "sites", for_="select_layers").sites
    for name, words in (("name_contains_one_of", name_contains_one_of), ("op_is_one_of", op_is_one_of)):
        if isinstance(words, str):
            raise OptionError(f"layers.{name}={words!r} must be a sequence of strings, such as {[words]!r}")
    if op_is_one_of is None and bottleneck_only:
        layers = default_layers(sites)
    else:
        layers = layers_of_kinds(feature_maps(sites), _kinds(sites, op_is_one_of or ("relu",)), bottleneck_only)
    dense = [site.name for site in sites if site.kind == "dense"]
    if not feature_maps(sites) and dense:
        raise OptionError(
            f"layers: the network has no layers with positions, because its first layer reads all pixels at once, like "
            f"that of MlpPolicy. integrated_gradients can explain the pixels (layer 'input') and the dense layers "
            f"({', '.join(dense)}), but a page requires convolutions or vector observations"
        )
    if not layers:
        kinds = ", ".join(sorted({site.kind for site in feature_maps(sites)})) or "none"
        wanted = "" if op_is_one_of is None else f" of kind {list(op_is_one_of)}"
        raise OptionError(
            f"layers: found no operation{wanted} with bottleneck_only={bottleneck_only}; available kinds: {kinds}"
        )
    available = ", ".join(layer.name for layer in layers)
    parts = name_contains_one_of
    named = [
        layer
        for layer in layers
        if parts is None or any(part in layer.name or part in layer.site.name for part in parts)
    ]
    if parts is not None and not named:
        hint = "" if op_is_one_of else "; op_is_one_of=['relu'] chooses from all ReLUs"
        raise OptionError(f"layers.name_contains_one_of={list(parts)} matches none of the layers {available}{hint}")
    if not named[max(discard_first_n, 0) :]:
        raise OptionError(f"layers.discard_first_n={discard_first_n} leaves none of the layers {available}")
    return named[max(discard_first_n, 0) :]


def _kinds(sites: Sequence[Site], words: Sequence[str]) -> Sequence[str]:
    """Return kinds of operation in lower case, with other activations for `relu` in a network without ReLUs."""
    maps, kinds = feature_maps(sites), [word.lower() for word in words]
    return layer_kinds(maps) if "relu" in kinds and not any(site.kind in kinds for site in maps) else kinds

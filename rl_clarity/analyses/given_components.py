"""Features from a file or another page: components that are not fitted, and features numbered as on that page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rl_clarity.analyses.layers import PageLayer, ReductionOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.registry import read_input
from rl_clarity.pages.results import Results, open_results
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.matching import MatchedFeature, match_components, matched_order

EXAMPLE = "write it with numpy.savez(path, **{'2b': components})"


@dataclass(frozen=True)
class PageFeatures:
    """The features of a layer of a page."""

    reduction: ChannelReduction
    names: Mapping[int, str]
    """Names of features by number, counted from 1. Features without a name are left out."""


def page_features(page: str, layer: str | None = None) -> dict[str, PageFeatures]:
    """Return the features of another page by layer, or those of one layer only.

    Raises OptionError for a page without such features, and ClarityError for a directory without a page.
    """
    results = open_results(page)
    layers = [one for one in results.layers if results.features_meta(one) and layer in (None, one)]
    if not layers:
        raise OptionError(
            f"page={page!r} has no features{'' if layer is None else f' of layer {layer!r}'}; its layers are "
            f"{', '.join(results.layers) or 'none'}"
        )
    return {one: PageFeatures(results.reduction(one), results.feature_names(one)) for one in layers}


def given_components(options: ReductionOptions, layer: PageLayer) -> np.ndarray:
    """Return the components (K, c) that `features.components` has for a layer; K is 0 if there are none.

    Raises OptionError for a file that cannot be read, and for more components than the page computes features.
    """
    found = [array for name, array in read_components(options.components).items() if name in _names(layer)]
    components = np.concatenate(found) if found else np.zeros((0, layer.shape[-1]), np.float32)
    if len(components) > layer.channels:
        raise OptionError(
            f"features.components={options.components!r} has {len(components)} features of layer {layer.name}, but "
            f"the page computes only {layer.channels}: increase features.count"
        )
    return components


def numbered(
    reduction: ChannelReduction, options: ReductionOptions, layer: PageLayer
) -> tuple[ChannelReduction, list[MatchedFeature | None] | None]:
    """Reorder a fitted reduction so that features have the same numbers as on the page of `features.match`.

    Return it with the match of each component. Without such a page, or if the page does not have the layer, the order
    does not change and the matches are None.
    """
    earlier = _earlier(options, layer)
    if earlier is None:
        return reduction, None
    components = reduction.components
    order = matched_order(match_components(components, earlier))
    return ChannelReduction(components[order]), match_components(components[order], earlier)


def earlier_names(
    options: ReductionOptions, layer: PageLayer, matches: Sequence[MatchedFeature | None]
) -> list[str | None]:
    """Return the names that features have on the page of `features.match`, with None for those without a match."""
    assert options.match is not None
    names = open_results(options.match).feature_names(layer.name)
    return [None if match is None else names.get(match.number) for match in matches]


def _earlier(options: ReductionOptions, layer: PageLayer) -> np.ndarray | None:
    if options.match is None:
        return None
    results: Results = open_results(options.match)
    if layer.name not in results.layers or not results.features_meta(layer.name):
        return None
    return results.reduction(layer.name).components


def check_match(options: ReductionOptions, layers: Sequence[PageLayer]) -> None:
    """Raise OptionError if the page of `features.match` does not fit the layers.

    The page must have features of at least one layer, and its layers must have the same numbers of channels.
    """
    known = [layer for layer in layers if not layer.is_input]
    found = {layer.name: _earlier(options, layer) for layer in known}
    if options.match is not None and all(components is None for components in found.values()):
        raise OptionError(
            f"features.match={options.match!r} has no features for this page's layers: {', '.join(found) or 'none'}"
        )
    for layer in known:
        components = found[layer.name]
        if components is not None and components.shape[1] != layer.shape[-1]:
            raise OptionError(
                f"features.match={options.match!r} is a page of a different network: its layer {layer.name} has "
                f"{components.shape[1]} channels, but the agent's layer has {layer.shape[-1]}"
            )


def check_components(options: ReductionOptions, layers: Sequence[PageLayer]) -> None:
    """Raise OptionError if `features.components` has no components for any of the layers, or components that do not
    fit.
    """
    arrays, known = read_components(options.components), [layer for layer in layers if not layer.is_input]
    if options.components is not None and not any(arrays.keys() & _names(layer) for layer in known):
        raise OptionError(
            f"features.components={options.components!r} has features of {', '.join(arrays) or 'no layer'}, but the "
            f"layers of the page are {', '.join(layer.name for layer in known) or 'none'}"
        )
    for layer in known:
        for name in arrays.keys() & _names(layer):
            _check(f"features.components={options.components!r}: {name!r}", arrays[name], layer.shape[-1])
        given_components(options, layer)


def read_components(path: str | None, option: str = "features.components") -> dict[str, np.ndarray]:
    """Return the components (K, c) of each layer from the directory of a page or an .npz file; none without a path.

    Raises OptionError, with the name of the option, for a file that cannot be read.
    """
    if path is None:
        return {}
    if Path(path).is_dir():
        return {layer: features.reduction.components for layer, features in page_features(path).items()}
    contents = io.BytesIO(read_input(option, path))
    try:
        with np.load(contents, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except (ValueError, OSError, AttributeError, zipfile.BadZipFile, EOFError) as error:
        raise OptionError(f"{option}={path!r} is not an .npz file of numbers ({error}); {EXAMPLE}") from None


def _check(where: str, array: np.ndarray, channels: int) -> None:
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != channels or not len(array):
        raise OptionError(f"{where} has the shape {array.shape}; a numeric array of shape (K, {channels}) is needed")
    if not (np.isfinite(array) & (array >= 0)).all():
        raise OptionError(
            f"{where} must be finite and have no negative entries; numpy.maximum(directions.vectors, 0) keeps what an "
            "object adds"
        )


def _names(layer: PageLayer) -> set[str]:
    return {layer.name, layer.slug, layer.full_name}

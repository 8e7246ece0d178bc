"""Features that a file contains, such as what an object adds to a layer; the others are fitted beside them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

import numpy as np

from rl_clarity.analyses.layers import PageLayer, ReductionOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.registry import read_input

EXAMPLE = "numpy.savez(path, **{'2b': components}) writes it"


def given_components(options: ReductionOptions, layer: PageLayer) -> np.ndarray:
    """Return the components (K, c) that the file of `features.components` has for a layer; K is 0 without any.

    Raises OptionError for a file that cannot be read, and arrays of another shape or with negative numbers.
    """
    found = [array for name, array in _arrays(options).items() if name in _names(layer)]
    components = np.concatenate(found) if found else np.zeros((0, layer.shape[-1]), np.float32)
    if len(components) > layer.channels:
        raise OptionError(
            f"features.components={options.components!r} has {len(components)} features of layer {layer.name}, which "
            f"gets {layer.channels}: increase features.count"
        )
    return components


def check_components(options: ReductionOptions, layers: Sequence[PageLayer]) -> None:
    """Raise OptionError for a file without components of any layer of the page, or whose components do not fit."""
    arrays, known = _arrays(options), [layer for layer in layers if not layer.is_input]
    if options.components is not None and not any(arrays.keys() & _names(layer) for layer in known):
        raise OptionError(
            f"features.components={options.components!r} has features of {', '.join(arrays) or 'no layer'}; the layers "
            f"of the page are {', '.join(layer.name for layer in known) or 'none'}"
        )
    for layer in known:
        for name in arrays.keys() & _names(layer):
            _check(f"features.components={options.components!r}: {name!r}", arrays[name], layer.shape[-1])
        given_components(options, layer)


def _arrays(options: ReductionOptions) -> dict[str, np.ndarray]:
    if options.components is None:
        return {}
    contents = io.BytesIO(read_input("features.components", options.components))
    try:
        with np.load(contents, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except (ValueError, OSError, AttributeError, zipfile.BadZipFile, EOFError) as error:
        raise OptionError(
            f"features.components={options.components!r} is not an .npz file of numbers ({error}): {EXAMPLE}"
        ) from None


def _check(where: str, array: np.ndarray, channels: int) -> None:
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != channels or not len(array):
        raise OptionError(f"{where} has the shape {array.shape}; (K, {channels}) numbers are needed")
    if not (np.isfinite(array) & (array >= 0)).all():
        raise OptionError(
            f"{where} must have no negative numbers, and be finite: numpy.maximum(directions.vectors, 0) keeps what an "
            "object adds"
        )


def _names(layer: PageLayer) -> set[str]:
    return {layer.name, layer.slug, layer.full_name}

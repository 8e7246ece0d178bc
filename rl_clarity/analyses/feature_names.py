"""Names that the caller gives to features. Readers of a page can name features, too."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rl_clarity.analyses.layers import PageLayer
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_option

LONGEST_NAME = 60
"""Largest number of characters in a name."""
_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # Persian words and some emoji contain these characters


@dataclass(frozen=True)
class FeatureNameOptions:
    """Names of features."""

    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Names of features by layer and number, counted from 1 as on the page: {"2b": {1: "coin"}}."""

    def __post_init__(self) -> None:
        for layer, names in self.names.items():
            where = f"names[{layer!r}]"
            if not isinstance(names, Mapping):
                raise OptionError(
                    f"{where}={names!r} must be a dict that maps feature numbers to names, such as {{1: 'coin'}}"
                )
            for number, name in names.items():
                _check_name(f"{where}[{number!r}]", name)
        check_option(self, "names", all(isinstance(layer, str) for layer in self.names), _KEYS)


_KEYS = "must have layer names as keys, such as {'2b': {1: 'coin'}}"


def check_feature_names(options: FeatureNameOptions, layers: Sequence[PageLayer]) -> None:
    """Raise OptionError for a name of an unknown layer or feature."""
    known = [layer for layer in layers if not layer.is_input]
    for key, names in options.names.items():
        layer = next((one for one in known if key in _keys(one)), None)
        if layer is None:
            raise OptionError(
                f"features.names: the page explains no layer {key!r}; its layers are "
                f"{', '.join(one.name for one in known) or 'none'}"
            )
        for number in names:
            if not (str(number).isdecimal() and 1 <= int(number) <= layer.channels):
                raise OptionError(
                    f"features.names[{key!r}]: layer {layer.name} has features 1 to {layer.channels}, not {number!r}"
                )


def layer_feature_names(options: FeatureNameOptions, layer: PageLayer) -> list[str | None]:
    """Return the names of a layer's K features, with None for features without a name."""
    given: dict[int, str] = {}
    for key in options.names.keys() & _keys(layer):
        given |= {int(number): name for number, name in options.names[key].items()}
    return [given.get(channel + 1) for channel in range(layer.channels)]


def _keys(layer: PageLayer) -> set[str]:
    return {layer.name, layer.slug, layer.full_name}


def _check_name(where: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise OptionError(f"{where}={name!r} must be a string that is not blank")
    if len(name) > LONGEST_NAME:
        raise OptionError(
            f"{where}={name[:20] + '...'!r} has {len(name)} characters; at most {LONGEST_NAME} are allowed"
        )
    if any(unicodedata.category(one) in _CONTROL and one not in _JOINERS for one in name):
        raise OptionError(f"{where}={name!r} contains control characters; use letters, digits, spaces and punctuation")

"""Types of the command line's options, which determine how their values are parsed and shown in help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import typed

CheckpointPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CHECKPOINT")]
DirectoryPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIRECTORY")]
FilePath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
Switch = Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(help_behavior_hint="")]
"""An option that is off unless it is given."""

TYPES = tyro.constructors.ConstructorRegistry()
METAVARS: dict[type[Any], str] = {str: "STR", Path: "PATH", int: "INT", float: "FLOAT", bool: "{True,False}"}


@TYPES.primitive_rule
def _optional(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """Parse types such as `str | None`. The text `None` is accepted, but help does not show it."""
    kinds = [kind for kind in get_args(info.type) if kind is not type(None)]
    if get_args(info.type) == tuple(kinds) or len(kinds) != 1 or kinds[0] not in METAVARS:
        return None
    kind = kinds[0]
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=METAVARS[kind],
        instance_from_str=lambda words: None if words == ["None"] else _converted(words[0], kind),
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


def _converted(word: str, kind: type[Any]) -> Any:
    if kind is not bool:
        return kind(word)
    if word not in ("True", "False"):
        raise ValueError(f"{word} is not True or False")
    return word == "True"


def _word_list(metavar: str, parse_words: Callable[[list[str]], Any]) -> tuple[Any, ...]:
    """Return the annotations of an option that takes any number of arguments and parses them into a mapping."""
    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=parse_words,
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=list,
    )
    return spec, tyro.conf.arg(help_behavior_hint="")


def _pairs(words: list[str]) -> dict[str, str]:
    """Parse `NAME VALUE` and `NAME=VALUE` pairs."""
    pairs, rest = {}, list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and not rest:
            raise OptionError(f"metadata {name!r} has no value: write {name} VALUE, or {name}=VALUE")
        pairs[name] = value if equals else rest.pop(0)
    return pairs


def _analyses(words: list[str]) -> dict[str, dict[str, Any]]:
    """Parse `NAME` and `NAME.OPTION=VALUE`."""
    analyses: dict[str, dict[str, Any]] = {}
    for word in words:
        name, dot, option = word.partition(".")
        options = analyses.setdefault(name, {})
        if dot:
            key, equals, value = option.partition("=")
            if not equals:
                raise OptionError(f"--analyses {word}: write {name}.OPTION=VALUE")
            options[key.replace("-", "_")] = value
    return {name: typed(options) for name, options in analyses.items()}


def parse_feature_names(words: list[str]) -> dict[str, dict[int, str]]:
    """Parse `LAYER.NUMBER=NAME`."""
    names: dict[str, dict[int, str]] = {}
    for word in words:
        place, equals, name = word.partition("=")
        layer, dot, number = place.rpartition(".")
        if not (equals and dot and number.isdecimal()):
            raise OptionError(f"--features.names {word}: write LAYER.NUMBER=NAME, such as 2b.1=coin")
        names.setdefault(layer, {})[int(number)] = name
    return names


Metadata = Annotated[Mapping[str, str], *_word_list("[NAME VALUE ...]", _pairs)]
Analyses = Annotated[Mapping[str, Any], *_word_list("[NAME[.OPTION=VALUE] ...]", _analyses)]
FeatureNames = Annotated[Mapping[str, Mapping[int, str]], *_word_list("[LAYER.NUMBER=NAME ...]", parse_feature_names)]

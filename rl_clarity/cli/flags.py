"""Adapt classes of options and commands to the command line, and list the options that `--help` leaves out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

from rl_clarity.base.parsing import qualified
from rl_clarity.cli.option_types import Analyses, FeatureNames

TYPES_OF_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "analyses": (
        Analyses,
        "Further analyses to run, by name, and their options, such as: smoothgrad smoothgrad.samples=4.",
    ),
    "features.names": (
        FeatureNames,
        'Names of features by layer and number, counted from 1 as on the page, such as: 2b.1=coin "2b.3=buzz saw".',
    ),
}
"""Types and help texts of options whose command-line syntax does not follow from the type of their field."""
NAMES = {"greedy": "deterministic", "lambda_": "lambda"}
"""Command-line names of fields, where they differ from the name of the field."""
SUPPRESSED = ("overwrite", "action_group_fns", "behavior.cause", "checks", "load.metadata", "load.check", "states.seed")
"""Options that the command line leaves out, because commands offer them in another form or not at all."""
ADVANCED = {
    *("batch_size", "action_combos", "equivalent_actions", "inline_js", "page_kind", "advantages.bookmarks"),
    *("filmstrip.scrub_range",),
    *("load.model_path", "load.metadata_path", "load.trajectories_path", "load.observations_path"),
    *("observations.obs_every", "observations.bfloat16", "view.attribution_weight", "view.single_channels"),
    *("layers.op_is_one_of", "layers.bottleneck_only", "layers.input_name"),
    *("attribution.quadrature", "attribution.linear_prefix", "attribution.max_paths", "attribution.images"),
    *("attribution.refinement",),
    *("features.coverage", "features.held_out", "features.fit_steps", "features.fit_observations", "features.images"),
    *("features.match", "features.thumbnail_patches", "features.thumbnail_width", "ablation.to", "behavior.stop_early"),
    *("examples.densities", "examples.density", "examples.widths", "examples.width"),
    *(
        "objects.last_steps",
        "objects.types",
        "objects.most",
        "behavior.layers",
        "behavior.max_steps",
        "behavior.pairs",
        "behavior.invisible",
        "state_map.layer",
        "state_map.methods",
        "state_map.perplexity",
    ),
    *("states.outliers", "states.lags", "states.map_points", "states.influence_samples"),
    *("states.replay_steps", "states.replay_samples", "states.replay_directions", "states.part"),
    *("windows.directions", "windows.points", "windows.grid"),
    *("interventions.swap_from", "interventions.swap_to", "quality.windows", "quality.clips"),
}
"""Options that only `--help-all` shows."""


def as_flags(
    kind: type, default: object = None, *, short: bool = False, where: str = "", command: type | None = None
) -> type:
    """Return a subclass of a command, or of its options, with the fields that the command line parses.

    If `default` is an instance of the class, its values become the defaults. With `short`, options that only
    `--help-all` shows are omitted. For a group of options, `where` is the prefix of their names, such as `features.`,
    and `command` is the class of the command.
    """
    hints, made = get_type_hints(kind, include_extras=True), []
    for one in dataclasses.fields(kind):
        name, hint, value = where + one.name, hints[one.name], _default(one, default)
        part, extra = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
        if _is_left_out(one, name, command, short):
            # tyro caches types by equality, and would confuse an Any with default False with an Any with default 0.
            kept: Any = part if part in (bool, int) else Any
            hint = tyro.conf.SuppressFixed[tyro.conf.Fixed[kept]]  # type: ignore[misc]
        elif name in TYPES_OF_OPTIONS and command is not None:
            special, text = TYPES_OF_OPTIONS[name]
            hint = Annotated[special, tyro.conf.arg(help=text)]
        elif isinstance(part, type) and dataclasses.is_dataclass(part):
            nested = "" if command is None and one.name == "options" else f"{name}."
            given = None if value is dataclasses.MISSING else value
            flags = as_flags(part, given, short=short, where=nested, command=command or kind)
            hint = Annotated[flags, *extra] if extra else flags
            value = value if value is dataclasses.MISSING else flags()
        elif one.name in NAMES:
            hint = Annotated[hint, tyro.conf.arg(name=NAMES[one.name])]
        is_list = value is dataclasses.MISSING and get_origin(part) is tuple
        if is_list or (isinstance(value, str | tuple | Mapping) and not value):
            # Without this, help says "(default: )".
            hint = Annotated[hint, tyro.conf.arg(help_behavior_hint="")]
        field = dataclasses.field() if value is dataclasses.MISSING else _field(value, one.metadata)
        made.append((one.name, hint, field))

    def check(options: Any) -> None:
        with qualified(kind, where):
            getattr(kind, "__post_init__", lambda options: None)(options)

    namespace = {"__post_init__": check, "__doc__": kind.__doc__}
    return dataclasses.make_dataclass(
        kind.__name__, made, bases=(kind,), namespace=namespace, frozen=True, kw_only=True
    )


def _default(one: dataclasses.Field[Any], instance: object) -> Any:
    """Return the default of a field, or its value in an instance; MISSING if the field has no default."""
    if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
        return dataclasses.MISSING
    if instance is not None:
        return getattr(instance, one.name)
    return one.default if one.default_factory is dataclasses.MISSING else one.default_factory()


def _field(value: Any, metadata: Mapping[Any, Any]) -> Any:
    return dataclasses.field(default_factory=lambda: value, metadata=metadata)


def _is_left_out(one: dataclasses.Field[Any], name: str, command: type | None, short: bool) -> bool:
    """Return whether the command line omits this field of a command's options. `name` is the option's full name."""
    if command is None:
        return False
    of_command = name in command.__dataclass_fields__  # type: ignore[attr-defined]
    return bool(one.metadata.get("hidden")) or of_command or name in SUPPRESSED or (short and name in ADVANCED)

"""Describe checkpoints and recordings, and convert checkpoints, for the command line."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from rl_clarity import formats
from rl_clarity.agents.capabilities import initial_state
from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution import choose_layers
from rl_clarity.analyses.given_components import page_features
from rl_clarity.base.errors import DependencyError, EnvironmentSetupError, OptionError, printable
from rl_clarity.base.files import local_path
from rl_clarity.cli.command import Result
from rl_clarity.commands.features import fit_as_run, layer_with_features
from rl_clarity.environments import check_environment
from rl_clarity.formats.native import check_output
from rl_clarity.recordings.layout import DONE, TIME_LIMIT
from rl_clarity.recordings.recording import Recording

PAGE = "give --page to use the features of a page, with its numbers and names"


def inspect_checkpoint(path: Path, metadata: Mapping[str, Any]) -> Result:
    """Describe the format, parameters and metadata of a checkpoint and, if its framework is installed, its network.

    `metadata` overrides the metadata in the file.
    """
    checkpoint = formats.read(path, **metadata)
    parameters = int(sum(array.size for array in checkpoint.parameters.values()))
    try:
        network, lines = _network(formats.build_agent(checkpoint))
    except DependencyError as error:
        network, lines = {}, [f"layers: unknown ({error})"]
    notes = [*checkpoint.notes, *_environment(checkpoint.metadata)]
    summary = {
        "file": path.name,
        "format": checkpoint.format,
        "network": checkpoint.network,
        "parameters": parameters,
        **network,
        "metadata": dict(checkpoint.metadata),
        "notes": notes,
        "sha256": checkpoint.sha256,
    }
    lines = [
        f"{path.name}: {checkpoint.format} checkpoint, network {checkpoint.network}, {parameters:,} parameters",
        *lines,
        *(f"{key}: {value}" for key, value in sorted(checkpoint.metadata.items())),
        *(f"note: {note}" for note in notes),
        f"sha256 {checkpoint.sha256}",
    ]
    return Result(summary, "\n".join(map(printable, lines)))


def _network(agent: Agent) -> tuple[dict[str, Any], list[str]]:
    layers = {layer.name: list(layer.shape) for layer in choose_layers(agent)}
    summary = {
        "observation_shape": list(agent.observation_shape),
        "num_actions": agent.num_actions,
        "recurrent": initial_state(agent, 1) is not None,
        "layers": layers,
    }
    return summary, [
        f"observations {' x '.join(map(str, agent.observation_shape))}, {agent.num_actions} actions",
        "layers: " + ", ".join(f"{name} ({' x '.join(map(str, shape))})" for name, shape in layers.items()),
    ]


def may_be_recording(location: str) -> bool:
    """Return whether a location may be a directory: a local directory, or a remote address without a suffix."""
    path = local_path(location)
    return not PurePosixPath(location).suffix if path is None else path.is_dir()


def describe_recording(recording: Recording) -> Result:
    """Describe the episodes and metadata of a recording."""
    listing = recording.listing()
    rows = [row for row, problem in listing if problem is None]
    damaged = {row["number"]: problem for row, problem in listing if problem is not None}
    ends = Counter(str(row["end"]) for row in rows)
    returns = [row["return"] for row in rows if row["end"] in (DONE, TIME_LIMIT)]
    steps = sum(row["steps"] for row in rows)
    first = next((i for i, (_, problem) in enumerate(listing) if problem is None), None)
    arrays = {} if first is None else recording[first].fields
    fields = {name: [str(array.dtype), *array.shape[1:]] for name, array in arrays.items()}
    summary: dict[str, Any] = {
        "recording": recording.location,
        "episodes": len(rows),
        "steps": steps,
        "damaged": damaged,
        "ends": dict(ends),
        "mean_return": float(np.mean(returns)) if returns else None,
        "fields": fields,
        "metadata": dict(recording.metadata),
    }
    lines = [
        f"{recording.location}: recording of {len(rows):,} episodes, {steps:,} steps",
        "ends: " + (", ".join(f"{end} {count:,}" for end, count in sorted(ends.items())) or "none"),
    ]
    options = (recording.metadata.get("environment") or {}).get("options") or {}
    if options.get("episodic_life"):
        lines.append("episodes end with each life (episodic_life); returns are for single lives, not whole games")
    lines += [f"episode {number} is left out: {problem}" for number, problem in damaged.items()]
    if returns:
        lines.append(f"mean return {np.mean(returns):.2f} over {len(returns):,} complete episodes")
    lines += [
        *(f"{name}: {dtype} ({', '.join(map(str, ('T', *shape)))})" for name, (dtype, *shape) in fields.items()),
        *(f"{key}: {_shown(key, value)}" for key, value in sorted(recording.metadata.items())),
    ]
    return Result(summary, "\n".join(map(printable, lines)))


def _shown(key: str, value: Any) -> str:
    """Return an entry of a recording's metadata as text. The start time `begun` (seconds since 1970) becomes a date."""
    try:
        return (
            datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC") if key == "begun" else json.dumps(value)
        )
    except (TypeError, ValueError, OverflowError, OSError):  # unknown, or a year that no clock shows
        return json.dumps(value)


def convert_checkpoint(path: Path, out_path: Path, metadata: Mapping[str, Any], *, overwrite: bool = False) -> Result:
    """Convert a checkpoint to safetensors or ONNX, depending on the suffix of `out_path`, and describe it.

    A note is added if the metadata name no environment, or an unknown one.
    """
    checkpoint = formats.convert(path, out_path, overwrite=overwrite, **metadata)
    summary = {
        "file": str(out_path),
        "format": checkpoint.format,
        "network": checkpoint.network,
        "metadata": dict(checkpoint.metadata),
    }
    lines = [
        f"Written: {out_path} (network {checkpoint.network} of a {checkpoint.format} checkpoint)",
        *(f"{key}: {value}" for key, value in sorted(checkpoint.metadata.items())),
    ]
    lines += [f"note: {note}" for note in _environment(checkpoint.metadata)]
    return Result(summary, "\n".join(map(printable, lines)))


def edit_checkpoint(
    path: Path,
    out_path: Path,
    metadata: Mapping[str, Any],
    *,
    layer: str,
    features: Sequence[int] = (),
    page: str | None = None,
    units: Sequence[int] = (),
    strength: float = 1,
    everything_but: bool = False,
    overwrite: bool = False,
) -> Result:
    """Remove features (counted from 1) or units (counted from 0) of a layer from a checkpoint's weights.

    Features are those of `page`. Without a page, they are fitted as `run` does by default. Raises OptionError if both
    or neither of features and units are given, for numbers that the layer does not have, for features without a page
    if the agent cannot play, and for edits that `edit` or `save` rejects.
    """
    if bool(features) == bool(units):
        raise OptionError("specify what to remove: either --feature NUMBER (with or without --page) or --unit NUMBER")
    check_output(out_path, overwrite=overwrite)
    options: dict[str, Any] = {"strength": strength, "everything_but": everything_but}
    agent: Any = formats.load_agent(path, **metadata)
    names: Mapping[int, str] = {}
    fitted = ""
    if not features:
        options["unit"] = list(units)
    elif page is not None:
        taken = page_features(page, layer)[layer]
        options["component"], names = _components(taken.reduction.components, layer, features), taken.names
    else:
        begin = time.monotonic()
        options["component"] = _components(_fit(path, agent, metadata, layer, features), layer, features)
        fitted = f"\nfeatures were fitted as run does by default, in {time.monotonic() - begin:.0f} s; {PAGE}"
    edited = edit(agent, Ablate(layer, **options))
    edited.save(out_path, overwrite=overwrite)
    text = edited.edits[0].describe() if edited.edits else "nothing, because the strength is 0"
    numbers = [f"{number} ({names[number]})" if number in names else str(number) for number in features or units]
    name = f"{'feature' if features else 'unit'}{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
    change = f"{'only' if everything_but else 'without'} {name} of layer {layer}"
    change += f", strength {strength:g}" if strength != 1 else ""
    return Result({"file": str(out_path), "edit": text}, f"Written: {out_path} ({change}){fitted}")


def _fit(path: Path, agent: Agent, metadata: Mapping[str, Any], layer: str, features: Sequence[int]) -> np.ndarray:
    """Return the components (K, c) of K features in c channels that `run` fits by default.

    Raises OptionError if the agent cannot play, or (before it plays) if a feature number exceeds the layer's number of
    channels.
    """
    _components(np.empty((layer_with_features(agent, layer).channels, 0)), layer, features)
    print(
        f"Features are fitted as run does by default. The agent plays first, which can take minutes; {PAGE}.",
        file=sys.stderr,
    )
    try:
        return fit_as_run(path, agent, layer, metadata).components
    except (EnvironmentSetupError, DependencyError) as error:
        raise OptionError(
            f"--feature needs --page DIRECTORY, because the agent cannot play ({error}); or use --unit instead"
        ) from error


def _components(components: np.ndarray, layer: str, features: Sequence[int]) -> np.ndarray:
    """Return the components (n, c) of n features, with numbers from 1, out of a layer's components (K, c)."""
    for number in features:
        if not 1 <= number <= len(components):
            raise OptionError(
                f"--feature {number} must be from 1 to {len(components)}, the number of features of layer {layer}"
            )
    return components[[number - 1 for number in features]]


def _environment(metadata: Mapping[str, Any]) -> list[str]:
    """Return a list with a note if the metadata name no environment or an unknown one, otherwise an empty list."""
    try:
        check_environment(metadata)
    except EnvironmentSetupError as error:
        return [str(error)]
    return []

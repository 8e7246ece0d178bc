"""Check that a manifest has what readers in Python use, so that a damaged page is refused by name when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl_clarity.errors import ClarityError

VALUES = ...
"""Key of a shape that stands for all values of a mapping."""
_OUTPUT = {"id": str, "kind": str, "label": str}
_LAYER = {
    **{"name": str, "slug": str, "kind": str, "channels": int, "hues": [[float]], "totals": [str]},
    "scales": {VALUES: [float]},
    "attribution": {VALUES: [[str]]},
}
_METHOD = {
    **{"name": str, "label": str, "signed": bool, "outputs": [{"id": str, "label": str}], "rows": int, "columns": int},
    **{"centers": {"rows": [float], "columns": [float]}, "maps": [[str]], "scales": {VALUES: [float]}},
    "percentile": {VALUES: float},
}
_TRAJECTORY = {"steps": int, "series": str, "frames": [str]}
_STRETCH = {"trajectory": int, "first": int, "frame": int, "targets": [str], "chunk": str}
_SECTIONS: Mapping[str, Any] = {
    "trajectories": {"segment": int, "trajectories": [_TRAJECTORY]},
    "attribution": {"outputs": [_OUTPUT], "layers": [_LAYER]},
    "features": {"layers": {VALUES: {}}},
    "saliency": {"every": int, "methods": [_METHOD]},
    "state_map": {"maps": [{"source": str, "method": str, "chunk": str}], "colors": [{"key": str}]},
    "stretches": {"paths": [str], "stretches": [_STRETCH]},
    "training": {"checkpoints": [{"agent": str, "name": str}], "reference": {"agent": str, "shown": [str]}},
}
_MANIFEST = {
    **{"id": str, "title": str, "numpy_precision": int, "view": {}},
    "agents": [{"actions": [{"label": str}], "action_groups": [{}]}],
    "sections": [{"kind": str}],
}
_NAMES = {bool: "true or false", str: "text", int: "an integer", float: "a number"}


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise ClarityError, with the place, for a manifest (as dicts) with missing or contradictory parts."""
    _check(manifest, _MANIFEST, "manifest")
    _require(1 <= manifest["numpy_precision"] <= 17, "numpy_precision must be from 1 to 17")
    _require(bool(manifest["agents"]), "agents is empty")
    weight = manifest["view"].get("attribution_weight", 1)
    _require(_is_a(weight, float) and 0 <= weight <= 1, "view.attribution_weight must be from 0 to 1")
    agents = {agent.get("id"): agent for agent in manifest["agents"]}
    groups: dict[Any, dict[str, Any]] = {}  # the first section of each kind, by the agent
    for section in manifest["sections"]:
        groups.setdefault(section.get("agent"), {}).setdefault(section["kind"], section)
    for id_, sections in groups.items():
        _check_sections(sections, agents.get(id_, manifest["agents"][0]))


def _check_sections(sections: Mapping[str, Any], agent: Mapping[str, Any]) -> None:
    """Check the sections of an agent, by kind."""
    for kind, shape in _SECTIONS.items():
        if kind in sections:
            _check(sections[kind], {"data": shape}, kind)
    if "trajectories" in sections:
        segments = _check_trajectories(sections["trajectories"]["data"])
        if "attribution" in sections:
            _check_attribution(sections["attribution"]["data"], agent, segments)
        if "saliency" in sections:
            _check_saliency(sections["saliency"]["data"], segments)


def _check_trajectories(data: Mapping[str, Any]) -> list[int]:
    """Check counts; return the number of segments of each trajectory."""
    _require(data["segment"] > 0, "segment must be above 0")
    segments = [-(-entry["steps"] // data["segment"]) for entry in data["trajectories"]]
    for index, (entry, count) in enumerate(zip(data["trajectories"], segments, strict=True)):
        where = f"trajectories[{index}]"
        _require(entry["steps"] > 0, f"{where}.steps must be above 0")
        _require(len(entry["frames"]) == count, f"{where}.frames must have {count} entries")
    return segments


def _check_attribution(data: Mapping[str, Any], agent: Mapping[str, Any], segments: Sequence[int]) -> None:
    for output in data["outputs"]:
        for kind, choices in (("action", agent["actions"]), ("group", agent["action_groups"])):
            if output["kind"] == kind:
                index = output.get(kind)
                valid = _is_a(index, int) and 0 <= index < len(choices)
                _require(valid, f"output {output['id']!r} has {kind} {index!r}; the agent has {len(choices)}")
    for layer in data["layers"]:
        where = f"layer {layer['name']!r}"
        _require(len(layer["hues"]) == layer["channels"], f"{where} must have a hue for each channel")
        _require(all(len(hue) == 3 for hue in layer["hues"]), f"{where}: hues must have three numbers")
        _require(len(layer["totals"]) == len(segments), f"{where} must have totals of each trajectory")
        for output, names in layer["attribution"].items():
            fits = [len(one) for one in names] == list(segments)
            _require(fits, f"{where} must have attribution of {output!r} for each segment of each trajectory")
            scales = layer["scales"].get(output, ())
            _require(len(scales) == len(segments), f"{where} must have a scale of {output!r} for each trajectory")


def _check_saliency(data: Mapping[str, Any], segments: Sequence[int]) -> None:
    for method in data["methods"]:
        fits = [len(one) for one in method["maps"]] == list(segments)
        _require(fits, f"saliency {method['name']!r} must have maps for each segment of each trajectory")


def _check(value: Any, shape: Any, where: str) -> None:
    """Check a value against a shape: a type, a list of one shape, or a dict of the shapes of its keys."""
    if isinstance(shape, type):
        _require(_is_a(value, shape), f"{where} must be {_NAMES[shape]}")
    elif isinstance(shape, list):
        _require(isinstance(value, list), f"{where} must be a list")
        for index, item in enumerate(value):
            _check(item, shape[0], f"{where}[{index}]")
    else:
        _require(isinstance(value, dict), f"{where} must be an object")
        for key, part in shape.items():
            names = value if key is VALUES else [key]
            for name in names:
                _require(name in value, f"{where}.{name} is missing")
                _check(value[name], part, f"{where}.{name}")


def _is_a(value: Any, kind: type) -> bool:
    accepted = (int, float) if kind is float else kind
    return isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ClarityError(f"the page's manifest is damaged: {problem}")

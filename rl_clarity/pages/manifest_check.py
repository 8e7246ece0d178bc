"""Check that a manifest contains everything that `Results` uses, so that damaged pages are rejected when opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

from rl_clarity.base.errors import ClarityError, SectionError
from rl_clarity.base.keys import JsonObject
from rl_clarity.pages.schema import read
from rl_clarity.pages.section_types import (
    SECTION_TYPES,
    AttributionSection,
    SaliencySection,
    TrajectoriesSection,
)


class _Action(TypedDict):
    label: str


class _Agent(TypedDict):
    actions: Sequence[_Action]
    action_groups: Sequence[Mapping[str, object]]


class _Section(TypedDict):
    kind: str


class _Manifest(TypedDict):
    id: str
    title: str
    numpy_precision: int
    view: Mapping[str, object]
    agents: Sequence[_Agent]
    sections: Sequence[_Section]


def check_manifest(manifest: JsonObject) -> None:
    """Raise ClarityError, which names the entry, for a manifest (as dicts) with missing or contradictory entries."""
    try:
        read(_Manifest, manifest, "manifest")
        for section in manifest["sections"]:
            _check_shape(section)
    except SectionError as error:
        raise ClarityError(f"the page's manifest is damaged: {error.message}") from error
    _require(1 <= manifest["numpy_precision"] <= 17, "numpy_precision must be from 1 to 17")
    _require(bool(manifest["agents"]), "agents is empty")
    weight = manifest["view"].get("attribution_weight", 1)
    _require(isinstance(weight, int | float) and 0 <= weight <= 1, "view.attribution_weight must be from 0 to 1")
    agents = {agent.get("id"): agent for agent in manifest["agents"]}
    groups: dict[object, dict[str, object]] = {}  # data of the first section of each kind, by agent
    for section in manifest["sections"]:
        groups.setdefault(section.get("agent"), {}).setdefault(section["kind"], section.get("data"))
    for id_, sections in groups.items():
        _check_sections(sections, agents.get(id_, manifest["agents"][0]))


def _check_shape(section: Mapping[str, object]) -> None:
    """Check the data of a section of a built-in kind against its type."""
    kind = str(section["kind"])
    if kind in SECTION_TYPES:
        if "data" not in section:
            raise SectionError(f"{kind}.data is missing")
        read(SECTION_TYPES[kind], section["data"], f"{kind}.data")


def _check_sections(sections: Mapping[str, object], agent: _Agent) -> None:
    """Check that the sections of an agent are consistent with each other."""
    if "trajectories" in sections:
        segments = _check_trajectories(cast(TrajectoriesSection, sections["trajectories"]))
        if "attribution" in sections:
            _check_attribution(cast(AttributionSection, sections["attribution"]), agent, segments)
        if "saliency" in sections:
            _check_saliency(cast(SaliencySection, sections["saliency"]), segments)


def _check_trajectories(data: TrajectoriesSection) -> list[int]:
    """Check the numbers of steps and of files, and return the number of segments of each trajectory."""
    _require(data["segment"] > 0, "segment must be above 0")
    segments = [-(-entry["steps"] // data["segment"]) for entry in data["trajectories"]]
    for index, (entry, count) in enumerate(zip(data["trajectories"], segments, strict=True)):
        where = f"trajectories[{index}]"
        _require(entry["steps"] > 0, f"{where}.steps must be above 0")
        _require(len(entry["frames"]) == count, f"{where}.frames must have {count} entries")
    return segments


def _check_attribution(data: AttributionSection, agent: _Agent, segments: Sequence[int]) -> None:
    for output in data["outputs"]:
        kind = output["kind"]
        if kind in ("action", "group"):
            index = output.get("action") if kind == "action" else output.get("group")
            count = len(agent["actions"] if kind == "action" else agent["action_groups"])
            valid = index is not None and 0 <= index < count
            _require(valid, f"output {output['id']!r} has {kind} {index!r}, but the agent has {count}")
    for layer in data["layers"]:
        where = f"layer {layer['name']!r}"
        _require(len(layer["hues"]) == layer["channels"], f"{where} must have a hue for each channel")
        _require(all(len(hue) == 3 for hue in layer["hues"]), f"{where}: hues must have three numbers")
        _require(len(layer["totals"]) == len(segments), f"{where} must have totals for each trajectory")
        for id_, names in layer["attribution"].items():
            fits = [len(name) for name in names] == list(segments)
            _require(fits, f"{where} must have attribution of {id_!r} for each segment of each trajectory")
            scales = layer["scales"].get(id_, ())
            _require(len(scales) == len(segments), f"{where} must have a scale of {id_!r} for each trajectory")


def _check_saliency(data: SaliencySection, segments: Sequence[int]) -> None:
    for method in data["methods"]:
        fits = [len(one) for one in method["maps"]] == list(segments)
        _require(fits, f"saliency {method['name']!r} must have maps for each segment of each trajectory")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ClarityError(f"the page's manifest is damaged: {problem}")

"""What made a page: no times, paths or user names, so that the same run makes the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import rl_clarity
from rl_clarity.formats import Checkpoint
from rl_clarity.keys import COMPUTING
from rl_clarity.options import DirectoryOptions, InterfaceOptions, ViewOptions
from rl_clarity.pages.manifest import ProvenanceGroup
from rl_clarity.stages.assembly import provenance_group
from rl_clarity.stages.plan import Plan

NOT_SAID = {"overwrite", "action_group_fns", "action_combos", "title", "env_name"}


def describe(plan: Plan, checkpoint: Checkpoint | None, metadata: Mapping[str, Any]) -> list[ProvenanceGroup]:
    """The groups of facts that the page shows; `metadata` says where and how the samples were made, if we made them."""
    groups = [] if checkpoint is None else [_describe_file(checkpoint)]
    groups += _describe_samples(metadata)
    agent = {**asdict(plan.agent), "observation": asdict(plan.observation), "gamma": plan.gamma, "lambda": plan.lam}
    groups.append(provenance_group("Agent", agent))
    said = {k: v for k, v in options_as_data(plan.options).items() if k not in NOT_SAID}
    said = {k: v for k, v in said.items() if k not in {*_names(ViewOptions), *_names(DirectoryOptions)}}
    groups.append(provenance_group("Options", said))
    groups.append(provenance_group("Versions", versions()))
    return groups


def options_as_data(options: InterfaceOptions) -> dict[str, Any]:
    """The options as JSON values; predicates on combos are left out, as what they choose is kept elsewhere."""
    return {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
        for name, value in (
            (field, getattr(options, field)) for field in options.__dataclass_fields__ if field != "action_group_fns"
        )
    }


def _describe_file(checkpoint: Checkpoint) -> ProvenanceGroup:
    file = {"file": checkpoint.path.name, "sha256": checkpoint.sha256, "format": checkpoint.format}
    return provenance_group("Checkpoint", {**file, "network": checkpoint.network})


def _describe_samples(metadata: Mapping[str, Any]) -> list[ProvenanceGroup]:
    """What was noted when the samples were made, which may have been in an earlier run."""
    groups = []
    environment = dict(metadata.get("environment") or {})
    if environment:
        shown = {"kind": environment.get("kind"), "name": environment.get("name"), **environment.get("options", {})}
        for key, default in (("epsilon_greedy", 0), ("reward_scale", 1)):
            if environment.get(key, default) != default:
                shown[key] = environment[key]
        groups.append(provenance_group("Environment", shown))
    if metadata.get("sampling"):
        groups.append(provenance_group("Sampling", metadata["sampling"]))
    return groups


def versions() -> dict[str, str]:
    """Of this package and of those that do the computing."""
    import keras

    found = {"rl-clarity": rl_clarity.__version__, "backend": keras.backend.backend()}
    for package in COMPUTING:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _names(kind: type) -> set[str]:
    return set(kind.__dataclass_fields__)  # type: ignore[attr-defined]

"""What made a page: no times, paths or user names, so that the same run makes the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.interface.manifest import ProvenanceGroup
from rl_clarity.options import DirectoryOptions, InterfaceOptions, ViewOptions
from rl_clarity.sampling.samples import Observations, Trajectories
from rl_clarity.stages.assembly import provenance_group
from rl_clarity.stages.plan import Plan
from rl_clarity.stages.samples import Source

PACKAGES = ("keras", "tensorflow", "jax", "torch", "numpy", "scikit-learn", "gymnasium", "procgen-mirror", "ale-py")
NOT_SAID = {"overwrite", "action_group_fns", "action_combos", "title", "env_name"}
BLOCK = 1 << 24


def describe(plan: Plan, source: Source | None) -> list[ProvenanceGroup]:
    """The groups of facts that the page shows."""
    groups = [] if source is None else _describe_source(source)
    agent = {**asdict(plan.agent), "observation": asdict(plan.observation), "gamma": plan.gamma, "lambda": plan.lam}
    groups.append(provenance_group("Agent", agent))
    said = {k: v for k, v in options_as_data(plan.options).items() if k not in NOT_SAID}
    said = {k: v for k, v in said.items() if k not in {*_names(ViewOptions), *_names(DirectoryOptions)}}
    groups.append(provenance_group("Options", said))
    groups.append(provenance_group("Versions", _versions()))
    return groups


def options_as_data(options: InterfaceOptions) -> dict[str, Any]:
    """The options as JSON values; predicates on combos are left out, as what they choose is kept elsewhere."""
    return {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
        for name, value in (
            (field, getattr(options, field)) for field in options.__dataclass_fields__ if field != "action_group_fns"
        )
    }


def agent_key(agent: Agent, trajectories: Trajectories) -> str:
    """Hash of what an agent computes: of its parameters where it has them, else of what it says."""
    digest = hashlib.sha256(type(agent).__name__.encode())
    network = getattr(agent, "network", None)
    if network is not None and hasattr(network, "parameters"):
        for name, array in network.parameters().items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()
    for name in ("policy_logits", "values", "q_values"):
        array = getattr(trajectories, name)
        if array is not None:
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def samples_key(trajectories: Trajectories, observations: Observations) -> str:
    """Hash of samples given as arrays."""
    digest = hashlib.sha256()
    for samples in (trajectories, observations):
        for name in samples.__dataclass_fields__:
            value = getattr(samples, name)
            for array in value if isinstance(value, tuple) else [value]:
                if array is not None:
                    digest.update(f"{name} {array.dtype} {array.shape}".encode())
                    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                    for start in range(0, len(flat), BLOCK):
                        digest.update(flat[start : start + BLOCK].data)
    return digest.hexdigest()


def _describe_source(source: Source) -> list[ProvenanceGroup]:
    checkpoint, plan = source.checkpoint, source.plan
    file = {"file": checkpoint.path.name, "sha256": checkpoint.sha256, "format": checkpoint.format}
    groups = [provenance_group("Checkpoint", {**file, "network": checkpoint.network})]
    if source.spec is not None:
        spec = source.spec
        shown: Mapping[str, Any] = {"kind": spec.kind, "name": spec.name, **spec.options}
        if spec.epsilon_greedy:
            shown = {**shown, "epsilon_greedy": spec.epsilon_greedy}
        if spec.reward_scale != 1:
            shown = {**shown, "reward_scale": spec.reward_scale}
        groups.append(provenance_group("Environment", shown))
    sampling = {
        "seed": plan.seed,
        "trajectories": asdict(plan.trajectories),
        "observations": asdict(plan.observations),
        "full_resolution": plan.full_resolution,
    }
    groups.append(provenance_group("Sampling", sampling))
    return groups


def _versions() -> dict[str, str]:
    import keras

    found = {"rl-clarity": rl_clarity.__version__, "backend": keras.backend.backend()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _names(kind: type) -> set[str]:
    return set(kind.__dataclass_fields__)  # type: ignore[attr-defined]

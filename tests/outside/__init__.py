"""Extensions as other packages would write them, one module each; `installed` installs copies of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.analyses import ANALYSES
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.registry import Registry
from rl_clarity.environments import KINDS
from rl_clarity.formats import FORMATS
from rl_clarity.pages.kinds import PAGE_KINDS
from rl_clarity.reduction import REDUCTIONS
from tests.plugins import install

EXTENSIONS: dict[str, tuple[Registry[Any], str]] = {
    "contrast": (METHODS, "METHOD"),
    "line": (KINDS, "KIND"),
    "rewards": (ANALYSES, "Rewards"),
    "scores": (PAGE_KINDS, "KIND"),
    "seeds": (FORMATS, "FORMAT"),
    "strides": (REDUCTIONS, "REDUCTION"),
}
"""The registry and the attribute of each module."""

PLAY = ["--trajectories.num-envs", "2", "--trajectories.num-steps", "12"]
RUN = [*PLAY, "--observations.num-envs", "2", "--observations.num-obs", "8", "--observations.obs-every", "1"]
ANALYSIS = ["--analyses", "rewards", "rewards.unit=coins"]
SALIENCY = ["--saliency.methods", "contrast", "--saliency.every", "1"]
"""Options of commands."""


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """Install each extension as a package with one module and one entry point; gives the folder of their modules."""
    with pytest.MonkeyPatch.context() as patch:
        for name, (registry, attribute) in EXTENSIONS.items():
            source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
            install(folder / name, patch, f"{registry.group}: {name} = outside_{name}:{attribute}", source)
        yield folder
    for name, (registry, _) in EXTENSIONS.items():
        registry.unregister(name)


def write_checkpoint(path: Path, seed: int = 1, **fields: Any) -> Path:
    """Write a checkpoint of the format `seeds`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"seeds " + json.dumps({"seed": seed, **fields}).encode())
    return path

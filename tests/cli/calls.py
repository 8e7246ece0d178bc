"""Arguments and output of commands, shared by tests of the command line."""

from __future__ import annotations

import json
from typing import Any

from _pytest.capture import CaptureResult

SMALL = [
    *("--layers.name-contains-one-of", "Relu_2", "--trajectories.num-envs", "2"),
    *("--trajectories.num-steps", "10"),
    *("--observations.num-envs", "2", "--observations.num-obs", "4", "--observations.obs-every", "2"),
]


def parse_summary(printed: CaptureResult[str]) -> dict[str, Any]:
    """Parse standard output, a single line of strict JSON."""
    assert printed.out.count("\n") == 1

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    summary: dict[str, Any] = json.loads(printed.out, parse_constant=refuse)
    return summary

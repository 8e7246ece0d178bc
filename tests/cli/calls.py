"""What tests of the command line share."""

from __future__ import annotations

import json
from typing import Any

SMALL = [
    *(
        "--layer-kwargs.name-contains-one-of",
        "Relu_2",
        "--trajectories.num-envs",
        "2",
        "--trajectories.num-steps",
        "10",
    ),
    *("--observations.num-envs", "2", "--observations.num-obs", "4", "--observations.obs-every", "2"),
]


def summary_of(printed: Any) -> dict[str, Any]:
    """The summary that is all of the standard output: one line of JSON, as strict readers take it."""
    assert printed.out.count("\n") == 1

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    summary: dict[str, Any] = json.loads(printed.out, parse_constant=refuse)
    return summary

"""Train networks that imitate the players of `agents`, debug them, and print which planted causes come first.

`python -m tests.planted.measure results.jsonl 21 22 23`, with seeds that were not used while the debugger was built.
Each result is a line of the file, so that a stopped call goes on when it is repeated.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.agents.protocol import Agent
from rl_clarity.commands.debug import Debug
from rl_clarity.environments import EnvironmentSpec
from tests.planted.agents import CLEAN, PLANTED, World
from tests.planted.training import agreement, train

SIZES: dict[str, Any] = {
    "trajectories": {"num_envs": 8, "num_steps": 96},
    "failures": {"count": 8, "window": 12, "horizon": 10, "points": 2},
    "goals": {"states": 96},
}


def debug(agent: Agent, world: World, seed: int) -> Debug:
    environment = EnvironmentSpec("gymnasium", "Field", {"factory": world})
    return rl_clarity.debug(agent, environment=environment, seed=seed, **SIZES)


def first_key(result: Debug, family: str) -> tuple[str, str] | None:
    """Return the kind and subject of the first finding of a family."""
    return next((one.key for one in result.findings if one.family == family), None)


def suspicious(result: Debug) -> list[tuple[str, str]]:
    return [one.key for one in result.findings if one.suspicious]


def measure(name: str, seed: int) -> dict[str, Any]:
    """Train and debug the network of a planted or a clean player."""
    planted = PLANTED.get(name)
    player, world = (planted.player, planted.world) if planted else CLEAN[name]
    began = time.process_time()
    agent = train(player, world, seed, planted.memory if planted else "none")
    trained = time.process_time()
    result = debug(agent, world, seed)
    debugged = time.process_time()
    return {
        "seed": seed,
        "name": name,
        "agreement": round(agreement(agent, player, world, seed), 4),
        "training_seconds": round(trained - began, 1),
        "debugging_seconds": round(debugged - trained, 1),
        "first": first_key(result, planted.family) if planted else None,
        "suspicious": suspicious(result),
    }


def text(result: dict[str, Any]) -> str:
    planted = PLANTED.get(result["name"])
    found = tuple(result["first"] or ())
    outcome = f"suspicious: {result['suspicious'] or 'nothing'}"
    if planted:
        outcome = "first" if found == planted.key else f"missed, first is {found or 'nothing'}"
    seconds = f"{result['training_seconds']} s of training, {result['debugging_seconds']} s of debugging"
    return f"seed {result['seed']}, {result['name']}: {outcome} (agreement {result['agreement']:.1%}, {seconds})"


def summary(results: Sequence[dict[str, Any]], seed: int) -> str:
    mine = [result for result in results if result["seed"] == seed]
    planted = [result for result in mine if result["name"] in PLANTED]
    clean = [result for result in mine if result["name"] in CLEAN]
    first = sum(tuple(result["first"] or ()) == PLANTED[result["name"]].key for result in planted)
    false = sum(len(result["suspicious"]) for result in clean)
    return f"seed {seed}: {first} of {len(planted)} planted causes first, {false} false findings of {len(clean)} agents"


def main(path: Path, seeds: Sequence[int], names: Sequence[str] = (*PLANTED, *CLEAN)) -> None:
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(result["seed"], result["name"]) for result in results}
    for seed in seeds:
        for name in names:
            if (seed, name) not in known:
                results.append(measure(name, seed))
                with path.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
                print(text(results[-1]), flush=True)
    for seed in seeds:
        print(summary(results, seed))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])

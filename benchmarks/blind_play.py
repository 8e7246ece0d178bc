"""Measure how often an agent fails by each cause while edits make it blind to a type of object.

`python -m benchmarks.blind_play [--agent coinrun] [--episodes 2000] [--json FILE]` plays the same levels, with the same
random numbers, unedited and with each edit, on all processors. A stopped run is resumed by the same command with
`--json`. Directions are fitted to other levels, as in `benchmarks.blindness`. Unlike `rl-clarity ablate`, which plays
with single directions and features, this also edits subspaces, positions of objects only, and two layers, and plays
with invisible objects.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from benchmarks.blindness import SUBSPACE, directions
from rl_clarity.agents.sites import find_site
from rl_clarity.analyses.edited_effects import MARGIN, box_cells, edited_within
from rl_clarity.base.statistics import compare
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.protocol import Step
from rl_clarity.environments.worlds import World
from rl_clarity.environments.wrappers import Wrapper
from rl_clarity.recordings.evaluation import known_cause, play_episodes
from rl_clarity.recordings.paired_play import Block, blocks, environment_of

FITTED: Mapping[str, Any] = {"episodes": 64, "steps": 8, "last_steps": 4, "seed": 1}
"""The episodes and steps to which directions are fitted."""
LAYERS = ("2b", "3a")
TYPES = ("saw", "enemy")
BLOCK = 50
SEED, MAX_STEPS = 0, 1000
UNEDITED = "unedited"


@dataclass(frozen=True)
class Edit:
    """An edit that makes the agent blind to a type of object."""

    type: str
    layers: tuple[str, ...] = ()
    """Layers whose activations are edited; empty if the objects are made invisible instead."""
    count: int = 1
    """Number of directions that are removed."""
    at_objects: bool = False
    """Whether only the positions of the type's objects are edited."""

    def __str__(self) -> str:
        if not self.layers:
            return f"{self.type}, invisible"
        directions = "one direction" if self.count == 1 else f"{self.count} directions"
        where = ", at the objects" if self.at_objects else ""
        return f"{self.type}, {directions} at {' and '.join(self.layers)}{where}"


def edits() -> Iterator[Edit]:
    for kind in TYPES:
        for layers in [*((layer,) for layer in LAYERS), LAYERS]:
            for count in (1, SUBSPACE):
                yield Edit(kind, layers, count)
        yield Edit(kind, LAYERS[:1], SUBSPACE, at_objects=True)
        yield Edit(kind)


def fitted(name: str) -> dict[str, np.ndarray]:
    """Return the directions (K, c) of each type, layer and number, by `TYPE/LAYER/NUMBER`."""
    agent = rl_clarity.load_agent(f"models:{name}")
    effects = rl_clarity.object_effects(agent, **FITTED)
    vectors = {}
    for kind in set(TYPES) & set(effects.type.tolist()):
        for layer in LAYERS:
            pairs = rl_clarity.object_pairs(agent, effects, layer, kind)
            for count in (1, SUBSPACE):
                vectors[f"{kind}/{layer}/{count}"] = directions(pairs, count, against_others=count == 1)
    return vectors


class Watched(Wrapper):
    """A wrapper that knows where the objects of a type are in the current observations."""

    def __init__(self, environment: Any, world: World, kind: str) -> None:
        super().__init__(environment)
        self._world, self._kind = world, kind
        self.boxes: dict[bytes, list[np.ndarray]] = {}
        """Boxes of the objects in each observation: left, top, right and bottom, as shares of width and height."""

    def reset(self) -> Step:
        return self._watched(self.environment.reset())

    def step(self, actions: np.ndarray) -> Step:
        return self._watched(self.environment.step(actions))

    def _watched(self, step: Step) -> Step:
        states = self._world.states(self.environment)
        self.boxes = {
            observation.tobytes(): [
                np.array(item.pixels)
                for item in self._world.objects(state, terrain=False)
                if item.type == self._kind and item.in_view
            ]
            for observation, state in zip(step.observations, states, strict=True)
        }
        return step


class BlindAtObjects:
    """An agent whose activations are edited where objects are."""

    def __init__(self, agent: Any, layer: str, vectors: np.ndarray, environment: Watched) -> None:
        self._agent, self._layer, self._environment = agent, layer, environment
        self._removed = rl_clarity.Ablate(layer, component=vectors, signed=True)
        self._cells = find_site(agent.sites, layer).shape[:2]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def step(self, observations: np.ndarray, state: Any, firsts: np.ndarray) -> Any:
        mask = np.stack([self._mask(observation) for observation in observations])[..., None]  # (B, h, w, 1)
        write = {self._layer: functools.partial(edited_within, self._removed, mask, None)}
        return self._agent.forward(observations, write=write), state

    def _mask(self, observation: np.ndarray) -> np.ndarray:
        boxes = np.reshape(self._environment.boxes[observation.tobytes()], (-1, 4))
        return np.asarray(box_cells(boxes, self._cells, MARGIN).any(axis=0))


@functools.cache
def loaded(name: str) -> Any:
    return rl_clarity.load_agent(f"models:{name}")


def failures(name: str, edit: Edit | None, vectors: dict[str, np.ndarray], block: Block) -> list[str]:
    """Return, for each episode of a block, the cause of its failure, or an empty string if it did not fail."""
    agent = loaded(name)
    if edit is not None and not edit.layers:
        block = dataclasses.replace(block, invisible=(edit.type,))
    with block.opened() as (environment, rng), ExitStack() as opened:
        player = agent
        if edit is not None and edit.layers:
            removed = {layer: vectors[f"{edit.type}/{layer}/{edit.count}"] for layer in edit.layers}
            if edit.at_objects:
                world = opened.enter_context(closing(make_world(block.spec)))
                environment = Watched(environment, world, edit.type)
                player = BlindAtObjects(agent, edit.layers[0], removed[edit.layers[0]], environment)
            else:
                ablations = [rl_clarity.Ablate(layer, component=rows, signed=True) for layer, rows in removed.items()]
                player = rl_clarity.edit(agent, *ablations)
        result = play_episodes(player, environment, block.episodes, rng, max_steps=MAX_STEPS, cause=known_cause)
    assert result.failed is not None
    return [cause if failed else "" for cause, failed in zip(result.causes, result.failed, strict=True)]


def table(results: dict[str, list[list[str]]]) -> Iterator[str]:
    """Yield a Markdown table of the shares of episodes that fail by each cause, with changes and corrected p-values."""
    joined = {name: list(itertools.chain(*parts)) for name, parts in results.items()}
    causes = sorted({cause for names in joined.values() for cause in names if cause}, key=joined[UNEDITED].count)[::-1]
    shares = {name: np.array([[one == cause for cause in causes] for one in names]) for name, names in joined.items()}
    before = shares.pop(UNEDITED).astype(float)
    compared = compare(
        np.tile(before, len(shares)), np.hstack([after.astype(float) for after in shares.values()]), SEED
    )
    yield f"| edit | {' | '.join(causes)} |"
    yield "|---" * (len(causes) + 1) + "|"
    yield f"| none | {' | '.join(f'{share:.2%}' for share in before.mean(0))} |"
    for row, name in enumerate(shares):
        cells = []
        for column in range(len(causes)):
            one = compared[row * len(causes) + column]
            low, high = (100 * bound for bound in one.interval)
            cells.append(f"{one.ablated:.2%} ({low:+.1f} to {high:+.1f}; p {one.adjusted_p:.2g})")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.blind_play", description=__doc__)
    parser.add_argument("--agent", default="coinrun")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="edits whose names contain one of these"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the results, from which a run is resumed")
    options = parser.parse_args()
    settings = {"agent": options.agent, "episodes": options.episodes}
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {**settings, "edits": {}}
    if (different := {name: kept[name] for name in settings}) != settings:
        parser.error(f"{options.json} has results of {different}, not of {settings}. Choose another --json FILE")
    results: dict[str, list[list[str]]] = kept["edits"]
    vectors = fitted(options.agent)
    parts = blocks(environment_of(loaded(options.agent)), options.episodes, BLOCK, SEED)
    chosen = [edit for edit in edits() if any(text in str(edit) for text in options.only)]
    possible = [edit for edit in chosen if not edit.layers or f"{edit.type}/{edit.layers[0]}/1" in vectors]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for edit in [None, *possible]:
            name = UNEDITED if edit is None else str(edit)
            if len(results.get(name, [])) < len(parts):
                arguments = [(options.agent, edit, vectors, block) for block in parts]
                results[name] = pool.starmap(failures, arguments, chunksize=1)
                print(f"{name}: {Counter(itertools.chain(*results[name]))}", flush=True)
                if options.json:
                    options.json.write_text(json.dumps(kept))
    print(*table(results), sep="\n")


if __name__ == "__main__":
    main()

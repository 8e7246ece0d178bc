"""Measure whether the features of one agent separate types of objects better than those of another.

`python -m benchmarks.diversity NAME=CHECKPOINT NAME=CHECKPOINT [...] [--levels N]`. The paper's diversity hypothesis is
that features are interpretable if the training levels are diverse. Instead of judging features by eye, this measures
the area under the ROC curve with which a feature separates positions of objects of a type from the same positions
without the objects, and from other positions. All agents see the same frames, which another agent played. For each
layer and type, the best of the 8 features of a page, and one direction that is fitted to the objects, are chosen on
half of the episodes, and measured on the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import rl_clarity
from benchmarks.blindness import Remembering, directions, page_features, roc_area, select, told_apart
from rl_clarity.base.statistics import bootstrap_interval
from rl_clarity.recordings.object_effects import ObjectEffects

PLAYER = "models:coinrun"
PLAYED: Mapping[str, Any] = {"episodes": 64, "steps": 6, "last_steps": 2}
"""The episodes and steps whose frames all agents see."""
TYPES = ("saw", "coin", "crate", "enemy")
"""Types of objects. Those that do not occur in the frames are left out."""
FOLDS = 8
"""Number of groups of the other half's episodes. Intervals are over these groups."""
EDITS = ("feature", "direction")


def folds(effects: ObjectEffects) -> list[ObjectEffects]:
    """Return the effects of the half for choosing, followed by those of each group for measuring."""
    group = np.where(effects.episode % 2 == 0, 0, 1 + effects.episode // 2 % FOLDS)
    return [select(effects, group == number) for number in range(FOLDS + 1)]


def areas(agent: Any, effects: ObjectEffects, layer: str, kind: str, vectors: np.ndarray) -> np.ndarray:
    """Return, for each vector (K, c), the mean of two areas under the ROC curve: positions of objects of a type against
    the same positions without the objects, and against other positions, with other objects and with none.
    """
    others = [other for other in np.unique(effects.type).tolist() if other != kind]
    own, negatives = told_apart(agent, effects, layer, kind, others)
    return np.array(
        [np.mean([roc_area(own.with_object @ row, rows @ row) for rows in negatives.values()]) for row in vectors]
    )


def measure(agent: Any, parts: list[ObjectEffects]) -> dict[tuple[str, str, str], np.ndarray]:
    """Return the areas (FOLDS,) under the ROC curve for each layer, type and edit; NaN for groups without the type."""
    chosen, *judged = parts
    results = {}
    for layer in agent.layers:
        agent.forget()
        features = page_features(agent, layer, chosen)
        for kind in [kind for kind in TYPES if kind in chosen.type]:
            best = features[areas(agent, chosen, layer, kind, features).argmax()]
            (direction,) = directions(rl_clarity.object_pairs(agent, chosen, layer, kind), 1)
            vectors = np.stack([best, direction])
            rows = [
                areas(agent, one, layer, kind, vectors) if kind in one.type else np.full(2, np.nan) for one in judged
            ]
            for edit, values in zip(EDITS, np.transpose(rows), strict=True):
                results[layer, kind, edit] = values
    return results


def table(results: Mapping[str, Mapping[tuple[str, str, str], np.ndarray]]) -> Iterator[str]:
    """Yield a Markdown table: for each layer and edit, the mean over types for each agent, and the differences from the
    first agent, with 95 % bootstrap intervals over groups of episodes.
    """
    first, *others = results
    yield f"| layer, by | {' | '.join(results)} | {' | '.join(f'{name} − {first}' for name in others)} |"
    yield "|---" * (1 + len(results) + len(others)) + "|"
    kinds = dict.fromkeys(kind for _, kind, _ in results[first])
    for layer in dict.fromkeys(layer for layer, _, _ in results[first]):
        for edit in EDITS:
            means = {
                name: np.nanmean([areas[layer, kind, edit] for kind in kinds], axis=0)
                for name, areas in results.items()
            }
            cells = [f"{np.nanmean(values):.3f}" for values in means.values()]
            for name in others:
                change = bootstrap_interval(means[name] - means[first], np.random.default_rng(0))
                cells.append(f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})")
            yield f"| {layer}, {edit} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.diversity", description=__doc__)
    parser.add_argument("agents", nargs="+", metavar="NAME=CHECKPOINT")
    parser.add_argument(
        "--levels",
        type=int,
        default=0,
        help="the frames are of this many levels, the first ones; by default of all, nearly none of which agents have "
        "seen in training",
    )
    options = parser.parse_args()
    parts = folds(rl_clarity.object_effects(PLAYER, **PLAYED, metadata={"num_levels": options.levels}))
    results = {}
    for agent in options.agents:
        name, _, checkpoint = agent.partition("=")
        results[name] = measure(Remembering(rl_clarity.load_agent(checkpoint)), parts)
    print(*table(results), sep="\n")


if __name__ == "__main__":
    main()

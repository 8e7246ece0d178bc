"""Measure how much of the effect of a type of object an ablation removes, and how much of the effects of other types.

`python -m benchmarks.blindness [--agents NAME ...] [--layers LAYER ...] [--json FILE]`. Directions are fitted to half
of the episodes, and measured on the other half, which has different levels. For each layer and type, it ablates the
feature that has most of what the type adds, one direction that is fitted to pairs, and a subspace of such directions,
everywhere and only at objects of the type. It also measures how well the direction separates positions of the type from
the same positions without the objects, and from other positions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.sites import find_site
from rl_clarity.analyses.edited_effects import ObjectPairs, object_cells
from rl_clarity.recordings.object_effects import ObjectEffects

AGENTS: Mapping[str, tuple[str, ...]] = {
    "coinrun-7.9": ("saw", "coin", "crate", "enemy"),
    "coinrun-gru": ("saw", "coin", "crate", "enemy"),
    "fruitbot": ("bad food", "fruit", "present", "key"),
}
"""Agents, and the types of objects whose effects are removed."""
PLAYED: Mapping[str, Mapping[str, Any]] = {
    "coinrun-7.9": {"episodes": 64, "steps": 8, "last_steps": 4},
    "coinrun-gru": {"episodes": 64, "steps": 8, "last_steps": 4},
    "fruitbot": {"episodes": 24, "steps": 8},
}
"""The episodes and steps in which effects are measured."""
MOST = 150
"""Largest number of frames in each half. All objects in them are measured."""
FEWEST_EPISODES = 3
"""A type is left out if it occurs in fewer episodes than this in one of the halves."""
FEATURES = 8
SUBSPACE = 8
FRAMES = 128
"""Largest number of frames to whose attribution the features are fitted."""


def measure(name: str, effects: ObjectEffects, layers: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer, type and edit of an included agent, from effects that `object_effects` measured."""
    agent: Any = Remembering(rl_clarity.load_agent(f"models:{name}"))
    rng = np.random.default_rng(0)
    fitted, judged = (select(effects, in_some_frames(effects, effects.episode % 2 == half, rng)) for half in (0, 1))
    for layer in layers or agent.layers:
        agent.forget()
        features = page_features(agent, layer, fitted)
        for kind in AGENTS[name]:
            episodes = [len(np.unique(half.episode[half.type == kind])) for half in (fitted, judged)]
            if min(episodes) < FEWEST_EPISODES:
                continue
            pairs = rl_clarity.object_pairs(agent, fitted, layer, kind)
            others = [other for other in np.unique(judged.type).tolist() if other != kind]
            components = ablated_components(pairs, features)
            separation = separations(agent, judged, layer, kind, others, components["one direction"])
            for edit, component in components.items():
                for at in (None, kind) if edit != "subspace against others" else (None,):
                    ablation = rl_clarity.Ablate(layer, component=component, signed=edit != "feature")
                    lost = rl_clarity.lost_effects(agent, judged, ablation, at=at)
                    yield {
                        "agent": name,
                        "layer": layer,
                        "type": kind,
                        "edit": edit,
                        "where": "everywhere" if at is None else "at the objects",
                        "type lost": asdict(lost.loss(kind)),
                        "others lost": asdict(lost.loss(*others)),
                        "value shift": float(np.abs(lost.value_shift).mean()),
                        "policy shift": float(lost.policy_shift.mean()),
                        **separation,
                    }


class Remembering:
    """An agent that caches its outputs and activations for each batch of observations. Edits are applied to cached
    activations, so that only the network above the edited layer is computed again.
    """

    def __init__(self, agent: Any) -> None:
        self._agent, self._known = agent, dict[Any, Any]()
        self.sites, self.layers, self.num_actions = agent.sites, agent.layers, agent.num_actions
        self.initial_state, self.tails, self.observation_shape = (
            agent.initial_state,
            agent.tails,
            agent.observation_shape,
        )

    def forward(self, observations: np.ndarray, state: Any = None, *, read: Any = (), write: Any = None) -> Any:
        if not write:
            return self._once(
                (_digest(observations), read), lambda: self._agent.forward(observations, state, read=read)
            )
        values = {site: edit(self.activations(observations, site, state)) for site, edit in write.items()}
        return self._agent.forward(observations, state, read=read, write=values)

    def activations(self, observations: np.ndarray, site: str, state: Any = None) -> np.ndarray:
        name = find_site(self.sites, site).name
        key = (_digest(observations), name)
        return self._once(key, lambda: self._agent.activations(observations, name, state))

    def _once(self, key: Any, compute: Any) -> Any:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def forget(self) -> None:
        self._known.clear()


def _digest(observations: np.ndarray) -> bytes:
    return hashlib.blake2b(observations.tobytes()).digest()


def ablated_components(pairs: ObjectPairs, features: np.ndarray) -> dict[str, np.ndarray]:
    """Return the components (K, c) of each edit. The edit `feature` has the feature along which objects add most."""
    differences = pairs.with_object - pairs.without_object
    along = np.square(differences @ features.T).sum(axis=0) / np.maximum(np.square(features).sum(axis=1), 1e-30)
    return {
        "feature": features[along.argmax()][None],
        "one direction": directions(pairs, 1),
        "subspace against others": directions(pairs, SUBSPACE),
        "subspace": directions(pairs, SUBSPACE, against_others=False),
    }


def directions(pairs: ObjectPairs, count: int, *, against_others: bool = True) -> np.ndarray:
    """Return directions (count, c) that objects add to a layer. With `against_others`, directions are preferred along
    which other positions have little.
    """
    others = pairs.others if against_others else None
    return rl_clarity.fit_directions(
        pairs.with_object, "pairs", count, without=pairs.without_object, others=others
    ).vectors


def separations(
    agent: Any, effects: ObjectEffects, layer: str, kind: str, others: list[str], direction: np.ndarray
) -> dict[str, float]:
    """Return the areas under the ROC curve with which a direction, and a random one, separate positions of a type from
    the same positions without the objects, and from hard negatives: positions of other objects, and of none.
    """
    own, negatives = told_apart(agent, effects, layer, kind, others)
    random = np.random.default_rng(0).normal(size=direction.shape)
    areas = {}
    for name, vector in (("pairs", direction[0]), ("random", random[0])):
        for against, rows in negatives.items():
            area = roc_area(own.with_object @ vector, rows @ vector)
            areas[f"{name} against {against}"] = max(area, 1 - area)
    return areas


def told_apart(
    agent: Any, effects: ObjectEffects, layer: str, kind: str, others: list[str]
) -> tuple[ObjectPairs, dict[str, np.ndarray]]:
    """Return the object pairs of a type, and two sets of negatives, which are activations (M, c): `removed`, at the
    same positions after the object is removed, and `others`, at positions of other types and at positions without
    objects.
    """
    own = rl_clarity.object_pairs(agent, effects, layer, kind)
    rest = [rl_clarity.object_pairs(agent, effects, layer, others).with_object] if others else []
    return own, {
        "removed": own.without_object,
        "others": np.concatenate([*rest, rows_of_none(agent, effects, layer)]),
    }


def roc_area(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the area under the ROC curve with which scores separate positive from negative rows."""
    from sklearn.metrics import roc_auc_score

    scores = np.concatenate([positive, negative])
    return float(roc_auc_score(np.arange(len(scores)) < len(positive), scores))


def rows_of_none(agent: Any, effects: ObjectEffects, layer: str) -> np.ndarray:
    """Return activations (M, c) at random positions without an object, at most as many as objects have in total."""
    cells = object_cells(agent, effects, layer)
    rng = np.random.default_rng(0)
    activations = agent.activations(effects.without_object, layer, effects.state)
    elsewhere = activations[~cells]
    return np.asarray(elsewhere[rng.choice(len(elsewhere), min(len(elsewhere), int(cells.sum())), replace=False)])


def page_features(agent: Any, layer: str, effects: ObjectEffects) -> np.ndarray:
    """Return the components (K, c) of features as on pages: factors of the attribution of the value."""
    chosen = np.linspace(0, len(effects) - 1, min(FRAMES, len(effects))).astype(int)
    some = select(effects, np.isin(np.arange(len(effects)), chosen))
    attribution = rl_clarity.integrated_gradients(
        agent, some.with_object, layer, steps=5, quadrature="graded-midpoint", state=some.state
    )
    return rl_clarity.ChannelReduction.fit(attribution, FEATURES).components


def in_some_frames(effects: ObjectEffects, mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a mask (N,) of all objects in up to `MOST` random frames, which are chosen among those with an object in
    `mask` (N,).
    """
    _, frame = np.unique(np.stack([effects.episode, effects.step], axis=1), axis=0, return_inverse=True)
    among = np.unique(frame.ravel()[mask])
    return np.isin(frame.ravel(), rng.permutation(among)[:MOST])


def select(effects: ObjectEffects, chosen: np.ndarray) -> ObjectEffects:
    arrays = {field.name: getattr(effects, field.name) for field in fields(effects)}
    state = arrays.pop("state")
    kept = {name: values[chosen] for name, values in arrays.items()}
    return ObjectEffects(**kept, state=None if state is None else tuple(part[chosen] for part in state))


def line(row: dict[str, Any]) -> str:
    own, others = row["type lost"], row["others lost"]

    def share(interval: tuple[float, float, float]) -> str:
        return "{:4.0f} % ({:.0f} to {:.0f})".format(*(100 * value for value in interval))

    where = f"{row['agent']} {row['layer']}, {row['type']}, {row['edit']} {row['where']}"
    return (
        f"{where}: value {share(own['value_lost'])} and policy {share(own['policy_lost'])} lost; of others' "
        f"{share(others['value_lost'])} and {share(others['policy_lost'])} lost, {share(others['value_changed'])} and "
        f"{share(others['policy_changed'])} changed; value shifted by {row['value shift']:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.blindness", description=__doc__)
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--layers", nargs="+", default=[], metavar="LAYER", help="layers; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the rows")
    options = parser.parse_args()
    rows = []
    for name in options.agents:
        effects = rl_clarity.object_effects(f"models:{name}", **PLAYED[name])
        for row in measure(name, effects, options.layers):
            rows.append(row)
            print(line(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""`rl_clarity.analyse_states`: what the states of a recurrent agent hold, from a recording of its play."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from rl_clarity.agents.capabilities import has, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.errors import OptionError, OutputError, SamplesError
from rl_clarity.files import write_atomically
from rl_clarity.keys import to_plain
from rl_clarity.models import load_agent
from rl_clarity.parsing import check_minimum, check_option, parse
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.reduction.directions import METHODS, Directions, fit_directions
from rl_clarity.reduction.embedding import embed, usable_perplexity
from rl_clarity.states import cards, clusters
from rl_clarity.states.correlation import consistency, correlation_intervals, lagged_correlation
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.influence import mean_jacobian, memory_jacobians
from rl_clarity.states.replay import replay

ARRAYS, FACTS = "states.npz", "states.json"
VERSION = 1
LONGEST = 256
"""Steps of a stretch that correlations over time are computed in; longer episodes are cut."""
PERPLEXITY = 30


@dataclass(frozen=True)
class StateOptions:
    """How the states of a recurrent agent are analysed."""

    method: str = "ica"
    """Directions: `pca`, `ica`, `nmf`, `nmf_positive` or `units`."""
    count: int = 16
    """Number of directions."""
    outliers: float | None = None
    """Leave out of their fit states that are farther from the nearest one than this multiple of the median distance."""
    clustering: tuple[str, ...] = ("kmeans",)
    """Methods of clustering: `kmeans`, `gaussian_mixture`, `ward`, `hdbscan`, `hmm`. Causes are shown by the first."""
    clusters: int = 8
    """Number of clusters, and of behaviours."""
    lags: tuple[int, ...] = (1, 2, 4, 8)
    """Steps between an earlier and a later coordinate, for correlation and influence."""
    maps: tuple[str, ...] = ("pca", "tsne")
    """Methods of maps: `pca`, `tsne`, `umap`."""
    map_dimensions: int = 2
    """Dimensions of maps: 2 or 3."""
    map_points: int = 10_000
    """Steps that a map shows at most."""
    influence_samples: int = 128
    """Steps that influence is averaged over; 0 for no influence."""
    replay_steps: int = 16
    """Steps that frames are replayed from a changed state; 0 for no replay."""
    replay_samples: int = 32
    """States that are changed."""
    replay_directions: bool = True
    """Also remove each direction."""
    part: int | None = None
    """Analyse one part of the state; by default all of them, side by side."""
    seed: int = 0
    """Of all random choices."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "count", "clusters", "map_points", "replay_samples")
        check_minimum(self, 0, "influence_samples", "replay_steps", "seed")
        fitted = [method for method in METHODS if method != "classifier"]
        check_option(self, "method", self.method in fitted, f"must be one of {', '.join(fitted)}")
        known = all(method in clusters.METHODS for method in self.clustering) and bool(self.clustering)
        check_option(self, "clustering", known, f"must be of {', '.join(clusters.METHODS)}")
        check_option(self, "map_dimensions", self.map_dimensions in (2, 3), "must be 2 or 3")
        check_option(self, "lags", bool(self.lags) and min(self.lags) >= 1, "must be numbers of steps from 1 on")


@dataclass(frozen=True, eq=False)
class StateAnalysis:
    """What `analyse_states` found: arrays by name, and facts as JSON.

    Arrays, of n steps, D directions, K clusters and L lags:

    - `coordinates` (n, D), `episode`, `time` (n,); `cluster.METHOD` (n,)
    - `card.NAME`: see `rl_clarity.states.cards.direction_cards`
    - `map.rows` (m,), `map.METHOD` (m, 2 or 3), `map.color.NAME` (m,)
    - `behaviour.rows`, `behaviour.labels` (k,), `behaviour.components`, `behaviour.actions`, `behaviour.clips`
    - `correlation` (L, D, D), `correlation.interval` (L, D, D, 2), `correlation.by` (K, L, D, D), and `influence`,
      `influence.by`; `consistency.share` (L,), `consistency.null` (L, 2), `consistency.by.share`, ...: [i, j] relates
      coordinate i at t to coordinate j at t + lag
    - `replay.NAME`: see `rl_clarity.states.replay.ReplayCurves`
    """

    directions: Directions
    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """`recording`, `steps`, `episodes`, `options`, `clusters`, `behaviours`, `skipped`: what was left out, and why."""

    def table(self, name: str = "directions") -> list[dict[str, Any]]:
        """Return rows of plain values: `directions`, `clusters`, `behaviours`, `causes` or `memory`.

        Raises OptionError for another name.
        """
        tables = {
            "directions": self._direction_rows,
            "clusters": lambda: list(self.facts["clusters"]),
            "behaviours": self._behaviour_rows,
            "causes": self._cause_rows,
            "memory": self._memory_rows,
        }
        if name not in tables:
            raise OptionError(f"table {name!r} must be one of {', '.join(tables)}")
        return [dict(to_plain(row, finite=True)) for row in tables[name]()]

    def _direction_rows(self) -> list[dict[str, Any]]:
        directions, numbers = self.directions, {}
        for name, array in self.arrays.items():
            if name.startswith("card.") and array.ndim == 1 and len(array) == len(directions):
                numbers[name.removeprefix("card.")] = array
        for key in ("explained", "seed_stability", "half_stability"):
            if getattr(directions, key) is not None:
                numbers[key] = getattr(directions, key)
        return [
            {"direction": i, "name": name, **{key: float(values[i]) for key, values in numbers.items()}}
            for i, name in enumerate(directions.names)
        ]

    def _behaviour_rows(self) -> list[dict[str, Any]]:
        if "behaviour.components" not in self.arrays:
            return []
        sizes = np.bincount(self.arrays["behaviour.labels"])
        return [
            {"behaviour": k, "steps": int(sizes[k]), "components": components, "actions": actions, "clips": clips}
            for k, (components, actions, clips) in enumerate(
                zip(*(self.arrays[f"behaviour.{key}"] for key in ("components", "actions", "clips")), strict=True)
            )
        ]

    def _cause_rows(self) -> list[dict[str, Any]]:
        if "consistency.share" not in self.arrays:
            return []
        keys = ("share", "null", "p", "count")
        rows = zip(*(self.arrays[f"consistency.{key}"] for key in keys), strict=True)
        return [{"lag": lag, **dict(zip(keys, row, strict=True))} for lag, row in zip(self._lags, rows, strict=True)]

    def _memory_rows(self) -> list[dict[str, Any]]:
        if "replay.changes" not in self.arrays:
            return []
        keys = ("policy", "policy_interval", "value", "value_interval", "same_action")
        curves = {key: self.arrays[f"replay.{key}"] for key in keys}
        return [
            {"change": str(change), "steps": k, **{key: values[c, k] for key, values in curves.items()}}
            for c, change in enumerate(self.arrays["replay.changes"])
            for k in range(curves["policy"].shape[1])
        ]

    @property
    def _lags(self) -> list[int]:
        return list(self.facts["options"]["lags"])

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `states.npz` and `states.json` into a folder, which `load_states` reads.

        Raises OutputError if they cannot be written.
        """
        place = Path(folder)
        directions = {f"directions.{name}": array for name, array in self.directions.arrays().items()}
        try:
            place.mkdir(parents=True, exist_ok=True)
            temporary = place / f".{ARRAYS}.partial.npz"
            np.savez_compressed(temporary, **cast(dict[str, Any], {**self.arrays, **directions}))
            temporary.replace(place / ARRAYS)
            text = json.dumps({"version": VERSION, **to_plain(self.facts, finite=True)}, indent=1, sort_keys=True)
            write_atomically(place / FACTS, (text + "\n").encode())
        except OSError as error:
            raise OutputError(f"cannot write {place}: {error.strerror or error}") from error


def load_states(folder: str | os.PathLike[str]) -> StateAnalysis:
    """Read what `StateAnalysis.save` wrote. Raises SamplesError if it is missing, damaged or of a newer version."""
    place = Path(folder)
    try:
        facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
        with np.load(place / ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError) as error:
        raise SamplesError(f"{place} holds no analysis of states, or it is damaged: {error}") from error
    if facts.pop("version", None) != VERSION:
        raise SamplesError(f"{place / FACTS} has another version; version {VERSION} is supported")
    prefix = "directions."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    rest = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
    return StateAnalysis(Directions.from_arrays(own), rest, facts)


def analyse_states(
    agent: Agent | str | os.PathLike[str], recording: Recording | str | os.PathLike[str], **options: Any
) -> StateAnalysis:
    """Analyse the recurrent states of an agent's recorded play.

    Fits directions and measures their stability; finds clusters and behaviours; draws maps; relates earlier
    coordinates to later ones by correlation and by influence through memory; and replays frames from changed states.
    Frames are read from disk where they are needed. The same arguments give the same results.

    Args:
        agent: A recurrent agent, its checkpoint, or an included one (`models:NAME`).
        recording: Of its play, with states: `rl_clarity.record`. Or its path or address.
        options: See `StateOptions`: `method`, `count`, `clustering`, `clusters`, `lags`, `maps`, `replay_steps`, ...

    Raises:
        OptionError: Invalid options, a recording without states, or states of another agent.
        DependencyError: A package for a method is not installed.
        SamplesError: The recording is damaged.
    """
    chosen = parse(StateOptions, options)
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    loaded = load_agent(agent) if isinstance(agent, str | os.PathLike) else agent
    require(loaded, "initial_state", "forward", for_="analyse_states")
    data = read_states(opened, part=chosen.part)
    _check_states(loaded, data, chosen.part)
    directions = fit_directions(
        data.states, chosen.method, chosen.count, chosen.seed, outliers=chosen.outliers  # type: ignore[arg-type]
    )  # fmt: skip
    coordinates = directions.to(data.states).astype(np.float32)
    points = clusters.principal_coordinates(data.states, chosen.seed)
    found = {
        method: clusters.find_clusters(
            points, method, chosen.clusters, chosen.seed, starts=data.starts  # type: ignore[arg-type]
        )
        for method in chosen.clustering
    }  # fmt: skip
    arrays: dict[str, np.ndarray] = {"coordinates": coordinates, "episode": data.episode, "time": data.time}
    arrays |= {f"cluster.{method}": one.labels for method, one in found.items()}
    # Gradients and replays need the state as a whole.
    is_whole = chosen.part is None or len(loaded.initial_state(1) or ()) == 1
    skipped: dict[str, str] = {}
    arrays |= _named(
        "card", cards.direction_cards(loaded if is_whole else None, data, directions, coordinates, chosen.seed)
    )
    rows, behaviours, behaviour_cards = cards.find_behaviours(data, coordinates, chosen.clusters, chosen.seed)
    arrays |= _named("behaviour", {"rows": rows, "labels": behaviours.labels, **behaviour_cards})
    arrays |= _maps(data, points, cards.map_colors(data, coordinates, found), chosen)
    labels = found[chosen.clustering[0]].labels
    arrays |= _causes(loaded if is_whole else None, data, directions, coordinates, labels, chosen, skipped)
    if is_whole and chosen.replay_steps and data.length.max() > 1:
        removed = directions if chosen.replay_directions else None
        curves = replay(
            loaded, data, removed, steps=chosen.replay_steps, samples=chosen.replay_samples, seed=chosen.seed
        )
        arrays |= _named("replay", curves.arrays())
    facts = {
        "recording": opened.location,
        "steps": len(data),
        "episodes": len(data.starts),
        "dropped": directions.dropped,
        "options": asdict(chosen),
        "clusters": [
            {"method": method, "count": one.count, "sizes": one.sizes.tolist(), "agreement": one.agreement}
            for method, one in found.items()
        ],
        "behaviours": {"count": len(behaviour_cards.get("clips", ())), "agreement": behaviours.agreement},
        "autocorrelation_lags": list(cards.AUTOCORRELATION_LAGS),
        "skipped": skipped,
    }
    return StateAnalysis(directions, arrays, to_plain(facts, finite=True))


def _check_states(agent: Agent, data: StateData, part: int | None) -> None:
    sizes = tuple(int(np.prod(np.shape(one)[1:])) for one in agent.initial_state(1) or ())
    expected = sizes if part is None else sizes[part : part + 1]
    if data.parts != expected:
        raise OptionError(
            f"the states of {data.recording.location} have parts of the sizes {data.parts}, those of the agent "
            f"{expected}: it is a recording of another agent"
        )


def _named(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _maps(
    data: StateData, points: np.ndarray, colors: Mapping[str, np.ndarray], options: StateOptions
) -> dict[str, np.ndarray]:
    rows = np.arange(len(data))
    if len(rows) > options.map_points:
        rows = np.sort(np.random.default_rng(options.seed).choice(rows, options.map_points, replace=False))
    arrays = {"map.rows": rows}
    for method in options.maps:
        perplexity = usable_perplexity(PERPLEXITY, min(len(rows), 5000))
        arrays[f"map.{method}"] = embed(
            points[rows], method, perplexity=perplexity, seed=options.seed, dimensions=options.map_dimensions  # type: ignore[arg-type]
        )[0]  # fmt: skip
    return arrays | {f"map.color.{name}": values[rows] for name, values in colors.items()}


def _causes(
    agent: Agent | None,
    data: StateData,
    directions: Directions,
    coordinates: np.ndarray,
    labels: np.ndarray,
    options: StateOptions,
    skipped: dict[str, str],
) -> dict[str, np.ndarray]:
    """Correlation and influence over time, of all steps and by cluster, and how far they agree."""
    lags = tuple(lag for lag in options.lags if lag < min(LONGEST, int(data.length.max())))
    if lags != options.lags:
        skipped["causes"] = f"the longest episode has {data.length.max()} steps: lags {lags} of {options.lags}"
        return {}
    sequences = data.sequences(coordinates, LONGEST)
    by_step = data.sequences(labels[:, None].astype(np.float64), LONGEST)[..., 0]
    arrays = {
        "correlation": lagged_correlation(sequences, lags),
        "correlation.interval": correlation_intervals(sequences, lags, seed=options.seed),
        "correlation.by": lagged_correlation(sequences, lags, by=np.nan_to_num(by_step, nan=-2).astype(np.int64)),
        "correlation.labels": np.unique(np.nan_to_num(by_step, nan=-2)).astype(np.int64),
    }
    members = arrays["correlation.labels"] >= -1  # -2 is after the end of an episode
    arrays["correlation.by"] = arrays["correlation.by"][members]
    arrays["correlation.labels"] = arrays["correlation.labels"][members]
    if agent is None or not has(agent, "state_gradients") or not options.influence_samples:
        skipped["influence"] = "the agent has no gradients through its recurrent cell, or influence_samples is 0"
        return arrays
    ends, gradients = memory_jacobians(
        agent, data, directions.readout, lags, samples=options.influence_samples, seed=options.seed
    )
    jacobians = np.swapaxes(directions.pull(gradients), -1, -2)
    for name, by in (("", None), (".by", labels)):
        values = mean_jacobian(jacobians, ends, lags, by)
        arrays[f"influence{name}"] = values
        agreement = consistency(values, arrays[f"correlation{name}"], seed=options.seed)
        for key in ("share", "null", "p", "count"):
            arrays[f"consistency{name}.{key}"] = getattr(agreement, key)
    return arrays

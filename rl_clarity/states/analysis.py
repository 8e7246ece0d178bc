"""`rl_clarity.analyze_states` analyzes the states of a recurrent agent, from a recording of its play."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError, OutputError, SamplesError
from rl_clarity.base.files import open_regular, write_atomically
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import parse
from rl_clarity.base.renamed import warn_renamed
from rl_clarity.formats.included import load_agent
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.reduction.directions import Directions
from rl_clarity.states.data import read_states
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import PARTS, Part, fit_states, removal_effects

ARRAYS, FACTS = "states.npz", "states.json"
VERSION = 1


@dataclass(frozen=True, eq=False)
class StateAnalysis:
    """The result of `analyze_states`: named arrays, and facts that can be written as JSON.

    The arrays, for n steps, D directions, K clusters and L lags:

    - `coordinates` (n, D), `episode` and `time` (n,) of each step; `cluster.METHOD` (n,), its cluster by each method
    - `card.NAME`: see `rl_clarity.states.cards.direction_cards`
    - `map.rows` (m,), the steps shown on maps; `map.METHOD` (m, 2), their positions; `map.color.NAME` (m,), the values
      that color them
    - `behaviour.rows` and `behaviour.labels` (k,), the behaviors of k steps; `behaviour.components`,
      `behaviour.actions` and `behaviour.clips`: see `rl_clarity.states.cards.find_behaviors`
    - `correlation` (L, D, D), `correlation.interval` (L, D, D, 2), and `influence` (L, D, D): entry [i, j] relates
      coordinate i at step t to coordinate j at step t + lag; `correlation.by` and `influence.by` (K, L, D, D): the same
      for each cluster
    - `consistency.NAME` and `consistency.by.NAME`: see `rl_clarity.states.correlation.Consistency`
    - `replay.NAME`: see `rl_clarity.states.replay.ReplayCurves`
    """

    directions: Directions
    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """`recording`, `steps`, `episodes`, `options`, `clusters`, `behaviours`, `lags` (the requested lags for which
    episodes are long enough), and `skipped` (names of skipped analyses, with the reasons)."""

    def table(self, name: str = "directions") -> list[dict[str, Any]]:
        """Return one of the tables `directions`, `clusters`, `behaviors`, `causes` and `memory`, as a list of rows.

        Raises OptionError for any other name.
        """
        tables = {
            "directions": self._direction_rows,
            "clusters": lambda: list(self.facts["clusters"]),
            "behaviors": self._behavior_rows,
            "causes": self._cause_rows,
            "memory": self._memory_rows,
        }
        if name == "behaviours":
            warn_renamed("table('behaviours')", "table('behaviors')")
            name = "behaviors"
        if name not in tables:
            raise OptionError(f"table {name!r} must be one of {', '.join(tables)}")
        return [dict(to_plain(row, finite=True)) for row in tables[name]()]

    def _direction_rows(self) -> list[dict[str, Any]]:
        directions, numbers = self.directions, {}
        for name, array in self.arrays.items():
            if name.startswith("card.") and array.ndim == 1 and len(array) == len(directions):
                numbers[name.removeprefix("card.")] = array
        for key in ("explained", "seed_stability", "half_stability", "rare"):
            if getattr(directions, key) is not None:
                numbers[key] = getattr(directions, key)
        effect = removal_effects(directions, self.arrays)
        if effect is not None:
            numbers["effect"] = effect[:, 0]
        return [
            {"direction": i, "name": name, **{key: values[i].item() for key, values in numbers.items()}}
            for i, name in enumerate(directions.names)
        ]

    def _behavior_rows(self) -> list[dict[str, Any]]:
        if "behaviour.components" not in self.arrays:
            return []
        sizes = np.bincount(self.arrays["behaviour.labels"])
        return [
            {"behavior": k, "steps": int(sizes[k]), "components": components, "actions": actions, "clips": clips}
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
        return list(self.facts.get("lags", self.facts["options"]["lags"]))

    def files(self) -> dict[str, bytes]:
        """Return the contents of `states.npz` and `states.json`, by file name. Equal analyses have equal contents."""
        directions = {f"directions.{name}": array for name, array in self.directions.arrays().items()}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **cast(dict[str, Any], {**self.arrays, **directions}))
        text = json.dumps({"version": VERSION, **to_plain(self.facts, finite=True)}, indent=1, sort_keys=True)
        return {ARRAYS: buffer.getvalue(), FACTS: (text + "\n").encode()}

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write `states.npz` and `states.json` into a folder, which `load_states` reads.

        Files of an earlier analysis are replaced. Other files with these names are replaced only with `overwrite`;
        otherwise OutputError is raised. OutputError is also raised if the files cannot be written.
        """
        place = Path(folder)
        if not overwrite:
            check_folder(place)
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, content in self.files().items():
                write_atomically(place / name, content)
        except OSError as error:
            raise OutputError(f"cannot write {place}: {error.strerror or error}") from error


def check_folder(place: str | os.PathLike[str]) -> None:
    """Raise OutputError if `save` would overwrite files that were not written by an analysis."""
    folder = Path(place)
    foreign = [name for name in (ARRAYS, FACTS) if os.path.lexists(folder / name) and not _is_own(folder / name)]
    if foreign:
        raise OutputError(
            f"{folder} contains {' and '.join(foreign)}, which another program wrote, or which cannot be read; choose "
            "another directory, or use overwrite=True (--force) to replace existing files"
        )


def _is_own(path: Path) -> bool:
    """Return whether `save` wrote a file, judged by the file's contents."""
    try:
        with open_regular(path, "rb") as file:
            if path.name == FACTS:
                facts = json.load(file)
                return isinstance(facts, dict) and {"version", "options", "clusters"} <= facts.keys()
            with np.load(file, allow_pickle=False) as arrays:
                return any(name.startswith("directions.") for name in arrays.files)
    except (OSError, ValueError, EOFError, BadZipFile, AttributeError):
        return False


def load_states(folder: str | os.PathLike[str]) -> StateAnalysis:
    """Read an analysis that `StateAnalysis.save` wrote, or the analysis of a memory page from the page's folder
    `states`.

    Raises SamplesError if the analysis is missing, is damaged, or has an unsupported version.
    """
    place = Path(folder)

    def read(name: str) -> bytes:
        with open_regular(place / name, "rb") as file:
            return bytes(file.read())

    return read_analysis(read, str(place))


def read_analysis(read: Callable[[str], bytes], place: str) -> StateAnalysis:
    """Read an analysis. `read` returns the contents of the file with the given name. Error messages mention `place`.

    Raises SamplesError if the analysis is missing, is damaged, or has an unsupported version.
    """
    try:
        facts = json.loads(read(FACTS))
        with np.load(io.BytesIO(read(ARRAYS)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if not isinstance(facts, dict):
            raise ValueError(f"{FACTS} must be a JSON object")
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise SamplesError(f"{place} contains no analysis of states, or the analysis is damaged: {error}") from error
    if facts.pop("version", None) != VERSION:
        raise SamplesError(f"{place}/{FACTS} has an unsupported version; only version {VERSION} is supported")
    prefix = "directions."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    rest = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
    return StateAnalysis(Directions.from_arrays(own), rest, facts)


def analyze_states(
    agent: Agent | str | os.PathLike[str], recording: Recording | str | os.PathLike[str], **options: Any
) -> StateAnalysis:
    """Analyze the recurrent states of an agent's recorded play.

    This fits directions and measures their stability, finds clusters and behaviors, computes maps, relates earlier
    coordinates to later ones by correlation and by influence through memory, and replays frames from changed states.
    Frames are read from disk when they are needed. The same arguments give the same results.

    Args:
        agent: A recurrent agent, the path of its checkpoint, or the name of an included agent (`models:NAME`).
        recording: A recording of the agent's play with its states (see `rl_clarity.record`), or its path or address.
        options: See `StateOptions`: `method`, `count`, `clustering`, `clusters`, `lags`, `maps`, `replay_steps`, ...

    Raises:
        OptionError: An option is invalid, or the recording has no states or those of a different agent.
        DependencyError: A package for a method is not installed.
        SamplesError: The recording is damaged.
    """
    chosen = parse(StateOptions, options)
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    loaded = load_agent(agent) if isinstance(agent, str | os.PathLike) else agent
    require(loaded, "initial_state", "forward", for_="analyze_states")
    fitted = fit_states(loaded, read_states(opened, part=chosen.part), chosen)
    parts = [compute(fitted) for compute in PARTS.values()]
    return StateAnalysis(
        fitted.directions,
        {
            name: array
            for arrays in (fitted.arrays(), *(part.arrays for part in parts))
            for name, array in arrays.items()
        },
        combined_facts(fitted.facts(), parts),
    )


def combined_facts(facts: Mapping[str, Any], parts: Iterable[Part]) -> dict[str, Any]:
    """Return the facts of an analysis: those of its fitted states, merged with those of each part of the analysis."""
    combined: dict[str, Any] = {**facts, "skipped": {}}
    for part in parts:
        combined |= part.facts
        combined["skipped"] |= part.skipped
    return dict(to_plain(combined, finite=True))

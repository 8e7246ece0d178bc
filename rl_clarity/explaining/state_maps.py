"""Map the states of a recording's episodes to two dimensions.

A map is fitted once, so that its points do not move. Further states are placed into the fitted map.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.sites import find_site
from rl_clarity.analyses.analysis import action_label
from rl_clarity.analyses.state_map import (
    MOST_POINTS,
    STATE,
    Source,
    StateMapSection,
    color_entries,
    find_source,
    map_arrays,
    map_colors,
    map_entry,
)
from rl_clarity.analyses.trajectories import recorded_discounts
from rl_clarity.base.errors import ClarityError, SamplesError
from rl_clarity.explaining.agents import Agents
from rl_clarity.explaining.options import ExplainOptions
from rl_clarity.jobs.tasks import MAX_FRAMES, TaskResult, Work, slices
from rl_clarity.pages.files import PageFiles, slugs
from rl_clarity.pages.schema import as_dicts
from rl_clarity.recordings.advantages import compute_advantages
from rl_clarity.recordings.agreement import episode_states, state_rows
from rl_clarity.recordings.conversion import recorded_episode
from rl_clarity.recordings.episode import Episode, memory_parts
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.embedding import FITTED_ON, Placement, embed, place_among, usable_perplexity

FITTED_EPISODES = 32
"""Largest number of episodes, evenly spaced, that a map is fitted on. It is limited because each episode may need the
agent of a different checkpoint."""


@dataclass(frozen=True)
class StateMaps:
    """State maps of one recording, one for each method. They show recurrent states, or activations of a layer."""

    recording: Recording
    options: ExplainOptions
    agents: Agents
    files: PageFiles

    def needs_agent(self, episode: Episode) -> bool:
        """Return whether the agent is needed to compute the points of an episode. It is not needed for recurrent states
        that were recorded.
        """
        return self.options.layer is not None or not memory_parts(self.recording.metadata, episode)

    def name(self, episode: Episode) -> str:
        """Return the name that file names contain for the map to which an episode belongs."""
        if self.options.layer is not None:
            return f"layer-{slugs([self.options.layer])[0]}"
        return "layer" if self.needs_agent(episode) else STATE

    def fit(self, episodes: Sequence[Episode], work: Work) -> TaskResult:
        """Fit the maps on steps of evenly spaced episodes. The facts of the result describe the fit."""
        options = self.options
        chosen = [episodes[i] for i in np.unique(np.linspace(0, len(episodes) - 1, FITTED_EPISODES).astype(int))]
        steps = np.array([(i, step) for i, one in enumerate(chosen) for step in self.steps(one)])  # (n, 2)
        count = min(len(steps), FITTED_ON)
        rows = np.random.default_rng(options.seed).choice(len(steps), count, replace=False)
        steps = steps[np.sort(rows)]
        source, vectors = self._fitted_vectors(chosen, steps)
        count = len(vectors)
        perplexity = usable_perplexity(options.perplexity, count)
        arrays: dict[str, np.ndarray | bytes] = {"vectors": vectors}
        for method in dict.fromkeys(options.embeddings):
            arrays[method], _ = embed(vectors, method, perplexity=perplexity, seed=options.seed)  # type: ignore[arg-type]
        file = f"maps/{self.name(chosen[0])}-fitted.js"
        self.files.write_chunk(file, arrays)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in arrays.values())).hexdigest()
        site = None if source.site is None else source.site.name
        facts = {"source": source.name, "label": source.label, "site": site, "perplexity": perplexity}
        return TaskResult({**facts, "fitted_on": count, "digest": digest, "file": file}, [file])

    def steps(self, episode: Episode) -> range:
        """Return the steps of an episode that are points of the map."""
        return range(0, len(episode), self.options.every)

    def place(self, episode: Episode, fitted: Mapping[str, Any], work: Work) -> TaskResult:
        """Place the steps of an episode on the fitted maps. The facts of the result contain the names of the values
        that can color its points.
        """
        agent = self.agents.players(self.recording, episode).at(0) if self.needs_agent(episode) else None
        site = None if agent is None or fitted["site"] is None else find_site(agent.sites, fitted["site"])
        frames = np.array(self.steps(episode))
        vectors = self._vectors(episode, Source(fitted["source"], fitted["label"], site), frames)
        known = self.files.read_chunk(fitted["file"])
        if vectors.shape[1] != known["vectors"].shape[1]:
            raise SamplesError(
                f"the {fitted['label']} of the episode has {vectors.shape[1]} values, but that of the state map has "
                f"{known['vectors'].shape[1]}; fit the map again with refit=True (--refit), or record different agents "
                "in different directories"
            )
        colors = {key: values[frames] for key, values in self._colors(episode).items()}
        arrays: dict[str, np.ndarray | bytes] = {"frame": frames.astype(np.int32)}
        for method in dict.fromkeys(self.options.embeddings):
            arrays[f"positions.{method}"] = _placement(method, known)(vectors)
        arrays |= {f"color.{key}": np.asarray(values, np.float32) for key, values in colors.items()}
        file = f"{episode.index:05}/points-{self.name(episode)}.js"
        self.files.write_chunk(file, arrays)
        return TaskResult({"colors": [*colors], "points": len(frames), "file": file}, [file])

    def write(self, name: str, fitted: Mapping[str, Any], placed: Mapping[int, Mapping[str, Any]]) -> TaskResult:
        """Write the chunks of the maps. `placed` contains the facts that `place` returned for each episode, by the
        episode's index. If there are more than `MOST_POINTS` points, only every n-th is written.

        The facts of the result are the data of the section `state_map`.
        """
        every = max(1, math.ceil(sum(one["points"] for one in placed.values()) / MOST_POINTS))
        keys = set.intersection(*(set(one["colors"]) for one in placed.values()))
        parts = []
        for index, one in sorted(placed.items()):
            arrays = {key: values[::every] for key, values in self.files.read_chunk(one["file"]).items()}
            parts.append({**arrays, "trajectory": np.full(len(arrays["frame"]), index)})
        joined = {
            key: np.concatenate([part[key] for part in parts]) for key in parts[0] if all(key in p for p in parts)
        }
        colors = {key: joined[f"color.{key}"] for key in keys}
        maps = []
        for method in dict.fromkeys(self.options.embeddings):
            file = f"maps/{name}-{method}.js"
            places = {"trajectory": joined["trajectory"], "frame": joined["frame"]}
            self.files.write_chunk(file, map_arrays(joined[f"positions.{method}"], colors, **places))
            source = Source(fitted["source"], fitted["label"])
            maps.append(map_entry(source, method, file, fitted["perplexity"], fitted["fitted_on"]))
        facts = as_dicts(StateMapSection(maps, color_entries(keys, self._names(colors))))
        return TaskResult(facts, [one.chunk for one in maps])

    def _fitted_vectors(self, episodes: Sequence[Episode], steps: np.ndarray) -> tuple[Source, np.ndarray]:
        """Return the source of the maps, and vectors (n, D) of steps (m, 2), which are pairs of a position in
        `episodes` and a step. Episodes that raise a ClarityError are left out, so n can be less than m.

        Raises the last of these errors if no episode is left.
        """
        source: Source | None = None
        vectors, problem = [], ClarityError("there are no steps")
        for i, episode in enumerate(episodes):
            try:
                source = source or self._find_source(episode)
                vectors.append(self._vectors(episode, source, steps[steps[:, 0] == i, 1]))
            except ClarityError as error:
                problem = error
        if source is None or not vectors:
            raise problem
        return source, np.concatenate(vectors)

    def _find_source(self, episode: Episode) -> Source:
        if not self.needs_agent(episode):
            return find_source(None, None, np.zeros(0), self._parts(episode, slice(0, 1)))
        agent = self.agents.players(self.recording, episode).at(0)
        rows = slice(0, 4)
        states = state_rows(episode_states(agent, episode), rows)
        # Without a layer, an agent with a state would be mapped by that; here the episode has not recorded it.
        return find_source(agent, self.options.layer, np.asarray(episode.observations[rows]), states)

    def _vectors(self, episode: Episode, source: Source, frames: np.ndarray) -> np.ndarray:
        """Return the vectors (n, D) of a source at some steps (n,) of an episode."""
        if source.site is None and not self.needs_agent(episode):
            return source.vectors(None, np.zeros(0), self._parts(episode, frames))
        players = self.agents.players(self.recording, episode)
        states = episode_states(players.at(0), episode, acting=players.at)
        parts = []
        for positions, agent in players.groups(frames):
            for part in slices(len(positions), MAX_FRAMES):
                rows = frames[positions[part]]
                parts.append(source.vectors(agent, np.asarray(episode.observations[rows]), state_rows(states, rows)))
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    def _colors(self, episode: Episode) -> dict[str, np.ndarray]:
        played = recorded_episode(self.recording, episode)
        gamma, lam = recorded_discounts(self.recording.metadata)
        advantages = compute_advantages(played, gamma, lam)
        colors = map_colors(played, None if advantages is None else advantages[0])
        colors["episode"] = np.full(len(episode), episode.number)
        step = episode.facts["training_step"]
        return colors if step is None else colors | {"training_step": np.full(len(episode), step)}

    def _names(self, colors: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
        if "action" not in colors:
            return {}
        combos = self.recording.metadata.get("action_combos")
        if combos:
            return {"action": [action_label([*map(str, combo)]) for combo in combos]}
        return {"action": [str(action) for action in range(int(colors["action"].max(initial=0)) + 1)]}

    def _parts(self, episode: Episode, frames: Any) -> tuple[np.ndarray, ...]:
        """Return the parts of the recorded recurrent states before some steps."""
        return tuple(np.asarray(part[frames]) for part in memory_parts(self.recording.metadata, episode))


def _placement(method: str, fitted: Mapping[str, np.ndarray]) -> Placement:
    if method == "pca":
        return embed(fitted["vectors"], "pca")[1]
    return place_among(fitted["vectors"], fitted[method])

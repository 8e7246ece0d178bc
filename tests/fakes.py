"""A small agent and a small environment in NumPy, for tests that do not need real ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Outputs, Score, Site, State, Written
from rl_clarity.agents.scores import select_scores
from rl_clarity.agents.sites import find_site, layer_shapes
from rl_clarity.environments.protocol import Combo, Step

KINDS = ("policy", "recurrent", "logits", "q")


@dataclass(frozen=True)
class TinyAgent:
    """patches @ kernel -> relu `1a` -> @ kernel -> relu `2a` -> @ dense (+ state @ recurrent) -> tanh -> heads.

    `kind` is "policy" (logits and values), "recurrent" (the same with a state), "logits" (without values) or "q"
    (action values). Its weights are sampled with `seed`. It computes in float64 and returns float32.
    """

    kind: str = "policy"
    observation_shape: tuple[int, int, int] = (64, 64, 3)
    num_actions: int = 15
    patch: int = 8
    seed: int = 0
    sharpness: float = 4.0
    """Scale of the logits; 0 is a uniformly random policy."""

    @property
    def sites(self) -> Sequence[Site]:
        height, width, _ = self.observation_shape
        shape = (height // self.patch, width // self.patch)
        operations = [
            Site(f"tiny/{name}/{kind.capitalize()}", kind, (*shape, channels))
            for name, channels in (("1a", 12), ("2a", 10))
            for kind in ("conv2d", "relu")
        ]
        states = [Site("state/0", "state", (6,))] if self.kind == "recurrent" else []
        heads = [Site(head, "head", (1 if head == "values" else self.num_actions,)) for head in self.heads]
        return [Site("input", "input", self.observation_shape), *states, *operations, *heads]

    @property
    def layers(self) -> Mapping[str, tuple[int, ...]]:
        return layer_shapes(self.sites)

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"env_name": "coinrun", "gamma": 0.999, "lambda": 0.95}

    @property
    def heads(self) -> tuple[str, ...]:
        return {"q": ("q_values",), "logits": ("policy_logits",)}.get(self.kind, ("policy_logits", "values"))

    def initial_state(self, n: int) -> State:
        return (np.zeros((n, 6), np.float32),) if self.kind == "recurrent" else None

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        if state is not None:
            state = (np.where(np.asarray(firsts)[:, None], 0, state[0]),)
        outputs = self.forward(observations, state)
        return outputs, outputs.state

    def forward(
        self,
        observations: np.ndarray,
        state: State = None,
        *,
        read: Sequence[str] = (),
        write: Mapping[str, Written] | None = None,
    ) -> Outputs:
        edits = {find_site(self.sites, name).name: edit for name, edit in (write or {}).items()}
        values: dict[str, np.ndarray] = {}

        def apply_edit(name: str, computed: np.ndarray) -> np.ndarray:
            edit = edits.get(name, computed)
            values[name] = np.asarray(edit(computed.astype(np.float32)) if callable(edit) else edit)
            return values[name]

        weights = self._weights()
        x = apply_edit("input", np.asarray(observations) / 255)
        if self.kind == "recurrent":
            state = (apply_edit("state/0", np.zeros((len(x), 6), np.float32) if state is None else state[0]),)
        for name, before in (("1a", self._patches), ("2a", np.asarray)):
            x = apply_edit(f"tiny/{name}/Conv2d", before(x) @ weights["first" if name == "1a" else "second"])
            x = apply_edit(f"tiny/{name}/Relu", np.maximum(x, 0))
        scores, hidden = self._scores(x, state)
        heads = [
            apply_edit(head, part)
            for head, part in zip(self.heads, np.split(scores, [self.num_actions], 1), strict=False)
        ]
        logits, *others = (head.astype(np.float32) for head in heads)
        sites = {name: values[find_site(self.sites, name).name].astype(np.float32) for name in read}
        after = (hidden.astype(np.float32),) if self.kind == "recurrent" else None
        if self.kind == "q":
            return Outputs(q_values=logits, sites=sites, state=after)
        return Outputs(policy_logits=logits, values=others[0][:, 0] if others else None, sites=sites, state=after)

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        return frames

    def activations(self, observations: np.ndarray, site: str, state: State = None) -> np.ndarray:
        return self.forward(observations, state, read=[site]).sites[site]

    def tails(
        self, observations: np.ndarray, site: str, scores: Sequence[Score], state: State = None
    ) -> Iterator[TinyTail]:
        def results() -> np.ndarray:
            return self._scores(self._second_layer(self._first_layer(observations)), state)[0]

        widths = {head: 1 if head == "values" else self.num_actions for head in self.heads}
        selection = select_scores(scores, widths, len(observations), results)
        rows = slice(0, len(observations))
        yield TinyTail(self, site, rows, self.activations(observations, site, state), selection, state)

    def gradients(
        self,
        observations: np.ndarray,
        site: str,
        scores: Sequence[Score],
        *,
        values: np.ndarray | None = None,
        state: State = None,
    ) -> np.ndarray:
        if site == "state/0":
            (tail,) = self.tails(observations, "2a", scores, state)
            to_hidden = self._to_hidden(tail.values, tail.selection, state)
            return np.asarray(to_hidden @ self._weights()["recurrent"].T, np.float32)
        (tail,) = self.tails(observations, site, scores, state)
        return tail.gradients(values)

    def _weights(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        (height, width, first), (_, _, second) = self.layers.values()
        patch = self.patch**2 * self.observation_shape[2]
        flat = height * width * second
        return {
            "first": rng.normal(size=(patch, first)) / np.sqrt(patch),
            "second": rng.normal(size=(first, second)) / np.sqrt(first),
            "dense": rng.normal(size=(flat, 6)) * 4 / np.sqrt(flat),
            "recurrent": rng.normal(size=(6, 6)) / np.sqrt(6),
            "policy": rng.normal(size=(6, self.num_actions)) * self.sharpness / np.sqrt(6),
            "value": rng.normal(size=(6, 1)),
        }

    def _first_layer(self, observations: np.ndarray) -> np.ndarray:
        return self._first_layer_from_pixels(np.asarray(observations) / 255)

    def _first_layer_from_pixels(self, pixels: np.ndarray) -> np.ndarray:
        return np.maximum(self._patches(pixels) @ self._weights()["first"], 0)

    def _second_layer(self, first_layer: np.ndarray) -> np.ndarray:
        return np.maximum(first_layer @ self._weights()["second"], 0)

    def _scores(self, second_layer: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
        weights = self._weights()
        before = second_layer.reshape(len(second_layer), -1) @ weights["dense"]
        if state is not None:
            before = before + state[0] @ weights["recurrent"]
        hidden = np.tanh(before)
        return hidden @ self._head(), hidden

    def _scores_from(self, site: str, values: np.ndarray, state: State) -> np.ndarray:
        if site == "input":
            values = self._first_layer_from_pixels(values)
        if site == "input" or self._is_first(site):
            values = self._second_layer(values)
        return self._scores(values, state)[0]

    def _gradients(self, site: str, values: np.ndarray, selection: np.ndarray, state: State) -> np.ndarray:
        """Gradient (S, B, ...) of the selected scores (B, S, n) at values of a layer or of the input."""
        weights = self._weights()
        first_layer = self._first_layer_from_pixels(values) if site == "input" else values
        at_first = site == "input" or self._is_first(site)
        second_layer = self._second_layer(first_layer) if at_first else values
        to_hidden = self._to_hidden(second_layer, selection, state)
        gradient = (to_hidden @ weights["dense"].T).reshape(len(to_hidden), *second_layer.shape)
        if at_first:
            gradient = (gradient * (second_layer > 0)) @ weights["second"].T
        if site == "input":
            gradient = self._unpatch((gradient * (first_layer > 0)) @ weights["first"].T)
        return gradient

    def _to_hidden(self, second_layer: np.ndarray, selection: np.ndarray, state: State) -> np.ndarray:
        """Gradient (S, B, 6) of the selected scores with respect to what tanh is applied to."""
        _, hidden = self._scores(second_layer, state)
        return np.asarray(np.einsum("bsn,kn->sbk", selection, self._head()) * (1 - hidden**2))

    def _head(self) -> np.ndarray:
        weights = self._weights()
        return weights["policy"] if self.kind in ("q", "logits") else np.hstack([weights["policy"], weights["value"]])

    def _patches(self, pixels: np.ndarray) -> np.ndarray:
        count, height, width, channels = pixels.shape
        h, w, p = height // self.patch, width // self.patch, self.patch
        return pixels.reshape(count, h, p, w, p, channels).transpose(0, 1, 3, 2, 4, 5).reshape(count, h, w, -1)

    def _unpatch(self, patches: np.ndarray) -> np.ndarray:
        scores, count, h, w, _ = patches.shape
        p, channels = self.patch, self.observation_shape[2]
        split = patches.reshape(scores, count, h, w, p, p, channels).transpose(0, 1, 2, 4, 3, 5, 6)
        return split.reshape(scores, count, h * p, w * p, channels)

    def _is_first(self, site: str) -> bool:
        return {"1a": True, "2a": False}[site.removeprefix("tiny/").removesuffix("/Relu")]


@dataclass(frozen=True)
class TinyTail:
    agent: TinyAgent
    site: str
    rows: slice
    values: np.ndarray
    selection: np.ndarray
    state: State

    def scores(self, values: np.ndarray | None = None, *, scale: float = 1.0) -> np.ndarray:
        point = scale * (self.values if values is None else values)
        return np.einsum("bsn,bn->sb", self.selection, self.agent._scores_from(self.site, point, self.state))

    def gradients(self, values: np.ndarray | None = None) -> np.ndarray:
        values = self.values if values is None else values
        return np.asarray(self.agent._gradients(self.site, values, self.selection, self.state), np.float32)

    def path_gradients(
        self, points: Sequence[float], weights: Sequence[float], baseline: np.ndarray | None = None
    ) -> np.ndarray:
        start = 0 if baseline is None else baseline
        gradients = [
            weight * self.agent._gradients(self.site, start + point * (self.values - start), self.selection, self.state)
            for point, weight in zip(points, weights, strict=True)
        ]
        return np.asarray(sum(gradients), np.float32)


class TinyEnvironment:
    """N environments whose observations encode their number and time: pixel 0 is 10 x number + 1, pixel 1 the step.

    Environment i ends after `lengths[i]` steps. Where `truncates[i]`, it is truncated there, with a final observation
    whose pixel 2 is 255. The reward is 1 for action 0.
    """

    observation_shape = (16, 16, 1)
    num_actions = 3
    action_combos: tuple[Combo, ...] = (("LEFT",), ("RIGHT",), ())

    def __init__(self, lengths: Sequence[int], truncates: Sequence[bool] | None = None) -> None:
        self.lengths = np.asarray(lengths)
        self.num_envs = len(lengths)
        self.truncates = np.zeros(self.num_envs, bool) if truncates is None else np.asarray(truncates)
        self.time = np.zeros(self.num_envs, int)
        self.actions: list[np.ndarray] = []
        self.renders = 0

    def reset(self) -> Step:
        self.time[:] = 0
        rewards = np.zeros(self.num_envs, np.float32)
        return Step(self._observe(), rewards, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        self.actions.append(np.array(actions))
        self.time += 1
        firsts = self.time >= self.lengths
        final = {}
        for i in np.flatnonzero(firsts & self.truncates):
            final[int(i)] = self._observe()[i]
            final[int(i)][0, 2] = 255
        self.time[firsts] = 0
        rewards = (np.asarray(actions) == 0).astype(np.float32)
        return Step(self._observe(), rewards, firsts, firsts & self.truncates, final)

    def render(self) -> np.ndarray:
        self.renders += 1
        return np.broadcast_to(self.time.astype(np.uint8)[:, None, None, None], (self.num_envs, 20, 24, 3)).copy()

    def close(self) -> None:
        pass

    def _observe(self) -> np.ndarray:
        observations = np.zeros((self.num_envs, *self.observation_shape), np.uint8)
        observations[:, 0, 0, 0] = 10 * np.arange(self.num_envs) + 1
        observations[:, 0, 1, 0] = self.time
        return observations

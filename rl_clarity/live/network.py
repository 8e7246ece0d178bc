"""Answer requests to the network behind a page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import before_step
from rl_clarity.agents.editing import Ablate, Edit, Scale, Steer
from rl_clarity.agents.protocol import Agent, Outputs, Score, State, Written
from rl_clarity.agents.sites import find_site
from rl_clarity.analyses.ablation import replaced_by
from rl_clarity.analyses.attribution.baselines import OBSERVED_BASELINES, layer_baseline
from rl_clarity.analyses.attribution.integrated_gradients import attribute
from rl_clarity.base.errors import OptionError
from rl_clarity.environments.painted_world import paint_over
from rl_clarity.live.objects import RemovableObjects
from rl_clarity.live.played import PlayedPage
from rl_clarity.live.requests import (
    MAX_FACTOR,
    AttributionRequest,
    Change,
    CheckRequest,
    FeatureChange,
    OutputsRequest,
    PaintedBox,
    Request,
    Superseded,
    WindowRequest,
)
from rl_clarity.live.windows import LiveWindows
from rl_clarity.pages.images import newest_frames
from rl_clarity.pages.results import Results

BATCH = 64
"""Number of steps in a batch. Before each batch, it is checked whether the answer is still wanted."""
TOLERANCE = 1e-3
"""Largest difference between recomputed and stored outputs, as a share of the stored output's range."""
Wanted = Callable[[], bool]


class LiveNetwork:
    """The agent behind a page, with the observations of the page's trajectories.

    Args:
        results: a page of one agent
        agent: the agent that the page was made from

    Raises SamplesError for a page that does not contain the agent's observations.
    """

    def __init__(self, results: Results, agent: Agent) -> None:
        self.results, self.agent = results, agent
        self.played, self.objects = PlayedPage(results, agent), RemovableObjects(results)

    def answer(self, request: Request, wanted: Wanted = lambda: True) -> dict[str, Any]:
        """Return the answer to a request, as JSON.

        `wanted` is called before each batch of steps. Raises Superseded if the answer is no longer wanted, and
        OptionError for trajectories, steps, layers, features, boxes and baselines that do not exist.
        """
        if isinstance(request, OutputsRequest):
            return self._outputs(request, wanted)
        if isinstance(request, AttributionRequest):
            return self._attribution(request)
        if isinstance(request, WindowRequest):
            return self._windows.explain(request)
        return self._check(request, wanted)

    @cached_property
    def _windows(self) -> LiveWindows:
        return LiveWindows(self.played)

    def observe(self, trajectory: int, first: int, last: int, change: Change) -> np.ndarray:
        """Return the changed observations (n, H, W, C) uint8 of the steps from `first` to `last`, inclusive."""
        observations = self.played.observations(trajectory, first, last)
        if change.pixels is not None:
            observations = _decoded(change.pixels, observations.shape)
        if change.objects:
            steps = zip(observations, range(first, last + 1), strict=True)
            observations = np.stack(
                [self.objects.remove(image, trajectory, step, change.objects) for image, step in steps]
            )
        boxes = [(one, self._fill(one)) for one in change.boxes]
        return np.stack([_painted(image, boxes) for image in observations]) if boxes else observations

    def _fill(self, painted: PaintedBox) -> np.ndarray | None:
        """Return the fill of a box: a color (C,), an observation (H, W, C), or None for the box's surroundings."""
        height, width, channels = self.agent.observation_shape
        left, top, right, bottom = painted.box
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise OptionError(f"box {painted.box} is not inside an observation of {width} x {height} pixels")
        if painted.fill == "surroundings":
            return None
        if painted.fill == "frame":
            return self.played.observations(painted.trajectory, painted.step, painted.step)[0]
        color = np.asarray(painted.color)
        if not (len(color) and channels % len(color) == 0 and ((color >= 0) & (color <= 255)).all()):
            raise OptionError(
                f"color {list(painted.color)} must have a number from 0 to 255 for each channel of a frame"
            )
        return np.tile(color, channels // len(color)).astype(np.uint8)

    def edits(self, changes: Sequence[FeatureChange]) -> list[Edit]:
        """Return the edits of activations that implement changes of features, in order. Features that are set to the
        baseline are removed by these edits.

        Raises OptionError for layers and features that the page does not have, and for factors beyond -100 to 100.
        """
        return [one.edit for one in self._changes(changes)]

    def _changes(self, changes: Sequence[FeatureChange]) -> list[_Change]:
        found = [one for change in changes for one in _edits(change, self.results.reduction(change.layer).components)]
        for one in found:
            one.edit.check(find_site(self.agent.sites, one.edit.layer))
        return [one for one in found if one.edit.changes]

    def _baseline(self, name: str | None) -> str:
        """Return the name of a baseline, by default the page's. Raises OptionError for a baseline that depends on other
        observations.
        """
        name = name or self.results.baseline
        if name in OBSERVED_BASELINES:
            raise OptionError(
                f"baseline={name!r} depends on observations that the page does not have; choose a different one, such "
                "as 'blur'"
            )
        return name

    def _outputs(self, request: OutputsRequest, wanted: Wanted) -> dict[str, Any]:
        trajectory, first, last = request.trajectory, request.first, request.last
        observations = self.played.observations(trajectory, first, last)
        changed = self.observe(trajectory, first, last, request.change)
        states = self.played.states(trajectory, first, last)
        changes = self._changes(request.change.features)
        before = self._forward(observations, states, (), wanted)
        if request.memory and states is not None:
            firsts = self.played.firsts(trajectory, first, last)
            after = self._in_turn(changed, tuple(part[:1] for part in states), firsts, changes, wanted)
        else:
            after = self._forward(changed, states, changes, wanted)
        answer = {"first": first, "before": _as_json(before), "after": _as_json(after)}
        if first == last:
            frame = newest_frames(changed, self.played.stack)[0]
            answer["objects"] = self.objects.listed(trajectory, first)
            answer["frame"] = {"shape": list(frame.shape), "data": base64.b64encode(frame.tobytes()).decode("ascii")}
        return answer

    def _forward(
        self, observations: np.ndarray, states: State, changes: Sequence[_Change], wanted: Wanted
    ) -> list[Outputs]:
        """Return the outputs of each batch of observations."""
        parts = []
        for start in range(0, len(observations), BATCH):
            _require(wanted)
            rows = slice(start, start + BATCH)
            state = None if states is None else tuple(part[rows] for part in states)
            write = self._writes(changes, observations[rows], state)
            parts.append(self.agent.forward(observations[rows], state, write=write))
        return parts

    def _in_turn(
        self,
        observations: np.ndarray,
        state: State,
        firsts: np.ndarray,
        changes: Sequence[_Change],
        wanted: Wanted,
    ) -> list[Outputs]:
        """Return the outputs of each step. Each step continues from the state after the changed step before it."""
        parts = []
        for step in range(len(observations)):
            _require(wanted)
            rows = slice(step, step + 1)
            if step:
                state = before_step(self.agent, state, firsts[rows])
            write = self._writes(changes, observations[rows], state)
            parts.append(self.agent.forward(observations[rows], state, write=write))
            state = parts[-1].state
        return parts

    def _writes(self, changes: Sequence[_Change], observations: np.ndarray, state: State) -> dict[str, Written]:
        """Return changes to activations as functions of the values of a site, keyed by the site's full name."""
        write: dict[str, Written] = {}
        for one in changes:
            name = find_site(self.agent.sites, one.edit.layer).name
            start = None
            if one.to_baseline:
                start = layer_baseline(self.agent, self._baseline(None), observations, one.edit.layer, state)
            write[name] = partial(_edited, one.edit, replaced_by(one.edit, start), write.get(name))
        return write

    def _attribution(self, request: AttributionRequest) -> dict[str, Any]:
        observations = self.observe(request.trajectory, request.step, request.step, request.change)
        result = attribute(
            self.agent,
            observations,
            request.layer,
            [self._score(request.output)],
            steps=request.points,
            state=self.played.states(request.trajectory, request.step, request.step),
            baseline=self._baseline(request.baseline),
            baseline_observations=None,
        )
        channels, residual = self.results.reduction(request.layer).signed_transform(result.values[0])
        return {
            "channels": _array(channels[0]),
            "residual": _array(residual[0]),
            "score": float(result.scores[0, 0]),
            "baseline": float(result.scores_at_baseline[0, 0]),
            "completeness_error": float(result.completeness_error[0, 0]),
        }

    def _score(self, output: str) -> Score:
        """Return the score of an output by its id. Raises OptionError if the agent does not have the output."""
        kind, _, number = output.partition("-")
        info = self.results.agent
        if output == "greedy" or (output == "value" and info["has_value"]):
            return output
        if kind in ("action", "group") and number.isdecimal():
            groups = info["action_groups"]
            if kind == "action" and int(number) < info["num_actions"]:
                return int(number)
            if kind == "group" and int(number) < len(groups):
                return [int(action) for action in groups[int(number)]["actions"]]
        raise OptionError(f"unknown output {output!r}; outputs are value, greedy, action-NUMBER and group-NUMBER")

    def _check(self, request: CheckRequest, wanted: Wanted) -> dict[str, Any]:
        """Return the largest difference between recomputed and stored outputs, as a share of the range of the stored
        output.
        """
        last = self.played.steps(request.trajectory) - 1
        observations = self.played.observations(request.trajectory, 0, last)
        states = self.played.states(request.trajectory, 0, last)
        recomputed = _as_json(self._forward(observations, states, (), wanted))
        stored = self.played.series(request.trajectory)
        shares = []
        for name in ("values", "logits"):
            if stored.get(name) is not None and recomputed[name] is not None:
                known = np.asarray(stored[name], np.float64)
                span = float(known.max() - known.min()) or 1.0
                shares.append(float(np.abs(np.asarray(recomputed[name]) - known).max()) / span)
        difference = max(shares, default=0.0)
        return {"difference": difference, "tolerance": TOLERANCE, "agrees": difference <= TOLERANCE}


def _require(wanted: Wanted) -> None:
    if not wanted():
        raise Superseded


def _painted(image: np.ndarray, boxes: Sequence[tuple[PaintedBox, np.ndarray | None]]) -> np.ndarray:
    """Return an observation (H, W, C) with boxes painted over, in order."""
    image = image.copy()
    height, width = image.shape[:2]
    for painted, fill in boxes:
        left, top, right, bottom = painted.box
        if fill is None:
            paint_over(image, (left / width, top / height, right / width, bottom / height))
        else:
            part = (slice(top, bottom), slice(left, right))
            image[part] = fill if fill.ndim == 1 else fill[part]
    return image


@dataclass(frozen=True)
class _Change:
    """An edit of activations. With `to_baseline`, a feature is not removed but set to its value at the baseline."""

    edit: Edit
    to_baseline: bool = False


def _edits(change: FeatureChange, components: np.ndarray) -> Iterator[_Change]:
    """Yield the edits, in order, that implement a change of the features of a layer with these `components` (K, c)."""
    if change.only:
        kept = components[[_index(number, len(components)) for number in change.only]]
        yield _Change(Ablate(change.layer, component=kept, everything_but=True))
    for number in change.baseline:
        component = components[_index(number, len(components))]
        yield _Change(Ablate(change.layer, component=component, positions=change.positions), to_baseline=True)
    if change.factors:
        numbers, factors = _values(change.factors, len(components))
        yield _Change(Scale(change.layer, components[numbers], factor=factors, positions=change.positions))
    for number, amount in zip(*_values(change.added, len(components)), strict=True):
        yield _Change(Steer(change.layer, components[number], amount=amount, positions=change.positions))


def _edited(edit: Edit, replacement: np.ndarray | None, before: Written | None, values: np.ndarray) -> np.ndarray:
    values = before(values) if callable(before) else values
    return np.asarray(edit.apply(np.asarray(values, np.float32), replacement))


def _index(number: int, count: int) -> int:
    if not 1 <= number <= count:
        raise OptionError(f"feature {number} is out of range: the layer has {count} features, counted from 1")
    return number - 1


def _values(numbers: Mapping[str, float], count: int) -> tuple[list[int], list[float]]:
    """Return the indices of features, and the value of each."""
    indices, values = [], []
    for name, value in numbers.items():
        if not name.isdecimal() or len(name) > 6:
            raise OptionError(f"feature {name[:20]!r} must be a number from 1 to {count}")
        if abs(value) > MAX_FACTOR:
            raise OptionError(f"factor {value} of feature {name} must be from -{MAX_FACTOR:g} to {MAX_FACTOR:g}")
        indices.append(_index(int(name), count))
        values.append(float(value))
    return indices, values


def _decoded(text: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OptionError(f"pixels are not base64: {error}") from error
    if len(data) != int(np.prod(shape)):
        raise OptionError(f"pixels have {len(data)} bytes, but an observation {shape[1:]} has {int(np.prod(shape))}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _array(values: np.ndarray) -> dict[str, Any]:
    """Return an array as JSON: its shape, and base64 of float32."""
    data = np.ascontiguousarray(values, "<f4").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(data).decode("ascii")}


def _as_json(parts: Sequence[Outputs]) -> dict[str, Any]:
    """Return the outputs of batches as JSON: `values` (n) or null, and `logits` (n, A), which are action values if the
    agent has no policy logits.
    """
    values = None if parts[0].values is None else np.concatenate([np.asarray(part.values) for part in parts])
    logits = np.concatenate(
        [np.asarray(part.q_values if part.policy_logits is None else part.policy_logits) for part in parts]
    )
    return {"values": None if values is None else values.tolist(), "logits": logits.tolist()}

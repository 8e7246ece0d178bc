"""Measure the quality of a simulator: errors by horizon, compared with simple predictions, and comparisons of
distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.base.statistics import bootstrap_interval, resampled_interval, share_interval
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.deletion import Deletion, deletion_test
from rl_clarity.world_models.losses import Batch
from rl_clarity.world_models.rollouts import MODES, follow
from rl_clarity.world_models.simulation import Simulation, simulate
from rl_clarity.world_models.simulator import Simulator, Start
from rl_clarity.world_models.windows import Windows

BASELINES = ("last_frame", "mean_frame")
"""Simple predictions. `last_frame`: the last frame before the simulation, the agent's state at that time, and a reward
of 0. `mean_frame`: the means over the windows."""
KINDS = ("frame", "state", "reward")
EXPECTED = (
    ("prior", "last_frame"),
    ("prior", "mean_frame"),
    ("closed_loop", "last_frame"),
    ("posterior", "prior"),
    ("prior", "closed_loop"),
)
"""Pairs of predictions. In each, the first prediction should have the smaller error."""
BAND = (10, 90)
"""Percentiles that are reported in addition to the mean."""
WINDOWS_AT_ONCE = 16
COMPASS_STEPS = 8
DELETION_AT = 8
FOLDS = 5
REACH = 6
"""Largest shift of the scene between two frames, in pixels."""
DIRECTIONS = {"LEFT": (-1, 0), "RIGHT": (1, 0), "UP": (0, 1), "DOWN": (0, -1)}
Displacement = Callable[[np.ndarray], np.ndarray]
"""A function from frames (B, T, H, W, C) in 0..1 to the agent's displacement (B, 2) to the right and up, in pixels."""

COVERING, CHOICES = 32, 100
"""Number of latents of the data in a random sample, which is compared with random latents, and number of samples."""


@dataclass(frozen=True)
class Compass:
    """The displacement of the agent when each action is repeated, from the same starts."""

    actions: tuple[str, ...]
    """Labels of the A actions."""
    displacements: np.ndarray  # (A, 2): means over starts, to the right and up, in pixels
    expected: np.ndarray  # (A, 2): direction of the action's buttons, to the right and up; 0 without a direction
    agreement: np.ndarray  # (A,): share of starts with the expected direction; NaN for actions without one
    agreement_interval: np.ndarray  # (A, 2): its 95 % interval

    def __str__(self) -> str:
        shown = [
            f"{name} {share:.0%}" for name, share in zip(self.actions, self.agreement, strict=True) if share == share
        ]
        return "compass: " + (", ".join(shown) or "no action has a direction")


@dataclass(frozen=True)
class Quality:
    """The errors of a simulator on windows of a recording, and how its distributions differ from the recording's."""

    errors: Mapping[str, Mapping[str, np.ndarray]]
    """Errors (3, T) by quantity (`frame`, `state`, `reward`) and prediction (`MODES` and `BASELINES`): the mean, the
    10th and the 90th percentile over windows of the mean squared error at horizons 1 to T, or NaN if no window is long
    enough. Frames are in 0..1; `state` is the agent's state after each step."""
    windows: int
    auc: float
    """Area under the ROC curve, on held-out windows, of a logistic regression that distinguishes the agent's simulated
    states from recorded ones. At 0.5 it cannot distinguish them. NaN for agents without a state."""
    auc_interval: tuple[float, float]
    """95 % bootstrap interval of `auc` over windows."""
    differences: Mapping[str, list[dict[str, Any]]]
    """For each quantity, a comparison of each pair of predictions in `EXPECTED`. `smaller` and `larger` are the names
    of the predictions, `difference` is the mean error of `larger` minus that of `smaller` over all horizons, and
    `interval` is its 95 % bootstrap interval over windows."""
    coverage: float
    """Share of random latents that are as close to one of 32 latents of the data as these 32 are to each other: the
    mean over random samples of 32 latents. The number is fixed because the distances between latents decrease with
    their number. NaN for fewer than 32 windows."""
    coverage_interval: tuple[float, float]
    """Interval that contains the shares for 95 % of these samples."""
    latent_dimensions: float
    """Participation ratio of the data's latents: the effective number of dimensions that they fill."""
    compass: Compass | None
    deletion: Deletion | None
    """Deletion test of saliency through time of the value, or None for an agent without a value."""

    def to_dict(self) -> dict[str, Any]:
        """Return the quality as JSON values."""
        return to_plain(self, finite=True)

    def __str__(self) -> str:
        lines = [f"{self.windows} windows; mean squared error of frames (10th to 90th percentile):"]
        for name, (mean, low, high) in self.errors["frame"].items():
            at = [h for h in (1, 2, 5, 10, 20, 32) if h <= len(mean) and np.isfinite(mean[h - 1])]
            numbers = ", ".join(f"{h}: {mean[h - 1]:.2g} ({low[h - 1]:.1g} to {high[h - 1]:.1g})" for h in at)
            lines.append(f"  {name:12} at horizon {numbers}")
        lines.append(
            f"AUC of real against simulated states {self.auc:.2f} ({self.auc_interval[0]:.2f} to "
            f"{self.auc_interval[1]:.2f}); coverage of latents {self.coverage:.0%} "
            f"({self.coverage_interval[0]:.0%} to {self.coverage_interval[1]:.0%}), "
            f"{self.latent_dimensions:.1f} dimensions"
        )
        return "\n".join([*lines, *(str(part) for part in (self.compass, self.deletion) if part is not None)])


def measure_quality(
    simulator: Simulator,
    recording: Recording,
    *,
    windows: int = 64,
    horizon: int = 32,
    context: int = 3,
    compass_steps: int = COMPASS_STEPS,
    deletion_at: int = DELETION_AT,
    displacement: Displacement | None = None,
    seed: int = 0,
) -> Quality:
    """Measure the quality of a simulator on a recording, which should not be the one that it was fitted to.

    Args:
        simulator: a simulator from `fit_simulator` or `load_simulator`
        recording: episodes of the same agent
        windows: largest number of windows, which are chosen at random
        horizon: number of simulated steps of each window
        context: number of frames from which a simulation starts
        compass_steps: number of steps of the action compass; 0 for no compass
        deletion_at: step whose value the deletion test explains; 0 for no test
        displacement: function that measures how far the agent moves in frames; by default `scene_displacement`
        seed: seed of windows and samples

    Raises SamplesError for a recording that does not fit the agent, and OptionError for numbers below 1.
    """
    if windows < 1 or horizon < 1 or context < 1:
        raise OptionError(f"windows={windows}, horizon={horizon} and context={context} must be at least 1")
    source = Windows(recording, simulator.agent, context, horizon)
    rng = np.random.default_rng([seed % 2**63, 6])
    numbers = np.sort(rng.choice(len(source), min(windows, len(source)), replace=False))
    batches = [source.read(numbers[i : i + WINDOWS_AT_ONCE]) for i in range(0, len(numbers), WINDOWS_AT_ONCE)]
    masks = np.concatenate([batch.mask for batch in batches])
    state_masks = np.concatenate([batch.state_mask for batch in batches])
    means = _means(batches)
    squares: dict[str, dict[str, list[np.ndarray]]] = {kind: {} for kind in KINDS}
    real, simulated, latents = [], [], []
    for batch in batches:
        rollouts = follow(simulator, batch, seed=seed)
        predictions = {mode: _predicted(rollouts[mode]) for mode in MODES} | _baselines(batch, means)
        truth = _truth(batch)
        for name, prediction in predictions.items():
            for kind in KINDS:
                difference = np.square(prediction[kind].astype(np.float64) - truth[kind])
                error = difference.reshape(*difference.shape[:2], -1).mean(axis=2) if difference.size else None
                squares[kind].setdefault(name, []).append(np.full(batch.mask.shape, np.nan) if error is None else error)
        real.append(truth["state"])
        simulated.append(predictions["closed_loop"]["state"])
        latents.append(np.asarray(rollouts["prior"].start.latent))
    errors = {
        kind: {
            name: _band(np.concatenate(parts), state_masks if kind == "state" else masks)
            for name, parts in by_name.items()
        }
        for kind, by_name in squares.items()
    }
    differences = {
        kind: [
            _difference(by_name, smaller, larger, state_masks if kind == "state" else masks, rng)
            for smaller, larger in EXPECTED
        ]
        for kind, by_name in squares.items()
    }
    auc, auc_interval = two_sample_auc(np.concatenate(real), np.concatenate(simulated), state_masks > 0, seed)
    points = np.concatenate(latents)
    covered = coverage(points, simulator.random_latents(1000, seed), seed)
    frames = batches[0].frames[:, :context]
    compass = deletion = None
    if compass_steps:
        compass = action_compass(simulator, frames, compass_steps, displacement=displacement, seed=seed)
    if deletion_at and "values" in simulator.agent.heads:
        starts = np.concatenate([batch.frames[:, :context] for batch in batches])
        deletion = deletion_test(simulator, starts, "value", deletion_at, seed=seed)
    return Quality(
        errors,
        len(numbers),
        auc,
        auc_interval,
        differences,
        float(covered.mean()),
        (float(np.quantile(covered, 0.025)), float(np.quantile(covered, 0.975))),
        participation_ratio(points),
        compass,
        deletion,
    )


def action_compass(
    simulator: Simulator,
    starts: Start | int | np.ndarray,
    steps: int = COMPASS_STEPS,
    *,
    displacement: Displacement | None = None,
    seed: int = 0,
) -> Compass:
    """Simulate from the same starts while each action is repeated, and compare the agent's displacement with the
    direction of the action's buttons.

    Displacements are relative to those of the action without buttons, if there is one. Buttons are those of the
    recording that the simulator was fitted to (`action_combos`).
    """
    combos = simulator.metadata.get("action_combos") or [()] * simulator.world.num_actions
    expected = np.array(
        [np.sum([DIRECTIONS.get(button, (0, 0)) for button in combo] or [(0, 0)], axis=0) for combo in combos]
    )
    begin = simulator.start(starts, seed=seed)
    measure = displacement or scene_displacement
    moved = np.stack(
        [measure(simulate(simulator, begin, steps, action, seed=seed).frames) for action in range(len(combos))]
    )  # (A, B, 2)
    idle = [i for i, combo in enumerate(combos) if not combo]
    if idle:
        moved = moved - moved[idle[0]]
    along = np.einsum("abk,ak->ab", moved, expected)
    directed = np.any(expected != 0, axis=1)
    agreement = np.where(directed, (along > 0).mean(axis=1), np.nan)
    intervals = np.array([share_interval(int((one > 0).sum()), len(one)) for one in along])
    intervals[~directed] = np.nan
    labels = tuple("+".join(combo) or "none" for combo in combos)
    return Compass(labels, moved.mean(axis=1), expected, agreement, intervals)


def scene_displacement(frames: np.ndarray) -> np.ndarray:
    """Return the displacement (B, 2), to the right and up in pixels, of an agent on which the view is centered, so that
    the scene moves in the opposite direction.

    The shift between successive frames (B, T, H, W, C) is the shift of at most `REACH` pixels with the least mean
    squared difference in the overlap, refined by a parabola through its neighbors (block matching). Unlike phase
    correlation, this also works on blurred frames.
    """
    images = frames.astype(np.float32)
    count, steps, height, width = images.shape[:4]
    reach = min(REACH, (min(height, width) - 1) // 2)
    side = 2 * reach + 1
    before, after = images[:, :-1], images[:, 1:]
    errors = np.empty((side, side, count, steps - 1))
    for down, right in np.ndindex(side, side):
        rows, columns = _overlaps(down - reach, height), _overlaps(right - reach, width)
        difference = after[:, :, rows[1], columns[1]] - before[:, :, rows[0], columns[0]]
        errors[down, right] = np.square(difference).mean(axis=(2, 3, 4))
    best = np.array(np.unravel_index(errors.reshape(side**2, -1).argmin(axis=0), (side, side)))  # (2, B (T - 1))
    shifts = best - reach + _refined(errors.reshape(side, side, -1), best)
    down, right = shifts.reshape(2, count, steps - 1).sum(axis=2)
    return np.stack([-right, down], axis=1)


def _overlaps(shift: int, size: int) -> tuple[slice, slice]:
    """Return the overlapping slices of an axis of length `size` before and after a shift."""
    return slice(max(0, -shift), size - max(0, shift)), slice(max(0, shift), size - max(0, -shift))


def _refined(errors: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return the offsets (2, n), from -0.5 to 0.5, of the minima of parabolas from the positions `best` (2, n).

    A parabola goes through the smallest of the errors (S, S, n), at `best`, and its neighbors. Offsets are 0 at the
    border.
    """
    last = len(errors) - 1
    inner = np.clip(best, 1, last - 1)
    each = np.arange(best.shape[1])
    offsets = np.zeros(best.shape)
    for axis, step in enumerate(np.eye(2, dtype=int)[..., None]):
        low, middle, high = (errors[(*(inner + k * step), each)] for k in (-1, 0, 1))
        curvature = low - 2 * middle + high
        np.divide(0.5 * (low - high), curvature, out=offsets[axis], where=curvature > 1e-12)
    return np.where(best == inner, np.clip(offsets, -0.5, 0.5), 0.0)


def two_sample_auc(
    first: np.ndarray, second: np.ndarray, mask: np.ndarray, seed: int = 0
) -> tuple[float, tuple[float, float]]:
    """Return the area under the ROC curve of a logistic regression that distinguishes two samples (N, T, S), and its
    95 % bootstrap interval over the N windows.

    Only steps where `mask` (N, T) is true are used. The regression is cross-validated, with all steps of a window in
    the same fold. The results are NaN if S is 0 or fewer than two windows have steps.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    groups = np.nonzero(mask)[0]
    folds = min(FOLDS, len(np.unique(groups)))
    if not first.shape[-1] or folds < 2:
        return float("nan"), (float("nan"), float("nan"))
    rows = np.concatenate([first[mask], second[mask]])
    labels = np.repeat([0, 1], len(groups))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    scores = cross_val_predict(
        model, rows, labels, groups=np.tile(groups, 2), cv=GroupKFold(folds), method="decision_function"
    )

    def area(weights: np.ndarray) -> np.ndarray:
        chosen = np.tile(weights[:, places], 2)  # (R, 2n)
        return np.array([roc_auc_score(labels, scores, sample_weight=one) for one in chosen])

    numbers, places = np.unique(groups, return_inverse=True)
    rng = np.random.default_rng([seed % 2**63, 8])
    return float(roc_auc_score(labels, scores)), resampled_interval(len(numbers), area, rng)


def _difference(
    errors: Mapping[str, Sequence[np.ndarray]], smaller: str, larger: str, mask: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the mean of the errors (N, T) of `larger` minus that of `smaller`, with its interval."""
    each = np.concatenate(errors[larger]) - np.concatenate(errors[smaller])
    known = (mask > 0) & np.isfinite(each)
    rows = known.any(axis=1)
    if not rows.any():
        return {"smaller": smaller, "larger": larger, "difference": np.nan, "interval": (np.nan, np.nan)}
    mean = bootstrap_interval(np.where(known, each, 0)[rows].sum(axis=1) / known[rows].sum(axis=1), rng)
    return {"smaller": smaller, "larger": larger, "difference": mean.mean, "interval": (mean.low, mean.high)}


def coverage(latents: np.ndarray, random: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the share (R,) of random points (M, n) that are covered by each of R random samples of 32 of the latents
    (N, n).

    A point is covered if its distance to the nearest chosen latent is at most the 95th percentile of the chosen
    latents' distances to their nearest neighbors. The result is NaN, with R = 1, for fewer than 32 latents.
    """
    if len(latents) < COVERING:
        return np.full(1, np.nan)
    rng = np.random.default_rng([seed % 2**63, 7])
    shares = []
    for _ in range(CHOICES):
        chosen = latents[rng.choice(len(latents), COVERING, replace=False)]
        between = chosen @ chosen.T
        np.fill_diagonal(between, -np.inf)
        nearest = np.percentile(between.max(axis=1), 5)  # cosines
        shares.append(((random @ chosen.T).max(axis=1) >= nearest).mean())
    return np.array(shares)


def participation_ratio(latents: np.ndarray) -> float:
    """Return (sum of eigenvalues)^2 / (sum of their squares) of the covariance of latents (N, n), from 1 to n."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(latents, rowvar=False))) if len(latents) > 1 else np.zeros(1)
    total = float(np.square(values).sum())
    return float(values.sum() ** 2 / total) if total else float("nan")


def _truth(batch: Batch) -> dict[str, np.ndarray]:
    frames = batch.frames[:, -batch.mask.shape[1] :].astype(np.float32) / 255
    return {"frame": frames, "state": batch.states[:, 1:], "reward": batch.rewards}


def _predicted(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return the predicted frames and rewards, and the agent's state (B, T, S) after each step, by name."""
    frames = simulation.frames
    after = [[np.reshape(part, (len(frames), -1)) for part in step.after] for step in simulation.steps]
    states = [np.concatenate(parts, axis=1) if parts else np.zeros((len(frames), 0), np.float32) for parts in after]
    return {"frame": frames, "state": np.stack(states, axis=1), "reward": simulation.rewards}


def _baselines(batch: Batch, means: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    truth = _truth(batch)
    last = batch.frames[:, -batch.mask.shape[1] - 1, None].astype(np.float32) / 255
    copied = {"frame": last, "state": batch.states[:, :1], "reward": np.zeros(1)}
    shapes = {kind: truth[kind].shape for kind in KINDS}
    return {
        name: {kind: np.broadcast_to(values[kind], shapes[kind]) for kind in KINDS}
        for name, values in zip(BASELINES, (copied, means), strict=True)
    }


def _means(batches: Sequence[Batch]) -> dict[str, np.ndarray]:
    """Return the mean frame, state and reward over all steps of all windows, up to the ends of episodes."""
    count = sum(batch.mask.sum() for batch in batches)
    totals: dict[str, Any] = dict.fromkeys(KINDS, 0.0)
    for batch in batches:
        for kind, values in _truth(batch).items():
            totals[kind] = totals[kind] + np.tensordot(batch.mask, values, axes=2)
    return {kind: np.asarray(total / count) for kind, total in totals.items()}


def _band(errors: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the mean and the percentiles `BAND` over windows, (3, T), of errors (N, T) where the mask is 1."""
    result = np.full((3, errors.shape[1]), np.nan)
    for t in range(errors.shape[1]):
        values = errors[mask[:, t] > 0, t]
        if len(values) and np.isfinite(values).all():
            result[:, t] = [values.mean(), *np.percentile(values, BAND)]
    return result

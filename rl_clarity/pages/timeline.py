"""The numbers along a trajectory as a table, with the columns of the page's own (`timelineCsv` in svelte_src/)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.pages.results import Results


def timeline_csv(results: Results, trajectory: int, steps: Sequence[int], layer: str, output: str) -> str:
    """A row for each of the steps (counted from 0): what happened, outputs, probabilities, the layer's totals.

    Trajectory and frame are counted from 1, as the page does; an action goes by its label; totals are sums over
    positions of the positive and of the negative part of each channel, in units of attribution. Numbers have as many
    significant figures as the page's.
    """
    columns = _columns(results, trajectory, layer, output)
    digits = int(results.manifest["numpy_precision"])
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["trajectory", "frame", *(name for name, _ in columns)])
    for step in steps:
        cells = (_cell(values[step], digits) for _, values in columns)
        writer.writerow([trajectory + 1, step + 1, *cells])
    return text.getvalue()


def _columns(results: Results, trajectory: int, layer: str, output: str) -> list[tuple[str, Any]]:
    """Names and numbers, (T,) each; two columns may have the same name, as two actions may."""
    manifest, series = results.manifest, results.series(trajectory)
    labels = [action["label"] for action in manifest["actions"]]
    columns: list[tuple[str, Any]] = [
        ("new episode", series["firsts"].astype(int)),
        ("action", [labels[action] if action < len(labels) else int(action) for action in series["actions"]]),
        ("reward", series["rewards"]),
        ("advantage", series["advantages"]),
    ]
    found = ((_name(shown), _numbers(series, shown)) for shown in manifest["outputs"])
    columns += [(name, numbers) for name, numbers in found if numbers is not None]
    if "probabilities" in series:
        columns += _named([f"probability of {label}" for label in labels], series["probabilities"])
    return columns + _totals(results, trajectory, layer, output)


def _name(output: Mapping[str, Any]) -> str:
    label = str(output["label"])
    return {"action": f"action {label}", "group": f"actions with {label}"}.get(output["kind"], label)


def _numbers(series: Mapping[str, np.ndarray], output: Mapping[str, Any]) -> np.ndarray | None:
    """An output along the trajectory; None where the page does not have it."""
    kind = output["kind"]
    values = series.get({"value": "values", "group": "groups"}.get(kind, "logits"))
    if values is None or kind == "value":
        return values
    if kind == "greedy":
        return np.asarray(values.max(axis=1))
    return np.asarray(values[:, output[kind]])


def _totals(results: Results, trajectory: int, layer: str, output: str) -> list[tuple[str, Any]]:
    found = results.totals(layer, trajectory).get(output)
    if found is None:
        return []
    channels = results.layer(layer)["channels"]
    columns: list[tuple[str, Any]] = []
    for index in range(found.totals.shape[1]):
        name = f"channel {index + 1}" if index < channels else "residual"
        columns += _named([f"{layer} {name} {part}" for part in ("positive", "negative")], found.totals[:, index])
    return columns


def _named(names: Sequence[str], values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Columns (T,) of an array (T, n)."""
    return [(name, values[:, index]) for index, name in enumerate(names)]


def _cell(value: Any, digits: int) -> Any:
    return f"{value:.{digits}g}" if isinstance(value, np.floating) else value

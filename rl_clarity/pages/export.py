"""Export images and numbers of a page: `.png`, `.apng` and `.gif` (animated for several frames), `.csv`, `.npz`."""

from __future__ import annotations

import csv
import io
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.base.files import write_output
from rl_clarity.pages.results import Page, Results, Steps, open_results
from rl_clarity.pages.section_types import OutputInfo
from rl_clarity.visualization.rendering import Direction, hatch, over_observations, render_attribution
from rl_clarity.visualization.totals import output_decomposition

Column = np.ndarray | list[str | int]
"""Values of a column of a table: numbers (T,), or T labels."""
SUFFIXES = (".png", ".apng", ".gif", ".csv", ".npz")
MOST_FPS = 100
"""Largest number of frames per second; GIF measures time in hundredths of a second."""
_SIDE = 256
_FRAMES_AT_ONCE = 32
_WORDS = ("prin", "all", "res")


@dataclass(frozen=True)
class Selection:
    """The validated selection of a page's data to export. Indices are counted from 0."""

    trajectory: int
    steps: Sequence[int]
    layer: str
    output: str
    directions: tuple[Direction, ...]
    channel: str | int
    fps: float


def export(
    page: Page | Results | str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    *,
    trajectory: int = 0,
    frames: Steps = None,
    layer: str | None = None,
    output: str | None = None,
    directions: Sequence[Direction] = ("pos", "neg"),
    channel: str | int = "prin",
    fps: float = 12,
    overwrite: bool = False,
) -> Path:
    """Write images or numbers of a page to a file, in the format of its suffix, and return its path.

    - `.png`, `.apng`, `.gif`: for each of n frames, the enlarged observation and, beside it, the attribution of each
      direction over the gray observation; several frames make an animation. Where the completeness error is above 5 %
      of the output's range (`Results.incomplete`), attribution is hatched and has no colors
    - `.csv`: a row for each frame, with the columns of the table that the page exports
    - `.npz`: `steps` (n,); `frames` (n, H, W, 1 | 3) uint8; the attribution `channels` (n, h, w, K) to K channels and
      `residual` (n, h, w, 1), not normalized; and the series of the trajectory, such as `rewards` (n,) and `logits`
      (n, number of actions)

    All indices are counted from 0, as in `open_results`. The page and `rl-clarity export` count from 1.

    Args:
        page: the page that `run` returned, the directory of a page or its `interface.html`, or a `Results`
        out_path: path of the file to write
        trajectory: index of the trajectory
        frames: steps of the trajectory, as a range or a list; all by default
        layer: name of the layer; the page's first layer by default
        output: id of the output, such as `"value"`, `"action-3"`, `"group-0"` or `"greedy"`; by default the first
        directions: any of `"pos"` (attribution that raised the output), `"neg"` (that lowered it) and `"abs"` (both)
        channel: channels to show in images: all channels (`"prin"`), all channels and the residual (`"all"`), only the
            residual (`"res"`), or the channel with an index
        fps: frames per second of an animation, at most 100
        overwrite: replace an existing file that has different content

    Raises OptionError for an unknown suffix, or for a selection that the page does not contain; ClarityError if the
    directory does not contain a page; and OutputError if the file cannot be written, or exists with different content
    without `overwrite`.
    """
    target = Path(out_path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(f"unknown suffix of {target.name!r}; supported: {', '.join(SUFFIXES)}")
    results = _results(page)
    selection = Selection(
        trajectory,
        _steps(frames, results.trajectory(trajectory)["steps"]),
        *_layer_and_output(results, layer, output),
        _directions(directions),
        channel,
        fps,
    )
    _check_channel(results, selection)
    if not 0 < fps <= MOST_FPS:
        raise OptionError(f"fps={fps!r} must be above 0 and at most {MOST_FPS}")
    data = {".csv": _csv, ".npz": _npz}.get(suffix, _animation)(results, selection, suffix)
    write_output(target, data, overwrite=overwrite)
    return target


def _results(page: Page | Results | str | os.PathLike[str]) -> Results:
    if isinstance(page, Page):
        return page.results()
    return page if isinstance(page, Results) else open_results(page)


def _steps(frames: Steps, count: int) -> Sequence[int]:
    """Return the requested steps. Raises OptionError if they are invalid or empty."""
    if frames is None:
        return range(count)
    try:
        steps = [operator.index(step) for step in frames]
    except TypeError:
        raise OptionError(f"frames={frames!r} must be a range or a list of steps") from None
    for step in steps:
        if not 0 <= step < count:
            raise OptionError(f"frames: step {step} is out of range: the trajectory has {count}, counted from 0")
    if not steps:
        raise OptionError(f"frames={frames!r} is empty")
    return steps


def _layer_and_output(results: Results, layer: str | None, output: str | None) -> tuple[str, str]:
    """Return the names of the layer and the output, which are the page's first by default."""
    entry = results.layer(layer)
    outputs = list(entry["attribution"])
    chosen = next((name for name in results.outputs if name in outputs), "") if output is None else output
    if chosen not in outputs:
        raise OptionError(f"unknown output {output!r}; the page has {', '.join(outputs)}")
    return entry["name"], chosen


def _directions(directions: Sequence[Direction]) -> tuple[Direction, ...]:
    known = get_args(Direction)
    if isinstance(directions, str) or any(direction not in known for direction in directions):
        raise OptionError(f"directions={directions!r} must be a list of some of {', '.join(map(repr, known))}")
    return tuple(directions)


def _check_channel(results: Results, selection: Selection) -> None:
    layer, channel = results.layer(selection.layer), selection.channel
    if isinstance(channel, str):
        if channel not in _WORDS:
            raise OptionError(f"channel={channel!r} must be {', '.join(map(repr, _WORDS))} or the index of a channel")
        if channel != "prin" and layer["kind"] == "input":
            raise OptionError(f"channel={channel!r}: layer {layer['name']} is not reduced and has no residual")
    elif not 0 <= channel < layer["channels"]:
        raise OptionError(
            f"channel={channel!r} is out of range: layer {layer['name']} has {layer['channels']}, counted from 0"
        )


def _images(results: Results, selection: Selection, steps: Sequence[int]) -> np.ndarray:
    """Return images (n, H, W, 3) uint8 of the observation and its attribution side by side, for n steps.

    Attribution whose completeness error is too large is hatched, and has no colors.
    """
    shown = _enlarged(results.frames(selection.trajectory, steps))
    panels = [np.broadcast_to(shown, (*shown.shape[:3], 3))]
    if selection.directions:
        attribution = results.attribution(selection.layer, selection.trajectory, selection.output, steps)
        incomplete = results.incomplete(selection.layer, selection.trajectory, selection.output)[list(steps)]
        weight = float(results.manifest["view"].get("attribution_weight", 0.9))
        for direction in selection.directions:
            rendered = render_attribution(
                attribution.channels,
                attribution.residual,
                direction=direction,
                channel=selection.channel,
                scale=attribution.scale,
                hues=attribution.hues,
                gray=incomplete,
            )
            panel = over_observations(rendered, shown, weight)
            panel[incomplete] = hatch(panel[incomplete])
            panels.append(panel)
    return np.concatenate(panels, axis=2)


def _enlarged(frames: np.ndarray) -> np.ndarray:
    """Return frames enlarged by repeating every pixel, if they are small."""
    times = max(1, _SIDE // max(frames.shape[1:3]))
    return frames.repeat(times, axis=1).repeat(times, axis=2)


def _animation(results: Results, selection: Selection, suffix: str) -> bytes:
    from PIL import Image

    steps = selection.steps
    parts = (steps[start : start + _FRAMES_AT_ONCE] for start in range(0, len(steps), _FRAMES_AT_ONCE))
    images = [Image.fromarray(image) for part in parts for image in _images(results, selection, part)]
    buffer = io.BytesIO()
    animated = {"save_all": True, "append_images": images[1:], "duration": 1000 / selection.fps, "loop": 0}
    images[0].save(buffer, "GIF" if suffix == ".gif" else "PNG", **(animated if len(images) > 1 else {}))
    return buffer.getvalue()


def _csv(results: Results, selection: Selection, suffix: str) -> bytes:
    text = timeline_csv(results, selection.trajectory, selection.steps, selection.layer, selection.output)
    return text.encode()


def _npz(results: Results, selection: Selection, suffix: str) -> bytes:
    steps = selection.steps
    series = results.series(selection.trajectory)
    attribution = results.attribution(selection.layer, selection.trajectory, selection.output, steps)
    arrays = {key: values[list(steps)] for key, values in series.items()}
    arrays |= {"steps": np.array(steps), "frames": results.frames(selection.trajectory, steps)}
    arrays["channels"] = attribution.channels
    if attribution.residual is not None:
        arrays["residual"] = attribution.residual
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **cast(dict[str, Any], arrays))
    return buffer.getvalue()


def timeline_csv(results: Results, trajectory: int, steps: Sequence[int], layer: str, output: str) -> str:
    """Return a CSV table with a row for each step, and with the columns of the table that the page exports
    (`timelineCsv` in svelte_src).

    Trajectory and frame are counted from 1, as on the page. Actions are given by their labels. For each feature, there
    are sums over positions of its positive and of its negative attribution, not normalized. `Results.decomposition`
    explains the other terms.
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


def _columns(results: Results, trajectory: int, layer: str, output: str) -> list[tuple[str, Column]]:
    """Return names and values (T,) of the columns. Several columns can have the same name, because several actions can
    have the same label.
    """
    series = results.series(trajectory)
    labels = [action["label"] for action in results.manifest["agents"][0]["actions"]]
    columns: list[tuple[str, Column]] = [
        ("new episode", series["firsts"].astype(int)),
        ("action", [labels[action] if action < len(labels) else int(action) for action in series["actions"]]),
        ("reward", series["rewards"]),
    ]
    if "advantages" in series:
        columns.append(("advantage", series["advantages"]))
    outputs = ((_name(shown), _numbers(series, shown)) for shown in results.section("attribution")["outputs"])
    columns += [(name, numbers) for name, numbers in outputs if numbers is not None]
    if "probabilities" in series:
        columns += _named([f"probability of {label}" for label in labels], series["probabilities"])
    return columns + _totals(results, trajectory, layer, output)


def _name(output: OutputInfo) -> str:
    label = str(output["label"])
    return {"action": f"action {label}", "group": f"actions with {label}"}.get(output["kind"], label)


def _numbers(series: Mapping[str, np.ndarray], output: OutputInfo) -> np.ndarray | None:
    """Return an output (T,) along the trajectory, or None if the page does not contain it."""
    kind = output["kind"]
    values = series.get({"value": "values", "group": "groups"}.get(kind, "logits"))
    if values is None or kind == "value":
        return values
    if kind == "greedy":
        return np.asarray(values.max(axis=1))
    return np.asarray(values[:, output[kind]])


def _totals(results: Results, trajectory: int, layer: str, output: str) -> list[tuple[str, Column]]:
    totals = results.totals(layer, trajectory).get(output)
    if totals is None:
        return []
    entry = results.layer(layer)
    channels, label = entry["channels"], entry.get("label", layer)
    word = "channel" if entry["kind"] == "input" else "feature"
    columns: list[tuple[str, Column]] = []
    if totals.completeness is not None:
        terms = output_decomposition(totals.totals, totals.completeness, totals.memory)
        named = {"baseline": "baseline", "memory": "memory", "completeness error": "completeness_error"}
        columns += [(f"{label} {name}", terms[term]) for name, term in named.items()]
    given = {number - 1: f"{name} ({number})" for number, name in results.feature_names(layer).items()}
    for index in range(totals.totals.shape[1]):
        name = given.get(index, f"{word} {index + 1}") if index < channels else "residual"
        columns += _named([f"{label} {name} {part}" for part in ("positive", "negative")], totals.totals[:, index])
    return columns


def _named(names: Sequence[str], values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return the columns (T,) of an array (T, n) with their names."""
    return [(name, values[:, index]) for index, name in enumerate(names)]


def _cell(value: object, digits: int) -> object:
    return f"{value:.{digits}g}" if isinstance(value, np.floating) else value

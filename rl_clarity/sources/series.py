"""Read a series of checkpoints from one training run: the files, their order, and the training step of each."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError, ClarityError, OptionError
from rl_clarity.base.files import local_path
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import path_text
from rl_clarity.environments import spec_from_metadata
from rl_clarity.formats import Checkpoint
from rl_clarity.formats import included as models
from rl_clarity.sources.curves import Curve, read_curve

SUFFIXES = (".jd", ".safetensors", ".zip", ".pt", ".pth", ".tar", ".keras", ".cleanrl_model")
"""Suffixes of checkpoint files in a folder."""
WILDCARDS = {"*", "?", "["}
LOGS = ("progress.csv", "monitor.csv", "*.monitor.csv", "log*.csv", "log*.txt")
"""Logs that are looked for beside the checkpoints, in this order."""
STEPS = (re.compile(r"(\d+)_steps"), re.compile(r"model_(\d+)\.pth$"))
"""Patterns of file names that contain the training step, as used by Stable-Baselines3 and train-procgen-pytorch."""


@dataclass(frozen=True)
class SeriesCheckpoint:
    """A checkpoint of a series."""

    name: str
    checkpoint: Checkpoint
    step: float | None
    """Training step, or None if neither the metadata nor the file name contains it."""


def read_series(
    checkpoints: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    metadata: Mapping[str, object],
    steps_per_number: float | None,
    files: ExitStack,
) -> list[SeriesCheckpoint]:
    """Read checkpoints in the order of training. Downloaded checkpoints exist until `files` is closed.

    Args:
        checkpoints: a file, folder, pattern, address or name (`models:breakout-series`), or a sequence of these
        metadata: overrides the metadata of all checkpoints
        steps_per_number: factor by which the last number in a file name is multiplied to get the training step

    Checkpoints are ordered by their steps if all steps are known. Otherwise they are in the order of the arguments, and
    the files of a folder or pattern are ordered by the numbers in their names. In a folder or pattern, a copy of
    another checkpoint is ignored.

    Raises CheckpointError if there are fewer than two checkpoints, a file cannot be read, or a pattern matches none.
    Raises OptionError for a checkpoint that is given twice, and for checkpoints of different environments.
    """
    several = [checkpoints] if isinstance(checkpoints, str | os.PathLike) else checkpoints
    texts = [path_text(one, "checkpoints") for one in several]
    found: dict[str, SeriesCheckpoint] = {}
    for text in texts:
        paths = _expand(text)
        for path in paths if paths is not None else [files.enter_context(models.fetched(text))]:
            one = _read(path, metadata, steps_per_number)
            key = _content(one.checkpoint)
            if key not in found:
                found[key] = one
            elif paths is None:
                other = found[key].checkpoint.path
                raise OptionError(f"checkpoints: {path} has the same content as {other}; leave one of them out")
    series = list(found.values())
    if len(series) < 2:
        given = f"{', '.join(texts)} is one" if texts else "there is no"
        raise CheckpointError(f"{given} checkpoint, but compare needs at least two (run explains a single one)")
    _check_environments(series)
    if all(one.step is not None for one in series):
        series.sort(key=lambda one: one.step or 0.0)
    return _with_names(series)


def contains_checkpoints(text: str) -> bool:
    """Return whether a text names a checkpoint file, a folder or a pattern of checkpoints, or an included series."""
    try:
        paths = _expand(text)
    except (ClarityError, OSError):
        return False
    return bool(paths) or (paths is None and local_path(text) is not None and models.resolve(text).is_file())


def find_curve(
    series: Sequence[SeriesCheckpoint], log: str | os.PathLike[str] | None, columns: tuple[str, str] | None
) -> tuple[Curve, str] | None:
    """Return the learning curve of a log and the log's name. By default, known logs beside the checkpoints are tried;
    return None if there are none.

    Raises ClarityError if the given `log` cannot be read, and OptionError for unknown columns, or for columns without a
    log.
    """
    if log is not None:
        return read_curve(log, columns), Path(log).name
    folders = dict.fromkeys(one.checkpoint.path.parent for one in series)
    for path in (path for folder in folders for pattern in LOGS for path in sorted(folder.glob(pattern))):
        try:
            return read_curve(path, columns), path.name
        except ClarityError:
            continue
    if columns is not None:
        raise OptionError(f"log_columns={columns!r} needs a log, but there is none beside the checkpoints; set log")
    return None


def _expand(text: str) -> list[Path] | None:
    """Return the files of a folder or pattern, ordered by the numbers in their names, or None for a single
    checkpoint.
    """
    if local_path(text) is None:
        return None
    path = models.resolve(text)
    if path.is_dir():
        files = list(path.iterdir())
        paths = [file for file in files if file.suffix in SUFFIXES] or list(filter(formats.has_added_format, files))
        problem = f"the folder {path} contains no checkpoints ({', '.join(SUFFIXES)})"
    elif WILDCARDS & {*text} and not path.exists():
        paths = list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        problem = f"no checkpoint matches {text}"
    else:
        return None
    if not paths:
        raise CheckpointError(problem)
    return sorted(paths, key=lambda one: _natural(one.name))


def _natural(name: str) -> tuple[bool, list[int | str]]:
    """Return a sort key that orders names by the numbers in them. Names without a number come last, because they belong
    to copies of the newest checkpoint.
    """
    parts = re.split(r"(\d+)", name)
    return len(parts) == 1, [int(part) if part.isdigit() else part for part in parts]


def _read(path: Path, metadata: Mapping[str, object], steps_per_number: float | None) -> SeriesCheckpoint:
    checkpoint = formats.read(path, **metadata)
    numbers = re.findall(r"\d+", path.stem)
    step = checkpoint.metadata.get("training_step")
    if steps_per_number is not None and numbers:
        step = steps_per_number * int(numbers[-1])
    elif step is None:
        step = next((int(match[1]) for pattern in STEPS if (match := pattern.search(path.name))), None)
    return SeriesCheckpoint(path.stem, checkpoint, None if step is None else float(step))


def _content(checkpoint: Checkpoint) -> str:
    """Return a hash of a checkpoint's network and parameters. Copies have the same hash, even if their files differ in
    the time at which they were written.
    """
    digest = hashlib.sha256(checkpoint.network.encode())
    for name, array in sorted(checkpoint.parameters.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _check_environments(series: Sequence[SeriesCheckpoint]) -> None:
    first = series[0].checkpoint
    expected = _environment(first)
    for one in series[1:]:
        played = _environment(one.checkpoint)
        for name in sorted({*expected, *played}):
            value, other = expected.get(name), played.get(name)
            if to_plain(value) != to_plain(other):
                raise OptionError(
                    f"{one.checkpoint.path.name} plays with {name}={other!r}, but {first.path.name} with {value!r}; "
                    "compare checkpoints of one environment, or choose one environment for all with metadata"
                )


def _environment(checkpoint: Checkpoint) -> dict[str, object]:
    """Return the properties of the environment that must be the same for all checkpoints of a series."""
    spec = spec_from_metadata(checkpoint.metadata)
    return {"env_kind": spec.kind, "env_name": spec.name.lower(), **spec.options}


def _with_names(series: Sequence[SeriesCheckpoint]) -> list[SeriesCheckpoint]:
    """Return the checkpoints. Files with the same name in different folders are named FOLDER/NAME."""
    names = [one.name for one in series]
    return [
        replace(one, name=f"{one.checkpoint.path.parent.name}/{one.name}") if names.count(one.name) > 1 else one
        for one in series
    ]

"""Store samples on disk, in a folder of `.npy` files with an index, `samples.json`, that lists them.

The index is replaced atomically once all arrays of new samples are on disk, so a reader always finds a complete set of
samples, old or new, even if a writer was killed. Arrays are memory-mapped. Loading never runs code: `.npy` files of
objects, which contain pickles, are rejected.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Literal, TextIO

import numpy as np
import platformdirs

from rl_clarity.base.errors import SamplesError
from rl_clarity.base.files import lock_file, sync_folder, write_atomically
from rl_clarity.base.keys import to_plain
from rl_clarity.base.resources import SAMPLES_FOLDER
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.recordings.array_stores import FileStore, open_array
from rl_clarity.recordings.options import LoadOptions
from rl_clarity.recordings.samples import Observations, SamplesT, Trajectories, from_arrays, to_arrays
from rl_clarity.recordings.world_states import WorldStates

INDEX = "samples.json"
FORMAT = "rl_clarity samples"
VERSION = 1
STATES = {"world_data": "data", "world_ends": "ends"}
"""Fields of `WorldStates`, by the names of their arrays in the index."""
RESAMPLE = "collect new samples with resample=True, or use a different path"

_NAME = re.compile(r"[a-z_]+(\.\d+)?")


@dataclass(frozen=True)
class SamplePaths:
    """Paths at which the samples of a checkpoint are saved."""

    model: Path
    """Path of a copy of the checkpoint that collected the samples. With `resample=False`, this copy is loaded."""
    metadata: Path
    """Path of the metadata, a JSON file."""
    trajectories: Path
    """Path of the folder of trajectories."""
    observations: Path
    """Path of the folder of extra observations."""
    temporary: Path | None = None
    """A temporary folder to remove at the end, or None."""


def sample_paths(checkpoint_path: str | os.PathLike[str], load: LoadOptions) -> SamplePaths:
    """Choose the paths of a checkpoint's samples, by default in `rl-clarity/` beside the checkpoint.

    If that folder is not writable, or the checkpoint is remote, the default is the user's cache folder. With
    `temp_files` it is a new temporary folder.
    """
    checkpoint_path = os.fspath(checkpoint_path)
    name = PurePosixPath(checkpoint_path)
    folder = Path(tempfile.mkdtemp(prefix="rl-clarity-")) if load.temp_files else _default_folder(checkpoint_path)
    default = str(folder / (name.stem or name.name))
    return SamplePaths(
        model=Path(load.model_path or f"{default}.model{name.suffix}"),
        metadata=Path(load.metadata_path or f"{default}.metadata.json"),
        trajectories=Path(load.trajectories_path or f"{default}.trajectories"),
        observations=Path(load.observations_path or f"{default}.observations"),
        temporary=folder if load.temp_files else None,
    )


def _default_folder(checkpoint_path: str) -> Path:
    if "://" not in checkpoint_path:
        parent = Path(checkpoint_path).absolute().parent
        if os.access(parent / SAMPLES_FOLDER if (parent / SAMPLES_FOLDER).exists() else parent, os.W_OK | os.X_OK):
            return parent / SAMPLES_FOLDER
        checkpoint_path = str(Path(checkpoint_path).absolute())
    # Checkpoints with the same name in different folders must not share samples.
    key = hashlib.sha256(checkpoint_path.encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("rl-clarity") / "samples" / key


class SamplesWriter:
    """Writes samples to a folder, array by array, into `store`. `commit` then replaces the folder's samples with them.

    Use it as a context manager: arrays that were not committed are removed on exit. Only one process at a time can
    write to a folder. In other processes, SamplesError is raised.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.store = FileStore(self.folder)
        self._lock: Any = None

    def __enter__(self) -> SamplesWriter:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder)
            self._remove_uncommitted()
            self.store = FileStore(Path(tempfile.mkdtemp(prefix="arrays-", dir=self.folder)))
        except OSError as error:
            raise SamplesError(f"cannot write samples to {self.folder} ({error}); {RESAMPLE}") from error
        return self

    def commit(self, samples: Trajectories | Observations, facts: Mapping[str, Any] | None = None) -> None:
        """Replace the folder's samples with those in `store`, and save `facts` (JSON) with them."""
        folder = self.store.folder
        states = getattr(samples, "world_states", None)
        saved = {} if states is None else {name: getattr(states, field) for name, field in STATES.items()}
        for name, array in saved.items():
            writer = self.store.create(name, array.shape, array.dtype, 0)
            writer.write(array)
            writer.finish()
        arrays = {
            name: {
                "file": f"{folder.name}/{name}.npy",
                "shape": list(array.shape),
                "dtype": array.dtype.str,
                "bytes": (folder / f"{name}.npy").stat().st_size,
            }
            for name, array in {**to_arrays(samples), **saved}.items()
        }
        sync_folder(folder)
        index = {"format": FORMAT, "version": VERSION, "kind": _kind_name(type(samples)), "arrays": arrays}
        _write_json(self.folder / INDEX, {**index, "facts": dict(facts or {})})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(SamplesError):
            self._remove_uncommitted()
        self._lock.close()
        if isinstance(error, OSError):
            raise SamplesError(f"cannot write samples to {self.folder} ({error}); {RESAMPLE}") from error

    def _remove_uncommitted(self) -> None:
        committed = set()
        with suppress(SamplesError):
            committed = {entry["file"].split("/")[0] for entry in _read_index(self.folder)["arrays"].values()}
        for folder in self.folder.glob("arrays-*"):
            if folder.name not in committed:
                shutil.rmtree(folder, ignore_errors=True)


def load_trajectories(folder: str | os.PathLike[str], world: EnvironmentSpec | None = None) -> Trajectories:
    """Memory-map the trajectories in a folder. Raises SamplesError if they are missing or damaged.

    Saved states of the environment are loaded only if `world`, the environment's specification, is given. A
    specification from the folder is not used, because untrusted environments could run code.
    """
    trajectories = _load(Path(folder), Trajectories)
    arrays = _arrays(Path(folder), _read_index(Path(folder)), STATES)
    if world is None or not arrays:
        return trajectories
    states = {STATES[name]: array for name, array in arrays.items()}
    return replace(trajectories, world_states=WorldStates(world, len(trajectories), **states))


def has_world_states(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder contains samples with saved states of the environment."""
    try:
        return set(STATES) <= set(_read_index(Path(folder))["arrays"])
    except SamplesError:
        return False


def load_observations(folder: str | os.PathLike[str]) -> Observations:
    """Memory-map the observations in a folder. Raises SamplesError if they are missing or damaged."""
    return _load(Path(folder), Observations)


def load_facts(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the facts that were saved with a folder's samples. Raises SamplesError if there are no samples."""
    facts: dict[str, Any] = _read_index(Path(folder))["facts"]
    return facts


def save_metadata(path: str | os.PathLike[str], metadata: Mapping[str, Any]) -> None:
    """Write metadata (JSON) atomically. Raises SamplesError if they cannot be written."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        _write_json(Path(path), metadata)
    except OSError as error:
        raise SamplesError(f"cannot write metadata to {path} ({error}); use a different path") from error


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read metadata. Raises SamplesError if they are missing or damaged."""
    return _read_json(Path(path))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(to_plain(value), indent=1, sort_keys=True) + "\n"
    write_atomically(path, text.encode())
    sync_folder(path.parent)


def _load(folder: Path, kind: type[SamplesT]) -> SamplesT:
    index = _read_index(folder)
    if index["kind"] != _kind_name(kind):
        raise SamplesError(f"{folder} contains {index['kind']}, not {_kind_name(kind)}; use a different path")
    return from_arrays(kind, _arrays(folder, index, set(index["arrays"]) - set(STATES)))


def _arrays(folder: Path, index: Mapping[str, Any], names: Container[str]) -> dict[str, np.ndarray]:
    """Memory-map the arrays that the index lists and whose names are in `names`."""
    return {name: _open(folder, name, entry) for name, entry in index["arrays"].items() if name in names}


def _open(folder: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    path = folder / entry["file"]
    try:
        if not _NAME.fullmatch(name) or path.resolve().parent.parent != folder.resolve():
            raise SamplesError(
                f"{folder / INDEX} lists the file {entry['file']!r}, which is not in its folder; {RESAMPLE}"
            )
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise ValueError(f"{size} bytes instead of {entry['bytes']}")
        array = open_array(path)
        if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
            raise ValueError(f"{array.dtype}{array.shape} instead of {entry['dtype']}{tuple(entry['shape'])}")
    except SamplesError:
        raise
    except (OSError, ValueError) as error:
        raise SamplesError(f"{path} is missing or damaged ({error}); {RESAMPLE}") from error
    return array


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise SamplesError(f"no saved samples in {folder}; {RESAMPLE}")
    index = {"kind": None, "facts": {}, **_read_json(path)}
    if index.get("format") != FORMAT or index.get("version") != VERSION:
        raise SamplesError(
            f"{path} has format {index.get('format')!r} version {index.get('version')!r}, "
            f"expected {FORMAT!r} version {VERSION}; {RESAMPLE}"
        )
    arrays, fields = index.get("arrays"), {"file": str, "shape": list, "dtype": str, "bytes": int}
    if not isinstance(arrays, dict) or not all(
        isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in fields.items())
        for entry in arrays.values()
    ):
        raise SamplesError(f"{path} is damaged: it does not list its arrays; {RESAMPLE}")
    if not isinstance(index["facts"], dict):
        raise SamplesError(f"{path} is damaged: its facts are not a JSON object; {RESAMPLE}")
    return index


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object, not {type(value).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        raise SamplesError(f"{path} is missing or damaged ({error}); {RESAMPLE}") from error
    return value


def _kind_name(kind: type[Trajectories] | type[Observations]) -> Literal["trajectories", "observations"]:
    return "trajectories" if issubclass(kind, Trajectories) else "observations"


def _lock(folder: Path) -> TextIO:
    """Return a file that holds an exclusive lock on the folder until it is closed or this process ends."""
    try:
        return lock_file(folder / ".lock")
    except BlockingIOError as error:
        raise SamplesError(
            f"another run is writing samples to {folder}; wait until it has finished, or save these samples elsewhere, "
            'with load={"temp_files": True} (--load.temp-files) or a different path'
        ) from error

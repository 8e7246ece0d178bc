"""Samples on disk: a folder of `.npy` files and an index, `samples.json`, that names them.

The index is what counts. It is replaced in one step when all arrays of new samples are on disk, so a reader finds the
old samples or the new, whole, whenever a writer was stopped. Arrays are mapped into memory rather than read, and
nothing in a file is run: `.npy` files of objects (which hold pickles) are refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from rl_clarity.errors import SamplesError
from rl_clarity.files import sync_folder, write_atomically
from rl_clarity.keys import to_plain
from rl_clarity.recordings.array_stores import FileStore, open_array
from rl_clarity.recordings.named_arrays import Samples, from_arrays, to_arrays
from rl_clarity.recordings.samples import Observations, Trajectories

INDEX = "samples.json"
FORMAT = "rl_clarity samples"
VERSION = 1

_NAME = re.compile(r"[a-z_]+(\.\d+)?")
_WAY_OUT = "sample anew with resample=True, or give another path"


class SamplesWriter:
    """Writes samples to a folder, array by array; `store` is where `collect_trajectories` and the like put them.

    Used as a context: what is not committed at its end is taken away again. One process at a time may write to a
    folder; a second is refused with `SamplesError`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.store = FileStore(self.folder)
        self._lock: Any = None

    def __enter__(self) -> SamplesWriter:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder)
            self._remove_all_but(_arrays_folder(self.folder))
            self.store = FileStore(Path(tempfile.mkdtemp(prefix="arrays-", dir=self.folder)))
        except OSError as error:
            raise SamplesError(f"samples cannot be written to {self.folder} ({error}); {_WAY_OUT}") from error
        return self

    def commit(self, samples: Trajectories | Observations, facts: Mapping[str, Any] | None = None) -> None:
        """Make the samples, whose arrays are in `store`, those of the folder; `facts` (JSON) go along with them."""
        folder = self.store.folder
        arrays = {
            name: {
                "file": f"{folder.name}/{name}.npy",
                "shape": list(array.shape),
                "dtype": array.dtype.str,
                "bytes": (folder / f"{name}.npy").stat().st_size,
            }
            for name, array in to_arrays(samples).items()
        }
        sync_folder(folder)
        index = {"format": FORMAT, "version": VERSION, "kind": _kind_of(type(samples)), "arrays": arrays}
        write_json(self.folder / INDEX, {**index, "facts": dict(facts or {})})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(SamplesError):
            self._remove_all_but(_arrays_folder(self.folder))
        self._lock.close()
        if isinstance(error, OSError):
            raise SamplesError(f"samples could not be written to {self.folder} ({error}); {_WAY_OUT}") from error

    def _remove_all_but(self, kept: str | None) -> None:
        for other in self.folder.glob("arrays-*"):
            if other.name != kept:
                shutil.rmtree(other, ignore_errors=True)


def load_trajectories(folder: str | os.PathLike[str]) -> Trajectories:
    """Trajectories of a folder, mapped into memory; raises `SamplesError` if they are missing or damaged."""
    return _load(Path(folder), Trajectories)


def load_observations(folder: str | os.PathLike[str]) -> Observations:
    """Observations of a folder, mapped into memory; raises `SamplesError` if they are missing or damaged."""
    return _load(Path(folder), Observations)


def load_facts(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What was written along with a folder's samples; raises `SamplesError` if there are none."""
    facts: dict[str, Any] = _read_index(Path(folder))["facts"]
    return facts


def save_metadata(path: str | os.PathLike[str], metadata: Mapping[str, Any]) -> None:
    """Write metadata (JSON) in one step."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_json(Path(path), metadata)
    except OSError as error:
        raise SamplesError(f"metadata cannot be written to {path} ({error}); give another path") from error


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read metadata; raises `SamplesError` if it is missing or damaged."""
    return _read_json(Path(path))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file by JSON in one step: whenever this is stopped, the old file is there, or the new one, whole."""
    text = json.dumps(to_plain(value), indent=1, sort_keys=True) + "\n"
    write_atomically(path, text.encode())
    sync_folder(path.parent)


def _load(folder: Path, kind: type[Samples]) -> Samples:
    index = _read_index(folder)
    if index["kind"] != _kind_of(kind):
        raise SamplesError(f"{folder} holds {index['kind']}, not {_kind_of(kind)}; give another path")
    return from_arrays(kind, {name: _open(folder, name, entry) for name, entry in index["arrays"].items()})


def _open(folder: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    path = folder / str(entry["file"])
    if not _NAME.fullmatch(name) or path.resolve().parent.parent != folder.resolve():
        raise SamplesError(f"{folder / INDEX} names the file {entry['file']!r}, which is none of its own; {_WAY_OUT}")
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise ValueError(f"{size} bytes instead of {entry['bytes']}")
        array = open_array(path)
        if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
            raise ValueError(f"{array.dtype}{array.shape} instead of {entry['dtype']}{tuple(entry['shape'])}")
    except (OSError, ValueError) as error:
        raise SamplesError(f"{path} is missing or damaged ({error}); {_WAY_OUT}") from error
    return array


def _read_index(folder: Path) -> dict[str, Any]:
    if not (folder / INDEX).is_file():
        raise SamplesError(f"there are no saved samples in {folder}; {_WAY_OUT}")
    index = _read_json(folder / INDEX)
    if index.get("format") != FORMAT or index.get("version") != VERSION:
        raise SamplesError(
            f"{folder / INDEX} is {index.get('format')!r} version {index.get('version')!r}, "
            f"not {FORMAT!r} version {VERSION}; {_WAY_OUT}"
        )
    entries = index.get("arrays")
    keys = {"file", "shape", "dtype", "bytes"}
    if not isinstance(entries, dict) or not all(isinstance(e, dict) and keys <= e.keys() for e in entries.values()):
        raise SamplesError(f"{folder / INDEX} is damaged: it does not list its arrays; {_WAY_OUT}")
    return {"kind": None, "facts": {}, **index}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"a JSON object was expected, not {type(value).__name__}")
    except (OSError, ValueError) as error:
        raise SamplesError(f"{path} is missing or damaged ({error}); {_WAY_OUT}") from error
    return value


def _arrays_folder(folder: Path) -> str | None:
    """Name of the folder in which the index's arrays are."""
    try:
        files = [str(entry["file"]) for entry in _read_index(folder)["arrays"].values()]
    except SamplesError:
        return None
    return files[0].split("/")[0] if files else None


def _kind_of(kind: type[Trajectories] | type[Observations]) -> Literal["trajectories", "observations"]:
    return "trajectories" if issubclass(kind, Trajectories) else "observations"


def _lock(folder: Path) -> Any:
    """Keep others from writing to the folder as long as the returned file is open; the system lets go when we die."""
    import fcntl

    file = (folder / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise SamplesError(
            f"another run is writing samples to {folder}; wait for it, or let this one keep its own elsewhere: "
            "temp_files=True in load_kwargs (--load.temp-files), or another path"
        ) from error
    return file

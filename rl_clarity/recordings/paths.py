"""Where the samples of a checkpoint are kept."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import platformdirs

FOLDER = "rl-clarity"


@dataclass(frozen=True)
class SamplePaths:
    """Places of what is kept between runs."""

    model: Path
    """A file: what `resample=False` reads the agent from, so that it is the one the samples were made with."""
    metadata: Path
    """A JSON file."""
    trajectories: Path
    """A folder."""
    observations: Path
    """A folder."""
    temporary: Path | None = None
    """The folder to remove in the end, if there is one."""


def sample_paths(
    checkpoint_path: str | os.PathLike[str],
    *,
    temp_files: bool = False,
    model_path: str | os.PathLike[str] | None = None,
    metadata_path: str | os.PathLike[str] | None = None,
    trajectories_path: str | os.PathLike[str] | None = None,
    observations_path: str | os.PathLike[str] | None = None,
) -> SamplePaths:
    """Places for a checkpoint's samples: those given, others in `rl-clarity/` beside the checkpoint.

    Where that cannot be written, or the checkpoint is remote, it is a folder of the user's cache; with `temp_files` a
    new temporary folder.
    """
    checkpoint_path = os.fspath(checkpoint_path)
    name = PurePosixPath(checkpoint_path).name
    stem = PurePosixPath(name).stem or name
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}-")) if temp_files else _folder(checkpoint_path)

    def place(given: str | os.PathLike[str] | None, suffix: str) -> Path:
        return folder / f"{stem}{suffix}" if given is None else Path(given)

    return SamplePaths(
        model=place(model_path, f".model{PurePosixPath(name).suffix}"),
        metadata=place(metadata_path, ".metadata.json"),
        trajectories=place(trajectories_path, ".trajectories"),
        observations=place(observations_path, ".observations"),
        temporary=folder if temp_files else None,
    )


def _folder(checkpoint_path: str) -> Path:
    if "://" not in checkpoint_path:
        beside = Path(checkpoint_path).absolute().parent
        if os.access(beside / FOLDER if (beside / FOLDER).exists() else beside, os.W_OK | os.X_OK):
            return beside / FOLDER
        checkpoint_path = str(Path(checkpoint_path).absolute())
    # Checkpoints of the same name in different places are different.
    key = hashlib.sha256(checkpoint_path.encode()).hexdigest()[:16]
    return platformdirs.user_cache_path(FOLDER) / "samples" / key

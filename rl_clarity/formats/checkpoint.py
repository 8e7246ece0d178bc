"""The classes that file formats share: the file, the checkpoint that is read from it, and the registry of formats."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.base.errors import CheckpointError
from rl_clarity.base.registry import Registry
from rl_clarity.formats import torch_file
from rl_clarity.formats.safe_files import ZIP_MAGIC, Budget, SafeZip, check_size

if TYPE_CHECKING:
    from rl_clarity.agents.protocol import Agent

HEAD_BYTES = 4096


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file."""

    path: Path
    format: str
    """Name of the format in `FORMATS` that builds the agent."""
    network: str
    """Name of the network."""
    parameters: Mapping[str, np.ndarray]
    metadata: Mapping[str, Any]
    """Facts about environment and training: `env_kind`, `env_name`, `gamma`, `lambda`, ..., as JSON values."""
    sha256: str = ""
    notes: tuple[str, ...] = field(default=())
    """Notes for the user about what the file does not record."""
    architecture: Mapping[str, Any] = field(default_factory=dict)
    """What is needed to build the network besides its name and parameters, as JSON values."""

    @property
    def identity(self) -> dict[str, str]:
        """The facts that identify the agent on a page and in a recording."""
        return {"file": self.path.name, "sha256": self.sha256, "format": self.format, "network": self.network}

    def save(
        self,
        path: str | Path,
        parameters: Mapping[str, np.ndarray],
        notes: Sequence[str] = (),
        *,
        overwrite: bool = False,
    ) -> None:
        """Write the checkpoint in the package's format, with some of its parameters replaced and notes added.

        If the file stores a tensor under several names, all of them are replaced. Raises OutputError if the path does
        not end in `.safetensors`, exists while `overwrite` is false, or cannot be written.
        """
        from rl_clarity.formats import native

        native.check_output(Path(path), overwrite=overwrite)
        replaced = dict(self.parameters)
        for name, array in self.parameters.items():
            for changed, values in parameters.items():
                if name == changed or np.array_equal(array, self.parameters[changed]):
                    replaced[name] = np.asarray(values, array.dtype)
        native.write(Path(path), dataclasses.replace(self, parameters=replaced, notes=(*self.notes, *notes)))


class CheckpointFile:
    """A checkpoint file on disk. Content that several formats need is read only once, and one budget limits what is
    unpacked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @functools.cached_property
    def budget(self) -> Budget:
        return Budget.for_file(check_size(self.path))

    @functools.cached_property
    def head(self) -> bytes:
        """The first `HEAD_BYTES` bytes."""
        with self.path.open("rb") as file:
            return file.read(HEAD_BYTES)

    @functools.cached_property
    def members(self) -> frozenset[str]:
        """Names of the members of a zip file, or an empty set for other files."""
        if not self.head.startswith(ZIP_MAGIC):
            return frozenset()
        with self.path.open("rb") as file:
            return frozenset(SafeZip(file, self.budget).members)

    @functools.cached_property
    def is_torch(self) -> bool:
        """Whether `torch.save` wrote the file."""
        return torch_file.is_torch_stream(self.head) or torch_file.is_torch_archive(self.members)

    @functools.cached_property
    def tensor_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the tensors in a PyTorch state dict, by name. The mapping is empty for files that `torch.save` did
        not write.
        """
        if not self.is_torch:
            return {}
        with self.path.open("rb") as file:
            content = torch_file.read(file, self.budget).content
        return {name: tensor.shape for name, tensor in torch_file.state_dict(content).items()}

    def tensors(self) -> dict[str, np.ndarray]:
        """Read the tensors of a PyTorch state dict."""
        with self.path.open("rb") as file:
            content = torch_file.read(file, self.budget)
            return content.arrays(torch_file.state_dict(content.content))

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Format:
    """A file format, which recognizes a file, reads it, and builds its agent.

    `recognize` and `read` raise CheckpointError for malicious and damaged files. The caller adds the path to the
    message. No code in a file is run.
    """

    description: str
    """The program that writes the format, and the file extension, for error messages."""
    recognize: Callable[[CheckpointFile], bool]
    read: Callable[[CheckpointFile], Checkpoint]
    build: Callable[[Checkpoint], Agent]
    """A function that builds the agent of a checkpoint that `read` returned. It raises CheckpointError if tensors do
    not fit."""


FORMATS: Registry[Format] = Registry(
    "rl_clarity.formats",
    {
        name: f"rl_clarity.formats.{module}:FORMAT"
        for name, module in {
            "native": "native",
            "keras": "keras_file",
            "sb3": "sb3",
            "cleanrl": "cleanrl",
            "procgen_pytorch": "procgen_pytorch",
            "baby_a3c": "baby_a3c",
            "baselines": "baselines",
        }.items()
    },
    noun="checkpoint format",
    error=CheckpointError,
)
"""The formats. They are asked to recognize a file in this order: built-in formats except `baselines`, formats that a
program registered, `baselines`, and formats of installed packages."""

"""Read files that `torch.save` wrote as data, without importing torch. They are zip archives or, before torch 1.6,
streams.

Both contain a pickle that refers to storages, and the storages as raw numbers. The pickle may refer only to the classes
and functions in `NAMES`. A tensor is read when it is requested, so an optimizer's state is never read.

An archive has the members `<folder>/data.pkl`, `<folder>/data/<key>` and `<folder>/byteorder`. A stream consists of
pickles of a magic number, a version, properties of the machine, the saved object, and the keys of the storages. The
storages follow, each after its length.
"""

from __future__ import annotations

import io
import math
import posixpath
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np

from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import safe_pickle
from rl_clarity.formats.safe_files import ZIP_MAGIC, BoundedReader, Budget, SafeZip, brief
from rl_clarity.formats.safe_pickle import Name, Names

STREAM_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
STREAM_VERSION = 1001
BFLOAT16 = "bfloat16"
ROOTS = ("state_dict", "model_state_dict", "agent", "model", "network", "policy")
"""Keys under which files with several state dicts may store the state dict of the agent, in order of preference."""
WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes that `DataParallel` and `torch.compile` add to the name of each tensor."""
STORAGES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "BFloat16Storage": BFLOAT16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


@dataclass(frozen=True)
class Storage:
    """A block of numbers in the file."""

    key: str
    code: str
    """NumPy's type code, or `BFLOAT16`."""
    length: int

    @property
    def itemsize(self) -> int:
        return 2 if self.code == BFLOAT16 else np.dtype(self.code).itemsize


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in the file, which is a view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _StorageType:
    code: str


class _Storages(Protocol):
    def read(self, storage: Storage) -> bytes: ...


class TorchFile:
    """A saved object. Its `content` consists of dicts, lists, numbers and strings, with a `StoredTensor` for each
    tensor.
    """

    def __init__(self, content: Any, storages: _Storages, budget: Budget, *, byteorder: str) -> None:
        self.content = content
        self._storages = storages
        self._budget = budget
        self._order = {"little": "<", "big": ">"}[byteorder]

    def array(self, tensor: StoredTensor) -> np.ndarray:
        """Read a tensor. Values of type bfloat16 become float32."""
        storage = tensor.storage
        data = self._storages.read(storage)
        if storage.code == BFLOAT16:
            halves = np.frombuffer(data, self._order + "u2")
            flat = (halves.astype(np.uint32) << 16).view(np.float32)
        else:
            flat = np.frombuffer(data, np.dtype(self._order + storage.code))
        strides = tuple(stride * flat.itemsize for stride in tensor.strides)
        view = np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, strides, writeable=False)
        return np.array(view)

    def arrays(self, state_dict: Mapping[str, StoredTensor]) -> dict[str, np.ndarray]:
        """Read all tensors of a state dict. Their sizes count against the budget, because any number of tensors can
        share a storage.
        """
        self._budget.unpack(sum(math.prod(tensor.shape) * tensor.storage.itemsize for tensor in state_dict.values()))
        return {name: self.array(tensor) for name, tensor in state_dict.items()}


def is_torch_stream(head: bytes) -> bool:
    return head.startswith(STREAM_MAGIC)


def is_torch_archive(members: Iterable[str]) -> bool:
    """Return whether a zip file with these members was written by `torch.save`."""
    return _prefix(members) is not None


def read(file: BinaryIO, budget: Budget) -> TorchFile:
    """Read an archive or a stream. Raises CheckpointError if it is damaged or contains anything but data."""
    head = file.read(max(len(STREAM_MAGIC), len(ZIP_MAGIC)))
    size = file.seek(0, 2)
    file.seek(0)
    if head.startswith(ZIP_MAGIC):
        return _read_archive(SafeZip(file, budget))
    if is_torch_stream(head):
        return _read_stream(BoundedReader(file, size, budget))
    raise CheckpointError(f"was not written by torch.save: it begins with {head[:8]!r}")


def state_dict(content: Any) -> dict[str, StoredTensor]:
    """Return the tensors by name. They are the saved object itself if it is a dict of tensors. Otherwise, they are the
    first dict of tensors under a key in `ROOTS`, or the only dict of tensors in the saved dict. Raises CheckpointError
    if none of these exists.
    """
    groups = {"": content, **content} if isinstance(content, dict) else {}
    groups = {key: group for key, group in groups.items() if _has_only_tensors(group)}
    key = next((key for key in ("", *ROOTS) if key in groups), next(iter(groups)) if len(groups) == 1 else None)
    if key is not None:
        prefix = next((p for p in WRAPPERS if all(str(name).startswith(p) for name in groups[key])), "")
        return {str(name).removeprefix(prefix): tensor for name, tensor in groups[key].items()}
    keys = ", ".join(map(brief, list(content)[:8])) if isinstance(content, dict) else f"a {type(content).__name__}"
    raise CheckpointError(
        f"has {'several state dicts' if groups else 'no state dict (tensors by name)'}; it has {keys}. Save the "
        "state dict of the agent's network alone: torch.save(network.state_dict(), 'agent.pt'). For networks of other "
        "libraries see docs/guides/libraries.md"
    )


def _has_only_tensors(group: Any) -> bool:
    return isinstance(group, dict) and bool(group) and all(isinstance(item, StoredTensor) for item in group.values())


def _prefix(members: Iterable[str]) -> str | None:
    """Return the folder in the archive that contains `data.pkl`, with a slash at the end, or None if there is not
    exactly one.
    """
    folders = [posixpath.dirname(name) for name in members if posixpath.basename(name) == "data.pkl"]
    return folders[0] + "/" if len(folders) == 1 and folders[0] else None


def _read_archive(archive: SafeZip) -> TorchFile:
    prefix = _prefix(archive.members)
    if prefix is None:
        raise CheckpointError("has no folder with data.pkl, unlike archives that torch.save writes")
    pickled = archive.read(f"{prefix}data.pkl")
    order = "little"
    if f"{prefix}byteorder" in archive.members:
        order = archive.read(f"{prefix}byteorder").decode("latin1")
    if order not in ("little", "big"):
        raise CheckpointError(f"has the byte order {brief(order)}; only 'little' and 'big' are supported")
    content = _unpickle(BoundedReader(io.BytesIO(pickled), len(pickled), archive.budget))
    return TorchFile(content, _ArchivedStorages(archive, prefix), archive.budget, byteorder=order)


class _ArchivedStorages:
    def __init__(self, archive: SafeZip, prefix: str) -> None:
        self._archive = archive
        self._prefix = prefix
        self._read: dict[str, bytes] = {}

    def read(self, storage: Storage) -> bytes:
        if storage.key not in self._read:
            self._read[storage.key] = self._archive.read(f"{self._prefix}data/{storage.key}")
        return _checked(storage, self._read[storage.key])


def _read_stream(reader: BoundedReader) -> TorchFile:
    magic, version, system = (safe_pickle.load(reader, {}) for _ in range(3))
    if version != STREAM_VERSION or not isinstance(system, dict):
        raise CheckpointError(f"is a torch stream of version {brief(version)}; only {STREAM_VERSION} is supported")
    del magic  # the file was recognized by this member
    content = _unpickle(reader)
    keys = safe_pickle.plain(safe_pickle.load(reader, {}), (), reader.budget)
    order = "little" if system.get("little_endian", sys.byteorder == "little") else "big"
    return TorchFile(content, _StreamedStorages(content, keys, reader, order), reader.budget, byteorder=order)


class _StreamedStorages:
    """Storages that follow one another in a stream. Reading a storage also reads all previous storages."""

    def __init__(self, content: Any, keys: Any, reader: BoundedReader, byteorder: Any) -> None:
        if not isinstance(keys, list):
            raise CheckpointError(f"has a {type(keys).__name__} in place of the list of its storages")
        self._known = {tensor.storage.key: tensor.storage for tensor in tensors_in(content)}
        self._pending = iter(keys)
        self._reader = reader
        self._byteorder = byteorder
        self._read: dict[str, bytes] = {}

    def read(self, storage: Storage) -> bytes:
        while storage.key not in self._read:
            key = next(self._pending, None)
            if type(key) is not str or key not in self._known:
                raise CheckpointError(f"has no storage {brief(storage.key)}, or has the unused storage {brief(key)}")
            length = int.from_bytes(self._reader.read(8), self._byteorder)
            self._read[key] = self._reader.read(length * self._known[key].itemsize)
        return _checked(storage, self._read[storage.key])


def _checked(storage: Storage, data: bytes) -> bytes:
    if len(data) != storage.length * storage.itemsize:
        raise CheckpointError(
            f"storage {brief(storage.key)} has {len(data)} bytes, "
            f"not {storage.length} x {storage.itemsize} as the file claims"
        )
    return data


def tensors_in(content: Any) -> list[StoredTensor]:
    """Return all tensors in nested dicts, lists and tuples."""
    if isinstance(content, StoredTensor):
        return [content]
    items = content.values() if isinstance(content, dict) else content if isinstance(content, list | tuple) else ()
    return [tensor for item in items for tensor in tensors_in(item)]


def _unpickle(reader: BoundedReader) -> Any:
    return safe_pickle.plain(safe_pickle.load(reader, NAMES, _persistent), (StoredTensor,), reader.budget)


def _persistent(pid: Any) -> Storage:
    if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
        raise CheckpointError(f"refers to {brief(pid)}, which is not a storage")
    _, kind, key, _location, length, *view = pid
    if not isinstance(kind, Name) or not isinstance(kind.value, _StorageType) or type(key) is not str:
        raise CheckpointError("refers to a storage of an unknown type")
    if any(part is not None for part in view) or type(length) is not int or not 0 <= length < 2**40:
        raise CheckpointError(
            f"refers to a storage of {brief(length)} numbers, or to a view of one, which is not allowed"
        )
    return Storage(key, kind.value.code, length)


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StoredTensor:
    numbers = [offset, *shape, *strides]
    if not isinstance(storage, Storage) or len(shape) != len(strides) or len(shape) > 8:
        raise CheckpointError("has a tensor without a valid storage or shape")
    if any(type(number) is not int or not 0 <= number < 2**40 for number in numbers):
        raise CheckpointError(f"has a tensor with an invalid offset, shape {brief(shape)} or strides {brief(strides)}")
    size = math.prod(shape)
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    # A view may repeat its storage's numbers, so without a limit a small file could unpack to any size.
    if size > storage.length or (size and last >= storage.length):
        raise CheckpointError(
            f"has a tensor of shape {brief(shape)} that reaches beyond its storage of {storage.length} numbers"
        )
    return StoredTensor(storage, offset, tuple(shape), tuple(strides))


def _rebuild_parameter(tensor: Any, *_: Any) -> StoredTensor:
    if not isinstance(tensor, StoredTensor):
        raise CheckpointError("has a parameter that is not a tensor")
    return tensor


NAMES: Names = {
    **safe_pickle.ORDERED_DICT,
    ("torch._utils", "_rebuild_tensor_v2"): Name(call=_rebuild_tensor),
    ("torch._utils", "_rebuild_parameter"): Name(call=_rebuild_parameter),
    **{("torch", name): Name(value=_StorageType(code)) for name, code in STORAGES.items()},
}

"""Pickles that run code, access other files or exhaust memory; `hostile_files` puts them in checkpoints."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

from tests.formats.torch_writer import call, constant, name, pickled


class Payload:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


def running(marker: Path) -> dict[str, bytes]:
    """Pickles that write `marker` when Python's pickle module reads them."""
    code = constant(f"open({str(marker)!r}, 'w').close()")
    shell = constant(f"touch '{marker}'")
    mark, stop = pickle.MARK, pickle.TUPLE1
    return {
        "exec": pickle.dumps(Payload(marker), protocol=2),
        "exec, protocol 4": pickle.dumps({"params": Payload(marker)}, protocol=4),
        "os.system": pickled(call(name("os", "system"), shell)),
        "posix.system": pickled(call(name("posix", "system"), shell)),
        "eval": pickled(call(name("builtins", "eval"), code)),
        "python 2's name": pickled(call(name("__builtin__", "eval"), code)),
        "a name with a dot": pickled(call(name("numpy", "f2py.capi_maps.eval"), code)),
        "numpy's loader": pickled(call(name("numpy", "load"), constant(str(marker)))),
        "joblib's loader": pickled(call(name("joblib.numpy_pickle", "load"), constant(str(marker)))),
        "getattr": pickled(call(name("builtins", "getattr"), name("os", "path"), constant("os"))),
        "STACK_GLOBAL": b"\x80\x04" + constant("os") + constant("system") + pickle.STACK_GLOBAL + shell + stop + b"R.",
        "INST": pickled(mark + shell + b"ios\nsystem\n"),
        "OBJ": pickled(mark + name("os", "system") + shell + pickle.OBJ),
        "NEWOBJ": pickled(name("subprocess", "Popen") + shell + stop + pickle.NEWOBJ),
        "NEWOBJ_EX": b"\x80\x04"
        + name("subprocess", "Popen")
        + shell
        + stop
        + pickle.EMPTY_DICT
        + pickle.NEWOBJ_EX
        + b".",
        "EXT1": pickled(pickle.EXT1 + b"\x01"),
        "PERSID": pickled(pickle.PERSID + b"os.system\n"),
        "BINPERSID": pickled(constant("os.system") + pickle.BINPERSID),
        "state of a name": pickled(name("os", "environ") + constant({"PATH": "/"}) + pickle.BUILD),
        "state of a dict": pickled(pickle.EMPTY_DICT + constant({"__class__": "x"}) + pickle.BUILD),
        "call of a string": pickled(shell + shell + stop + pickle.REDUCE),
        "items of a string": pickled(shell + shell + shell + pickle.SETITEM),
        "buffers": b"\x80\x05" + pickle.NEXT_BUFFER + b".",
    }


def huge() -> dict[str, bytes]:
    """Small pickles that need much memory or time."""
    tenfold = pickle.POP.join(pickle.EMPTY_LIST + mutual(i) for i in range(1, 31))
    return {
        "missing bytes": b"\x80\x04" + pickle.BINBYTES8 + struct.pack("<Q", 1 << 40),
        "a missing bytearray": b"\x80\x05" + pickle.BYTEARRAY8 + struct.pack("<Q", 1 << 35),
        "a missing string": b"\x80\x04" + pickle.BINUNICODE8 + struct.pack("<Q", 1 << 40),
        "a missing frame": b"\x80\x04" + pickle.FRAME + struct.pack("<Q", 1 << 60),
        "a missing number": b"\x80\x02" + pickle.LONG4 + struct.pack("<i", 1 << 30),
        "lists that hold one another": b"\x80\x02"
        + constant("laugh")
        + pickle.BINPUT
        + b"\x00"
        + pickle.POP
        + tenfold
        + b".",
        "a list that holds itself": pickled(pickle.EMPTY_LIST + b"q\x00h\x00a"),
        "deep nesting": pickled(pickle.EMPTY_LIST * 5_000 + pickle.APPEND * 4_999),
        "a key that is slow to hash": pickled(
            pickle.EMPTY_DICT + pickle.EMPTY_TUPLE + b"".join(b"q\x01h\x01h\x01\x87" for _ in range(40)) + b"Ns"
        ),
    }


def mutual(i: int) -> bytes:
    """Fill a list with ten references to the previous one, and memoize it."""
    before = bytes([i - 1])
    return pickle.MARK + (pickle.BINGET + before) * 10 + pickle.APPENDS + pickle.BINPUT + bytes([i])


def broken() -> dict[str, bytes]:
    """Malformed pickles."""
    return {
        "nothing": b"\x80\x04",
        "only a stop": b"\x80\x02.",
        "no stop": pickled(constant(1))[:-1],
        "two objects": pickled(constant(1), constant(2)),
        "an unknown protocol": b"\x80\xff" + constant(1) + b".",
        "an unknown operation": pickled(b"\xff"),
        "no mark": pickled(pickle.TUPLE),
        "an empty memory": pickled(pickle.BINGET + b"\x07"),
        "an empty stack": pickled(pickle.TUPLE3),
        "an odd number of items": pickled(pickle.EMPTY_DICT + pickle.MARK + constant(1) + pickle.SETITEMS),
        "a set": b"\x80\x04" + pickle.EMPTY_SET + b".",
        "a string that is not UTF-8": b"\x80\x02" + pickle.BINUNICODE + struct.pack("<I", 2) + b"\xff\xff.",
        "text instead of a number": pickled(b"Ixyz\n"),
        "a number of many digits": pickled(pickle.LONG + b"9" * 100_000 + b"L\n"),
    }

"""Read a pickle as data, without running the code that it refers to.

A pickle is a program for a stack machine. The machine in this module knows only the operations that create numbers,
strings, lists, tuples and dicts, and an allow-list of names. Each of these names creates a passive object instead of
calling the class or function of that name. Everything else is refused before it has an effect. Operations count against
the file's budget.
"""

from __future__ import annotations

import pickletools
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.safe_files import MAX_DEPTH, BoundedReader, Budget, brief

MALFORMED = (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)
KEYS = (str, bytes, bool, int, float, type(None))
TEXT_PER_ITEM = 64
"""Number of characters of a string that count as one more item of the budget."""
MAX_KEY = 2**60
"""Limit of the absolute value of integers that are keys of a dict. Python hashes integers modulo 2**61 - 1, so larger
integers can all have the same hash and make a dict very slow."""

NUMBERS = ("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT")
STRINGS = ("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
BYTES = ("BINBYTES", "SHORT_BINBYTES", "BINBYTES8")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
PLAIN = frozenset((*CONSTANTS, *NUMBERS, *STRINGS, *BYTES))
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


class StandIn:
    """A passive object that takes the place of an object in the file. When the pickle is complete, it is replaced by
    its `value`.
    """

    value: Any

    def build(self, state: Any, reader: BoundedReader) -> None:
        """Set the object's state. Subclasses may read raw numbers that follow in the stream."""
        raise CheckpointError("sets the state of an object that has no state")


@dataclass(frozen=True)
class Name:
    """The replacement for a class or function to which a pickle may refer by name."""

    call: Callable[..., Any] | None = None
    """A function that is called instead of the class or function, or None if it must not be called."""
    value: Any = None
    """The value that stands for the name if it is not called."""
    new: Callable[[], StandIn] | None = None
    """A function that creates an empty object in place of an instance of the class. The pickle then sets the object's
    state."""


Names = Mapping[tuple[str, str], Name]


def _ordered_dict(items: Any = ()) -> OrderedDict[Any, Any]:
    result: OrderedDict[Any, Any] = OrderedDict()
    for key, value in items:
        result[_key(key)] = value
    return result


def _key(key: Any) -> Any:
    if type(key) not in KEYS:  # hashing nested tuples can take exponential time
        raise CheckpointError(f"has a {type(key).__name__} as a key of a dict, which is not allowed")
    if type(key) is int and not -MAX_KEY < key < MAX_KEY:
        raise CheckpointError("has an integer of more than 60 bits as a key, which is not allowed")
    return key


ORDERED_DICT: Names = {("collections", "OrderedDict"): Name(call=_ordered_dict)}


class RefusedError(CheckpointError):
    """Raised for a pickle that refers to a class or function that is not on the allow-list."""

    def __init__(self, name: str) -> None:
        self.name = brief(name).strip("'")
        super().__init__(f"refers to {self.name}, which is not data (no code was run)")


def load(reader: BoundedReader, names: Names, persistent: Callable[[Any], Any] | None = None) -> Any:
    """Return the object in a pickle, and leave the reader at the end of the pickle.

    Args:
        names: the classes and functions to which the pickle may refer, by module and qualified name
        persistent: a function that returns the object for a persistent id; None refuses all ids

    Raises CheckpointError for pickles that are damaged or refer to anything else.
    """
    try:
        return _Machine(reader, names, persistent).run()
    except CheckpointError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"truncated or damaged ({type(error).__name__}: {str(error)[:200]})") from error


class _Machine:
    def __init__(self, reader: BoundedReader, names: Names, persistent: Callable[[Any], Any] | None) -> None:
        self.reader = reader
        self.budget = reader.budget
        self.names = names
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        for opcode, argument, _ in pickletools.genops(self.reader):  # type: ignore[arg-type]
            self.budget.spend()
            name = opcode.name
            if name == "STOP":
                break
            if name in PLAIN:
                self.budget.spend(len(argument) // TEXT_PER_ITEM if isinstance(argument, str) else 0)
                self.stack.append(CONSTANTS.get(name, argument))
            elif name in TUPLES:
                items = [self.stack.pop() for _ in range(TUPLES[name])]
                self.stack.append(tuple(reversed(items)))
            else:
                operation = getattr(self, f"op_{name.lower()}", None)
                if operation is None:
                    raise CheckpointError(f"uses the pickle operation {name}, which is not allowed")
                operation(argument)
        if len(self.stack) != 1:
            raise CheckpointError(f"truncated or damaged: its pickle ends with {len(self.stack)} objects, not one")
        return self.stack[0]

    def marked(self) -> list[Any]:
        """Pop the last mark and all items above it, and return these items."""
        for position in reversed(range(len(self.stack))):
            if self.stack[position] is _MARK:
                items = self.stack[position + 1 :]
                del self.stack[position:]
                return items
        raise CheckpointError("truncated or damaged: a mark is missing in its pickle")

    def op_proto(self, version: int) -> None:
        if version > 5:
            raise CheckpointError(f"is a pickle of protocol {version}; only protocols up to 5 are supported")

    def op_frame(self, _size: int) -> None:
        """Ignore frames, which only help unpicklers to read ahead."""

    def op_mark(self, _: None) -> None:
        self.stack.append(_MARK)

    def op_pop(self, _: None) -> None:
        self.stack.pop()

    def op_pop_mark(self, _: None) -> None:
        self.marked()

    def op_dup(self, _: None) -> None:
        self.stack.append(self.stack[-1])

    # Containers

    def op_empty_tuple(self, _: None) -> None:
        self.stack.append(())

    def op_tuple(self, _: None) -> None:
        self.stack.append(tuple(self.marked()))

    def op_empty_list(self, _: None) -> None:
        self.stack.append([])

    def op_list(self, _: None) -> None:
        self.stack.append(self.marked())

    def op_append(self, _: None) -> None:
        self.extend([self.stack.pop()])

    def op_appends(self, _: None) -> None:
        self.extend(self.marked())

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise CheckpointError(f"appends to a {type(target).__name__} instead of a list")
        target.extend(items)

    def op_empty_dict(self, _: None) -> None:
        self.stack.append({})

    def op_dict(self, _: None) -> None:
        items = self.marked()
        self.stack.append({})
        self.update(items)

    def op_setitem(self, _: None) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.update([key, value])

    def op_setitems(self, _: None) -> None:
        self.update(self.marked())

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict):
            raise CheckpointError(f"sets items of a {type(target).__name__} instead of a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_key(key)] = value

    # Memory

    def op_put(self, index: int) -> None:
        self.memo[_key(index)] = self.stack[-1]

    op_binput = op_long_binput = op_put

    def op_memoize(self, _: None) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def op_get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    op_binget = op_long_binget = op_get

    # Names and objects

    def op_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.push_name(module, name)

    def op_stack_global(self, _: None) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.push_name(module, name)

    def push_name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise CheckpointError(f"has a {type(name).__name__} in place of a name or module")
        if (module, name) not in self.names:
            raise RefusedError(f"{module}.{name}")
        self.stack.append(self.names[module, name])

    def op_reduce(self, _: None) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Name) or function.call is None or type(arguments) is not tuple:
            raise CheckpointError(f"calls a {type(function).__name__}, which is not allowed")
        self.budget.spend(len(arguments))
        self.budget.spend(sum(len(item) for item in arguments if isinstance(item, list | tuple | dict)))
        self.stack.append(function.call(*arguments))

    def op_newobj(self, _: None) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, Name) or kind.new is None or type(arguments) is not tuple or arguments:
            raise CheckpointError("creates an object that is not data")
        self.stack.append(kind.new())

    def op_build(self, _: None) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, StandIn):
            target.build(state, self.reader)
        elif type(target) is not OrderedDict:  # ignored attributes, such as torch's versions of modules
            raise CheckpointError(f"sets the state of a {type(target).__name__}, which is not allowed")

    def op_binpersid(self, _: None) -> None:
        if self.persistent is None:
            raise CheckpointError("refers to an object outside the file, which is not allowed")
        self.stack.append(self.persistent(self.stack.pop()))


def plain(value: Any, leaves: tuple[type, ...], budget: Budget) -> Any:
    """Return a copy of nested dicts, lists and tuples whose leaves are numbers, strings or instances of `leaves`.

    Raises CheckpointError for anything else. Lists that share items can unpack to any size, so each copied item counts
    against the budget.
    """
    accepted: tuple[type, ...] = (str, bytes, bool, int, float, type(None), *leaves)

    def copy(value: Any, depth: int) -> Any:
        budget.spend(1 + (len(value) // TEXT_PER_ITEM if isinstance(value, str | bytes) else 0))
        if depth > MAX_DEPTH:
            raise CheckpointError(f"is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, StandIn):
            value = value.value
        if isinstance(value, accepted):
            return value
        if isinstance(value, dict):
            return {key: copy(item, depth + 1) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(copy(item, depth + 1) for item in value)
        raise CheckpointError(f"contains a {type(value).__name__}, which is not data")

    return copy(value, 0)

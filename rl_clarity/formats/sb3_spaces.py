"""Read the spaces in a zip file of Stable-Baselines3: the factors of actions, and the entries of a dictionary of
observations.

Arrays and the spaces of a dictionary are stored as the text that NumPy and Gymnasium print. The pickles beside them are
not read.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rl_clarity.agents.actions import SWITCH, Binary, Categorical, Factor, Gaussian
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.safe_files import brief

MAX_FACTORS = 4096
MAX_ENTRIES, MAX_TEXT = 64, 1 << 20
ENTRY = re.compile(r"""(['"])(?P<name>[^'"\\]{1,200})\1\s*[:,]\s*(?P<space>\w+\((?:[^()]|\([^()]*\))*\))""")
"""Pattern of a name and a space in the text of a dictionary, such as `'speed': Box(-1.0, 1.0, (2,), float32)`."""
BOX = re.compile(r"Box\((?P<low>[^(),]*), (?P<high>[^(),]*), \((?P<shape>[\d, ]*)\), (?P<dtype>\w+)\)")
DISCRETE = re.compile(r"Discrete\((?P<n>\d+)(, start=(?P<start>-?\d+))?\)")
MULTI = re.compile(r"Multi(?P<kind>Discrete|Binary)\((?P<sizes>[][\s\d,]*)\)")

Entry = dict[str, Any]
"""An entry of a dictionary of observations: its `name`, its `shape` and, for discrete values, `sizes`, the number of
choices for each value."""


def numbers(text: Any) -> list[float]:
    """Return the numbers of an array in the form that NumPy prints, which may be abbreviated."""
    return [float(number) for number in re.sub(r"[][,]|\.{3}", " ", str(text)).split()]


def class_name(text: Any) -> str:
    """Return the full name of a class from its text, such as `<class 'torch.nn.modules.activation.ReLU'>`."""
    match = re.fullmatch(r"<class '(.*)'>", str(text))
    return match[1] if match else str(text)


def read_actions(space: Mapping[str, Any], *, maskable: bool = False) -> list[list[Any]] | None:
    """Return a list that describes each factor of an action as `["choice", n]`, `["switch"]` or
    `["number", low, high]`. Return None if an action is a single choice. Infinite bounds become None. With `maskable`,
    a switch has two logits: `["switch", 2]`.

    Raises CheckpointError for unsupported spaces, and for a text whose number of values does not match the space.
    """
    kind = class_name(space.get(":type:")).rpartition(".")[2]
    if kind == "Discrete":
        return None
    shape = space.get("_shape")
    count = math.prod(shape) if isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape) else 0
    if not 1 <= count <= MAX_FACTORS:
        raise CheckpointError(f"its action_space has the shape {brief(shape)}; it must have 1 to {MAX_FACTORS} values")
    if kind == "MultiBinary":
        return [["switch", 2] if maskable else ["switch"]] * count
    columns = [numbers(space.get(name)) for name in (("nvec",) if kind == "MultiDiscrete" else ("low", "high"))]
    if kind not in ("MultiDiscrete", "Box") or any(len(column) != count for column in columns):
        raise CheckpointError(f"its action_space {brief(dict(space))} is not supported")
    if kind == "MultiDiscrete":
        return [["choice", int(n)] for n in columns[0]]
    bounds = zip(*columns, strict=True)
    return [["number", *(bound if math.isfinite(bound) else None for bound in pair)] for pair in bounds]


def action_factors(actions: Sequence[Sequence[Any]], stds: Sequence[float | None], *, squashed: bool) -> list[Factor]:
    """Return the factors that the lists of `read_actions` describe. `stds` contains a standard deviation for each
    factor, which is ignored for discrete factors. `squashed` is as in `Gaussian`.
    """
    factors: list[Factor] = []
    for (kind, *arguments), std in zip(actions, stds, strict=True):
        if kind == "number":
            low, high = (-math.inf if arguments[0] is None else arguments[0]), arguments[1]
            factors.append(Gaussian(float(low), math.inf if high is None else float(high), std, squashed))
        else:
            choices = SWITCH if kind == "switch" else ()
            factors.append(Categorical(int(arguments[0]), choices=choices) if arguments else Binary())
    return factors


def read_dictionary(text: Any) -> tuple[list[Entry], Mapping[str, Any]]:
    """Return the entries of a dictionary of observations, in its order, and the space of the only image among them.

    The shape of the image is (C, H, W), and its space has the fields that a `Box` has in the zip file. Raises
    CheckpointError for a dictionary without exactly one image, or with an unsupported space.
    """
    text = str(text)
    entries: list[Entry] = []
    images: dict[str, Mapping[str, Any]] = {}
    for match in itertools.islice(ENTRY.finditer(text[:MAX_TEXT]), MAX_ENTRIES):
        name, space = match["name"], match["space"]
        if box := BOX.fullmatch(space):
            shape = [int(size) for size in box["shape"].replace(",", " ").split()]
            entries.append({"name": name, "shape": shape})
            if len(shape) == 3:
                images[name] = {"_shape": shape, **{key: box[key] for key in ("low", "high", "dtype")}}
        elif (discrete := DISCRETE.fullmatch(space)) and int(discrete["start"] or 0) == 0:
            entries.append({"name": name, "shape": [], "sizes": [int(discrete["n"])]})
        elif multi := MULTI.fullmatch(space):
            sizes = [int(size) for size in numbers(multi["sizes"])]
            is_choice = multi["kind"] == "Discrete"
            entries.append(
                {"name": name, **({"shape": [len(sizes)], "sizes": sizes} if is_choice else {"shape": sizes})}
            )
        else:
            raise CheckpointError(
                f"its observations have the entry {brief(name)} with the space {brief(space)}, which is not supported"
            )
    if len(images) != 1:
        have = ", ".join(images) or "none"
        raise CheckpointError(f"its observations are {brief(text)}, with images: {have}; exactly one image is needed")
    return entries, next(iter(images.values()))

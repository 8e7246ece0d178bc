"""Public functions refuse arguments of other types in one line that names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import ClarityError
from tests.fakes import TinyAgent

VALUES = {"None": None, "an integer": 3, "an object": object(), "a list": [1], "text": "x\0", "NaN": float("nan")}
PATH = ("None", "an integer", "an object", "a list", "text", "NaN")
INTEGER = ("None", "an object", "a list", "text", "NaN")
NUMBER = ("None", "an object", "a list", "text")
NAMES = ("an integer", "an object", "a list", "text", "NaN")  # None stands for a default
TEXT = ("None", "an integer", "an object", "a list", "NaN")
ARRAY = ("None", "an object", "text")
FLAG = ("None", "an integer", "an object", "a list", "text", "NaN")
MAPPING = ("an integer", "an object", "a list", "text", "NaN")

ARRAYS: dict[str, Any] = {"rewards": np.zeros((1, 2)), "values": np.zeros((1, 2)), "dones": np.zeros((1, 2))}
CALLS: dict[str, tuple[dict[str, Any], dict[str, tuple[str, ...]]]] = {
    "load_agent": ({}, {"checkpoint": PATH}),
    "convert": (
        {"checkpoint": "models:coinrun", "out_path": "a"},
        {"checkpoint": PATH, "out_path": PATH, "overwrite": FLAG},
    ),
    "run": (
        {"checkpoint_path": "models:coinrun", "output_dir": "page"},
        {
            **{"checkpoint_path": PATH, "output_dir": PATH, "dry_run": FLAG},
            **{"load_kwargs": MAPPING, "trajectories_kwargs": MAPPING, "observations_kwargs": MAPPING},
            **{"seed": INTEGER, "layer_kwargs": ("an integer", "an object"), "title": ("an integer", "an object")},
        },
    ),
    "generate": (
        {"agent": TinyAgent(), "trajectories": {}, "observations": np.zeros(1), "output_dir": "page"},
        {"agent": PATH, "trajectories": ("None", *MAPPING), "output_dir": PATH, "dry_run": FLAG},
    ),
    "collect": (
        {"agent": TinyAgent(), "env": None},
        {"num_steps": INTEGER, "num_obs": INTEGER, "obs_every": INTEGER, "seed": INTEGER, "full_resolution": FLAG},
    ),
    "export": (
        {"page": "page", "out_path": "x.csv"},
        {
            **{"page": PATH, "out_path": PATH, "trajectory": INTEGER, "layer": NAMES[:3], "output": NAMES[:3]},
            **{"directions": TEXT, "channel": ("None", "an object", "a list", "NaN"), "fps": NUMBER},
        },
    ),
    "open_results": ({}, {"directory": PATH}),
    "train": ({}, {"save_dir": NAMES, "overwrite": FLAG}),
    "recompile_js": ({}, {"js_path": NAMES}),
    "generalized_advantage_estimation": (
        {**ARRAYS, "gamma": 0.9, "lam": 0.9},
        {"rewards": ARRAY, "values": ARRAY, "dones": ARRAY, "gamma": NUMBER, "lam": NUMBER},
    ),
    "integrated_gradients": (
        {"agent": TinyAgent(), "observations": np.zeros((1, 4, 4, 3)), "layer": "a"},
        {"agent": PATH, "observations": ARRAY, "layer": TEXT, "steps": INTEGER, "quadrature": TEXT},
    ),
    "multi_path_attribution": (
        {"agent": TinyAgent(), "observations": np.zeros((1, 4, 4, 3)), "layer": "a", "reduction": None},
        {"agent": PATH, "reduction": PATH, "steps": INTEGER, "max_paths": INTEGER[1:]},
    ),
    "perturbation_saliency": (
        {"agent": TinyAgent(), "observations": np.zeros((1, 64, 64, 3))},
        {"agent": PATH, "observations": ARRAY, "mode": TEXT, "signed": FLAG, "stride": NUMBER, "pixels": FLAG},
    ),
    "smooth_gradients": (
        {"agent": TinyAgent(), "observations": np.zeros((1, 64, 64, 3))},
        {"agent": PATH, "samples": INTEGER, "noise": NUMBER, "seed": INTEGER},
    ),
    "select_layers": (
        {"agent": TinyAgent()},
        {"agent": PATH, "name_contains_one_of": NAMES, "op_is_one_of": TEXT[1:], "discard_first_n": INTEGER},
    ),
    "render_attribution": (
        {"channels": np.zeros((1, 4, 5, 3))},
        {"channels": ARRAY, "hues": ARRAY[1:], "scale": NUMBER[1:]},
    ),
    "ChannelReduction": ({}, {"components": ARRAY}),
}
TABLE = [
    (function, argument, value)
    for function, (_, arguments) in CALLS.items()
    for argument, values in arguments.items()
    for value in values
]


@pytest.mark.parametrize(("function", "argument", "value"), TABLE, ids=[" ".join(entry) for entry in TABLE])
def test_arguments_of_the_wrong_type_are_refused_in_one_line(
    function: str, argument: str, value: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {**CALLS[function][0], argument: VALUES[value]}
    with pytest.raises(ClarityError) as raised:
        getattr(rl_clarity, function)(**arguments)
    message = str(raised.value)
    assert "\n" not in message
    assert argument in message or argument == "agent"
    assert list(tmp_path.iterdir()) == []


def test_at_least_150_wrong_argument_types_are_tested() -> None:
    assert len(TABLE) >= 150


def test_missing_arguments_raise_the_usual_type_error() -> None:
    with pytest.raises(TypeError, match=r"open_results\(\) missing 1 required positional argument: 'directory'"):
        rl_clarity.open_results()  # type: ignore[call-arg]


def test_arrays_and_numpy_numbers_are_accepted() -> None:
    arguments = {**ARRAYS, "rewards": [[0, 0]], "gamma": np.float32(0.9), "lam": np.int64(1)}
    assert rl_clarity.generalized_advantage_estimation(**arguments).shape == (1, 2)

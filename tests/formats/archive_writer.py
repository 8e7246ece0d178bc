"""Write zips of Stable-Baselines3 and files of Keras, whose parts tests can replace."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.formats import torch_writer


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


def sb3_class(module: str, name: str, pickled: bytes | None = None) -> dict[str, str]:
    """A class as Stable-Baselines3 writes it; `pickled` replaces the pickle."""
    pickled = pickled or torch_writer.pickled(torch_writer.name(module, name))
    return {
        ":type:": "<class 'abc.ABCMeta'>",
        ":serialized:": base64.b64encode(pickled).decode(),
        "__module__": module,
    }


def sb3_data(shape: tuple[int, int, int] = (4, 84, 84), **more: Any) -> dict[str, Any]:
    """`data` as Stable-Baselines3 writes it: pickles in base64 beside plain JSON."""
    box, discrete = (f"<class 'gymnasium.spaces.{name.lower()}.{name}'>" for name in ("Box", "Discrete"))
    limits = {"dtype": "uint8", "low": "[[[0 0 ... 0]]]", "high": "[[[255 255 ... 255]]]"}
    return {
        "policy_class": sb3_class("stable_baselines3.common.policies", "ActorCriticCnnPolicy"),
        "policy_kwargs": {},
        "observation_space": {":type:": box, ":serialized:": "gASVCg==", "_shape": list(shape), **limits},
        "action_space": {":type:": discrete, ":serialized:": "gASVCg==", "n": "4"},
        "gamma": 0.97,
        "gae_lambda": 0.9,
        **more,
    }


def sb3_zip(arrays: Mapping[str, np.ndarray], data: Any = None, *, members: Mapping[str, bytes] | None = None) -> bytes:
    """Return a zip; `members` replace or add files."""
    content = {
        "data": json.dumps(sb3_data() if data is None else data).encode(),
        "policy.pth": torch_writer.save(arrays),
        "_stable_baselines3_version": b"2.9.2",
    }
    return zipped({**content, **(members or {})})


def keras_bytes(model: Any, folder: Path) -> bytes:
    """Save a model with Keras and return the file."""
    path = folder / "model.keras"
    model.save(path)
    return path.read_bytes()


def with_members(data: bytes, members: Mapping[str, bytes | None]) -> bytes:
    """Replace members of a zip; None removes one."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        content: dict[str, bytes | None] = {info.filename: file.read(info) for info in file.infolist()}
    return zipped({name: data for name, data in {**content, **members}.items() if data is not None})


def keras_config(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        config: dict[str, Any] = json.loads(file.read("config.json"))
    return config

"""The files of onnxruntime-web, which a page uses to evaluate the network that is stored beside it.

The wheel contains them, but the repository does not: `make onnxruntime` downloads them.
"""

from __future__ import annotations

from pathlib import Path

from rl_clarity.base.errors import DependencyError

VERSION = "1.30.0"
"""Version of the npm package `onnxruntime-web`."""
DIRECTORY = Path(__file__).resolve().parent / "onnxruntime"
FILES = {"script": "ort.wasm.bundle.min.mjs", "wasm": "ort-wasm-simd-threaded.wasm"}
"""Names of the JavaScript module, and of the WebAssembly module that it runs."""


def missing_file() -> Path | None:
    """Return the path of the first missing file, or None if all files exist."""
    return next((path for name in FILES.values() if not (path := DIRECTORY / name).is_file()), None)


def check_runtime() -> None:
    """Raise DependencyError if a file is missing."""
    missing = missing_file()
    if missing is not None:
        raise DependencyError(
            f"a page that evaluates its network needs onnxruntime-web, and {missing} is missing: run "
            "`make onnxruntime` in the working copy, or install rl-clarity from its wheel"
        )


def runtime_files() -> dict[str, bytes]:
    """Return the content of each file, by the keys of `FILES`."""
    return {key: (DIRECTORY / name).read_bytes() for key, name in FILES.items()}

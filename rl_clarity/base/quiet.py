"""Import Keras with an installed backend, without the notices that TensorFlow writes to the terminal."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rl_clarity.base.errors import DependencyError
from rl_clarity.base.threads import limit_heaps

BACKENDS = ("tensorflow", "jax", "torch")
"""Backends of Keras, in order of preference. Each has the same name as its package."""
ADDRESS_SPACE = {"tensorflow": 2.5e9, "jax": 1.6e9, "torch": 1.6e9}
"""Bytes of address space that a process needs with each backend and a small network."""
REPORTING = frozenset({"ale_py", "triton"})
"""Packages that report a leak for each object that still exists when the process exits."""


def keras_backend() -> str:
    """Return the name of the backend that Keras uses, or would use if it were imported: KERAS_BACKEND if it is set, and
    otherwise the first of `BACKENDS` that is installed.

    Raises DependencyError, with an installation command, if Keras or its backend is missing.
    """
    if "keras" in sys.modules:
        return str(sys.modules["keras"].backend.backend())
    chosen = os.environ.get("KERAS_BACKEND")
    installed = [name for name in BACKENDS if _is_installed(name)]
    if chosen and chosen in BACKENDS and chosen not in installed:
        raise DependencyError(f"KERAS_BACKEND={chosen}, but {chosen} is not installed: {_install(chosen)}")
    if not chosen and not installed:
        raise DependencyError(f"building this network needs TensorFlow, JAX or PyTorch: {_install('tensorflow')}")
    if not _is_installed("keras"):
        raise DependencyError(f"building this network needs Keras: {_install(chosen or installed[0])}")
    return chosen or installed[0]


def import_keras() -> None:
    """Import Keras and its backend (see `keras_backend`). Notices of these packages are shown only if the
    import fails.
    """
    if "keras" in sys.modules:
        return
    _check_address_space(keras_backend())
    limit_heaps()
    # Both variables are read once, while these packages are imported and run their first operation.
    variables = {"KERAS_BACKEND": keras_backend(), "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")}
    with environment_variables(variables), held_back(), _without_compiler():
        import keras

        keras.ops.zeros(1)  # the remaining notices appear with the first operation
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            tf.get_logger().setLevel("ERROR")  # TensorFlow warns about each new batch size
    atexit.register(_skip_last_collection)


@contextmanager
def environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Let the block import Keras without PyTorch's compiler, whose import takes as long as all other imports together.

    On PyTorch, Keras imports `torch._dynamo` (and with it Inductor and Triton) to exclude two random functions from
    `torch.compile`, which this package does not use. Code that needs the module later imports it as usual.
    """
    name = "torch._dynamo"
    if name in sys.modules or keras_backend() != "torch":
        yield
        return
    compiler = types.ModuleType(name)
    compiler.disable = lambda *args, **options: lambda function: function  # type: ignore[attr-defined]
    sys.modules[name] = compiler
    try:
        yield
    finally:
        del sys.modules[name]


def _skip_last_collection() -> None:
    """Skip the garbage collection at exit, which takes a second for TensorFlow's objects.

    The collection is not skipped if a library is imported that would report uncollected objects as leaks.
    """
    if REPORTING.isdisjoint(sys.modules):
        gc.freeze()


def _check_address_space(backend: str) -> None:
    """Raise DependencyError if `ulimit -v` is too low for a framework, because the framework would abort or hang the
    process.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, needed = resource.getrlimit(resource.RLIMIT_AS)[0], ADDRESS_SPACE[backend]
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise DependencyError(
            f"not enough memory: {backend} needs an address space of {needed / 1e9:.1f} GB, but it is limited to "
            f"{limit / 1e9:.1f} GB (ulimit -v)"
        )


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _install(extra: str) -> str:
    return f'pip install "rl-clarity[{extra}]"'


@contextmanager
def held_back() -> Iterator[None]:
    """Suppress everything that the block (including C libraries) writes to standard error, unless an exception is
    raised.
    """
    sys.stderr.flush()
    try:
        terminal = os.dup(2)
    except OSError:  # no standard error, as in some services
        yield
        return
    with tempfile.TemporaryFile() as notices:
        os.dup2(notices.fileno(), 2)
        try:
            yield
        except Exception:  # do not show them if the user stops the import
            sys.stderr.flush()
            notices.seek(0)
            os.write(terminal, notices.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)

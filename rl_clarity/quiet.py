"""Import TensorFlow without the notices it writes to the terminal, which no setting of its own keeps back."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def import_keras() -> None:
    """Import Keras and what it runs on; what they have to say is shown if that fails."""
    if "keras" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _held_back():
        import keras

        keras.ops.zeros(1)  # the rest of the notices come with the first operation
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            tf.get_logger().setLevel("ERROR")  # it warns of each new batch size


@contextmanager
def _held_back() -> Iterator[None]:
    """Keep back what is written to standard error, also by libraries in C, unless there is an error."""
    sys.stderr.flush()
    try:
        shown = os.dup(2)
    except OSError:  # no standard error, as in some services
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            kept.seek(0)
            os.write(shown, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)

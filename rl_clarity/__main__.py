"""The entry point of `rl-clarity`, and of `python -m rl_clarity`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> int:
    """Run the command line. A signal that arrives during the imports ends the process with a one-line message."""
    previous = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    from rl_clarity.cli import main as run_command

    for number, handler in previous.items():
        signal.signal(number, handler)
    return run_command()


def _stop(number: int, frame: Any) -> None:
    # Not an exception: a library that is being imported would report it as its own error.
    what, code = ("interrupted", 130) if number == signal.SIGINT else ("terminated", 143)
    os.write(2, f"rl-clarity: {what}\n".encode())
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

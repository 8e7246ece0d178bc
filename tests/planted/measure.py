"""Print which planted causes come first in their family, and what is suspicious about clean agents.

`python -m tests.planted.measure 11 12 13`, with seeds that were not used while the debugger was built.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.planted.agents import CLEAN, PLANTED
from tests.planted.test_planted import first_of, found


def main(seeds: Sequence[int]) -> None:
    for seed in seeds:
        for name, planted in PLANTED.items():
            first = first_of(found(planted.agent, planted.setup, seed), planted.family)
            print(
                f"seed {seed}, {name}: {'first' if first == planted.key else f'missed, first is {first}'}", flush=True
            )
        for name, (agent, setup) in CLEAN.items():
            false = [one.key for one in found(agent, setup, seed).findings if one.suspicious]
            print(f"seed {seed}, clean, {name}: {false or 'nothing suspicious'}", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])

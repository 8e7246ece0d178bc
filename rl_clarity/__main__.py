"""Run `rl-clarity` as `python -m rl_clarity`."""

import sys

from rl_clarity.cli import main

sys.exit(main())

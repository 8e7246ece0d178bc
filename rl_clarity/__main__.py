"""`python -m rl_clarity` is `rl-clarity`."""

import sys

from rl_clarity.cli import main

sys.exit(main())

"""The environment of `tests.analyses.objects.dots`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rl_clarity.environments import KINDS
from tests.analyses.objects.dots import KIND


@pytest.fixture(autouse=True)
def _kind() -> Iterator[None]:
    KINDS.register("dots", KIND)
    yield
    KINDS.unregister("dots")

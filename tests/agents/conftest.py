"""What tests of PyTorch modules share; it is loaded where PyTorch is not at hand, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def single_thread() -> Iterator[None]:
    """Threads of two libraries get in each other's way."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

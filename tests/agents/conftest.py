"""Fixture for tests of PyTorch modules; PyTorch is imported only when it is used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def single_thread() -> Iterator[None]:
    """Run PyTorch on one thread, so that its threads do not compete with those of TensorFlow."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

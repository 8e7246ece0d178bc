from pathlib import Path

import numpy as np
import pytest

from rl_clarity.interface.estimate import PageSize, estimate_bytes
from rl_clarity.interface.files import LocalDirectory
from rl_clarity.interface.layers import write_attribution
from rl_clarity.interface.page_files import PageFiles
from tests.golden_data import Golden

DEFAULT = PageSize(
    trajectories=8,
    steps=512,
    frame=(64, 64, 3),
    layers=[(64, 64), (32, 32), (32, 32), (16, 16), (8, 8)],
    channels=8,
    outputs=1,
    actions=15,
    observations=4096,
    densities=(0.25, 0.5, 1, 2),
)


def test_the_default_page_is_some_two_hundred_megabytes() -> None:
    assert 150e6 < sum(estimate_bytes(DEFAULT).values()) < 250e6


@pytest.mark.parametrize("golden", ["clear"], indirect=True)
def test_attribution_is_as_large_as_estimated(golden: Golden, tmp_path: Path) -> None:
    channels, residual = golden.expected["render.channels"], golden.expected["render.residual"]
    directory = LocalDirectory(tmp_path)
    # Unrelated frames, each shown a few times, as in slow play.
    shown = np.repeat(np.arange(len(channels)), 2)
    write_attribution(PageFiles(directory), "4a", "value", 0, 0, channels[shown], residual[shown])
    written = len(directory.read("attribution/4a/1/value-1.js"))
    size = PageSize(1, len(shown), (64, 64, 3), [(8, 8)], 8, 1, 15, 24, (1,))
    assert estimate_bytes(size)["attribution"] == pytest.approx(written, rel=0.5)

"""A page from an independent implementation of the documented format can be read."""

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.pages.document import SCRIPTS, compiled_bundle
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.manifest import file_names
from rl_clarity.pages.results import open_results
from tests.browser.synthetic import Size, write_synthetic_page


def test_open_results_reads_a_page_of_an_independent_implementation(tmp_path: Path) -> None:
    layers = (("2b", 32, 32), ("4a", 8, 32))
    size = Size(trajectories=1, steps=70, observations=8, policy=True, layers=layers, input_layer=False)
    manifest = write_synthetic_page(tmp_path, size)
    results = open_results(tmp_path)
    assert results.layers == ["2b", "4a"]
    assert results.manifest["complete"], results.manifest["missing"]
    for name in file_names(manifest, ChunkName):
        assert decode_chunk(parse_script((tmp_path / name).read_bytes()))
    for output in results.outputs:
        attribution = results.attribution("4a", 0, output, steps=range(60, 70))
        assert attribution.channels.shape == (10, 8, 8, 8)
        totals = results.totals("4a", 0)[output].totals
        net = attribution.channels.sum(axis=(1, 2))
        np.testing.assert_allclose(totals[60:, :8].sum(axis=-1), net, atol=0.05 * np.abs(net).max() + 1e-3)
    assert results.frames(0, [69]).shape == (1, 64, 64, 3)


@pytest.mark.parametrize("kind", SCRIPTS)
def test_the_package_includes_a_small_script_for_each_page_type(kind: str) -> None:
    script = compiled_bundle(kind).script
    assert "Interface" in script
    assert len(script) <= (560_000 if kind == "agent" else 450_000)


def test_other_page_types_use_the_script_of_agent_pages() -> None:
    assert compiled_bundle("check") == compiled_bundle("of-a-package") == compiled_bundle("agent")

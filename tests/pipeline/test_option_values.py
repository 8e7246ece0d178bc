"""Values of options that are refused, and values that stay unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER


def test_bottleneck_only_false_adds_layers(impala: Callable[..., Any]) -> None:
    names = [layer.name for layer in impala(bottleneck_only=False)]
    assert set(names) > {layer.name for layer in impala(op_is_one_of=["relu"])}


def test_residual_blocks_are_labeled_as_blocks(impala: Callable[..., Any]) -> None:
    layers = impala(name_contains_one_of=["block2", "block3"])
    assert [(layer.name, layer.slug, layer.label) for layer in layers] == [
        ("block2", "block2", "block 2, 16 x 16 x 32"),
        ("block3", "block3", "block 3, 8 x 8 x 32"),
    ]
    with pytest.raises(
        OptionError, match=r"\['Relu_4'\] matches none .* block1, block2, block3; op_is_one_of=\['relu'\]"
    ):
        impala(name_contains_one_of=["Relu_4"])
    assert [layer.name for layer in impala(name_contains_one_of=["Relu_4"], op_is_one_of=["relu"])] == ["Relu_4"]


def test_layers_inside_residual_blocks_are_numbered_within_their_block(impala: Callable[..., Any]) -> None:
    layers = impala(op_is_one_of=["conv2d"], bottleneck_only=False)
    assert [layer.label for layer in layers] == [
        f"block {block}, conv {number}" for block in (1, 2, 3) for number in (1, 2, 3, 4, 5)
    ]
    assert layers[7].full_name.endswith("layer_7")
    layers = impala(name_contains_one_of=["Relu_4", "Relu_5"], bottleneck_only=False)
    assert [layer.label for layer in layers] == ["block 2, relu 1", "block 2, conv 2"]


@pytest.fixture
def impala() -> Callable[..., Any]:
    """Select the layers of a page of an IMPALA network."""
    from rl_clarity.analyses.layers import page_layers
    from tests.golden_data import load_golden
    from tests.page_options import page_options

    agent = rl_clarity.load_agent(load_golden("impala").checkpoint)

    def layers(**layer_kwargs: Any) -> Any:
        return page_layers(agent, page_options(layers=layer_kwargs))

    return layers


def test_run_does_not_modify_the_options_passed_to_it(explain: Explain, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "layer_kwargs": dict(LAST_LAYER),
        "nmf_attr_opts": {"integrate_steps": 2},
        "vis_subdiv_mults": [1],
    }
    before = repr(options)
    explain(tmp_path / "a", **options)
    assert repr(options) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer_kwargs": {"name_contains_one_of": ["5a"]}}, r"name_contains_one_of=\['5a'\] matches none of .*Relu_2"),
        ({"layer_kwargs": {"discard_first_n": 3}}, "discard_first_n=3 leaves none"),
        ({"attr_quadrature": "simpson"}, "'simpson'.*gauss-legendre"),
        ({"attr_baseline": "zero"}, "attribution.baseline='zero' must be one of auto, zero-layer, zero-input, blur"),
        ({"action_combos": [["LEFT"]]}, "action_combos has 1 entries, but the agent has 15"),
        ({"thumbnails_subdir": "../elsewhere/"}, "thumbnails_subdir='../elsewhere/'"),
        ({"scrub_range": (0.5, 0.2)}, "scrub_range"),
    ],
)
def test_invalid_options_write_nothing(options: dict[str, Any], message: str, explain: Explain, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        explain(**options)
    assert not (tmp_path / "page").exists()

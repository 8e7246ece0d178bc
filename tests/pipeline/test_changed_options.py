"""A changed option repeats only the tasks that depend on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import OutputError
from tests.pipeline.conftest import Explain
from tests.pipeline.small import OBSERVATIONS, read_files, record_calls, record_tasks

FEATURES = {"features/Relu_2"}
TRAJECTORIES = {"trajectories/1", "trajectories/2"}
EXAMPLES = {"atlas", "examples/Relu_2"}
ATTRIBUTION = {"attribution/Relu_2/1", "attribution/Relu_2/2"}
ABLATION = {"ablation/Relu_2/1", "ablation/Relu_2/2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"video_speed": 3, "numpy_precision": 4, "trajectory_bookmarks": 2, "title": "B"}, set()),
        ({"vis_subdiv_mult_default": 1, "vis_expand_mults": [1, 4], "attr_single_channels": False}, EXAMPLES),
        ({"inline_js": False}, set()),
        ({"scrub_range": (0, 0.1)}, TRAJECTORIES),
        ({"gae_lambda": 0.5}, TRAJECTORIES),
        ({"vis_thumbnail_num_mult": 3}, FEATURES | EXAMPLES),
        ({"attr_integrate_steps": 4}, ATTRIBUTION | {"examples/Relu_2"}),
        ({"ablation_every": 2}, ABLATION),
        ({"attr_policy": True}, ATTRIBUTION | ABLATION | {"examples/Relu_2"}),
        ({"nmf_features": 4}, FEATURES | ATTRIBUTION | ABLATION | EXAMPLES),
        ({"attr_baseline": "zero-input"}, FEATURES | ATTRIBUTION | ABLATION | EXAMPLES),
        ({"input_layer_include": True}, {"attribution/input/1", "attribution/input/2"}),
        ({"layer_kwargs": {"name_contains_one_of": ["Relu_1"]}}, None),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_changing_an_option_repeats_only_dependent_tasks(
    explain: Explain,
    default_page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    expected: set[str] | None,
) -> None:
    shutil.copytree(default_page, tmp_path / "page")
    (tmp_path / "page" / "mine.txt").write_text("mine")
    (tmp_path / "page" / "attribution" / "mine.txt").write_text("mine")
    with record_tasks(monkeypatch) as done:
        explain(overwrite=True, **options)
    if expected is not None:
        assert set(done) == expected
    mine = {"mine.txt": b"mine", "attribution/mine.txt": b"mine"}
    explain(tmp_path / "new", **options)
    assert read_files(tmp_path / "page") == read_files(tmp_path / "new") | mine


@pytest.mark.slow
def test_changing_observations_does_not_collect_trajectories_again(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rl_clarity.sources import checkpoint as source

    calls = record_calls(monkeypatch, source, "collect_trajectories")
    run_short("page")
    run_short("other", observations_kwargs={**OBSERVATIONS, "num_obs": 5})
    assert len(calls) == 1
    run_short("another", trajectories_kwargs={"num_envs": 2, "num_steps": 20})
    assert len(calls) == 2


def test_different_action_groups_give_a_different_page(explain: Explain, tmp_path: Path) -> None:
    explain(action_group_fns=(lambda combo: "UP" in combo,))
    explain(action_group_fns=(lambda combo: "UP" in list(combo),))  # equivalent, with the same groups
    with pytest.raises(OutputError, match="already holds a page"):
        explain(action_group_fns=(lambda combo: "DOWN" in combo,))
    results = explain(action_group_fns=(lambda combo: "DOWN" in combo,), overwrite=True)
    assert [group["actions"] for group in results.agent["action_groups"]] == [[0, 3, 6]]

"""Each extension in each command where it applies: one file and one entry point, and nothing of the project changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.cli import main
from rl_clarity.pages.results import Results, open_results
from tests.outside import ANALYSIS, EXTENSIONS, PLAY, RUN, SALIENCY, installed, write_checkpoint
from tests.pipeline.small import record_tasks
from tests.plugins import forget


def change(packages: Path, name: str, monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """Replace text in the module of an installed extension."""
    file = packages / name / f"outside_{name}.py"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    forget(monkeypatch, file)
    EXTENSIONS[name][0].unregister(name)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with installed(tmp_path_factory.mktemp("packages")) as folder:
        yield folder


@pytest.fixture(scope="module")
def folder(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of the format `seeds`, whose agents play the environment `line`."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write_checkpoint(folder / "agent.seed")
    write_checkpoint(folder / "recurrent.seed", kind="recurrent")
    for seed in (1, 2):
        write_checkpoint(folder / f"series/agent-{seed}.seed", seed)
    return folder


def execute(directory: Path, *words: object) -> Results:
    """Run a command that writes a page into a directory."""
    assert main([*map(str, words)]) == 0
    return open_results(directory)


def check_analysis(results: Results) -> None:
    section = results.section("rewards")
    assert section["unit"] == "coins"
    assert section["total"] >= 0


def check_saliency(results: Results) -> None:
    (method,) = results.section("saliency")["methods"]
    assert (method["name"], method["label"], method["parameters"]) == ("contrast", "contrast", {"power": 1})
    maps = results.chunk(method["maps"][0][0])
    assert maps["codes.policy"].max() == 255
    np.testing.assert_array_equal(maps["codes.policy"], maps["codes.value"])


@pytest.fixture(scope="module")
def page(folder: Path) -> Results:
    output = folder / "page"
    return execute(
        output, "run", folder / "agent.seed", output, *RUN, *ANALYSIS, *SALIENCY, "--features.reduction", "strides"
    )


class TestRun:
    def test_run_writes_sections_of_plugin_analyses_and_saliency_methods(self, page: Results) -> None:
        check_analysis(page)
        check_saliency(page)

    def test_run_reduces_channels_with_a_plugin_reduction(self, page: Results) -> None:
        components = page.reduction("2a").components
        assert components.shape == (8, 10)
        np.testing.assert_array_equal(components[0], np.arange(10) % 8 == 0)

    def test_run_reads_a_plugin_format_and_plays_a_plugin_environment(self, page: Results) -> None:
        groups = {group["group"]: json.dumps(group) for group in page.manifest["provenance"]}
        assert '"seeds"' in groups["Checkpoint"]
        assert '"line"' in groups["Environment"]

    def test_run_measures_effects_of_objects_in_a_plugin_environment(self, page: Results) -> None:
        (effect,) = page.section("objects")["types"]
        assert effect["name"] == "coin"
        assert effect["count"] > 10

    def test_run_writes_a_page_of_a_plugin_page_type(
        self, folder: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output = folder / "scores"
        results = execute(output, "run", folder / "agent.seed", output, *RUN, "--page-kind", "scores")
        assert results.manifest["title"] == "Scores in line"
        assert [section["kind"] for section in results.manifest["sections"]] == ["trajectories", "rewards"]
        assert results.manifest["page"]["fields"][0]["name"] == "limit"
        change(packages, "scores", monkeypatch, "Scores in", "Points in")
        results = execute(output, "run", folder / "agent.seed", output, *RUN, "--page-kind", "scores", "--force")
        assert results.manifest["title"] == "Points in line"

    @pytest.mark.parametrize(
        ("name", "before", "after", "stage"),
        [
            ("contrast", "** power", "** power / 2", "saliency"),
            ("strides", "astype(float)", "astype(float) * 2", "features"),
            ("rewards", "float(sum", "2 * float(sum", "rewards"),
        ],
    )
    def test_run_recomputes_only_what_changed_plugin_code_affects(
        self, page: Results, folder: Path, packages: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: str,
        after: str, stage: str,
    ) -> None:  # fmt: skip
        words = [
            "run",
            folder / "agent.seed",
            folder / "page",
            *RUN,
            *ANALYSIS,
            *SALIENCY,
            "--features.reduction",
            "strides",
        ]
        with record_tasks(monkeypatch) as tasks:
            execute(folder / "page", *words, "--force")
        assert not tasks
        for texts in ((before, after), (after, before)):
            change(packages, name, monkeypatch, *texts)
            with record_tasks(monkeypatch) as tasks:
                execute(folder / "page", *words, "--force")
            assert any(task.startswith(stage) for task in tasks)
            assert not any(task.startswith("behavior") for task in tasks)


def test_compare_uses_plugin_analyses_and_saliency_methods(folder: Path) -> None:
    games = ["--episodes", "1", "--max-steps", "12", "--return-episodes", "1"]
    output = folder / "compared"
    results = execute(output, "compare", folder / "series", output, *games, *ANALYSIS, *SALIENCY)
    check_analysis(results)
    check_saliency(results)
    shown = results.section("training")["reference"]["shown"]
    assert all("codes.policy" in results.chunk(name) for name in shown)


def test_memory_uses_plugin_analyses_and_reductions(folder: Path) -> None:
    few = ["--episodes", "3", "--count", "2", "--clusters", "3", "--lags", "1", "--maps", "pca", "--stretches", "0"]
    few += ["--replay-steps", "0", "--influence-samples", "0", "--intervention-episodes", "0"]
    words = ["memory", folder / "recurrent.seed", folder / "remembered", *few, *ANALYSIS, "--method", "strides"]
    results = execute(folder / "remembered", *words)
    check_analysis(results)
    assert results.section("states")["method"] == "strides"


def test_check_uses_plugin_analyses_and_saliency_methods(folder: Path) -> None:
    words = ["check", folder / "agent.seed", folder / "checked", *PLAY, "--frames", "4", "--methods", "contrast"]
    results = execute(folder / "checked", *words, *ANALYSIS)
    check_analysis(results)
    (row,) = results.section("checks")["rows"]
    assert row["method"] == "contrast"


def test_explain_and_publish_use_plugin_analyses_and_saliency_methods(folder: Path) -> None:
    recording = folder / "logdir/plugins/rl_clarity/line"
    assert main(["record", str(folder / "agent.seed"), str(recording), "--episodes", "2", "--seed", "1"]) == 0
    agent = ["--agent", str(folder / "agent.seed")]
    words = ["explain", str(folder / "logdir"), *agent, "--methods", "contrast", "--embeddings", "pca", "--every", "1"]
    assert main([*words, *ANALYSIS]) == 0
    output = folder / "published"
    results = execute(output, "publish", folder / "logdir", output)
    check_saliency(results)
    check_analysis(results)

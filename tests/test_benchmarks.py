"""Benchmarks: parts can be selected, saved and compared; tables are aligned."""

from __future__ import annotations

import copy
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import blind_play, default_job, diversity, growth, job, parts, what_if
from benchmarks.compare import compare
from benchmarks.machine import peak_memory_mb, reset_peak_memory

PEAK = 2e11
JOB: dict[str, Any] = {
    "seconds": {"features": 2.0, "trajectory": 0.5, "attribution": 1.0, "page": 0.1},
    "bytes": {"features": 120_000, "frames": 650_000, "attribution": 640_000, "page": 260_000, "notes": 720_000},
    "peak_memory_mb": 900,
    "outputs": 1,
}


def doubled(key: str) -> dict[str, Any]:
    return {**JOB, key: {name: 2 * value for name, value in JOB[key].items()}, "outputs": 17}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Replace all parts by fakes that count how often they are measured."""
    counts = dict.fromkeys(parts.PARTS, 0)

    def fake(name: str) -> types.ModuleType:
        module = types.ModuleType(f"benchmarks.{name}")

        def measure(*_: object) -> dict[str, int]:
            counts[name] += 1
            return {"n": 1}

        module.measure = module.main = measure  # type: ignore[attr-defined]
        module.lines = lambda result: [f"n: {result['n']}"]  # type: ignore[attr-defined]
        module.Settings = lambda **_: None  # type: ignore[attr-defined]
        module.find_chromium = lambda: None  # type: ignore[attr-defined]
        return module

    for name in counts:
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", fake(name))
    monkeypatch.setattr("benchmarks.machine.convolution_peak", lambda: PEAK)
    return counts


def test_all_benchmarks_are_measured_printed_and_saved(
    measured: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["--json", str(tmp_path / "result.json")])
    assert measured == {name: int(name != "page") for name in parts.PARTS}
    saved = json.loads((tmp_path / "result.json").read_text())
    assert saved["convolution_gmacs"] == 200
    assert saved["parts"].keys() == measured.keys() - {"page"}
    assert saved["seconds"].keys() == measured.keys()
    printed = capsys.readouterr().out
    assert all(f"== {name}: " in printed for name in measured)
    assert "skipped: no Chromium was found" in printed


def test_single_benchmarks_can_be_selected(measured: dict[str, int]) -> None:
    command.main(["--only", "growth", "training"])
    assert {name for name, count in measured.items() if count} == {"growth", "training"}


def test_growth_of_cost_is_printed_as_ratios() -> None:
    result = {"base": JOB, **dict.fromkeys(growth.DOUBLED, JOB)}
    result |= {"frames x 2": doubled("bytes"), "all outputs": doubled("seconds")}
    result["layers x 2"] = {**JOB, "peak_memory_mb": 1350}
    time, written, memory = "\n".join(growth.lines(result)).split("\n\n")[:3]
    assert "3.60 s" in time
    assert "x 2.00" in next(line for line in time.splitlines() if line.startswith("outputs x 17"))
    assert "2.39 MB" in written
    assert "x 2.00" in next(line for line in written.splitlines() if line.startswith("frames x 2"))
    assert next(line for line in memory.splitlines() if line.startswith("layers x 2")).endswith("x 1.50")
    for table in (time, written):
        assert len({len(line) for line in table.strip().splitlines()}) == 1, "columns are aligned"


def test_the_fastest_of_two_jobs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [doubled("seconds"), JOB] * (1 + len(growth.DOUBLED))
    monkeypatch.setattr(growth, "run_job", lambda sizes: jobs.pop())
    assert all(job["seconds"] == JOB["seconds"] for job in growth.measure().values())
    assert not jobs


def test_the_default_job_is_compared_with_the_cost_of_its_convolutions() -> None:
    times = {"seconds": 30.0, "cpu_seconds": 45.0, "memory_mb": 1500.0, "bytes": 9e6}
    causal = {**times, "seconds": 31.5, "cpu_seconds": 46.8}
    longer = {**times, "seconds": 33.0, "cpu_seconds": 48.0}
    jobs = dict(zip(default_job.KINDS, (times, causal, longer), strict=True))
    bounds = {"seconds": 20.0, "cpu_seconds": 32.0}
    table = default_job.lines({"fraction": 8, "jobs": jobs, "convolutions": bounds, "ablation": 0.1})
    assert table[0].startswith("1 / 8 of the default job")
    assert table[-2:] == [
        "time: +5% with causal numbers, +5% with measured effects, 1.65 times the convolutions, "
        "1.50 times with those of ablation",
        "processor time: +4% with causal numbers, +3% with measured effects, 1.50 times the convolutions, "
        "1.36 times with those of ablation",
    ]


def test_times_of_the_what_if_panel_are_compared_with_goal_and_python() -> None:
    times = dict.fromkeys(("opened_ms", "load", "forward_ms_p95", "answer_ms", "answer_ms_p95", "answer_cpu_ms"), 5.5)
    results = {
        name: {"network": network, "forward_ms": 6.0, "python_ms": 1.5, **times}
        for name, network in (("coinrun", "clear"), ("fruitbot", "impala"))
    }
    _, heading, clear, impala = what_if.lines(results)
    assert clear.split()[heading.split().index("ratio")] == "4.0"
    assert clear.endswith("(goal: a forward pass takes at most 60)")
    assert "goal" not in impala


def test_the_growth_benchmark_doubles_every_size() -> None:
    assert {name.removesuffix(" x 2") for name in growth.DOUBLED} >= {"frames", "layers", "outputs", "observations"}
    base, sizes = growth.BASE, growth.DOUBLED
    assert sizes["frames x 2"].frames == 2 * base.frames
    assert sizes["observations x 2"].observations == 2 * base.observations
    assert len(sizes["layers x 2"].layers) == 2 * len(base.layers)
    assert 1 + sizes["outputs x 2"].logits == 2


def test_benchmark_jobs_may_use_agents_with_one_action() -> None:
    agent = job.make_agent(1)
    assert agent.num_actions == 1
    trajectories, observations = job.make_samples(job.Sizes(frames=5, observations=7), agent.num_actions)
    assert trajectories["observations"].shape[:2] == (2, 5)
    assert not trajectories["actions"].any()
    assert len(observations) == 7


def test_benchmark_comparisons_are_normalized_by_convolution_speed() -> None:
    training = {"steps_per_second": 500.0, "peak_memory_mb": 1200}
    start = {"run --help": 0.5}
    before: dict[str, Any] = {
        "convolution_gmacs": 100.0,
        "parts": {
            "start": start,
            "growth": {"base": JOB},
            "training": training,
            "what_if": {"coinrun": {"forward_ms": 6.0}},
        },
    }
    after = copy.deepcopy(before)
    after["convolution_gmacs"] = 50.0  # half the speed, and jobs that take twice as long
    after["parts"]["growth"]["base"]["seconds"] = doubled("seconds")["seconds"]
    after["parts"]["training"] = {**training, "steps_per_second": 125.0}
    rows = {line[:36].strip(): line.split()[-1] for line in compare(before, after) if line}
    assert rows["small job, base"] == "1.00"
    assert rows["training"] == "0.50"
    assert rows["start: run --help"] == "0.50"
    assert rows["What if of coinrun: a forward pass"] == "0.50"
    assert rows["small job, base: memory"] == "1.00"
    assert compare({**before, "parts": {}}, after)[1].split() == [
        "convolutions",
        "100",
        "GMAC/s",
        "50",
        "GMAC/s",
        "x",
        "0.50",
    ]


def test_peak_memory_is_measured_since_the_last_reset() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux can reset the peak")
    array = np.ones(50_000_000)
    high = peak_memory_mb()
    del array
    reset_peak_memory()
    assert peak_memory_mb() < high - 300


def test_blind_play_edits_activations_only_at_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind_play, "find_site", lambda sites, layer: types.SimpleNamespace(shape=(8, 8, 2)))
    frames = np.zeros((2, 64, 64, 3), np.uint8)
    frames[1] = 1
    environment: Any = types.SimpleNamespace(
        boxes={frames[0].tobytes(): [], frames[1].tobytes(): [np.array([0.5, 0.25, 0.625, 0.375])]}
    )
    agent: Any = types.SimpleNamespace(sites=None, forward=lambda observations, write: write)
    direction = np.array([[1.0, 0.0]])
    write, _ = blind_play.BlindAtObjects(agent, "2b", direction, environment).step(frames, None, np.zeros(2, bool))
    edited = write["2b"](np.ones((2, 8, 8, 2)))
    expected = np.ones((2, 8, 8, 2))
    expected[1, 1:4, 3:6, 0] = 0  # the object's cell is (2, 4); the margin reaches into the next ones
    np.testing.assert_array_equal(edited, expected)


def test_blind_play_compares_causes_of_failure_with_unedited_play() -> None:
    results = {
        blind_play.UNEDITED: [["", ""] * 20, ["saw", ""] * 5],
        "saw, invisible": [["saw", ""] * 20, ["saw", "enemy"] * 5],
    }
    head, _, own, edited = blind_play.table(results)
    assert head == "| edit | saw | enemy |"
    assert own == "| none | 10.00% | 0.00% |"
    assert edited.startswith("| saw, invisible | 50.00% (+")
    assert "10.00% (+" in edited


def test_blind_play_does_not_continue_results_of_another_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "blind.json"
    kept.write_text('{"agent": "coinrun-7.9", "episodes": 2000, "edits": {}}')
    monkeypatch.setattr("sys.argv", ["blind_play", "--agent", "coinrun", "--json", str(kept)])
    with pytest.raises(SystemExit):
        blind_play.main()
    assert "has results of {'agent': 'coinrun-7.9', 'episodes': 2000}" in capsys.readouterr().err


def test_a_feature_active_only_at_an_object_type_separates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = {kind: rng.uniform(size=(50, 3)) for kind in ("saw", "coin", "removed", "none")}
    rows["saw"][:, 0] += 1  # the first channel has saws, the second coins, the third nothing
    rows["coin"][:, 1] += 1

    def pairs(agent: Any, effects: Any, layer: str, kinds: Any) -> Any:
        kind = "saw" if kinds == "saw" else "coin"
        return types.SimpleNamespace(with_object=rows[kind], without_object=rows["removed"])

    monkeypatch.setattr("benchmarks.blindness.rl_clarity.object_pairs", pairs)
    monkeypatch.setattr("benchmarks.blindness.rows_of_none", lambda agent, effects, layer: rows["none"])
    effects: Any = types.SimpleNamespace(type=np.array(["saw", "coin"]))
    saw, coin, nothing = diversity.areas(None, effects, "2b", "saw", np.eye(3))
    assert saw == 1
    assert 0.2 < coin < 0.5
    assert nothing == pytest.approx(0.5, abs=0.1)


def test_the_diversity_table_reports_paired_differences_between_agents() -> None:
    def agent(shift: float) -> dict[tuple[str, str, str], np.ndarray]:
        return {
            ("2b", kind, edit): np.array([0.6, 0.7, np.nan if kind == "enemy" else 0.8]) + shift
            for kind in diversity.TYPES
            for edit in diversity.EDITS
        }

    head, _, feature, direction = diversity.table({"few": agent(0), "many": agent(0.1)})
    assert head == "| layer, by | few | many | many \u2212 few |"
    assert feature == "| 2b, feature | 0.700 | 0.800 | +0.100 (+0.100 to +0.100) |"
    assert direction.startswith("| 2b, direction | 0.700 |")
